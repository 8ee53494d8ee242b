//! The pointer to the current snapshot, and what waits to be freed.

use super::qsbr::{Epoch, Epochs};
use super::tables::{Draft, Schema, Tables};
use core::any::Any;
use core::fmt;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The writer's side of the tables. There is one, in the control thread.
pub struct Publisher {
    current: Arc<Current>,
    epochs: Epochs,
    retired: VecDeque<(u64, Box<dyn Any + Send>)>,
}

/// The pointer to the current snapshot; owns it.
struct Current(AtomicPtr<Tables>);

impl Drop for Current {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::into_raw` and is the last one: publisher and readers are gone.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
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
            current: Arc::new(Current(AtomicPtr::new(tables))),
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
        unsafe { &*self.current.0.load(Ordering::Acquire) }
    }

    /// The next version, to be changed and published.
    #[must_use]
    pub fn draft(&self) -> Draft {
        self.current().draft()
    }

    /// Makes `draft` the current version: one pointer store. Workers see it from their next round on.
    pub fn publish(&mut self, draft: Draft) {
        let old = self.current.0.swap(Box::into_raw(Box::new(draft.0)), Ordering::SeqCst);
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
        // SAFETY: a version is freed only after every online reader has been quiescent since it was replaced. This
        // reader is online except inside `offline_while`, and the returned borrow ends before `quiesce` and
        // `offline_while`, which take `&mut self`.
        unsafe { &*self.current.0.load(Ordering::Acquire) }
    }

    /// Says that nothing is held.
    #[inline(always)]
    pub fn quiesce(&mut self) {
        self.epoch.quiesce();
    }

    /// Does `sleep` without holding anything up: the writer need not wait for this reader meanwhile.
    pub fn offline_while<R>(&mut self, sleep: impl FnOnce() -> R) -> R {
        self.epoch.offline();
        let result = sleep();
        self.epoch.online();
        result
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    static ALIVE: AtomicUsize = AtomicUsize::new(0);

    struct Part(u64);
    impl Default for Part {
        fn default() -> Self {
            ALIVE.fetch_add(1, Ordering::SeqCst);
            Self(0)
        }
    }
    impl Drop for Part {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_version_lives_as_long_as_a_worker_can_see_it_and_no_longer() {
        let mut schema = Schema::default();
        schema.part::<Part>();
        let key = schema.key::<Part>().unwrap();
        let mut publisher = Publisher::new(&schema);
        drop(schema);
        let mut worker = publisher.reader();
        assert_eq!(worker.tables().get(key).0, 0);
        let mut draft = publisher.draft();
        ALIVE.fetch_add(1, Ordering::SeqCst);
        draft.set(key, Part(7));
        let held = worker.tables();
        publisher.publish(draft);
        assert_eq!(
            (held.get(key).0, ALIVE.load(Ordering::SeqCst)),
            (0, 2),
            "the worker still holds the old one"
        );
        assert_eq!(worker.tables().get(key).0, 7);
        worker.quiesce();
        assert_eq!((publisher.reclaim(), ALIVE.load(Ordering::SeqCst)), (0, 1));
        drop((worker, publisher));
        assert_eq!(ALIVE.load(Ordering::SeqCst), 0);
    }
}
