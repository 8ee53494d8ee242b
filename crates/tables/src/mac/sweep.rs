//! What concerns many addresses: ageing, flushing, listing, counting.

use std::sync::atomic::Ordering;

use super::table::{MacTable, entry, slots_of};
use super::word::{MacEntry, MacKey};

/// Which entries a flush removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only what was learned.
    Learned,
    /// Static entries too.
    All,
}

impl MacTable {
    /// Removes learned entries that were last seen more than `max_age` ticks before `now`, in the next `buckets`
    /// buckets after those of the call before; gives their number. The caller chooses the step and goes round the
    /// whole table at least every 32 767 − `max_age` ticks (`max_age` is at most 32 766): ticks are compared as
    /// signed differences of 16 bits, so that a worker whose clock is ahead does no harm.
    pub fn age(&self, now: u16, max_age: u16, buckets: usize) -> usize {
        let max_age = max_age.min(i16::MAX as u16 - 1);
        self.sweep(buckets, |entry| !entry.is_static && entry.age(now) > max_age)
    }

    /// Removes the entries that `condition` chooses, in the next `buckets` buckets after those of the last call of this
    /// or of [`age`](Self::age); gives their number.
    pub fn sweep(&self, buckets: usize, condition: impl Fn(&MacEntry) -> bool) -> usize {
        let begin = self.cursor.fetch_add(buckets, Ordering::Relaxed);
        let step = (0..buckets.min(self.buckets())).map(|at| begin.wrapping_add(at) % self.buckets());
        self.remove_in(step, condition)
    }

    /// Removes the entries at `interface`; gives their number.
    pub fn flush_interface(&self, interface: u32, scope: Scope) -> usize {
        self.remove_if(|entry| entry.interface == interface && scope.holds(entry))
    }

    /// Removes the entries of `bridge`; gives their number.
    pub fn flush_bridge(&self, bridge: u16, scope: Scope) -> usize {
        self.remove_if(|entry| entry.key.bridge() == bridge && scope.holds(entry))
    }

    /// Removes the entries that `condition` chooses; gives their number.
    pub fn remove_if(&self, condition: impl Fn(&MacEntry) -> bool) -> usize {
        self.remove_in(0..self.buckets(), condition)
    }

    fn remove_in(
        &self,
        buckets: impl Iterator<Item = usize>,
        condition: impl Fn(&MacEntry) -> bool,
    ) -> usize {
        buckets.flat_map(slots_of).filter(|&slot| self.remove_slot(slot, &condition)).count()
    }

    fn remove_slot(&self, slot: usize, condition: impl Fn(&MacEntry) -> bool) -> bool {
        while let Some((key, value)) = self.slot(slot).read() {
            if !condition(&entry(key, value)) {
                return false;
            }
            if self.clear(slot, key, value) {
                return true;
            }
            // Refreshed or moved in between: judge it again.
        }
        false
    }

    /// All entries, in no order. Entries that change meanwhile may be missed; none is made up.
    pub fn iter(&self) -> impl Iterator<Item = MacEntry> {
        let slots = (0..self.buckets()).flat_map(slots_of);
        slots.filter_map(|slot| self.slot(slot).read().map(|(key, value)| entry(key, value)))
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Scope {
    fn holds(self, entry: &MacEntry) -> bool {
        self == Self::All || !entry.is_static
    }
}

impl MacKey {
    /// Whether the address is a group address (I/G bit): never learned as a source.
    #[inline]
    #[must_use]
    pub fn is_group(self) -> bool {
        self.word() >> 40 & 1 == 1
    }
}
