//! Which way a packet goes: by its port, by a flow or a fragment that is remembered, or by the packet that an ICMP error quotes.

use super::split::PortSplit;
use crate::ip::family::{V4, V6};
use crate::session::fragments::{Piece, Pieces};
use crate::session::tuple::{Kind, Mark};
use graph::packet::{HEAD_AREA, Packets, SlotId};
use tables::recent::Stay;
use tables::session::Key;
use wire::icmp::{Icmpv4Type, Icmpv6Type};
use wire::{IpProtocol, Ipv6Header};

/// Why a packet goes to the interface of the split's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// Its destination port is one of them.
    Port,
    /// It is an answer to a flow from there.
    Flow,
    /// It is an ICMP error about a packet from there.
    Error,
    /// The first fragment went there.
    Fragment,
}

/// What differs between the IP versions.
pub(super) trait Splits: Pieces {
    /// Whether a packet that begins at `l4` with an ICMP echo header is a reply.
    fn is_echo_reply(packets: &Packets, slot: SlotId) -> bool;
}

impl Splits for V4 {
    fn is_echo_reply(packets: &Packets, slot: SlotId) -> bool {
        packets.header::<Icmpv4Type>(slot, packets.meta(slot).l4) == Some(&Icmpv4Type::ECHO_REPLY)
    }
}

impl Splits for V6 {
    fn is_echo_reply(packets: &Packets, slot: SlotId) -> bool {
        packets.header::<Icmpv6Type>(slot, packets.meta(slot).l4) == Some(&Icmpv6Type::ECHO_REPLY)
    }
}

/// What the packet is a fragment of, where it is one.
#[inline(always)]
pub(super) fn fragment<F: Splits>(packets: &mut Packets, slot: SlotId) -> Option<Piece> {
    let piece = F::piece(packets, slot, 0);
    if piece.is_none() && F::IS_V6 && has_extensions(packets, slot) && deepen(packets, slot) {
        return F::piece(packets, slot, 0);
    }
    piece
}

#[inline(always)]
fn has_extensions(packets: &Packets, slot: SlotId) -> bool {
    let header = packets.header::<Ipv6Header>(slot, packets.meta(slot).l3);
    header.is_some_and(|header| header.next_header.is_extension())
}

/// The packet's flow, either direction with the same key.
#[inline(always)]
pub(super) fn flow_of<F: Splits>(packets: &mut Packets, slot: SlotId) -> (Key, Mark) {
    if let Some((key, from_high)) = F::quick(packets.meta(slot), packets.area(slot), 0) {
        return (key, Mark { kind: Kind::Flow, from_high });
    }
    match F::read(packets, slot, 0) {
        (_, Mark { kind: Kind::Short, .. }) if deepen(packets, slot) => F::read(packets, slot, 0),
        found => found,
    }
}

/// Brings more of the body into the head, where there is more: options and quoted packets may be long.
#[cold]
fn deepen(packets: &mut Packets, slot: SlotId) -> bool {
    let meta = packets.meta(slot);
    let end = (u32::from(meta.end) + meta.body_len()).min(HEAD_AREA as u32);
    end > u32::from(meta.end) && packets.pull_head(slot, end as usize)
}

/// The ports of source and destination: of an ICMP error those of the packet that it quotes, seen from the error.
#[inline(always)]
pub(super) fn ports_of(key: &Key, mark: Mark) -> (u16, u16) {
    let (low, high) = key.ports();
    if mark.from_high { (high, low) } else { (low, high) }
}

/// How long a flow is remembered.
#[inline(always)]
pub(super) fn stay(key: &Key) -> Stay {
    if IpProtocol(key.protocol()) == IpProtocol::TCP { Stay::Long } else { Stay::Short }
}

impl PortSplit {
    /// Why a packet goes to the interface of the split's ports. `None`: it goes where others go. `now` in seconds.
    #[inline(always)]
    pub(super) fn choose<F: Splits>(&self, packets: &mut Packets, slot: SlotId, now: u32) -> Option<Match> {
        let (key, mark) = flow_of::<F>(packets, slot);
        match mark.kind {
            Kind::Flow => {
                let protocol = IpProtocol(key.protocol());
                if self.ports.has(protocol, ports_of(&key, mark).1) {
                    return Some(Match::Port);
                }
                // Who asks for an echo asks the pod, whatever number others have chosen for theirs.
                let asks = !protocol.has_ports() && !F::is_echo_reply(packets, slot);
                (!asks && self.flows.meets(&key, now)).then_some(Match::Flow)
            }
            Kind::Error => {
                let port = ports_of(&key, mark).1;
                let about = self.ports.has(IpProtocol(key.protocol()), port) || self.flows.meets(&key, now);
                about.then_some(Match::Error)
            }
            Kind::Parsed
            | Kind::Fragment
            | Kind::First
            | Kind::Later
            | Kind::Link
            | Kind::Protocol
            | Kind::Short => None,
        }
    }

    /// As [`PortSplit::choose`], for a fragment: the later ones follow the first.
    #[cold]
    pub(super) fn choose_fragment<F: Splits>(
        &self,
        packets: &mut Packets,
        slot: SlotId,
        fragment: &Piece,
        now: u32,
    ) -> Option<Match> {
        if fragment.offset != 0 {
            return self.datagrams.meets(&fragment.datagram, now).then_some(Match::Fragment);
        }
        let choice = self.choose::<F>(packets, slot, now);
        match choice {
            Some(_) => {
                self.datagrams.note(&fragment.datagram, Stay::Short, now);
            }
            // The number may have been another packet's a moment ago.
            None => {
                self.datagrams.forget(&fragment.datagram);
            }
        }
        choice
    }
}
