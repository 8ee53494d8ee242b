//! What a bridge learns from the sources of its frames, and whom it doesn't believe.
//!
//! Done for a vector at a time: packets of one station behind each other are one entry of a list; what is known already is refreshed in one
//! loop over that list; last comes what isn't known, is fixed, or lies elsewhere.

use super::bridge_input::{Counter, Drop};
use super::keys::Numbers;
use super::table::{BLOCKED, Bridges};
use core::ops::Range;
use graph::Ctx;
use graph::engine::MAX_VECTOR;
use graph::packet::SlotId;
use tables::mac::{Hardware, Learned, MacKey, MacTable, Seen};

/// Where a source is seen that isn't to be refreshed: nothing is learned there.
pub(super) const NOWHERE: u32 = BLOCKED;

/// The sources of a vector. Kept by the node, so that it needn't be cleared.
pub(super) struct Sources {
    seen: [Seen; MAX_VECTOR],
    /// The place in the vector behind the last packet of each.
    ends: [u16; MAX_VECTOR],
    len: usize,
}

impl Sources {
    pub(super) const fn new() -> Self {
        let none = Seen { key: MacKey::NONE, interface: NOWHERE };
        Self { seen: [none; MAX_VECTOR], ends: [0; MAX_VECTOR], len: 0 }
    }

    /// Notes that the packet at `place` comes from `seen`, whose number is the last one of `numbers`. All packets are to be noted,
    /// in turn; [`MacKey::NONE`] stands for a source that isn't learned.
    #[inline(always)]
    pub(super) fn note(&mut self, numbers: &mut Numbers, seen: Seen, place: usize) {
        let number = numbers.number(seen.key);
        self.seen[number] = seen;
        self.ends[number] = place as u16 + 1;
    }

    /// Ends the list that was numbered by `numbers`.
    pub(super) fn end(&mut self, numbers: &Numbers) {
        self.len = numbers.count();
    }

    /// They themselves, and where they were seen.
    #[inline(always)]
    pub(super) fn seen(&self) -> &[Seen] {
        &self.seen[..self.len]
    }

    /// Learns them at tick `now`; of those who use somebody else's address the places in the vector are handed to `refuse`. `meanwhile` is
    /// as with [`MacTable::refresh_batch`].
    #[inline(always)]
    pub(super) fn learn(
        &self,
        learning: &Learning<'_, '_>,
        now: u16,
        hardware: impl Hardware,
        meanwhile: impl FnMut(usize),
        mut refuse: impl FnMut(Range<usize>, Drop),
    ) {
        learning.macs.refresh_batch(&self.seen[..self.len], now, hardware, meanwhile, |number| {
            let from = number.checked_sub(1).map_or(0, |before| usize::from(self.ends[before]));
            let places = from..usize::from(self.ends[number]);
            if let Err(reason) = learning.learn(self.seen[number].key, places.clone(), now) {
                refuse(places, reason);
            }
        });
    }
}

/// A vector of which sources are learned.
pub(super) struct Learning<'l, 'c> {
    pub(super) ctx: &'l Ctx<'c>,
    pub(super) slots: &'l [SlotId],
    pub(super) bridges: &'l Bridges,
    pub(super) macs: &'l MacTable,
}

impl Learning<'_, '_> {
    /// Whether a station's packets may go on; learns it where the bridge does so.
    fn learn(&self, key: MacKey, places: Range<usize>, now: u16) -> Result<(), Drop> {
        let Some(slot) = self.slots.get(places.start).filter(|_| key != MacKey::NONE) else { return Ok(()) };
        let (bridge, macs) = (self.bridges.get(key.bridge()), self.macs);
        let own = u32::from(self.ctx.packets.meta(*slot).rx_if);
        let is_anothers = |at| at != own && at != BLOCKED;
        if !bridge.learn {
            // Configured addresses are protected all the same.
            let elsewhere =
                macs.get(key).is_some_and(|known| known.is_static && is_anothers(known.interface));
            return if elsewhere { Err(Drop::StaticElsewhere) } else { Ok(()) };
        }
        let packets = places.len() as u64;
        match macs.learn(key, own, now) {
            Learned::New => self.ctx.count(Counter::Learned, 1),
            Learned::Moved { .. } => {
                self.ctx.count(Counter::Moved, 1);
                bridge.moves.add();
            }
            Learned::Limited => self.ctx.count(Counter::Limited, packets),
            Learned::MemberLimited => self.ctx.count(Counter::MemberLimited, packets),
            Learned::Held { .. } => self.ctx.count(Counter::Held, packets),
            Learned::Full => self.ctx.count(Counter::Full, packets),
            Learned::Static { at } if is_anothers(at) => return Err(Drop::StaticElsewhere),
            Learned::Known | Learned::Static { .. } | Learned::Contended => {}
        }
        Ok(())
    }
}
