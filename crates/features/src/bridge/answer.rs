//! The answer to a question for a neighbour: ARP reply, neighbour advertisement.

use core::net::IpAddr;
use wire::checksum::Partial;
use wire::ipv6::Ipv6Header;
use wire::ndp::{self, LinkLayerAddress, NdpMessage, NeighborAdvertisement, NeighborFlags};
use wire::{ArpOperation, ArpPacket, EtherType, EthernetHeader, Header, IntoBytes, IpProtocol, MacAddr, U16};

/// Bytes of the longest answer: Ethernet, IPv6, advertisement, one option.
const LONGEST: usize = 14 + 40 + 24 + 8;

/// A frame to send back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Answer {
    /// The frame.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn of(pieces: &[&[u8]]) -> Option<Self> {
        let mut answer = Self { bytes: [0; LONGEST], len: 0 };
        for piece in pieces {
            let end = answer.len + piece.len();
            answer.bytes.get_mut(answer.len..end)?.copy_from_slice(piece);
            answer.len = end;
        }
        Some(answer)
    }
}

/// The answer to `frame`, if that is an ARP request or a neighbour solicitation for an address of which `known` tells
/// where it is.
///
/// Not answered are stations that ask whether an address is free (ARP probe, duplicate address detection) or speak of
/// themselves: it may well be theirs. Nor those that ask for their own address, or whose link-layer address in the
/// message isn't the frame's.
pub(super) fn answer(frame: &[u8], known: impl Fn(IpAddr) -> Option<MacAddr>) -> Option<Answer> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    let asker = ethernet.src;
    let elsewhere = |address| known(address).filter(|mac| *mac != asker);
    let back = |mac, ethertype| EthernetHeader { dst: asker, src: mac, ethertype };
    match ethernet.ethertype {
        EtherType::ARP => {
            let request = ArpPacket::check(packet).ok()?;
            let asks = request.operation == ArpOperation::REQUEST
                && !request.is_probe()
                && !request.is_gratuitous()
                && request.sender_mac == asker;
            let mac = elsewhere(request.target().into()).filter(|_| asks)?;
            Answer::of(&[back(mac, EtherType::ARP).as_bytes(), request.reply(mac).as_bytes()])
        }
        EtherType::IPV6 => {
            let (ip, rest) = Ipv6Header::parse(packet).ok()?;
            let message = rest.get(..ip.payload_len.get() as usize)?;
            if ip.version() != 6 || ip.next_header != IpProtocol::ICMPV6 || ip.src().is_unspecified() {
                return None;
            }
            let NdpMessage::NeighborSolicitation(question, options) = ndp::check(ip, message).ok()? else {
                return None;
            };
            if options.source().is_some_and(|source| source != asker) {
                return None;
            }
            let mac = elsewhere(question.target().into())?;
            // Not overriding (RFC 4861, 7.2.8): the neighbour itself knows better.
            let mut advertisement = NeighborAdvertisement::new(question.target(), NeighborFlags::SOLICITED);
            let option = LinkLayerAddress::target(mac);
            let len = (NeighborAdvertisement::LEN + LinkLayerAddress::LEN) as u16;
            let ip = Ipv6Header::new(question.target(), ip.src(), IpProtocol::ICMPV6, 255, len);
            let pieces = [advertisement.as_bytes(), option.as_bytes()];
            let sum = ip.pseudo_header(IpProtocol::ICMPV6, u32::from(len)).plus(Partial::of_pieces(pieces));
            advertisement.checksum = U16::new(sum.checksum());
            let ethernet = back(mac, EtherType::IPV6);
            Answer::of(&[ethernet.as_bytes(), ip.as_bytes(), advertisement.as_bytes(), option.as_bytes()])
        }
        _ => None,
    }
}
