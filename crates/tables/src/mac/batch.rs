//! Many addresses at once: the sources and destinations of a vector.
//!
//! A CPU waits for a dozen lines at once and works meanwhile; so lines are asked for all the time, some before and some during each loop,
//! and never all of them first. What a key is found to be can't be foreseen, so nothing branches on it: the places of keys that need more
//! are put on a list, which mostly stays empty.

use super::slot::{AtomicU64, Ordering};
use super::table::{Bucket, MacTable, NO_INTERFACE, Seed, WAYS, slot_of};
use super::word::MacKey;

/// Keys that are gone through together.
const BATCH: usize = 256;

/// What the loops need of the machine that they can't do themselves: this crate has no unsafe code.
pub trait Hardware: Copy {
    /// Asks for the cache line at `line`, to be read soon.
    fn soon(self, line: *const u8);

    /// A bit for each of `words` that equals `word`, the first one lowest; loads may be relaxed.
    fn equal(self, words: &[AtomicU64; WAYS], word: u64) -> u8;
}

/// A machine without anything special.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Hardware for Plain {
    #[inline(always)]
    fn soon(self, _: *const u8) {}

    #[inline(always)]
    fn equal(self, words: &[AtomicU64; WAYS], word: u64) -> u8 {
        let is_equal = |way: usize| u8::from(words[way].load(Ordering::Relaxed) == word);
        (0..WAYS).fold(0, |equal, way| equal | is_equal(way) << way)
    }
}

/// An address that was seen as a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The address.
    pub key: MacKey,
    /// Where it was seen, at most [`MacTable::MAX_INTERFACE`].
    pub interface: u32,
}

/// The table's buckets with what finds a key's: in registers for as long as a loop runs.
#[derive(Clone, Copy, Debug)]
pub struct Homes<'t> {
    buckets: &'t [Bucket],
    seed: Seed,
}

impl Homes<'_> {
    /// Asks for the cache line that nearly every key is found in.
    #[inline(always)]
    pub fn soon(&self, key: MacKey, hardware: impl Hardware) {
        hardware.soon(core::ptr::from_ref(self.home(key)).cast());
    }

    #[inline(always)]
    fn home(&self, key: MacKey) -> &Bucket {
        // Their number is a power of two.
        &self.buckets[MacTable::hash(key, self.seed) as usize & (self.buckets.len() - 1)]
    }
}

impl MacTable {
    /// Where keys lie.
    #[inline(always)]
    #[must_use]
    pub fn homes(&self) -> Homes<'_> {
        Homes { buckets: self.buckets_slice(), seed: self.seed() }
    }

    /// [`lookup`](Self::lookup) of many: `out[i]` becomes the interface of `keys[i]`, or [`NO_INTERFACE`]. Where the slices differ in
    /// length the shorter one counts. [`MacKey::NONE`] is known nowhere.
    ///
    /// The lines of the first `ahead` keys should be on their way by [`Homes::soon`]; those of others are asked for as many places before
    /// they are searched.
    #[inline(always)]
    pub fn lookup_batch(&self, keys: &[MacKey], ahead: usize, out: &mut [u32], hardware: impl Hardware) {
        let homes = self.homes();
        let mut next = keys.iter().skip(ahead);
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let (mut missing, mut len) = ([0; BATCH], 0);
            for (at, (key, out)) in keys.iter().zip(&mut *out).enumerate() {
                if let Some(next) = next.next() {
                    homes.soon(*next, hardware);
                }
                let found = interface_in(homes.home(*key), *key, hardware);
                *out = found;
                missing[len % BATCH] = at as u8;
                len += usize::from((found == NO_INTERFACE) & (*key != MacKey::NONE));
            }
            if len > 0 {
                self.lookup_further(keys, &missing[..len], out, hardware);
            }
        }
    }

    /// [`lookup`](Self::lookup) of those of `keys` that aren't in their first bucket.
    #[inline(never)]
    fn lookup_further(&self, keys: &[MacKey], missing: &[u8], out: &mut [u32], hardware: impl Hardware) {
        let missing = || missing.iter().map(|at| usize::from(*at));
        missing().for_each(|at| self.soon_further(keys[at], hardware));
        for at in missing() {
            out[at] = self.lookup(keys[at]).unwrap_or(NO_INTERFACE);
        }
    }

    /// [`learn`](Self::learn) at tick `now` of those that were learned at that interface before and lie in their first bucket, as nearly all
    /// do. The places of all others are handed to `rest`, in order, with their other lines on the way: with them nothing was done.
    ///
    /// Lines should be on their way by [`Homes::soon`]. `meanwhile` is called before each of `seen` with its place: to ask for what is needed
    /// next, so that memory is never idle.
    #[inline(always)]
    pub fn refresh_batch(
        &self,
        seen: &[Seen],
        now: u16,
        hardware: impl Hardware,
        mut meanwhile: impl FnMut(usize),
        mut rest: impl FnMut(usize),
    ) {
        let homes = self.homes();
        for (chunk, seen) in seen.chunks(BATCH).enumerate() {
            let (mut left, mut len) = ([0; BATCH], 0);
            for (at, Seen { key, interface }) in seen.iter().enumerate() {
                meanwhile(chunk * BATCH + at);
                left[len % BATCH] = at as u8;
                len += usize::from(!is_fresh(homes.home(*key), *key, *interface, now, hardware));
            }
            if len > 0 {
                self.refresh_further(seen, &mut left[..len], now, hardware, |at| rest(chunk * BATCH + at));
            }
        }
    }

    /// Refreshes those of `seen` that weren't seen in this tick before; hands the others to `rest`.
    #[inline(never)]
    fn refresh_further(
        &self,
        seen: &[Seen],
        left: &mut [u8],
        now: u16,
        hardware: impl Hardware,
        mut rest: impl FnMut(usize),
    ) {
        let mut len = 0;
        for at in 0..left.len() {
            let place = left[at];
            let Seen { key, interface } = seen[usize::from(place)];
            left[len] = place;
            len += usize::from(!self.refresh(key, interface, now));
        }
        let left = || left[..len].iter().map(|place| usize::from(*place));
        left().for_each(|place| self.soon_further(seen[place].key, hardware));
        left().for_each(&mut rest);
    }
}

/// The interface of `key` if the bucket has it, or [`NO_INTERFACE`].
#[inline(always)]
fn interface_in(bucket: &Bucket, key: MacKey, hardware: impl Hardware) -> u32 {
    let ways = ways_of(bucket, key, hardware);
    slot_of(bucket, ways.trailing_zeros() as usize).interface_of(key).unwrap_or(NO_INTERFACE)
}

/// Whether the bucket has `key` as learned at `interface` in tick `now`. Key and value aren't read as one: between the two the slot may
/// have gone to another key of that interface and tick. Then a station that was removed at this moment isn't added again by this packet.
#[inline(always)]
fn is_fresh(bucket: &Bucket, key: MacKey, interface: u32, now: u16, hardware: impl Hardware) -> bool {
    let ways = ways_of(bucket, key, hardware);
    let value = slot_of(bucket, ways.trailing_zeros() as usize).value();
    (ways != 0) & value.says(interface, now)
}

/// A bit for each slot that likely holds `key`.
#[inline(always)]
fn ways_of(bucket: &Bucket, key: MacKey, hardware: impl Hardware) -> u8 {
    let [keys, _] = bucket;
    hardware.equal(keys, key.word())
}
