//! Prefixes and what belongs to each: one hash table per length.

use core::hash::{BuildHasher, Hasher};
use foldhash::fast::{FoldHasher, RandomState};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::address::Address;

/// Neighbouring prefixes that lie side by side in a table: two to the power of this.
const NEAR_BITS: u32 = 5;
const NEAR: u64 = (1 << NEAR_BITS) - 1;

/// A value for each of many prefixes. Prefixes are addresses in host byte order with all bits behind the length clear.
///
/// The length isn't stored with each prefix, and a search for shorter prefixes asks only the lengths that are in use.
/// Prefixes next to each other lie next to each other, so that a table that is filled or emptied in order of address, as routing
/// tables mostly are, takes a cache line for every few of them, not one or two for each.
#[derive(Clone, Debug)]
pub struct Prefixes<A: Address, V> {
    by_length: Vec<HashMap<A::Packed, V, Near>>,
    len: usize,
}

impl<A: Address, V> Default for Prefixes<A, V> {
    fn default() -> Self {
        let random = RandomState::default();
        let table = |len| HashMap::with_hasher(Near { random: random.clone(), shift: A::BITS - len });
        Self { by_length: (0..=A::BITS).map(table).collect(), len: 0 }
    }
}

impl<A: Address, V> Prefixes<A, V> {
    /// Prefixes that have a value.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of exactly this prefix.
    #[inline]
    #[must_use]
    pub fn get(&self, prefix: A, len: u8) -> Option<&V> {
        self.by_length.get(usize::from(len))?.get(&prefix.packed())
    }

    /// As [`Prefixes::get`], to change it.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, prefix: A, len: u8) -> Option<&mut V> {
        self.by_length.get_mut(usize::from(len))?.get_mut(&prefix.packed())
    }

    /// Gives a prefix this value where it has none: `None` then, otherwise the value that it has. Prefixes longer than an address get
    /// none.
    #[inline]
    pub fn get_or_insert(&mut self, prefix: A, len: u8, value: V) -> Option<&mut V> {
        match self.by_length.get_mut(usize::from(len))?.entry(prefix.packed()) {
            Entry::Occupied(entry) => Some(entry.into_mut()),
            Entry::Vacant(entry) => {
                entry.insert(value);
                self.len += 1;
                None
            }
        }
    }

    /// Takes the value of a prefix away.
    pub fn remove(&mut self, prefix: A, len: u8) -> Option<V> {
        let of_length = self.by_length.get_mut(usize::from(len))?;
        let old = of_length.remove(&prefix.packed())?;
        self.len -= 1;
        // Memory follows the table down, in steps far enough apart that it is not moved again and again.
        if of_length.capacity() > 1024 && of_length.len() < of_length.capacity() / 8 {
            of_length.shrink_to(of_length.len() * 2);
        }
        Some(old)
    }

    /// The longest prefix shorter than `len` that contains `prefix`.
    #[must_use]
    pub fn cover(&self, prefix: A, len: u8) -> Option<(u8, &V)> {
        self.by_length.iter().enumerate().take(usize::from(len)).rev().find_map(|(shorter, of_length)| {
            if of_length.is_empty() {
                return None;
            }
            of_length.get(&prefix.masked(shorter as u8).packed()).map(|value| (shorter as u8, value))
        })
    }

    /// All values, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.by_length.iter_mut().flat_map(HashMap::values_mut)
    }

    /// All prefixes, shorter ones first, otherwise in no order.
    pub fn iter(&self) -> impl Iterator<Item = (A, u8, &V)> {
        self.by_length.iter().enumerate().flat_map(|(len, of_length)| {
            of_length.iter().map(move |(prefix, value)| (A::unpacked(*prefix), len as u8, value))
        })
    }

    /// Memory of the tables, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.by_length.iter().map(HashMap::allocation_size).sum()
    }
}

/// Hashes of prefixes of one length: keyed, and the same but for a few low bits for neighbours. Who can choose prefixes can fill
/// such a neighbourhood, which has a place for each of its prefixes, but not have neighbourhoods meet.
#[derive(Clone, Debug)]
struct Near {
    random: RandomState,
    /// Bits of an address behind a prefix.
    shift: u8,
}

impl BuildHasher for Near {
    type Hasher = NearHasher;

    #[inline]
    fn build_hasher(&self) -> NearHasher {
        NearHasher { hood: self.random.build_hasher(), shift: self.shift.into(), place: 0 }
    }
}

struct NearHasher {
    hood: FoldHasher<'static>,
    shift: u32,
    place: u64,
}

