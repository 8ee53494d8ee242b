//! Quiescent-state-based reclamation: when has every reader let go of what was replaced?
//!
//! The writer moves a global epoch on after each replacement; a reader copies the epoch when it holds nothing. What was
//! replaced at epoch `e` is free once every reader has copied `e` or a later one, or is offline (asleep, holding nothing).

use crate::sync::{Arc, AtomicU64, Ordering, fence};

/// A reader that is asleep and holds nothing.
const OFFLINE: u64 = u64::MAX;

#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

/// The writer's side.
#[derive(Debug)]
pub struct Epochs {
    global: Arc<Line>,
    readers: Vec<Arc<Line>>,
}

/// One reader's side; it begins offline.
#[derive(Debug)]
pub struct Epoch {
    global: Arc<Line>,
    own: Arc<Line>,
}

impl Default for Epochs {
    fn default() -> Self {
        Self::new()
    }
}

impl Epochs {
    /// No readers yet.
    #[must_use]
    pub fn new() -> Self {
        Self { global: Arc::new(Line(AtomicU64::new(1))), readers: Vec::new() }
    }

    /// A new reader.
    pub fn reader(&mut self) -> Epoch {
        let own = Arc::new(Line(AtomicU64::new(OFFLINE)));
        self.readers.push(Arc::clone(&own));
        Epoch { global: Arc::clone(&self.global), own }
    }

    /// To be called **after** something was replaced: the mark that every reader has to pass before it may be freed.
    #[must_use]
    pub fn advance(&self) -> u64 {
        self.global.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether every reader has let go of what was replaced before `mark` was taken.
    #[must_use]
    pub fn passed(&self, mark: u64) -> bool {
        // Pairs with the fence in `online`: either this sees that the reader is online, or the reader sees what
        // was published before `mark`.
        fence(Ordering::SeqCst);
        self.readers.iter().all(|reader| reader.0.load(Ordering::Acquire) >= mark)
    }
}

impl Epoch {
    /// The reader holds nothing at this moment. One load of a line that changes only with the tables, one store to
    /// the reader's own line.
    #[inline]
    pub fn quiesce(&self) {
        let seen = self.global.0.load(Ordering::Acquire);
        if self.own.0.load(Ordering::Relaxed) != seen {
            // Release: all that was read before is finished before the writer may see this.
            self.own.0.store(seen, Ordering::Release);
        }
    }

    /// The reader holds nothing until [`Epoch::online`]: the writer need not wait for it.
    pub fn offline(&self) {
        self.own.0.store(OFFLINE, Ordering::Release);
    }

    /// The reader begins to read (again).
    pub fn online(&self) {
        let seen = self.global.0.load(Ordering::Acquire);
        self.own.0.store(seen, Ordering::SeqCst);
        // Pairs with the fence in `passed`.
        fence(Ordering::SeqCst);
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        self.offline();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::thread;

    /// Values 1 and 2 stand for two versions of a table; "freed" is the atomic at the version's place.
    #[test]
    fn loom_nothing_is_freed_while_a_reader_holds_it() {
        loom::model(|| {
            let freed = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
            let current = Arc::new(AtomicU64::new(0));
            let mut epochs = Epochs::new();
            let reader = epochs.reader();
            let (shared, seen) = (Arc::clone(&current), freed.clone());
            let worker = thread::spawn(move || {
                reader.online();
                for _ in 0..2 {
                    let version = shared.load(Ordering::Acquire) as usize;
                    assert_eq!(
                        seen[version].load(Ordering::Relaxed),
                        0,
                        "version {version} was freed while held"
                    );
                    reader.quiesce();
                }
                reader.offline();
            });
            current.store(1, Ordering::SeqCst);
            let mark = epochs.advance();
            if epochs.passed(mark) {
                freed[0].store(1, Ordering::Relaxed);
            }
            worker.join().unwrap();
            assert!(epochs.passed(mark), "an offline reader holds nothing up");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_reader_holds_up_only_what_it_may_still_see() {
        let mut epochs = Epochs::new();
        let (a, b) = (epochs.reader(), epochs.reader());
        a.online();
        let mark = epochs.advance();
        assert!(!epochs.passed(mark), "a has not been quiescent since");
        a.quiesce();
        assert!(epochs.passed(mark), "b is offline");
        b.online();
        assert!(epochs.passed(mark), "b came later");
        let later = epochs.advance();
        a.quiesce();
        assert!(!epochs.passed(later));
        drop(b);
        assert!(epochs.passed(later), "a reader that is gone holds nothing");
    }
}
