//! What was inserted: needed to find what a withdrawn prefix uncovers, and to show the table.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::NextHopId;
use super::address::Address;

/// One hash table per prefix length. The length isn't stored with each prefix, and a search for the next shorter
/// prefix asks only the lengths that are in use.
#[derive(Debug)]
pub(crate) struct Rib<A> {
    by_length: Vec<HashMap<A, NextHopId, RandomState>>,
    len: usize,
}

impl<A: Address> Rib<A> {
    pub(crate) fn new() -> Self {
        let by_length = (0..=A::BITS).map(|_| HashMap::with_hasher(RandomState::default())).collect();
        Self { by_length, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, prefix: A, len: u8) -> Option<NextHopId> {
        self.by_length.get(usize::from(len))?.get(&prefix).copied()
    }

    pub(crate) fn insert(&mut self, prefix: A, len: u8, id: NextHopId) -> Option<NextHopId> {
        let old = self.by_length.get_mut(usize::from(len))?.insert(prefix, id);
        self.len += usize::from(old.is_none());
        old
    }

    pub(crate) fn remove(&mut self, prefix: A, len: u8) -> Option<NextHopId> {
        let of_length = self.by_length.get_mut(usize::from(len))?;
        let old = of_length.remove(&prefix)?;
        self.len -= 1;
        // Memory follows the table down, in steps far enough apart that it is not moved again and again.
        if of_length.capacity() > 1024 && of_length.len() < of_length.capacity() / 8 {
            of_length.shrink_to(of_length.len() * 2);
        }
        Some(old)
    }

    /// The longest prefix shorter than `len` that contains `prefix`.
    pub(crate) fn cover(&self, prefix: A, len: u8) -> Option<(u8, NextHopId)> {
        self.by_length.iter().enumerate().take(usize::from(len)).rev().find_map(|(shorter, of_length)| {
            if of_length.is_empty() {
                return None;
            }
            of_length.get(&prefix.masked(shorter as u8)).map(|&id| (shorter as u8, id))
        })
    }

    pub(crate) fn rename(&mut self, from: NextHopId, to: NextHopId) -> usize {
        let ids = self.by_length.iter_mut().flat_map(HashMap::values_mut).filter(|id| **id == from);
        ids.map(|id| *id = to).count()
    }

    /// All prefixes, shorter ones first, otherwise in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (A, u8, NextHopId)> {
        self.by_length
            .iter()
            .enumerate()
            .flat_map(|(len, of_length)| of_length.iter().map(move |(&prefix, &id)| (prefix, len as u8, id)))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.by_length.iter().map(HashMap::allocation_size).sum()
    }
}
