//! `early_syn_drop`: while a tenant is short of room, a SYN is dropped when it is seen first, and begins a session when it is repeated. A flood of SYNs that are sent once pushes nobody out then.
//!
//! What was dropped is noted in a table of a fixed size. A note that a client may still come back to isn't given up for another: a SYN that finds its place taken by such a one
//! begins a session at once, as without all this. So whoever was dropped and repeats after a second, as [RFC 6298](https://www.rfc-editor.org/rfc/rfc6298) says, gets in,
//! however many others come; and what of a flood is too much for the table finds what it would have found without.

use super::entry::Flow;
use super::sessions::Sessions;
use super::tenants::{TICK_BITS, Tenant, Tenants};
use std::sync::atomic::Ordering;

/// Notes of a worker, four bytes each: as many as 175 000 SYNs a second take. Their memory is taken when the first one is dropped.
const NOTES: usize = 1 << 18;
/// Who repeats sooner is no TCP that waits for an answer.
const SOONEST: u16 = ticks(500);
/// So long a note stays whoever else comes: a client's first repetition comes after a second.
const KEPT: u16 = ticks(1500);
/// Who repeats later is as one that comes first.
const LATEST: u16 = ticks(8000);

/// Milliseconds in ticks.
const fn ticks(milliseconds: u64) -> u16 {
    ((milliseconds * 1_000_000) >> TICK_BITS) as u16
}

/// SYNs that were dropped of late: of each, half of its hash and the tick, which begins anew after 18 minutes. 0: nothing.
#[derive(Debug, Default)]
pub(super) struct Early(Vec<u32>);

impl Early {
    /// Whether a SYN with that keyed hash is dropped.
    fn drops(&mut self, hash: u32, tick: u64) -> bool {
        if self.0.is_empty() {
            self.0.resize(NOTES, 0);
        }
        let Some(note) = self.0.get_mut(hash as usize % NOTES) else { return false };
        let own = hash >> 16 == *note >> 16;
        let age = (tick as u16).wrapping_sub(*note as u16);
        match (*note, own, age) {
            (1.., true, ..SOONEST) => true,
            (1.., true, ..=LATEST) => {
                *note = 0;
                false
            }
            (1.., false, ..KEPT) => false,
            _ => {
                *note = (hash & 0xffff_0000 | tick as u32 & 0xffff).max(1);
                true
            }
        }
    }

    /// Bytes of memory that it takes.
    pub(super) const fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<u32>()
    }
}

impl Sessions {
    /// Whether a SYN that would begin a session of the tenant's is dropped, by its hash.
    #[cold]
    pub(super) fn drops_early(
        &mut self,
        tenants: &Tenants,
        (number, tenant): (u16, &Tenant),
        hash: u32,
        tick: u64,
    ) -> bool {
        let is_full = self.table.len() >= tenants.per_worker.min(Flow::MAX);
        // Whose sessions aren't those that fill the table is made room for.
        let is_short = tenant.occupancy.sessions.load(Ordering::Relaxed) >= tenant.max_sessions
            || is_full && self.crowd == number;
        is_short && self.early.drops(hash, tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks in which the SYN of `hash` comes, and whether it is dropped then.
    fn comes(early: &mut Early, hash: u32, times: &[(u64, bool)]) {
        for (tick, dropped) in times {
            assert_eq!(early.drops(hash, *tick), *dropped, "{hash:x} at {tick}");
        }
    }

    #[test]
    fn who_repeats_in_time_gets_in() {
        let mut early = Early::default();
        assert_eq!(early.bytes(), 0);
        // Half a second is 29 ticks, eight are 476.
        comes(&mut early, 0x1234_5678, &[(7, true), (8, true), (35, true), (36, false), (36, true)]);
        comes(&mut early, 0xabcd_0001, &[(65_500, true), (65_536 + 30, false)]);
        comes(&mut early, 7, &[(65_536, true), (65_536 + 477, false)]);
        comes(&mut early, 0x9999_0001, &[(100_000, true), (100_477, true), (100_953, false)]);
        assert_eq!(early.bytes(), 4 * NOTES);
    }

    #[test]
    fn a_note_that_a_client_may_come_back_to_stays() {
        let mut early = Early::default();
        // They differ in what is noted, and have one place.
        let (one, other) = (0x1234_5678, 0x9234_5678);
        comes(&mut early, one, &[(1000, true)]);
        comes(&mut early, other, &[(1030, false), (1088, false)]);
        comes(&mut early, one, &[(1060, false)]);
        comes(&mut early, other, &[(1061, true)]);
        // A second and a half later it may go.
        comes(&mut early, one, &[(1061 + 88, false), (1061 + 89, true)]);
        comes(&mut early, other, &[(1061 + 90, false)]);
    }
}
