//! What the clients of one socket may have open and mapped, all together.
//!
//! Each region and each ring of a client is a descriptor of ours, and each region a mapping, until its queues are dropped. Of both the process
//! has a number that all share (`RLIMIT_NOFILE`, `vm.max_map_count`), and of addresses as well: whoever had them all would keep
//! everybody else out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Reason;

/// The bounds of one socket, and what is left of them.
#[derive(Debug)]
pub struct Quota {
    max_descriptors: usize,
    max_memory: u64,
    used: Mutex<Used>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Used {
    descriptors: usize,
    memory: u64,
}

impl Quota {
    /// So many regions and rings, and so many bytes of all regions.
    #[must_use]
    pub fn new(max_descriptors: usize, max_memory: u64) -> Self {
        Self { max_descriptors, max_memory, used: Mutex::default() }
    }

    /// Most regions and rings.
    #[must_use]
    pub const fn max_descriptors(&self) -> usize {
        self.max_descriptors
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Regions and rings that there are now, and the bytes of the regions.
    #[must_use]
    pub fn in_use(&self) -> (usize, u64) {
        let used = self.used();
        (used.descriptors, used.memory)
    }
}

impl Default for Quota {
    /// Without bounds.
    fn default() -> Self {
        Self::new(usize::MAX, u64::MAX)
    }
}

/// What one connection has of a quota. Given back when it is dropped; what a ring has, when that [`Ring`](RingShare) is.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Quota>,
    taken: Mutex<Used>,
}

/// The descriptor of one ring.
#[derive(Debug)]
pub(crate) struct RingShare(Arc<Share>);

impl Share {
    pub(crate) fn new(of: Arc<Quota>) -> Arc<Self> {
        Arc::new(Self { of, taken: Mutex::default() })
    }

    /// One more region, of so many bytes.
    ///
    /// # Errors
    /// [`Reason::QuotaOfDescriptors`], [`Reason::QuotaOfMemory`].
    pub(crate) fn region(&self, memory: u64) -> Result<(), Reason> {
        let (max_descriptors, max_memory) = (self.of.max_descriptors, self.of.max_memory);
        let mut used = self.of.used();
        if used.descriptors >= max_descriptors {
            return Err(Reason::QuotaOfDescriptors(max_descriptors));
        }
        // A size that is too large to be added is one that nobody has, whatever is allowed.
        let Some(total) = used.memory.checked_add(memory).filter(|total| *total <= max_memory) else {
            return Err(Reason::QuotaOfMemory { total: used.memory.saturating_add(memory), max: max_memory });
        };
        *used = Used { descriptors: used.descriptors + 1, memory: total };
        let mut taken = self.taken();
        *taken = Used { descriptors: taken.descriptors + 1, memory: taken.memory + memory };
        Ok(())
    }

    /// One more ring.
    ///
    /// # Errors
    /// [`Reason::QuotaOfDescriptors`].
    pub(crate) fn ring(self: &Arc<Self>) -> Result<RingShare, Reason> {
        self.region(0).map(|()| RingShare(Arc::clone(self)))
    }

    fn taken(&self) -> MutexGuard<'_, Used> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RingShare {
    fn drop(&mut self) {
        // In the order of `region`.
        self.0.of.used().descriptors -= 1;
        self.0.taken().descriptors -= 1;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let taken = *self.taken.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut used = self.of.used();
        used.descriptors -= taken.descriptors;
        used.memory -= taken.memory;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_has_others_cannot_until_it_is_given_back() {
        let quota = Arc::new(Quota::new(3, 100));
        let (one, other) = (Share::new(Arc::clone(&quota)), Share::new(Arc::clone(&quota)));
        one.region(60).unwrap();
        assert_eq!(other.region(41), Err(Reason::QuotaOfMemory { total: 101, max: 100 }));
        assert_eq!(other.region(u64::MAX), Err(Reason::QuotaOfMemory { total: u64::MAX, max: 100 }));
        other.region(40).unwrap();
        let ring = one.ring().unwrap();
        assert_eq!(other.ring().unwrap_err(), Reason::QuotaOfDescriptors(3));
        assert_eq!(quota.in_use(), (3, 100));
        drop(ring);
        assert_eq!(quota.in_use(), (2, 100));
        let ring = one.ring().unwrap();
        drop(one);
        assert_eq!(quota.in_use(), (3, 100), "its ring is still there");
        drop(ring);
        assert_eq!(quota.in_use(), (1, 40));
        other.region(60).unwrap();
        drop(other);
        assert_eq!(quota.in_use(), (0, 0));
    }

    /// Without bounds it must not forget what others have.
    #[test]
    fn sizes_that_nobody_has_are_refused_without_bounds_too() {
        let quota = Arc::new(Quota::default());
        let (one, other) = (Share::new(Arc::clone(&quota)), Share::new(Arc::clone(&quota)));
        one.region(60).unwrap();
        assert!(matches!(other.region(u64::MAX), Err(Reason::QuotaOfMemory { .. })));
        drop(other);
        assert_eq!(quota.in_use(), (1, 60));
        drop(one);
        assert_eq!(quota.in_use(), (0, 0));
    }
}
