//! Packets that come back in an ICMP error (RFC 792, RFC 4443): it may quote them to their end, and so have their signature.

use crate::link::View;

/// What stands before the payload of a quoted packet at least: an IPv4 header and one of ICMP, and the packet's own, IPv4 and UDP. Most
/// packets have less and needn't be looked at.
const HEAD: u32 = 20 + 8 + 20 + 8;
/// Bytes that are read: Ethernet with two tags, IPv4 with all options, and a type of ICMP.
const READ: usize = 14 + 8 + 60 + 1;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Destination unreachable, source quench, redirect, time exceeded, parameter problem.
const ERRORS: [u8; 5] = [3, 4, 5, 11, 12];
/// Types of ICMPv6 from here on are no errors.
const INFORMATIONAL: u8 = 128;

/// Whether a frame with such a payload at its end is an error about a packet, rather than the packet.
#[inline(always)]
pub(super) fn is_quoted<V: View>(frame: V, payload: u16) -> bool {
    frame.size().wrapping_sub(payload.into()) >= HEAD && is_error(frame)
}

/// Whether it is an ICMP error, with or without an Ethernet header.
#[cold]
fn is_error<V: View>(frame: V) -> bool {
    let mut bytes = [0; READ];
    let read = frame.copy_at(0, &mut bytes);
    let bytes = bytes.get(..read).unwrap_or_default();
    packet_is_error(bytes, frame.size()) || {
        let at = behind_ethernet(bytes);
        at.is_some_and(|at| packet_is_error(bytes.get(at..).unwrap_or_default(), frame.size() - at as u32))
    }
}

/// Where the IP packet of an Ethernet frame begins.
fn behind_ethernet(bytes: &[u8]) -> Option<usize> {
    (12..=20).step_by(4).find_map(|at| match u16_at(bytes, at)? {
        IPV4 | IPV6 => Some(Some(at + 2)),
        tag if TAGS.contains(&tag) => None,
        _ => Some(None),
    })?
}

/// Whether an IP packet of so many bytes is one. (An Ethernet frame isn't taken for a packet: its address would have to give its length.)
fn packet_is_error(packet: &[u8], len: u32) -> bool {
    let Some(first) = packet.first() else { return false };
    let field = |at| u16_at(packet, at).map(u32::from);
    match first >> 4 {
        4 if field(2) == Some(len) => {
            let kind = packet.get(usize::from(first & 0xf) * 4);
            packet.get(9) == Some(&ICMP) && kind.is_some_and(|kind| ERRORS.contains(kind))
        }
        6 if field(4).map(|payload| payload + 40) == Some(len) => {
            packet.get(6) == Some(&ICMPV6) && packet.get(40).is_some_and(|kind| *kind < INFORMATIONAL)
        }
        _ => false,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram of 16 bytes of payload, quoted in "port unreachable", by scapy:
    /// `IP(src="10.0.0.2",dst="10.0.0.1",id=9)/ICMP(type=3,code=3)/IP(src="10.0.0.1",dst="10.0.0.2",id=7)/UDP(…)/(b"\x51\x47"+bytes(14))`.
    const QUOTED4: &str = "4500004800090000400166aa0a0000020a00000103031129000000004500002c00070000401166b80a0000010a00000211\
                           5c115c001877bc51470000000000000000000000000000";
    /// The same in `IPv6(src="fd00::2",dst="fd00::1")/ICMPv6DestUnreach(code=4)/IPv6(src="fd00::1",dst="fd00::2")/UDP(…)/…`.
    const QUOTED6: &str = "6000000000483a40fd000000000000000000000000000002fd000000000000000000000000000001010493450000000060\
                           00000000181140fd000000000000000000000000000001fd000000000000000000000000000002115c115c001891ba5147\
                           0000000000000000000000000000";
    /// Ethernet, and a tag: `Ether(src="02:00:00:00:00:02",dst="02:00:00:00:00:01")/Dot1Q(vlan=5)`.
    const ETHERNET: &str = "020000000001020000000002";
    const TAG: &str = "81000005";

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    #[test]
    fn an_error_is_not_the_packet_that_it_quotes() {
        for (packet, kind) in [(QUOTED4, "0800"), (QUOTED6, "86dd")] {
            let ethernet = [ETHERNET, kind, packet].concat();
            let tagged = [ETHERNET, TAG, kind, packet].concat();
            let twice = [ETHERNET, "88a80007", TAG, kind, packet].concat();
            for text in [packet, &ethernet, &tagged, &twice] {
                let frame = bytes(text);
                assert!(is_quoted(&frame[..], 16), "{text}");
                // The packet itself, and one in a tunnel: UDP for ICMP.
                let own = if packet == QUOTED4 { 28 } else { 48 };
                assert!(!is_quoted(&frame[frame.len() - 16 - own..], 16), "{text}");
                let mut tunnel = frame.clone();
                let at = text.find(packet).unwrap() / 2;
                tunnel[at + if packet == QUOTED4 { 9 } else { 6 }] = 17;
                assert!(!is_quoted(&tunnel[..], 16), "{text}");
                // An echo's reply.
                let mut reply = frame.clone();
                reply[at + if packet == QUOTED4 { 20 } else { 40 }] = if packet == QUOTED4 { 0 } else { 129 };
                assert!(!is_quoted(&reply[..], 16), "{text}");
            }
        }
        for len in 0..HEAD as usize + 40 {
            assert!(!is_quoted(&vec![0; len][..], 0));
            assert!(!is_quoted(&bytes(QUOTED6)[..len], 0), "cut at {len}");
        }
    }
}
