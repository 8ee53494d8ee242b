//! ARP: answered for the addresses that a side speaks for.

use super::frame::{LINE, Line};
use core::net::Ipv4Addr;
use wire::{ArpOperation, ArpPacket, EtherType, EthernetHeader, Header, MacAddr};

/// Bytes of an ARP frame that is sent.
pub const ARP_LEN: u32 = LINE as u32;

/// The answer to the ARP request in `line`, if `ours` knows the address that is asked for.
#[must_use]
pub fn answer(line: &Line, mac: MacAddr, ours: impl Fn(Ipv4Addr) -> bool) -> Option<Line> {
    let bytes = line.bytes();
    let (ethernet, packet) = EthernetHeader::parse(&bytes).ok()?;
    if ethernet.ethertype != EtherType::ARP {
        return None;
    }
    let request = ArpPacket::check(packet).ok()?;
    if request.operation != ArpOperation::REQUEST || request.is_gratuitous() || !ours(request.target()) {
        return None;
    }
    let mut answer = [0; LINE];
    let header = EthernetHeader { dst: request.sender_mac, src: mac, ethertype: EtherType::ARP };
    let rest = header.emit(&mut answer).ok()?;
    request.reply(mac).emit(rest).ok()?;
    Some(Line::from_bytes(&answer))
}
