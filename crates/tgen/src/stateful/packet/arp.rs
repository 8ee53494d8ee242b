//! ARP: answered for the addresses that a side speaks for.

use super::line::LINE;
use core::net::Ipv4Addr;
use wire::{ArpOperation, ArpPacket, EtherType, EthernetHeader, Header, MacAddr};

/// The answer to the ARP request in `frame`, if `ours` knows the address that is asked for.
#[must_use]
pub fn answer(frame: &[u8], mac: MacAddr, ours: impl Fn(Ipv4Addr) -> bool) -> Option<Vec<u8>> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    if ethernet.ethertype != EtherType::ARP {
        return None;
    }
    let request = ArpPacket::check(packet).ok()?;
    if request.operation != ArpOperation::REQUEST || request.is_gratuitous() || !ours(request.target()) {
        return None;
    }
    let mut answer = vec![0; LINE];
    let header = EthernetHeader { dst: request.sender_mac, src: mac, ethertype: EtherType::ARP };
    let rest = header.emit(&mut answer).ok()?;
    request.reply(mac).emit(rest).ok()?;
    Some(answer)
}
