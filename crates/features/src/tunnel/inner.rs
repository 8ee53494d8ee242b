//! What is read of a packet that is encapsulated: for the outer header's source port and traffic class.

use crate::interface::LinkMode;
use wire::flow::{Ipv4Flow, Ipv6Flow};
use wire::{EtherType, EthernetHeader, Header, Ipv4Header, Ipv6Header, VlanTag};

/// Seed of the hash that becomes the source port: that choice's own, see [`wire::flow`].
const SEED: u64 = 0x7475_6e6e_656c;
/// VLAN tags that are looked behind.
const TAGS: usize = 2;
/// Source ports are from here on, to the end: the dynamic ports (RFC 7348 section 5, RFC 6335 section 6).
const FIRST_PORT: u16 = 49_152;

/// What is known of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inner {
    /// Hash of its flow.
    hash: u32,
    /// DSCP and ECN; 0 where it is no IP packet.
    pub(super) class: u8,
    /// What it is behind link-layer headers.
    pub(super) protocol: EtherType,
}

impl Inner {
    /// Looks at a packet that begins with `head`.
    pub(super) fn of(head: &[u8], mode: LinkMode) -> Self {
        let Some((protocol, at)) = network(head, mode) else {
            return Self { hash: 0, class: 0, protocol: EtherType::new(0) };
        };
        let rest = head.get(at..).unwrap_or_default();
        match protocol {
            EtherType::IPV4 => {
                let class = Ipv4Header::parse(rest).map_or(0, |(ip, _)| ip.dscp_ecn);
                Self { hash: Ipv4Flow::of(rest).map_or(0, |flow| flow.hash(SEED)), class, protocol }
            }
            EtherType::IPV6 => {
                let class = Ipv6Header::parse(rest).map_or(0, |(ip, _)| ip.traffic_class());
                Self { hash: Ipv6Flow::of(rest).map_or(0, |flow| flow.hash(SEED)), class, protocol }
            }
            // Whom it is from and to is all there is to go by.
            _ => Self { hash: stations(head), class: 0, protocol },
        }
    }

    /// The source port of all packets of its flow, 49152 to 65535.
    pub(super) const fn src_port(&self) -> u16 {
        FIRST_PORT | (self.hash >> 18) as u16
    }
}

/// What network layer the packet has, and where that begins.
pub(super) fn network(head: &[u8], mode: LinkMode) -> Option<(EtherType, usize)> {
    if mode == LinkMode::Ip {
        return match head.first()? >> 4 {
            4 => Some((EtherType::IPV4, 0)),
            6 => Some((EtherType::IPV6, 0)),
            _ => None,
        };
    }
    let (ethernet, mut rest) = EthernetHeader::parse(head).ok()?;
    let mut ethertype = ethernet.ethertype;
    for _ in 0..TAGS {
        if !ethertype.is_vlan() {
            break;
        }
        let (tag, behind) = VlanTag::parse(rest).ok()?;
        (ethertype, rest) = (tag.ethertype, behind);
    }
    Some((ethertype, head.len() - rest.len()))
}

/// Hash of the addresses of a frame.
fn stations(head: &[u8]) -> u32 {
    let word = |at: usize| {
        let bytes = head.get(at..at + 6).and_then(<[u8]>::first_chunk::<6>).copied().unwrap_or_default();
        let [a, b, c, d, e, f] = bytes;
        (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]))
    };
    let ((dst, dst_port), (src, src_port)) = (word(0), word(6));
    Ipv4Flow { src, dst, src_port, dst_port, protocol: wire::IpProtocol(0) }.hash(SEED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_have_ports_of_their_own_in_the_dynamic_range() {
        let mut frame = vec![0; 14 + 28];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[23] = 17;
        let mut ports = std::collections::BTreeSet::new();
        for flow in 0..1000_u16 {
            frame[34..36].copy_from_slice(&flow.to_be_bytes());
            let port = Inner::of(&frame, LinkMode::Ethernet).src_port();
            assert!(port >= FIRST_PORT);
            assert_eq!(
                port,
                Inner::of(&frame[14..], LinkMode::Ip).src_port(),
                "the frame's header doesn't count"
            );
            ports.insert(port);
        }
        assert!(ports.len() > 900, "{} ports for 1000 flows", ports.len());
    }

    #[test]
    fn no_bytes_are_too_few() {
        let frame: Vec<u8> = (0..64).collect();
        for len in 0..frame.len() {
            for mode in [LinkMode::Ip, LinkMode::Ethernet] {
                assert!(Inner::of(&frame[..len], mode).src_port() >= FIRST_PORT);
            }
        }
    }
}
