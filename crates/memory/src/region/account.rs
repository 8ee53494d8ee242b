//! What peers' regions may make us pay for.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::fstat;

use super::map::allocated;
use super::{RegionError, remains};

/// Most files of an account that peers may keep and that are watched until they are gone. Those beyond stay on it for good.
const WATCHED: u64 = 256;

/// Bytes that regions of one peer may have been charged to us.
///
/// A page of shared memory is charged to the control group of whoever touches it first, and stays so until it is freed, whoever has the
/// memory by then. A region with holes is therefore a bill that we may have to pay, and how much of it is due is known at its end only: as
/// long as it is mapped all of its bytes are on the account, afterwards those that its file has, until the file is gone: closed and
/// unmapped by everybody. Where that can't be noticed (a file that isn't a memfd; no inotify) they stay there. What a peer had
/// allocated before a region was announced is its own, and on no account, if that is all of the region; of others it could be freed
/// and be made anew by us.
#[derive(Debug, Default)]
pub struct Account {
    bytes: AtomicU64,
    /// Files that are watched.
    watched: AtomicU64,
}

impl Account {
    /// Bytes on the account.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        remains::collect();
        self.bytes.load(Ordering::Relaxed)
    }

    /// Enters a region of `size` bytes with holes.
    ///
    /// # Errors
    /// [`RegionError::Holes`] if there would be more than `most` bytes on the account then.
    pub(super) fn enter(self: &Arc<Self>, size: u64, most: u64) -> Result<Entry, RegionError> {
        remains::collect();
        let add = |bytes: u64| bytes.checked_add(size).filter(|sum| *sum <= most);
        let entered = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        entered.map_err(|account| RegionError::Holes { size, account, most })?;
        Ok(Entry { account: Arc::clone(self), size })
    }

    /// A file that was watched is gone, with so many bytes.
    pub(super) fn gone(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.watched.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if *self.watched.get_mut() > 0 {
            remains::forget();
        }
    }
}

/// A region's place on an account.
#[derive(Debug)]
pub(super) struct Entry {
    account: Arc<Account>,
    size: u64,
}

impl Entry {
    /// Nothing of ours writes to the region any more: what its file has stays, until that is gone.
    pub(super) fn settle(self, file: &OwnedFd) {
        let Self { account, size } = self;
        let left = fstat(file).map_or(u64::MAX, |stat| allocated(&stat)).min(size);
        account.bytes.fetch_sub(size - left, Ordering::Relaxed);
        if left == 0 {
            return;
        }
        let most = account.watched.fetch_add(1, Ordering::Relaxed) >= WATCHED;
        if most || !remains::leave(file, left, &account) {
            account.watched.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::*;

    const PAGE: u64 = 4096;

    /// A file of so many pages, the first of which are there.
    fn file(pages: u64, allocated: u64) -> OwnedFd {
        let fd = memfd_create("peer", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, pages * PAGE).unwrap();
        if allocated > 0 {
            fallocate(&fd, FallocateFlags::empty(), 0, allocated * PAGE).unwrap();
        }
        fd
    }

    /// So many bytes are left in the end: a child that another test starts just now has our files until it is another program.
    fn comes_to(account: &Account, bytes: u64) {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while account.bytes() != bytes && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(account.bytes(), bytes);
    }

    #[test]
    fn what_regions_have_grown_to_stays_until_they_are_gone() {
        let account = Arc::new(Account::default());
        let most = 100 * PAGE;
        let first = account.enter(60 * PAGE, most).unwrap();
        assert_eq!(account.bytes(), 60 * PAGE, "it could become all of it");
        assert_eq!(
            account.enter(41 * PAGE, most).unwrap_err(),
            RegionError::Holes { size: 41 * PAGE, account: 60 * PAGE, most }
        );
        let second = account.enter(40 * PAGE, most).unwrap();
        let (empty, kept) = (file(60, 0), file(40, 30));
        first.settle(&empty);
        second.settle(&kept);
        assert_eq!(account.bytes(), 30 * PAGE);
        // What it grows by afterwards is its owner's.
        let larger = file(200, 200);
        account.enter(70 * PAGE, most).unwrap().settle(&larger);
        assert_eq!(account.bytes(), most, "never more than what was entered");
        assert!(account.enter(u64::MAX, u64::MAX).is_err(), "no sum wraps");
        drop(larger);
        comes_to(&account, 30 * PAGE);
        // Open no more, but mapped; and once more by somebody else.
        // SAFETY: a fresh mapping, which nobody uses.
        let map = || unsafe {
            mmap(std::ptr::null_mut(), PAGE as usize, ProtFlags::READ, MapFlags::SHARED, &kept, 0)
        };
        let (mapped, other) = (map().unwrap(), kept.try_clone().unwrap());
        drop(kept);
        assert_eq!(account.bytes(), 30 * PAGE);
        drop(other);
        assert_eq!(account.bytes(), 30 * PAGE);
        // SAFETY: what was mapped above.
        unsafe { munmap(mapped, PAGE as usize) }.unwrap();
        comes_to(&account, 0);
    }

    /// One file on two accounts, twice on one of them; an account that is no more is asked for nothing.
    #[test]
    fn a_file_may_be_on_several_accounts() {
        let [one, two, three] = [(); 3].map(|()| Arc::new(Account::default()));
        let shared = file(4, 3);
        for account in [&one, &one, &two, &three] {
            account.enter(4 * PAGE, u64::MAX).unwrap().settle(&shared);
        }
        let alone = file(4, 4);
        three.enter(4 * PAGE, u64::MAX).unwrap().settle(&alone);
        drop(three);
        assert_eq!((one.bytes(), two.bytes()), (6 * PAGE, 3 * PAGE));
        drop((shared, alone));
        comes_to(&one, 0);
        comes_to(&two, 0);
    }

    /// Unlinked under its last name it isn't gone: its first one is still open.
    #[test]
    fn a_file_with_names_stays_for_good() {
        let path = |name: &str| format!("/dev/shm/quiver-{name}-{}", std::process::id());
        let named = OwnedFd::from(std::fs::File::create_new(path("named")).unwrap());
        fallocate(&named, FallocateFlags::empty(), 0, 2 * PAGE).unwrap();
        let account = Arc::new(Account::default());
        account.enter(2 * PAGE, u64::MAX).unwrap().settle(&named);
        std::fs::hard_link(path("named"), path("again")).unwrap();
        std::fs::remove_file(path("named")).unwrap();
        std::fs::remove_file(path("again")).unwrap();
        assert_eq!(account.bytes(), 2 * PAGE);
    }

    #[test]
    fn only_so_many_files_are_watched() {
        let account = Arc::new(Account::default());
        let files: Vec<_> = (0..WATCHED + 10).map(|_| file(1, 1)).collect();
        for file in &files {
            account.enter(PAGE, u64::MAX).unwrap().settle(file);
        }
        assert_eq!(account.bytes(), (WATCHED + 10) * PAGE);
        drop(files);
        comes_to(&account, 10 * PAGE);
    }
}
