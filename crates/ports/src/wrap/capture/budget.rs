//! Memory of all captures together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that captures may have, in bytes. One half guarantees each capture a part of its own, whatever the others do. The other
/// half is for those that need more.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    guaranteed: AtomicUsize,
    common: AtomicUsize,
}

/// Memory of one capture. What is guaranteed to it is given back when dropped.
#[derive(Debug)]
pub(super) struct Account {
    budget: Arc<Budget>,
    /// Bytes guaranteed in all, and for segments.
    guaranteed: usize,
    floor: usize,
    /// Bytes of its segments.
    own: AtomicUsize,
}

/// Memory of a segment; given back when dropped.
#[derive(Debug)]
pub(super) struct Charge {
    account: Arc<Account>,
    bytes: usize,
    /// What of it is common.
    common: usize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, guaranteed: AtomicUsize::new(0), common: AtomicUsize::new(0) }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that captures have, or are guaranteed.
    pub(super) fn used(&self) -> usize {
        self.guaranteed.load(Ordering::Relaxed) + self.common.load(Ordering::Relaxed)
    }

    /// The account of a capture with `fixed` bytes of memory and segments of `floor` bytes, which it can have in any case. `None`
    /// where other captures are guaranteed too much.
    pub(super) fn account(self: &Arc<Self>, fixed: usize, floor: usize) -> Option<Account> {
        let guaranteed = fixed + floor;
        let more = |had: usize| (had + guaranteed <= self.limit / 2).then_some(had + guaranteed);
        self.guaranteed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Account { budget: Arc::clone(self), guaranteed, floor, own: AtomicUsize::new(0) })
    }
}

impl Account {
    /// Memory for a segment. `None` where that is more than what is guaranteed, and of the common half the capture would have more
    /// than what is left for others: one capture gets half of it, the next half of the rest.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let beyond = |own: usize| own.saturating_sub(self.floor);
        let had = self.own.fetch_add(bytes, Ordering::Relaxed);
        let (all, common) = (beyond(had + bytes), beyond(had + bytes) - beyond(had));
        let more = |used: usize| {
            let left = (self.budget.limit / 2).checked_sub(used + common)?;
            (common == 0 || all <= left).then_some(used + common)
        };
        if self.budget.common.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            self.own.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        Some(Charge { account: Arc::clone(self), bytes, common })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.own.fetch_sub(self.bytes, Ordering::Relaxed);
        self.account.budget.common.fetch_sub(self.common, Ordering::Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.guaranteed.fetch_sub(self.guaranteed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(account: &Arc<Account>) -> Vec<Charge> {
        std::iter::from_fn(|| account.charge(10)).collect()
    }

    #[test]
    fn each_has_what_is_guaranteed_whatever_others_have() {
        let budget = Arc::new(Budget::new(1000));
        let accounts: Vec<Arc<Account>> =
            std::iter::from_fn(|| budget.account(10, 40)).map(Arc::new).collect();
        assert_eq!(accounts.len(), 10, "half of all");
        let filled: Vec<_> = accounts.iter().map(fill).collect();
        let counts: Vec<usize> = filled.iter().map(Vec::len).collect();
        assert_eq!(counts[..4], [4 + 25, 4 + 12, 4 + 6, 4 + 3], "and of the rest, half of what there is");
        assert!(counts.iter().all(|count| *count >= 4), "{counts:?}");
        assert!(budget.used() > 950 && budget.used() <= 1000);
        drop(filled);
        assert_eq!(budget.used(), 500);
        drop(accounts);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn memory_counts_as_long_as_a_segment_has_it() {
        let budget = Arc::new(Budget::new(1000));
        let account = Arc::new(budget.account(10, 40).unwrap());
        let mut charges = fill(&account);
        drop(account);
        // The first ones are read: what is left of the common half stays charged.
        charges.drain(..20);
        assert_eq!(budget.used(), 50 + 90);
        drop(charges);
        assert_eq!(budget.used(), 0);
    }
}
