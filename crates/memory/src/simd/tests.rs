//! All tiers do the same, and no byte more.

use super::*;
use core::sync::atomic::AtomicU64;

struct Copy<'a>(&'a mut [u8], &'a [u8]);
impl TierTask for Copy<'_> {
    type Output = ();
    fn run<S: Simd>(self, s: S) {
        assert!(self.0.len() >= self.1.len());
        // SAFETY: two slices, one of them exclusive, of at least that length.
        s.run(|| unsafe { s.copy(self.0.as_mut_ptr(), self.1.as_ptr(), self.1.len()) });
    }
}

#[test]
fn every_tier_copies_every_length_and_nothing_beyond() {
    let source: Vec<u8> = (0..1100u32).map(|i| (i * 7 + 3) as u8).collect();
    for tier in Tier::available() {
        for len in (0..400).chain([511, 512, 513, 1023, 1024, 1025]) {
            for skew in [0usize, 1, 14, 33] {
                let mut target = vec![0xEE; len + 64];
                tier.dispatch(Copy(&mut target[..len], &source[skew..skew + len]));
                assert_eq!(&target[..len], &source[skew..skew + len], "{} len {len}", tier.name());
                assert!(target[len..].iter().all(|b| *b == 0xEE), "{} wrote beyond {len}", tier.name());
            }
        }
    }
}

struct Read<'a>(&'a Aligned);
#[repr(C, align(64))]
struct Aligned(Line);
impl TierTask for Read<'_> {
    type Output = Line;
    fn run<S: Simd>(self, s: S) -> Line {
        // SAFETY: a line, aligned as one.
        s.run(|| unsafe { s.read_line(&raw const self.0.0) })
    }
}

#[test]
fn every_tier_reads_all_of_a_line() {
    let line = Aligned(core::array::from_fn(|i| 0x0102_0304 * (i as u32 + 1)));
    for tier in Tier::available() {
        assert_eq!(tier.dispatch(Read(&line)), line.0, "{}", tier.name());
    }
}

struct Front<'a>(&'a mut [u8], &'a [u8; 64]);
impl TierTask for Front<'_> {
    type Output = ();
    fn run<S: Simd>(self, s: S) {
        // SAFETY: a line to read, and as many bytes to write as are written.
        s.run(|| unsafe { s.copy_front(self.0.as_mut_ptr(), self.1.as_ptr(), self.0.len()) });
    }
}

#[test]
fn every_tier_copies_the_front_of_a_line_and_nothing_beyond() {
    let line: [u8; 64] = core::array::from_fn(|i| (i * 7 + 3) as u8);
    for tier in Tier::available() {
        for len in 1..=64 {
            let mut target = [0xEE; 128];
            tier.dispatch(Front(&mut target[..len], &line));
            assert_eq!(target[..len], line[..len], "{} len {len}", tier.name());
            assert!(target[len..].iter().all(|b| *b == 0xEE), "{} wrote beyond {len}", tier.name());
        }
    }
}

struct Lines(Line, u32, u32);
impl TierTask for Lines {
    type Output = bool;
    fn run<S: Simd>(self, s: S) -> bool {
        s.run(|| s.line_within(&self.0, &[0xffff_fff7; 16], &[self.1; 16], &[self.2; 16]))
    }
}

#[test]
fn every_tier_compares_each_number_of_a_line() {
    let values = [0, 1, 8, 9, 0x7fff_ffff, 0x8000_0000, 0xffff_fff6, u32::MAX];
    for tier in Tier::available() {
        for at in 0..16 {
            for (low, span) in [
                (0, 0),
                (0, 7),
                (1, u32::MAX - 1),
                (6, 0x7fff_ffff),
                (0x8000_0000, 0),
                (u32::MAX, 0),
                (0, u32::MAX),
            ] {
                for value in values {
                    let mut line = [low & 0xffff_fff7; 16];
                    line[at] = value;
                    let inside = |number: u32| {
                        let seen = u64::from(number & 0xffff_fff7);
                        (u64::from(low)..=u64::from(low) + u64::from(span)).contains(&seen)
                    };
                    let fits = line.iter().all(|number| inside(*number));
                    let same = tier.dispatch(Lines(line, low, span)) == fits;
                    assert!(same, "{} {line:x?} from {low:#x} and {span:#x} more", tier.name());
                }
            }
        }
    }
}

