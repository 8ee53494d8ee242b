//! Lengths of a stream's frames.

use super::modifier::{mix, seed};
use core::fmt;
use core::str::FromStr;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Longest frame, in bytes.
pub const MAX: usize = 65_535;
/// Lengths that are drawn in advance for a random range, and repeated.
const DRAWN: u64 = 8192;
/// CSIT's mix: how many frames of each length.
const IMIX: [(usize, usize); 3] = [(28, 64), (16, 570), (4, 1518)];

/// Lengths of frames in bytes, without FCS unless said otherwise where they are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// All the same.
    Fixed(usize),
    /// These, in turn.
    List(Vec<usize>),
    /// CSIT's mix for IPv4: 28 × 64, 16 × 570, 4 × 1518, evenly mixed.
    Imix,
    /// Any of a range, evenly drawn.
    Random(usize, usize),
}

impl Size {
    /// The different lengths, and the order in which frames take them (places in the first list); `fcs` bytes of each are not
    /// sent.
    ///
    /// # Errors
    /// What is wrong with a length.
    pub fn pattern(&self, fcs: usize, random_seed: u64) -> Result<(Vec<usize>, Vec<u16>), String> {
        let order: Vec<usize> = match self {
            Self::Fixed(len) => vec![*len],
            Self::List(lens) => lens.clone(),
            Self::Imix => imix(),
            Self::Random(min, max) => {
                let (span, first) = ((max - min + 1) as u64, seed(random_seed, 0));
                (0..DRAWN)
                    .map(|n| min + (((mix(first.wrapping_add(n)) >> 32) * span) >> 32) as usize)
                    .collect()
            }
        };
        let mut lens: Vec<usize> = order.clone();
        lens.sort_unstable();
        lens.dedup();
        if let Some(len) = lens.iter().find(|len| **len > MAX || **len <= fcs) {
            return Err(format!("frame size {len} is out of range: 1 to {MAX} bytes are possible"));
        }
        // At most DRAWN, or the entries of a list.
        let place = |len: &usize| lens.binary_search(len).unwrap_or(0) as u16;
        let order = order.iter().map(place).collect();
        Ok((lens.into_iter().map(|len| len - fcs).collect(), order))
    }
}

/// The mix in an order that spreads each length evenly: whoever is furthest behind its share comes next.
fn imix() -> Vec<usize> {
    let all: usize = IMIX.iter().map(|(count, _)| count).sum();
    let mut sent = [0; IMIX.len()];
    let mut order = Vec::with_capacity(all);
    for n in 1..=all {
        let behind = |at: &usize| (IMIX[*at].0 * n) as i64 - (sent[*at] * all) as i64;
        let at = (0..IMIX.len()).max_by_key(|at| (behind(at), core::cmp::Reverse(*at))).unwrap_or(0);
        sent[at] += 1;
        order.push(IMIX[at].1);
    }
    order
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| -> Result<usize, String> {
            let len = text.trim().parse().map_err(|_| {
                format!(
                    "{text:?} is no frame size: give bytes (64), a list (64,512), a range (64-1518) or imix"
                )
            })?;
            checked(len)
        };
        if text == "imix" {
            return Ok(Self::Imix);
        }
        if let Some((min, max)) = text.split_once('-') {
            return random(number(min)?, number(max)?);
        }
        match text.split(',').map(number).collect::<Result<Vec<_>, _>>()?.as_slice() {
            [one] => Ok(Self::Fixed(*one)),
            list => Ok(Self::List(list.to_vec())),
        }
    }
}

fn checked(len: usize) -> Result<usize, String> {
    if (1..=MAX).contains(&len) {
        Ok(len)
    } else {
        Err(format!("frame size {len} is out of range: 1 to {MAX} bytes"))
    }
}

fn random(min: usize, max: usize) -> Result<Size, String> {
    if min > max {
        Err(format!("frame sizes {min}-{max}: the first is greater; swap them"))
    } else {
        Ok(Size::Random(min, max))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(len) => len.fmt(f),
            Self::List(lens) => f.write_str(&lens.iter().map(usize::to_string).collect::<Vec<_>>().join(",")),
            Self::Imix => f.write_str("imix"),
            Self::Random(min, max) => write!(f, "{min}-{max}"),
        }
    }
}

struct SizeVisitor;

impl<'de> Visitor<'de> for SizeVisitor {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a frame size: bytes (64), a list ([64, 512]), a range (\"64-1518\") or \"imix\"")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Size, E> {
        let len = usize::try_from(number).unwrap_or(0);
        checked(len).map(Size::Fixed).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Size, A::Error> {
        let mut lens = Vec::new();
        while let Some(len) = seq.next_element::<usize>()? {
            lens.push(checked(len).map_err(A::Error::custom)?);
        }
        if lens.is_empty() || lens.len() > 4096 {
            return Err(A::Error::custom("a list of frame sizes has 1 to 4096 of them"));
        }
        Ok(Size::List(lens))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_csits_and_even() {
        let (lens, order) = Size::Imix.pattern(4, 1).unwrap();
        assert_eq!(lens, [60, 566, 1514]);
        let count = |place: u16| order.iter().filter(|at| **at == place).count();
        assert_eq!((count(0), count(1), count(2)), (28, 16, 4));
        let longest = order.split(|at| *at == 2).map(<[u16]>::len).max();
        assert!(longest <= Some(14), "long frames are spread: {longest:?}");
    }

    #[test]
    fn texts() {
        assert_eq!("64".parse(), Ok(Size::Fixed(64)));
        assert_eq!("64,570,1518".parse(), Ok(Size::List(vec![64, 570, 1518])));
        assert_eq!("64-128".parse(), Ok(Size::Random(64, 128)));
        assert_eq!("imix".parse(), Ok(Size::Imix));
        for bad in ["", "x", "0", "70000", "128-64", "64,"] {
            let error = bad.parse::<Size>().unwrap_err();
            assert!(error.contains("frame size"), "{bad}: {error}");
        }
    }

    #[test]
    fn random_lengths_fill_their_range_and_repeat_by_seed() {
        let (lens, order) = Size::Random(100, 120).pattern(0, 7).unwrap();
        assert_eq!(lens, (100..=120).collect::<Vec<_>>());
        assert_eq!(order, Size::Random(100, 120).pattern(0, 7).unwrap().1);
        assert_ne!(order, Size::Random(100, 120).pattern(0, 8).unwrap().1);
    }
}
