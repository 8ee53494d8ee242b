//! Packets that wait for their neighbour's link-layer address: on their way to the control thread.
//!
//! Each interface of origin has limits of its own, and nothing that interfaces share is charged before them: packets per second
//! ([`TOLD`](super::TOLD)), and packets per neighbor and window ([`Throttle`]), so that a flow to a silent host leaves the
//! interface some for other neighbors.

use crate::bridge::Origins;
use crate::interface::Limiter;
use foldhash::fast::RandomState;
use graph::packet::{OwnedPacket, Packets, SlotId};
use graph::{Ctx, IfIndex, NodeContext};
use std::hash::BuildHasher;

graph::drops! {
    /// Why a packet doesn't wait for its neighbour.
    pub(super) enum Drop {
        /// The neighbour doesn't answer; the sender is told.
        NoAnswer => "no-answer", Loss,
        /// The neighbour hasn't answered yet, and as many packets from this interface as may wait for it in that time have come.
        QueueFull => "queue-full", Loss,
        /// The packet has passed as many routers as it may, this one included; the sender is told.
        HopsUsedUp => "hops-used-up", Loss,
        /// Packets from this interface ask for more neighbours than the control thread is told of.
        Limited => "resolve-limited", Loss,
        /// The control thread has more to do than it can, or as many packets from this interface as may wait for it.
        Busy => "control-busy", Loss,
        /// There is no room for a note before the packet.
        NoHeadroom => "no-headroom", Bug,
    }
}

/// What both versions' nodes count.
pub(super) const DROPS: &[graph::DropSpec] = Drop::SPECS;

/// Packets of one origin that may go to the control thread for one neighbor ...
const PER_WINDOW: u16 = super::control::WAITING as u16;
/// ... in this time (nanoseconds).
const WINDOW: u64 = 250_000_000;
/// Pairs of origin and neighbor that are told apart; a power of two. Two that share a place are both let through more often, not less.
const PLACES: usize = 1024;

/// What packets of one origin wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Awaited {
    origin: IfIndex,
    /// The neighbor's interface, and its address.
    interface: IfIndex,
    address: [u8; 16],
}

#[derive(Clone, Copy, Default)]
struct Place {
    awaited: Awaited,
    count: u16,
    since: u64,
}

/// Remembers what packets were recently held for.
struct Throttle {
    places: Box<[Place]>,
    /// Keyed: senders can't choose addresses that share a place.
    hash: RandomState,
}

impl Throttle {
    fn new() -> Self {
        Self { places: vec![Place::default(); PLACES].into_boxed_slice(), hash: RandomState::default() }
    }

    fn allows(&mut self, awaited: Awaited, now: u64) -> bool {
        let at = self.hash.hash_one(awaited) as usize % PLACES;
        let Some(place) = self.places.get_mut(at) else { return false };
        if place.awaited != awaited || now.wrapping_sub(place.since) >= WINDOW {
            *place = Place { awaited, count: 0, since: now };
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
    origins: Origins,
    throttle: Throttle,
    limiter: Limiter,
}

impl Holder {
    pub(super) fn new(cx: &NodeContext<'_>) -> Self {
        Self { origins: Origins::new(cx), throttle: Throttle::new(), limiter: super::TOLD }
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
        let origin = self.origins.of(ctx, slot);
        // First, so that an origin above its limit takes no places from others. Charged last, by what passes the throttle only.
        if !self.limiter.would_allow(origin, ctx.now) {
            return Err(Drop::Limited);
        }
        if !self.throttle.allows(Awaited { origin, interface: tx_if, address }, ctx.now) {
            return Err(Drop::QueueFull);
        }
        let _ = self.limiter.allows(origin, ctx.now);
        // What it is dropped for where nobody answers: it keeps this while it waits.
        let _ = ctx.drop(slot, Drop::NoAnswer);
        let meta = ctx.packets.meta_mut(slot);
        meta.tx_if = tx_if;
        let at = meta.data;
        // The note lies before the link-layer header, which stays as it was received.
        meta.data = at.min(meta.l2);
        let note = ctx.packets.prepend(slot, NOTE).map(|note| note.copy_from_slice(&address));
        let sent = note.is_some() && ctx.punt(kind, slot, origin);
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
    fn each_origin_gets_a_window_of_packets_for_each_neighbor() {
        let mut throttle = Throttle::new();
        let awaited = |origin, address| Awaited { origin, interface: 1, address: [address; 16] };
        let passed = |throttle: &mut Throttle, awaited, now| {
            (0..100).filter(|_| throttle.allows(awaited, now)).count()
        };
        assert_eq!(passed(&mut throttle, awaited(7, 1), 5), usize::from(PER_WINDOW));
        assert_eq!(passed(&mut throttle, awaited(7, 2), 5), usize::from(PER_WINDOW));
        assert_eq!(passed(&mut throttle, awaited(8, 1), 5), usize::from(PER_WINDOW), "another origin");
        // 7's first place may have gone to one of the others.
        if throttle.places.iter().filter(|place| place.count > 0).count() == 3 {
            assert_eq!(passed(&mut throttle, awaited(7, 1), 4 + WINDOW), 0);
        }
        assert_eq!(passed(&mut throttle, awaited(7, 1), 5 + WINDOW), usize::from(PER_WINDOW));
    }

    #[test]
    fn places_are_chosen_by_a_random_key() {
        let place = |throttle: &Throttle, address| throttle.hash.hash_one(address) as usize % PLACES;
        let throttles = [Throttle::new(), Throttle::new()];
        let alike =
            (0..64u64).filter(|address| place(&throttles[0], *address) == place(&throttles[1], *address));
        assert!(alike.count() < 32, "two workers agree on where addresses lie");
    }
}
