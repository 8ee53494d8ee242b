//! What peers' regions may make us pay for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::RegionError;

/// Bytes that regions of one peer may have been charged to us.
///
/// A page of shared memory is charged to the control group of whoever touches it first, and stays so until it is freed, whoever has the
/// memory by then. A region with holes is therefore a bill that we may have to pay, and how much of it is due is known at its end only: as
/// long as it is mapped all of its bytes are on the account, afterwards those that its file has. They stay there: nobody tells
/// whether the peer has given the memory back. What a peer had allocated before a region was announced is its own, and on no account, if
/// that is all of the region; of others it could be freed and be made anew by us.
#[derive(Debug, Default)]
pub struct Account(AtomicU64);

impl Account {
    /// Bytes on the account.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Enters a region of `size` bytes with holes.
    ///
    /// # Errors
    /// [`RegionError::Holes`] if there would be more than `most` bytes on the account then.
    pub(super) fn enter(self: &Arc<Self>, size: u64, most: u64) -> Result<Entry, RegionError> {
        let add = |bytes: u64| bytes.checked_add(size).filter(|sum| *sum <= most);
        let entered = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        entered.map_err(|account| RegionError::Holes { size, account, most })?;
        Ok(Entry { account: Arc::clone(self), size })
    }
}

/// A region's place on an account.
#[derive(Debug)]
pub(super) struct Entry {
    account: Arc<Account>,
    size: u64,
}

impl Entry {
    /// Nothing writes to the region any more, whose file has so many bytes.
    pub(super) fn settle(self, allocated: u64) {
        self.account.0.fetch_sub(self.size.saturating_sub(allocated), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_regions_have_grown_to_stays() {
        let account = Arc::new(Account::default());
        let first = account.enter(60, 100).unwrap();
        assert_eq!(account.bytes(), 60, "it could become all of it");
        assert_eq!(
            account.enter(41, 100).unwrap_err(),
            RegionError::Holes { size: 41, account: 60, most: 100 }
        );
        let second = account.enter(40, 100).unwrap();
        first.settle(0);
        second.settle(30);
        assert_eq!(account.bytes(), 30);
        account.enter(70, 100).unwrap().settle(1000);
        assert_eq!(account.bytes(), 100, "never more than what was entered");
        assert!(account.enter(u64::MAX, u64::MAX).is_err(), "no sum wraps");
    }
}
