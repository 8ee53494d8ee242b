//! Neighbour discovery: solicitations are answered for the addresses that a side speaks for.

use core::net::Ipv6Addr;
use wire::checksum::Partial;
use wire::ndp::{LinkLayerAddress, NdpMessage, NeighborAdvertisement, NeighborFlags, check};
use wire::{EtherType, EthernetHeader, Header, IpProtocol, Ipv6Header, MacAddr};

/// Bytes of an advertisement and its option.
const ADVERTISEMENT: usize = size_of::<NeighborAdvertisement>() + size_of::<LinkLayerAddress>();

/// The answer to the neighbour solicitation in `frame`, if `ours` knows the address that is asked for. Who only looks whether
/// an address is taken (a source of ::) gets none: that it is his to find out is not what a generator is for.
#[must_use]
pub fn answer(frame: &[u8], mac: MacAddr, ours: impl Fn(Ipv6Addr) -> bool) -> Option<Vec<u8>> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    if ethernet.ethertype != EtherType::IPV6 {
        return None;
    }
    let (ip, rest) = Ipv6Header::parse(packet).ok()?;
    if ip.next_header != IpProtocol::ICMPV6 || ip.src().is_unspecified() {
        return None;
    }
    let message = rest.get(..usize::from(ip.payload_len.get()))?;
    let Ok(NdpMessage::NeighborSolicitation(question, options)) = check(ip, message) else { return None };
    let target = question.target();
    if !ours(target) {
        return None;
    }
    let mut message = [0; ADVERTISEMENT];
    let mut advertisement =
        NeighborAdvertisement::new(target, NeighborFlags::SOLICITED | NeighborFlags::OVERRIDE);
    LinkLayerAddress::target(mac).emit(advertisement.emit(&mut message).ok()?).ok()?;
    let ip = Ipv6Header::new(target, ip.src(), IpProtocol::ICMPV6, 255, ADVERTISEMENT as u16);
    let sum = ip.pseudo_header(IpProtocol::ICMPV6, ADVERTISEMENT as u32).plus(Partial::of(&message));
    advertisement.checksum = sum.checksum().into();
    advertisement.emit(&mut message).ok()?;
    let mut answer = vec![0; 54];
    let dst = options.source().unwrap_or(ethernet.src);
    let rest = EthernetHeader { dst, src: mac, ethertype: EtherType::IPV6 }.emit(&mut answer).ok()?;
    ip.emit(rest).ok()?;
    answer.extend_from_slice(&message);
    Some(answer)
}
