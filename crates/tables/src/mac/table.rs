//! Buckets and lookups.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicUsize};

use super::batch::Hardware;
use super::quota::{BRIDGES, MEMBERS};
use super::slot::{AtomicU64, Slot};
use super::word::{INTERFACE_BITS, MacEntry, MacKey, Value};
use crate::zeroed::LineAligned;

/// What [`MacTable::lookup_batch`] gives for an address that isn't known.
pub const NO_INTERFACE: u32 = u32::MAX;

/// Slots of a bucket.
pub(super) const WAYS: usize = 4;
/// One cache line: keys, then values.
pub(super) type Bucket = [[AtomicU64; WAYS]; 2];
/// Buckets a key may lie in.
pub(super) const PLACES: usize = 4;

/// Why a table or an entry can't be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MacError {
    /// The system doesn't give that much memory.
    #[error("a table for {addresses} MAC addresses can't be reserved: lower the number")]
    Reserve {
        /// Addresses asked for.
        addresses: usize,
    },
    /// All buckets of the address are full.
    #[error("no room for {key}: flush addresses that aren't needed, or create the table for more")]
    Full {
        /// The address.
        key: MacKey,
    },
    /// The number of the interface doesn't fit an entry.
    #[error("interface {interface} is above {}", MacTable::MAX_INTERFACE)]
    Interface {
        /// The interface.
        interface: u32,
    },
}

/// MAC addresses of all bridges, shared by workers and control thread; see the [module](super).
#[derive(Debug)]
pub struct MacTable {
    pub(super) words: LineAligned<AtomicU64>,
    mask: usize,
    seed: Seed,
    /// Per slot: its history of moves. Memory of its own, which only moves touch.
    pub(super) histories: LineAligned<AtomicU64>,
    /// Slots that have one.
    pub(super) moved: AtomicUsize,
    pub(super) reviewed: AtomicUsize,
    /// Counts and limits per bridge and per member: see `quota`.
    pub(super) bridges: LineAligned<AtomicU32>,
    pub(super) members: LineAligned<AtomicU32>,
    pub(super) entries: AtomicUsize,
    pub(super) cursor: AtomicUsize,
}

/// The key of the hash. Both words are secret: with a known multiplier, sets of addresses that collide under many keys can be computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed {
    mask: u64,
    /// Odd.
    multiplier: u64,
}

impl Seed {
    fn random() -> Self {
        let random = RandomState::new();
        Self { mask: random.hash_one(0), multiplier: random.hash_one(1) | 1 }
    }
}

/// A slot and what it said of the key looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) slot: usize,
    pub(super) value: Value,
}

impl MacTable {
    /// The greatest interface number, 2^24 − 1.
    pub const MAX_INTERFACE: u32 = (1 << INTERFACE_BITS) - 1;

    /// An empty table for that many addresses: twice as many slots, rounded up to a power of two, 16 bytes each, and 8 where addresses move.
    /// Memory is taken as it fills.
    ///
    /// # Errors
    /// [`MacError::Reserve`] if the system refuses the memory.
    pub fn with_capacity(addresses: usize) -> Result<Self, MacError> {
        Self::reserve(addresses).ok_or(MacError::Reserve { addresses })
    }

    fn reserve(addresses: usize) -> Option<Self> {
        let slots = addresses.max(WAYS).checked_mul(2)?.checked_next_power_of_two()?;
        let buckets = slots / WAYS;
        Some(Self {
            words: LineAligned::zeroed(slots.checked_mul(2)?)?,
            mask: buckets - 1,
            seed: Seed::random(),
            histories: LineAligned::zeroed(slots)?,
            moved: AtomicUsize::new(0),
            reviewed: AtomicUsize::new(0),
            bridges: LineAligned::zeroed(BRIDGES)?,
            members: LineAligned::zeroed(MEMBERS)?,
            entries: AtomicUsize::new(0),
            cursor: AtomicUsize::new(0),
        })
    }