impl Hasher for NearHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.hood.write(bytes);
    }

    #[inline]
    fn write_u32(&mut self, address: u32) {
        let prefix = u64::from(address) >> self.shift;
        self.place = prefix & NEAR;
        self.hood.write_u64(prefix >> NEAR_BITS);
    }

    #[inline]
    fn write_u128(&mut self, address: u128) {
        let prefix = address.checked_shr(self.shift).unwrap_or(0);
        // Subnets of IPv6 are mostly numbered in steps of digits or bytes: those that end with as many zeros are neighbours.
        let zeros = prefix.trailing_zeros() & 0x7c;
        let number = prefix >> zeros;
        self.place = number as u64 & NEAR;
        self.hood.write_u128(number >> NEAR_BITS | u128::from(zeros) << (128 - 7));
    }

    /// The table takes the low bits as the place and compares the upper seven before it looks at a key: both have to differ among
    /// neighbours.
    #[inline]
    fn finish(&self) -> u64 {
        (self.hood.finish() & !NEAR | self.place) ^ self.place << (64 - 7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_lie_side_by_side_and_strangers_do_not() {
        fn places<A: Address>(len: u8, step: u128) -> Vec<u64> {
            let prefixes = Prefixes::<A, ()>::default();
            let near = prefixes.by_length[usize::from(len)].hasher();
            let at = |n: u128| A::narrow((n * step) << (128 - u32::from(len)));
            (0..64).map(|n| near.hash_one(at(n).packed())).collect()
        }
        let block = |place: &u64| place & !NEAR & 0xffff_ffff;
        for places in [places::<u32>(24, 1), places::<u32>(32, 1)] {
            let hood = &places[..32];
            assert!((0..).zip(hood).all(|(at, place)| block(place) == block(&hood[0]) && place & NEAR == at));
            assert_ne!(block(&places[32]), block(&hood[0]));
            let tags: std::collections::BTreeSet<u64> = hood.iter().map(|hash| hash >> 57).collect();
            assert_eq!(tags.len(), 32, "none is compared in vain");
        }
        // Numbered one by one, by digits, by bytes: all but those that end with more zeros.
        for places in
            [places::<u128>(48, 1), places::<u128>(128, 1), places::<u128>(48, 16), places::<u128>(64, 256)]
        {
            let ends_alike = |(at, _): &(usize, &u64)| at % 16 != 0;
            let hood: Vec<&u64> =
                places[..32].iter().enumerate().filter(ends_alike).map(|(_, place)| place).collect();
            assert!(hood.iter().all(|place| block(place) == block(hood[0])));
            assert_ne!(block(&places[33]), block(hood[0]));
            let tags: std::collections::BTreeSet<u64> = hood.iter().map(|hash| *hash >> 57).collect();
            let at: std::collections::BTreeSet<u64> = hood.iter().map(|hash| *hash & NEAR).collect();
            assert_eq!((tags.len(), at.len()), (30, 30), "none is compared in vain");
        }
        for far in [places::<u32>(32, 256), places::<u128>(48, 0x301)] {
            let distinct: std::collections::BTreeSet<u64> =
                far.iter().map(|hash| hash & 0xffff_ffff).collect();
            assert_eq!(distinct.len(), 64);
        }
    }

    #[test]
    fn values_are_kept_by_prefix_and_length() {
        let mut prefixes = Prefixes::<u32, u32>::default();
        for n in 0..100_000u32 {
            assert!(prefixes.get_or_insert(n << 8, 24, n).is_none());
            assert!(prefixes.get_or_insert(n << 8, 25, n + 1).is_none());
        }
        assert_eq!(prefixes.get_or_insert(7 << 8, 24, 0), Some(&mut 7));
        assert_eq!(
            (prefixes.len(), prefixes.get(9 << 8, 24), prefixes.get(9 << 8, 25)),
            (200_000, Some(&9), Some(&10))
        );
        assert_eq!(prefixes.cover(9 << 8, 25), Some((24, &9)));
        let full = prefixes.bytes();
        for n in 0..100_000u32 {
            assert_eq!(prefixes.remove(n << 8, 24), Some(n));
            assert_eq!(prefixes.remove(n << 8, 24), None);
        }
        assert_eq!((prefixes.len(), prefixes.cover(9 << 8, 25)), (100_000, None));
        assert!(prefixes.bytes() < full * 3 / 4);
        assert_eq!(prefixes.get_or_insert(0, 33, 1), None);
        assert_eq!(prefixes.get(0, 33), None, "no address is that long");
    }
}
