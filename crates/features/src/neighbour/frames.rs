//! The frames that the neighbour protocols make.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::ipv6::{ALL_NODES, Ipv6Header, solicited_node};
use wire::ndp::{LinkLayerAddress, NeighborAdvertisement, NeighborFlags, NeighborSolicitation};
use wire::{ArpPacket, EtherType, EthernetHeader, IntoBytes, IpProtocol, MacAddr, U16};

/// Asks who has `target`: everybody, or the station `to`.
pub(super) fn solicitation(mac: MacAddr, source: IpAddr, target: IpAddr, to: Option<MacAddr>) -> Vec<u8> {
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            arp(mac, to.unwrap_or(MacAddr::BROADCAST), &ArpPacket::request(mac, source, target))
        }
        (IpAddr::V4(_), IpAddr::V6(target)) => nd_solicitation(mac, Ipv6Addr::UNSPECIFIED, target, to),
        (IpAddr::V6(_), IpAddr::V4(target)) => {
            let request = ArpPacket::request(mac, Ipv4Addr::UNSPECIFIED, target);
            arp(mac, to.unwrap_or(MacAddr::BROADCAST), &request)
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => nd_solicitation(mac, source, target, to),
    }
}

/// Says to all that `address` is at `mac` (RFC 5227 section 2.3; RFC 4861 section 7.2.6).
pub(super) fn announcement(mac: MacAddr, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => arp(mac, MacAddr::BROADCAST, &ArpPacket::request(mac, address, address)),
        IpAddr::V6(address) => {
            let flags = NeighborFlags::ROUTER | NeighborFlags::OVERRIDE;
            let message = NeighborAdvertisement::new(address, flags);
            let (to, option) = (MacAddr::from_ipv6_multicast(ALL_NODES), LinkLayerAddress::target(mac));
            ndp(mac, to, address, ALL_NODES, message.as_bytes(), Some(option))
        }
    }
}

fn arp(src: MacAddr, dst: MacAddr, packet: &ArpPacket) -> Vec<u8> {
    let ethernet = EthernetHeader { dst, src, ethertype: EtherType::ARP };
    [ethernet.as_bytes(), packet.as_bytes()].concat()
}

fn nd_solicitation(mac: MacAddr, source: Ipv6Addr, target: Ipv6Addr, to: Option<MacAddr>) -> Vec<u8> {
    let group = solicited_node(target);
    let (dst_mac, dst) = match to {
        Some(to) => (to, target),
        None => (MacAddr::from_ipv6_multicast(group), group),
    };
    // Without a source address there is nobody to answer to, so no link-layer address is told (RFC 4861 section 4.3).
    let option = (!source.is_unspecified()).then(|| LinkLayerAddress::source(mac));
    ndp(mac, dst_mac, source, dst, NeighborSolicitation::new(target).as_bytes(), option)
}

/// The answer of `mac` to a solicitation from `asker` at `to` (RFC 4861 section 7.2.4). Where the asker has no address
/// yet, it goes to all nodes. With a `source` other than the target, in place of whom we answer, it doesn't override
/// what the target itself says (section 7.2.8).
pub(super) fn advertisement(
    mac: MacAddr,
    source: Ipv6Addr,
    target: Ipv6Addr,
    asker: Ipv6Addr,
    to: MacAddr,
) -> Vec<u8> {
    let mut flags = NeighborFlags::ROUTER;
    flags.set(NeighborFlags::OVERRIDE, source == target);
    let (dst_mac, dst) = if asker.is_unspecified() {
        (MacAddr::from_ipv6_multicast(ALL_NODES), ALL_NODES)
    } else {
        flags |= NeighborFlags::SOLICITED;
        (to, asker)
    };
    let message = NeighborAdvertisement::new(target, flags);
    ndp(mac, dst_mac, source, dst, message.as_bytes(), Some(LinkLayerAddress::target(mac)))
}

/// A neighbour discovery message in a frame; its checksum field is zero before.
fn ndp(
    src_mac: MacAddr,
    dst_mac: MacAddr,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    message: &[u8],
    option: Option<LinkLayerAddress>,
) -> Vec<u8> {
    let option = option.as_ref().map_or(&[][..], IntoBytes::as_bytes);
    let len = (message.len() + option.len()) as u16;
    let ip = Ipv6Header::new(src, dst, IpProtocol::ICMPV6, 255, len);
    let ethernet = EthernetHeader { dst: dst_mac, src: src_mac, ethertype: EtherType::IPV6 };
    let mut frame = [ethernet.as_bytes(), ip.as_bytes(), message, option].concat();
    let sum = wire::checksum::Partial::of_pieces([message, option]);
    let checksum = ip.pseudo_header(IpProtocol::ICMPV6, len.into()).plus(sum).checksum();
    let at = frame.len() - usize::from(len) + 2;
    frame[at..at + 2].copy_from_slice(U16::new(checksum).as_bytes());
    frame
}