    /// Number of buckets, the unit of [`age`](Self::age)'s budget.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.mask + 1
    }

    /// All memory of the buckets, for who wants it backed before it is needed.
    #[must_use]
    pub fn memory(&self) -> &[impl Sized] {
        self.buckets_slice()
    }

    /// The interface of `key`.
    #[inline]
    #[must_use]
    pub fn lookup(&self, key: MacKey) -> Option<u32> {
        self.find(key).map(|found| found.value.interface())
    }

    /// All that is known of `key`.
    #[must_use]
    pub fn get(&self, key: MacKey) -> Option<MacEntry> {
        self.find(key).map(|found| entry(key, found.value))
    }

    /// Has `hardware` ask for the lines of a key that isn't in its first bucket, but for the one that has the fewest.
    #[inline]
    pub(super) fn soon_further(&self, key: MacKey, hardware: impl Hardware) {
        let [_, likely @ .., _] = self.places(key);
        let line = |bucket: usize| core::ptr::from_ref(&self.buckets_slice()[bucket]).cast();
        likely.into_iter().for_each(|bucket| hardware.soon(line(bucket)));
    }

    #[inline(always)]
    pub(super) fn buckets_slice(&self) -> &[Bucket] {
        self.words.as_slice().as_chunks().0.as_chunks().0
    }

    #[inline(always)]
    pub(super) fn seed(&self) -> Seed {
        self.seed
    }

    #[inline(always)]
    pub(super) fn hash(key: MacKey, seed: Seed) -> u64 {
        let fold = |product: u128| (product as u64) ^ (product >> 64) as u64;
        let keyed = fold(u128::from(key.word() ^ seed.mask) * u128::from(seed.multiplier));
        // Some multipliers spread addresses that follow each other badly. This one is known not to.
        fold(u128::from(keyed) * 0x9e37_79b9_7f4a_7c15)
    }

    /// The first of the buckets that `key` may lie in, where nearly all lie.
    #[inline(always)]
    fn home(&self, key: MacKey) -> usize {
        Self::hash(key, self.seed) as usize & self.mask
    }

    /// The buckets that `key` may lie in, two pairs of neighbours: first the first of either.
    #[inline]
    pub(super) fn places(&self, key: MacKey) -> [usize; PLACES] {
        let hash = Self::hash(key, self.seed);
        let [near, far] = [0, 32].map(|bits| (hash >> bits) as usize & self.mask);
        // Not twice the same pair, if there are two.
        let far = if far / 2 == near / 2 { (far ^ 2) & self.mask } else { far };
        [near, far, near ^ 1, far ^ 1]
    }

    /// The slots of `key`, in the order all agree on.
    pub(super) fn slots(&self, key: MacKey) -> impl Iterator<Item = usize> {
        self.places(key).into_iter().flat_map(slots_of)
    }

    #[inline]
    pub(super) fn find(&self, key: MacKey) -> Option<Found> {
        self.places(key).into_iter().find_map(|bucket| self.find_in(bucket, key))
    }

    /// [`find`](Self::find) in the first bucket only.
    #[inline(always)]
    pub(super) fn find_at_home(&self, key: MacKey) -> Option<Found> {
        self.find_in(self.home(key), key)
    }

    #[inline(always)]
    fn find_in(&self, at: usize, key: MacKey) -> Option<Found> {
        let bucket = &self.buckets_slice()[at];
        let (way, value) = read_ways(bucket, ways_of(bucket, key), key)?;
        Some(Found { slot: at * WAYS + way, value })
    }

    pub(super) fn slot(&self, slot: usize) -> Slot<'_> {
        slot_of(&self.buckets_slice()[slot / WAYS], slot % WAYS)
    }

    /// The value in `slot`, if the slot is of `key`.
    pub(super) fn read(&self, slot: usize, key: MacKey) -> Option<Found> {
        let (found, value) = self.slot(slot).read()?;
        (found == key).then_some(Found { slot, value })
    }
}

/// The slots of a bucket.
pub(super) fn slots_of(bucket: usize) -> std::ops::Range<usize> {
    bucket * WAYS..(bucket + 1) * WAYS
}

#[inline(always)]
pub(super) fn slot_of(bucket: &Bucket, way: usize) -> Slot<'_> {
    let [keys, values] = bucket;
    Slot { key: &keys[way % WAYS], value: &values[way % WAYS] }
}

/// A bit for each slot that likely holds `key`. All are compared, without a branch: which it is can't be predicted.
#[inline(always)]
fn ways_of(bucket: &Bucket, key: MacKey) -> u8 {
    (0..WAYS).fold(0, |ways, way| ways | u8::from(slot_of(bucket, way).may_hold(key)) << way)
}

/// The first of `ways` that really holds `key`, and its value.
#[inline(always)]
fn read_ways(bucket: &Bucket, mut ways: u8, key: MacKey) -> Option<(usize, Value)> {
    while ways != 0 {
        let way = ways.trailing_zeros() as usize;
        match slot_of(bucket, way).read() {
            Some((found, value)) if found == key => return Some((way, value)),
            _ => ways &= ways - 1,
        }
    }
    None
}

pub(super) fn entry(key: MacKey, value: Value) -> MacEntry {
    MacEntry { key, interface: value.interface(), stamp: value.stamp(), is_static: value.is_static() }
}
