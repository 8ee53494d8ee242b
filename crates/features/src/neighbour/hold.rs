//! Packets that wait for their neighbour's link-layer address: on their way to the control thread.
//!
//! What a flow to a silent host or a scan of a network would cost is bounded twice: per neighbour ([`Throttle`]) and per
//! interface ([`TOLD`](super::TOLD)).

use crate::interface::Limiter;
use graph::packet::{OwnedPacket, Packets, SlotId};
use graph::{Ctx, IfIndex};

graph::drops! {
    /// Why a packet doesn't wait for its neighbour.
    pub(super) enum Drop {
        /// The neighbour doesn't answer; the sender is told.
        NoAnswer => "no-answer", Loss,
        /// The neighbour hasn't answered yet, and as many packets as may wait for it in that time have come.
        QueueFull => "queue-full", Loss,
        /// The packet has passed as many routers as it may, this one included; the sender is told.
        HopsUsedUp => "hops-used-up", Loss,
        /// Packets from this interface ask for more neighbours than the control thread is told of.
        Limited => "resolve-limited", Loss,
        /// The control thread has more to do than it can.
        Busy => "control-busy", Loss,
        /// There is no room for a note before the packet.
        NoHeadroom => "no-headroom", Bug,
    }
}

/// What both versions' nodes count.
pub(super) const DROPS: &[graph::DropSpec] = Drop::SPECS;

/// Packets that may go to the control thread for one neighbour ...
const PER_WINDOW: u16 = super::control::WAITING as u16;
/// ... in this time (nanoseconds).
const WINDOW: u64 = 250_000_000;
/// Neighbours that are told apart; a power of two. Two that share a place are both let through more often, not less.
const PLACES: usize = 1024;

#[derive(Clone, Copy, Default)]
struct Place {
    address: [u8; 16],
    interface: IfIndex,
    count: u16,
    since: u64,
}

/// Remembers neighbours that packets were recently held for.
struct Throttle(Box<[Place]>);

impl Throttle {
    fn allows(&mut self, interface: IfIndex, address: [u8; 16], now: u64) -> bool {
        let [high, low] = [&address[..8], &address[8..]]
            .map(|half| half.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte)));
        let mixed = (high ^ u64::from(interface))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32)
            .wrapping_add(low)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let Some(place) = self.0.get_mut((mixed >> 32) as usize % PLACES) else { return false };
        if (place.interface, place.address) != (interface, address) || now.wrapping_sub(place.since) >= WINDOW
        {
            *place = Place { address, interface, count: 0, since: now };
        }
        let allowed = place.count < PER_WINDOW;
        place.count = place.count.saturating_add(1);
        allowed
    }
}

/// Bytes of the note before a held packet, or one that is sent [directly](super::direct): the address to resolve.
const NOTE: u16 = 16;

/// Writes an address (IPv4 as IPv4-mapped IPv6) before a packet whose current header is its IP header, where a held packet has it. False where there is no room.
#[must_use]
pub(crate) fn note(packets: &mut Packets, slot: SlotId, address: [u8; 16]) -> bool {
    let (meta, area) = packets.parts_mut(slot);
    let end = usize::from(meta.data.min(meta.l2));
    let room = end.checked_sub(NOTE.into()).and_then(|start| area.get_mut(start..end));
    room.map(|room| room.copy_from_slice(&address)).is_some()
}

/// The address there.
pub(super) fn noted(packets: &Packets, slot: SlotId) -> Option<[u8; 16]> {
    let meta = packets.meta(slot);
    let end = usize::from(meta.data.min(meta.l2));
    let note = end.checked_sub(NOTE.into()).and_then(|start| packets.area(slot).get(start..end))?;
    note.first_chunk().copied()
}

/// Hands packets to the control thread.
pub(super) struct Holder {
    throttle: Throttle,
    limiter: Limiter,
}

impl Holder {
    pub(super) fn new() -> Self {
        let places = vec![Place::default(); PLACES].into_boxed_slice();
        Self { throttle: Throttle(places), limiter: super::TOLD }
    }

    /// Sends the packet, whose current header is its IP header, to wait for `address` (IPv4 as IPv4-mapped IPv6) on
    /// interface `tx_if`. Where that can't be, it is dropped.
    pub(super) fn hold(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: SlotId,
        kind: &'static str,
        tx_if: IfIndex,
        address: [u8; 16],
    ) {
        if let Err(reason) = self.try_hold(ctx, slot, kind, tx_if, address) {
            let edge = ctx.drop(slot, reason);
            ctx.emit(edge, slot);
        }
    }

    fn try_hold(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: SlotId,
        kind: &'static str,
        tx_if: IfIndex,
        address: [u8; 16],
    ) -> Result<(), Drop> {
        if !self.throttle.allows(tx_if, address, ctx.now) {
            return Err(Drop::QueueFull);
        }
        if !self.limiter.allows(ctx.packets.meta(slot).rx_if, ctx.now) {
            return Err(Drop::Limited);
        }
        // What it is dropped for where nobody answers: it keeps this while it waits.
        let _ = ctx.drop(slot, Drop::NoAnswer);
        let meta = ctx.packets.meta_mut(slot);
        meta.tx_if = tx_if;
        let at = meta.data;
        // The note lies before the link-layer header, which stays as it was received.
        meta.data = at.min(meta.l2);
        let note = ctx.packets.prepend(slot, NOTE).map(|note| note.copy_from_slice(&address));
        let sent = note.is_some() && ctx.punt(kind, slot);
        ctx.packets.meta_mut(slot).data = at;
        match (note, sent) {
            (None, _) => Err(Drop::NoHeadroom),
            (_, false) => Err(Drop::Busy),
            (_, true) => Ok(()),
        }
    }
}

/// Takes the note off a held packet: its current header is the IP header again. `None` where there is no note.
pub(super) fn take_note(packet: &mut OwnedPacket) -> Option<[u8; 16]> {
    let address = *packet.bytes().first_chunk()?;
    let meta = packet.meta_mut();
    if meta.l3 < meta.data + NOTE {
        return None;
    }
    meta.data = meta.l3;
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_gets_a_window_of_packets_and_others_theirs() {
        let mut throttle = Throttle(vec![Place::default(); PLACES].into_boxed_slice());
        let passed = |throttle: &mut Throttle, address, now| {
            (0..100).filter(|_| throttle.allows(1, [address; 16], now)).count()
        };
        assert_eq!(passed(&mut throttle, 1, 5), usize::from(PER_WINDOW));
        assert_eq!(passed(&mut throttle, 2, 5), usize::from(PER_WINDOW));
        assert_eq!(passed(&mut throttle, 1, 4 + WINDOW), 0);
        assert_eq!(passed(&mut throttle, 1, 5 + WINDOW), usize::from(PER_WINDOW));
    }
}