struct Fields {
    row: Row,
    low: u16,
    span: u16,
}
impl TierTask for Fields {
    type Output = (bool, Row);
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let Self { mut row, low, span } = self;
        let fits = s.run(|| s.within(&row, &[0xfff7; 16], &[low; 16], &[span; 16]));
        s.run(|| s.patch(&mut row, &[0x00ff; 16], &[0x8001; 16]));
        (fits, row)
    }
}

#[test]
fn every_tier_compares_and_changes_each_number() {
    let values = [0, 1, 7, 8, 9, 0x7fff, 0x8000, 0xfff6, 0xffff];
    for tier in Tier::available() {
        for at in 0..16 {
            for (low, span) in [(0, 0), (0, 7), (1, 0xfffe), (6, 0x7fff), (0x8000, 0), (0xffff, 0)] {
                for value in values {
                    let mut row = [low & 0xfff7; 16];
                    row[at] = value;
                    let inside = |number: u16| {
                        let seen = u32::from(number & 0xfff7);
                        (u32::from(low)..=u32::from(low) + u32::from(span)).contains(&seen)
                    };
                    let fits = row.iter().all(|number| inside(*number));
                    let changed = row.map(|number| number & 0xff | 0x8001);
                    let same = tier.dispatch(Fields { row, low, span }) == (fits, changed);
                    assert!(same, "{} {row:x?} from {low:#x} and {span:#x} more", tier.name());
                }
            }
        }
    }
}

struct Equal<'a>(&'a [AtomicU64; 4], u64);
impl TierTask for Equal<'_> {
    type Output = u8;
    fn run<S: Simd>(self, s: S) -> u8 {
        s.run(|| s.equal(self.0, self.1))
    }
}

#[test]
fn every_tier_tells_which_words_are_equal() {
    let values = [0, 1, 1 << 32, 1 << 63, u64::MAX];
    for tier in Tier::available() {
        for word in values {
            for other in values.into_iter().filter(|other| *other != word) {
                for equal in 0..16u8 {
                    let is_equal = |at: usize| equal >> at & 1 == 1;
                    let words: [AtomicU64; 4] =
                        core::array::from_fn(|at| AtomicU64::new(if is_equal(at) { word } else { other }));
                    assert_eq!(
                        tier.dispatch(Equal(&words, word)),
                        equal,
                        "{} {word:x} {other:x}",
                        tier.name()
                    );
                }
            }
        }
    }
}

struct StoreFirsts<'a>(&'a [[AtomicU64; 2]; 4], u64);
impl TierTask for StoreFirsts<'_> {
    type Output = ();
    fn run<S: Simd>(self, s: S) {
        s.run(|| s.store_firsts(self.0, self.1));
    }
}

#[test]
fn every_tier_stores_the_first_of_each_pair_and_nothing_beside() {
    for tier in Tier::available() {
        let row = |values: [u64; 2]| core::array::from_fn(|_| values.map(AtomicU64::new));
        let pairs: [[[AtomicU64; 2]; 4]; 3] = [row([1, 2]), row([3, 4]), row([5, 6])];
        tier.dispatch(StoreFirsts(&pairs[1], u64::MAX - 7));
        let read = pairs.map(|row| row.map(|pair| pair.map(AtomicU64::into_inner)));
        assert_eq!(read, [[[1, 2]; 4], [[u64::MAX - 7, 4]; 4], [[5, 6]; 4]], "{}", tier.name());
    }
}

#[test]
fn detection_never_goes_below_the_reference() {
    assert_eq!(Tier::available()[0].name(), "scalar");
    assert!(Tier::named(Tier::detect().name()).is_some());
    assert!(Tier::named("quantum").is_none());
}
