//! The pointer to the current snapshot, and what waits to be freed.

use super::qsbr::{Epoch, Epochs};
use super::tables::{Draft, Schema, Tables};
use core::any::Any;
use core::fmt;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Objects that readers may still see, each with the mark that all have to pass.
type Retired = VecDeque<(u64, Box<dyn Any + Send>)>;

/// The writer's side of the tables. There is one, in the control thread.
pub struct Publisher {
    current: Arc<Current>,
    epochs: Epochs,
    retired: Retired,
}

impl Drop for Publisher {
    /// Readers may go on, and nobody asks them any more: what they may see goes with the last of them.
    fn drop(&mut self) {
        self.reclaim();
        let mut left = self.current.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.append(&mut self.retired);
    }
}

/// The pointer to the current snapshot, and what a publisher has left; owns both.
struct Current {
    tables: AtomicPtr<Tables>,
    left: Mutex<Retired>,
}

impl Drop for Current {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::into_raw` and is the last one: publisher and readers are gone.
        drop(unsafe { Box::from_raw(*self.tables.get_mut()) });
    }
}

/// A reader that holds nothing; it begins to read again however that ends.
struct Offline<'a>(&'a Epoch);

impl Drop for Offline<'_> {
    fn drop(&mut self) {
        self.0.online();
    }
}

/// One worker's side of the tables.
pub struct Reader {
    current: Arc<Current>,
    epoch: Epoch,
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("retired", &self.retired.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Publisher {
    /// Tables in their default state, without readers.
    #[must_use]
    pub fn new(schema: &Schema) -> Self {
        let tables = Box::into_raw(Box::new(schema.tables()));
        Self {
            current: Arc::new(Current { tables: AtomicPtr::new(tables), left: Mutex::default() }),
            epochs: Epochs::new(),
            retired: VecDeque::new(),
        }
    }

    /// A new reader.
    pub fn reader(&mut self) -> Reader {
        let epoch = self.epochs.reader();
        epoch.online();
        Reader { current: Arc::clone(&self.current), epoch }
    }

    /// The current version.
    #[must_use]
    pub fn current(&self) -> &Tables {
        // SAFETY: only `publish` (which needs `&mut self`) replaces what is pointed at, and only `reclaim` (likewise)
        // frees it.
        unsafe { &*self.current.tables.load(Ordering::Acquire) }
    }

    /// The next version, to be changed and published.
    #[must_use]
    pub fn draft(&self) -> Draft {
        self.current().draft()
    }

    /// Makes `draft` the current version: one pointer store. Workers see it from their next round on.
    pub fn publish(&mut self, draft: Draft) {
        let old = self.current.tables.swap(Box::into_raw(Box::new(draft.0)), Ordering::SeqCst);
        // SAFETY: `old` came from `Box::into_raw`; as a retired object it is freed only after every reader has
        // been quiescent since the swap.
        let old = unsafe { Box::from_raw(old) };
        self.retire(old);
        self.reclaim();
    }

    /// Frees `object` when no worker can see it any more. To be called after it was made unreachable.
    pub fn retire(&mut self, object: Box<dyn Any + Send>) {
        let mark = self.epochs.advance();
        self.retired.push_back((mark, object));
    }

    /// A mark that [`Publisher::passed`] tells of: for objects that have their own way to be reused.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.epochs.advance()
    }

    /// Whether every worker has been between two rounds since `mark`.
    #[must_use]
    pub fn passed(&self, mark: u64) -> bool {
        self.epochs.passed(mark)
    }

    /// Frees what can be freed and returns how many objects still wait.
    pub fn reclaim(&mut self) -> usize {
        while self.retired.front().is_some_and(|(mark, _)| self.epochs.passed(*mark)) {
            self.retired.pop_front();
        }
        self.retired.len()
    }
}

impl Reader {
    /// The current version. It can be held until the reader is quiescent, which needs `&mut self`.
    #[inline(always)]
    pub fn tables(&self) -> &Tables {
        // SAFETY: a version is freed only after every online reader has been quiescent since it was replaced, or all of them are gone, as is
        // the publisher. This reader is online except inside `offline_while`, also after a panic in there, and the returned borrow ends
        // before `quiesce` and `offline_while`, which take `&mut self`.
        unsafe { &*self.current.tables.load(Ordering::Acquire) }
    }

    /// Says that nothing is held.
    #[inline(always)]
    pub fn quiesce(&mut self) {
        self.epoch.quiesce();
    }

    /// Does `sleep` without holding anything up: the writer need not wait for this reader meanwhile.
    pub fn offline_while<R>(&mut self, sleep: impl FnOnce() -> R) -> R {
        self.epoch.offline();
        let _online_again = Offline(&self.epoch);
        sleep()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::tables::Key;
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicUsize;

    /// How many parts of a test there are.
    struct Part<const TEST: usize>(u64);

    static ALIVE: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

    fn alive<const TEST: usize>() -> usize {
        ALIVE[TEST].load(Ordering::SeqCst)
    }

    impl<const TEST: usize> Part<TEST> {
        fn new(value: u64) -> Self {
            ALIVE[TEST].fetch_add(1, Ordering::SeqCst);
            Self(value)
        }
    }

    impl<const TEST: usize> Default for Part<TEST> {
        fn default() -> Self {
            Self::new(0)
        }
    }

    impl<const TEST: usize> Drop for Part<TEST> {
        fn drop(&mut self) {
            ALIVE[TEST].fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// A publisher of one part, which is 0.
    fn published<const TEST: usize>() -> Option<(Publisher, Key<Part<TEST>>)> {
        let mut schema = Schema::default();
        schema.part::<Part<TEST>>();
        Some((Publisher::new(&schema), schema.key()?))
    }

    #[test]
    fn a_version_lives_as_long_as_a_worker_can_see_it_and_no_longer() {
        let (mut publisher, key) = published::<0>().unwrap();
        let mut worker = publisher.reader();
        assert_eq!(worker.tables().get(key).0, 0);
        let mut draft = publisher.draft();
        draft.set(key, Part::new(7));
        let held = worker.tables();
        publisher.publish(draft);
        assert_eq!((held.get(key).0, alive::<0>()), (0, 2), "the worker still holds the old one");
        assert_eq!(worker.tables().get(key).0, 7);
        worker.quiesce();
        assert_eq!((publisher.reclaim(), alive::<0>()), (0, 1));
        drop((worker, publisher));
        assert_eq!(alive::<0>(), 0);
    }

    #[test]
    fn a_version_that_a_worker_sees_outlives_its_publisher() {
        let (mut publisher, key) = published::<1>().unwrap();
        let worker = publisher.reader();
        let held = worker.tables();
        let mut draft = publisher.draft();
        draft.set(key, Part::new(7));
        publisher.publish(draft);
        drop(publisher);
        assert_eq!(alive::<1>(), 2);
        assert_eq!((held.get(key).0, worker.tables().get(key).0), (0, 7));
        drop(worker);
        assert_eq!(alive::<1>(), 0);
    }

    #[test]
    fn a_worker_whose_sleep_panics_reads_again() {
        let (mut publisher, key) = published::<2>().unwrap();
        let mut worker = publisher.reader();
        let slept = catch_unwind(AssertUnwindSafe(|| worker.offline_while(|| panic!("on purpose"))));
        assert!(slept.is_err());
        let held = worker.tables();
        let mut draft = publisher.draft();
        draft.set(key, Part::new(7));
        publisher.publish(draft);
        assert_eq!(alive::<2>(), 2);
        assert_eq!(held.get(key).0, 0);
    }
}
