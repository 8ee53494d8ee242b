//! Memory of all captures together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that captures may have, in bytes.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    used: AtomicUsize,
}

/// Memory of a capture; given back when dropped.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<Budget>,
    own: Arc<AtomicUsize>,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Memory for a capture that has `own` already: `None` where that would be more than what is left for others. So
    /// one capture gets half of all, each of n captures gets the (n + 1)th part, and there is always some for another.
    pub(super) fn share(self: &Arc<Self>, own: &Arc<AtomicUsize>, bytes: usize) -> Option<Charge> {
        let had = own.load(Ordering::Relaxed);
        self.take(own, bytes, |left| had + bytes <= left)
    }

    /// Memory that a capture needs in any case: `None` where it is used up.
    pub(super) fn fixed(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        self.take(&Arc::default(), bytes, |_| true)
    }

    fn take(
        self: &Arc<Self>,
        own: &Arc<AtomicUsize>,
        bytes: usize,
        allows: impl Fn(usize) -> bool,
    ) -> Option<Charge> {
        let more = |used: usize| {
            let left = self.limit.checked_sub(used + bytes)?;
            allows(left).then_some(used + bytes)
        };
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        own.fetch_add(bytes, Ordering::Relaxed);
        Some(Charge { budget: Arc::clone(self), own: Arc::clone(own), bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.own.fetch_sub(self.bytes, Ordering::Relaxed);
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_share_and_all_together_the_limit() {
        let budget = Arc::new(Budget::new(1000));
        let fill = |own: &Arc<AtomicUsize>| -> Vec<Charge> {
            std::iter::from_fn(|| budget.share(own, 10)).collect()
        };
        let own: Vec<Arc<AtomicUsize>> = (0..4).map(|_| Arc::default()).collect();
        let first = fill(&own[0]);
        assert_eq!(first.len(), 50, "half");
        let second = fill(&own[1]);
        assert_eq!(second.len(), 25, "half of what is left");
        drop(first);
        let first = fill(&own[0]);
        let again = fill(&own[1]);
        assert_eq!((first.len(), second.len() + again.len()), (37, 31));
        let all: Vec<_> = own.iter().map(fill).collect();
        let used = budget.used();
        assert!(used < 1000 && own.iter().all(|own| own.load(Ordering::Relaxed) >= 70), "{own:?}");
        drop((first, second, again, all));
        assert_eq!(budget.used(), 0);
        assert!(own.iter().all(|own| own.load(Ordering::Relaxed) == 0));
        let fixed: Vec<_> = std::iter::from_fn(|| budget.fixed(300)).collect();
        assert_eq!((fixed.len(), fill(&own[0]).len()), (3, 5));
    }
}
