//! One slot: a key and a value, and the protocol that keeps them together. See the [module](super).

use super::word::{MacKey, Value};

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The two words of a slot.
#[derive(Clone, Copy)]
pub(super) struct Slot<'a> {
    pub(super) key: &'a AtomicU64,
    pub(super) value: &'a AtomicU64,
}

impl Slot<'_> {
    /// Whether the slot is likely of `key`: to be confirmed by [`read`](Self::read).
    #[inline(always)]
    pub(super) fn may_hold(self, key: MacKey) -> bool {
        self.key.load(Ordering::Relaxed) == key.word()
    }

    #[inline(always)]
    pub(super) fn value(self) -> Value {
        Value::from_word(self.value.load(Ordering::Acquire))
    }

    /// The valid key and value the slot holds.
    #[inline(always)]
    pub(super) fn read(self) -> Option<(MacKey, Value)> {
        let before = self.value();
        // Acquire: who sees a new key sees, next, a value no older than the claim that preceded it.
        let key = self.key.load(Ordering::Acquire);
        let after = self.value();
        before.spans(after).then_some((MacKey::from_word(key), after))
    }

    /// The interface if the slot is of `key`, without a branch: [`read`](Self::read) that also gives up when the value was refreshed
    /// meanwhile.
    #[inline(always)]
    pub(super) fn interface_of(self, key: MacKey) -> Option<u32> {
        let before = self.value();
        let found = self.key.load(Ordering::Acquire);
        let after = self.value();
        (before.is_valid() & (before == after) & (found == key.word())).then_some(after.interface())
    }

    /// Takes the slot if it is empty; gives the claim to [`fill`](Self::fill) it with.
    pub(super) fn claim(self) -> Option<Value> {
        let old = self.value();
        (old.is_empty() && self.replace(old, old.claimed())).then(|| old.claimed())
    }

    /// Publishes a key and its value in a slot claimed before.
    pub(super) fn fill(self, key: MacKey, value: Value) {
        self.key.store(key.word(), Ordering::Release);
        self.value.store(value.word(), Ordering::Release);
    }

    /// Replaces the value if it is still `old`.
    pub(super) fn replace(self, old: Value, new: Value) -> bool {
        self.value.compare_exchange(old.word(), new.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    type Words = (AtomicU64, AtomicU64);

    fn slot(words: &Words) -> Slot<'_> {
        Slot { key: &words.0, value: &words.1 }
    }

    fn key(number: u16) -> MacKey {
        MacKey::new(number, [2, 0, 0, 0, 0, 1])
    }

    fn put(words: &Words, number: u16) -> bool {
        let slot = slot(words);
        let Some(claimed) = slot.claim() else { return false };
        slot.fill(key(number), claimed.set(u32::from(number), 0, false));
        true
    }

    /// Interfaces are the number of the key, so a mixture shows.
    fn check(words: &Words) {
        if let Some((found, value)) = slot(words).read() {
            assert_eq!(value.interface(), u32::from(found.bridge()));
        }
    }

    fn take(words: &Words) {
        if let Some((_, value)) = slot(words).read() {
            slot(words).replace(value, value.cleared());
        }
    }

    #[test]
    fn loom_one_of_two_claims_an_empty_slot() {
        loom::model(|| {
            let words = Arc::new(Words::default());
            let other = {
                let words = Arc::clone(&words);
                thread::spawn(move || put(&words, 2))
            };
            let mine = put(&words, 1);
            check(&words);
            let others = other.join().unwrap();
            assert!(mine != others, "an empty slot is taken, and by one");
            let (found, _) = slot(&words).read().unwrap();
            assert_eq!(found, key(if mine { 1 } else { 2 }));
        });
    }

    /// Whoever read an entry before the slot went to another key can't refresh it afterwards, and nobody sees one
    /// key's value under the other. The first key comes back at the end: only the version tells.
    ///
    /// (loom looks for races between the last two accesses to a word only. A reader that does nothing but load would
    /// be explored in a single order; so this one refreshes first, as learning does.)
    #[test]
    fn loom_readers_see_one_entry_or_none() {
        loom::model(|| {
            let words = Arc::new(Words::default());
            assert!(put(&words, 1));
            let (_, value) = slot(&words).read().unwrap();
            let writer = {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    take(&words);
                    put(&words, 2);
                    take(&words);
                    put(&words, 1);
                })
            };
            slot(&words).replace(value, value.set(1, 7, false));
            check(&words);
            writer.join().unwrap();
            check(&words);
        });
    }

    /// The same of the short way to an interface.
    #[test]
    fn loom_an_interface_is_of_its_key() {
        loom::model(|| {
            let words = Arc::new(Words::default());
            assert!(put(&words, 1));
            let (_, value) = slot(&words).read().unwrap();
            let writer = {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    take(&words);
                    put(&words, 2);
                })
            };
            slot(&words).replace(value, value.set(1, 7, false));
            assert!(slot(&words).interface_of(key(2)).is_none_or(|interface| interface == 2));
            assert!(slot(&words).interface_of(key(1)).is_none_or(|interface| interface == 1));
            writer.join().unwrap();
        });
    }
}
