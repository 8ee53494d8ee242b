//! The parser `gtpu`: tunnels of a mobile network's user plane, by the address that a packet is for and its TEID ([3GPP TS 29.281](https://www.3gpp.org/dynareport/29281.htm)).
//!
//! Recognised are G-PDUs (message type 255, which carry users' packets) of GTP version 1 with protocol type 1, to UDP port 2152, with sequence number, N-PDU number and extension headers or without. All others,
//! echo requests and error indications for instance, have ordinary sessions, and so has a TEID of 0, which is no tunnel's (section 5.1).
//!
//! A TEID is its receiver's: what goes the other way has another one, which nobody on the way can know, and is another session. So all packets are forward.

use super::entry::Direction;
use super::parser::{Datagram, Parser};
use core::net::{IpAddr, Ipv6Addr};
use tables::session::Endpoint;
use wire::IpProtocol;

/// UDP port of GTP-U (TS 29.281 section 4.4.2.3).
const PORT: u16 = 2152;
/// Bytes of a UDP header.
const UDP: usize = 8;
/// Version 1 and protocol type 1, of the first byte (section 5.1).
const VERSION_AND_TYPE: u8 = 0b0011_0000;
/// Bits of the first byte that say which version and protocol type it is.
const VERSION_AND_TYPE_BITS: u8 = 0b1111_0000;
/// Bits of the first byte of which one says that four bytes more belong to the header: extension header, sequence number, N-PDU number.
const OPTIONAL: u8 = 0b0000_0111;
/// Bytes of the header that all messages have, and of what is optional.
const HEADER: usize = 8;
const OPTIONAL_BYTES: usize = 4;
/// A message that carries a user's packet (table 6.1-1).
const G_PDU: u8 = 255;
/// Bytes of a key: address, the TEID.
const ADDRESS: usize = 16;
const KEY: usize = ADDRESS + 4;

/// The parser's declaration.
pub(super) const PARSER: Parser = Parser {
    name: "gtpu",
    help: "Finds tunnels of GTP-U by the address that packets are for and their TEID.",
    protocol: IpProtocol::UDP,
    key_bytes: KEY,
    one_way: true,
    parse,
    show,
    ends,
};

fn parse(datagram: &Datagram<'_>, key: &mut [u8]) -> Option<Direction> {
    let (udp, message) = datagram.behind().split_at_checked(UDP)?;
    if udp[2..4] != PORT.to_be_bytes() {
        return None;
    }
    let &[flags, kind, high, low, ref teid @ ..] = message.first_chunk::<HEADER>()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let datagram_length = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    let optional = if flags & OPTIONAL == 0 { 0 } else { OPTIONAL_BYTES };
    // It says how much follows the first eight bytes, which all lies in the datagram; how much of that is here is another question.
    let is_whole =
        message.len() >= HEADER + optional && length >= optional && UDP + HEADER + length <= datagram_length;
    if flags & VERSION_AND_TYPE_BITS != VERSION_AND_TYPE || kind != G_PDU || !is_whole || *teid == [0; 4] {
        return None;
    }
    let address = match datagram.destination() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let (to, its) = key.split_at_mut_checked(ADDRESS)?;
    to.copy_from_slice(&address.octets());
    its.copy_from_slice(teid);
    Some(Direction::Forward)
}

/// Address and TEID of a key.
fn read(key: &[u8]) -> (IpAddr, u32) {
    let address: [u8; ADDRESS] = key.first_chunk().copied().unwrap_or_default();
    let teid: [u8; 4] = key.last_chunk().copied().unwrap_or_default();
    (Ipv6Addr::from(address).to_canonical(), u32::from_be_bytes(teid))
}

fn show(key: &[u8]) -> String {
    let (address, teid) = read(key);
    format!("{address} teid {teid:#010x}")
}

fn ends(key: &[u8]) -> [Option<Endpoint>; 2] {
    [None, Some((read(key).0, PORT))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(port: u16, message: &[u8]) -> Option<String> {
        let mut header = [0; 20];
        header[16..].copy_from_slice(&[10, 0, 0, 9]);
        header[0] = 0x45;
        let udp = (UDP + message.len()) as u16;
        let behind = [&[0x27, 0x10], &port.to_be_bytes()[..], &udp.to_be_bytes(), &[0; 2], message].concat();
        let mut key = [0; KEY];
        let direction = parse(&Datagram::new(&header, &behind).unwrap(), &mut key);
        direction.map(|direction| {
            assert_eq!(direction, Direction::Forward);
            show(&key)
        })
    }

    #[test]
    fn a_tunnel_is_found_behind_whatever_is_optional() {
        let tunnel = Some("10.0.0.9 teid 0x00001234".to_owned());
        let plain = [0x30, 255, 0, 4, 0, 0, 0x12, 0x34, 0x45, 0, 0, 0];
        assert_eq!(asked(2152, &plain), tunnel);
        // An empty one, and the spare bit, which isn't looked at.
        assert_eq!(asked(2152, &[0x38, 255, 0, 0, 0, 0, 0x12, 0x34]), tunnel);
        for flags in 1..8 {
            let mut message = plain;
            message[0] |= flags;
            assert_eq!(asked(2152, &message), tunnel, "{flags}");
            assert_eq!(asked(2152, &message[..11]), None, "cut short");
            message[3] = 3;
            assert_eq!(asked(2152, &message), None, "too short by its own word");
        }
        let wrong: [(usize, u8); 5] = [(0, 0x20), (0, 0x50), (1, 1), (1, 26), (1, 254)];
        for (at, value) in wrong {
            let mut message = plain;
            message[at] = value;
            assert_eq!(asked(2152, &message), None, "{at} {value}");
        }
        assert_eq!((asked(2153, &plain), asked(2152, &plain[..7])), (None, None));
        let mut longer = plain;
        longer[3] = 5;
        assert_eq!(asked(2152, &longer), None, "more than the datagram has");
        assert_eq!(asked(2152, &[0x30, 255, 0, 4, 0, 0, 0, 0, 1, 2, 3, 4]), None, "no tunnel's");
    }

    #[test]
    fn a_key_says_whom_its_packets_are_for() {
        let mut key = [0; KEY];
        let mut header = [0; 40];
        header[0] = 0x60;
        header[24..].copy_from_slice(&Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9).octets());
        let behind = [&[1, 2, 8, 0x68, 0, 16, 0, 0][..], &[0x30, 255, 0, 0, 0xff, 0xff, 0xff, 0xff]].concat();
        assert!(parse(&Datagram::new(&header, &behind).unwrap(), &mut key).is_some());
        assert_eq!(show(&key), "fd00::9 teid 0xffffffff");
        assert_eq!(ends(&key), [None, Some(("fd00::9".parse().unwrap(), 2152))]);
    }
}
