//! Something by key that one writes and all workers read: published as a whole, changed a part at a time.

use super::{Key, Seed};
use hashbrown::HashTable;
use std::sync::Arc;

/// Parts: who changes one key copies one of them.
const PARTS: usize = 256;

/// Values by key. A clone shares all parts with what it was made of; a change copies the part that it falls into, where
/// somebody else has that, too.
#[derive(Clone, Debug)]
pub struct Directory<V> {
    seed: Seed,
    /// None, or all of them.
    parts: Vec<Arc<HashTable<(Key, V)>>>,
    len: usize,
}

impl<V> Default for Directory<V> {
    fn default() -> Self {
        Self { seed: Seed::default(), parts: Vec::new(), len: 0 }
    }
}

/// The hash as the tables want it: the part in the upper bits, what is left where they look for it.
#[inline(always)]
const fn spread(hash: u32) -> u64 {
    (hash.rotate_left(16) as u64) << 32 | hash as u64
}

#[inline(always)]
const fn part(hash: u32) -> usize {
    (hash >> 24) as usize % PARTS
}

impl<V> Directory<V> {
    /// Number of keys.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What is known of a key.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&V> {
        let hash = self.seed.hash(key);
        let part = self.parts.get(part(hash))?;
        part.find(spread(hash), |(have, _)| have == key).map(|(_, value)| value)
    }
}

impl<V: Clone> Directory<V> {
    /// Says what is known of a key, which `change` is given to change; `None` where nothing is, before and after.
    pub fn change(&mut self, key: &Key, change: impl FnOnce(&mut Option<V>)) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, Arc::default);
        }
        let (seed, hash) = (self.seed, self.seed.hash(key));
        let Some(part) = self.parts.get_mut(part(hash)) else { return };
        let part = Arc::make_mut(part);
        let taken = part.find_entry(spread(hash), |(have, _)| have == key).ok();
        let mut value = taken.map(|entry| entry.remove().0.1);
        let before = value.is_some();
        change(&mut value);
        self.len = self.len - usize::from(before) + usize::from(value.is_some());
        if let Some(value) = value {
            part.insert_unique(spread(hash), (*key, value), |(key, _)| spread(seed.hash(key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn key(number: u32) -> Key {
        Key::v4(7, 6, (number, 80), (number, 80)).0
    }

    #[test]
    fn what_was_there_stays_for_who_has_it() {
        let mut directory = Directory::default();
        assert_eq!((directory.get(&key(1)), directory.len()), (None, 0));
        let mut model = BTreeMap::new();
        for number in 0..5000 {
            directory.change(&key(number % 3000), |value| *value = Some(number));
            model.insert(number % 3000, number);
        }
        let before = directory.clone();
        for number in (0..3000).filter(|number| number % 2 == 0) {
            directory.change(&key(number), |value| *value = None);
        }
        directory.change(&key(1), |value| *value = value.map(|value| value + 1));
        directory.change(&key(9999), |value| assert_eq!(*value, None));
        assert_eq!((before.len(), directory.len()), (3000, 1500));
        for (number, value) in model {
            assert_eq!(before.get(&key(number)), Some(&value));
            let kept = (number % 2 == 1).then_some(if number == 1 { value + 1 } else { value });
            assert_eq!(directory.get(&key(number)), kept.as_ref());
        }
    }

    #[test]
    fn a_change_copies_one_part() {
        let mut directory = Directory::default();
        (0..1000).for_each(|number| directory.change(&key(number), |value| *value = Some(number)));
        let before = directory.clone();
        directory.change(&key(5), |value| *value = Some(6));
        let same = before.parts.iter().zip(&directory.parts).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(same, PARTS - 1);
    }
}
