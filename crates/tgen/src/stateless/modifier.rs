//! Fields that change from packet to packet: which numbers they take.

/// Order in which a field goes through its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// From least to most, and again.
    Inc,
    /// From most to least, and again.
    Dec,
    /// Any of the range, evenly; the same in each run of the same seed.
    Random,
    /// These, in turn.
    List(Vec<u64>),
}

/// How a field changes. Fields are numbers here: the bits that may change, without those that stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modifier {
    /// Order.
    pub progress: Progress,
    /// Least number.
    pub min: u64,
    /// Greatest number.
    pub max: u64,
    /// Distance of neighbours, at least 1. `Random` draws from min, min + step, …
    pub step: u64,
}

/// A modifier on its way.
#[derive(Clone, Debug)]
pub struct Values {
    modifier: Modifier,
    /// The next number (`Inc`, `Dec`), how many were drawn (`Random`), or the next place (`List`).
    at: u64,
    /// Numbers to draw from.
    count: u64,
    seed: u64,
}

impl Values {
    /// From the beginning. `seed` matters for `Random` only.
    #[must_use]
    pub fn new(modifier: Modifier, seed: u64) -> Self {
        let at = match &modifier.progress {
            Progress::Inc => modifier.min,
            Progress::Dec => modifier.max,
            Progress::Random | Progress::List(_) => 0,
        };
        let count = ((modifier.max - modifier.min) / modifier.step.max(1)).saturating_add(1);
        Self { modifier, at, count, seed }
    }

    /// Numbers after which it begins again, if it does.
    #[must_use]
    pub fn period(&self) -> Option<u64> {
        match &self.modifier.progress {
            Progress::Inc | Progress::Dec => Some(self.count),
            Progress::List(values) => Some(values.len() as u64),
            Progress::Random => None,
        }
    }

    /// The next numbers.
    #[inline(always)]
    pub fn fill<const N: usize>(&mut self, into: &mut [u64; N]) {
        let Modifier { min, max, step, .. } = self.modifier;
        match &self.modifier.progress {
            Progress::Inc => {
                let ahead = step.checked_mul(N as u64).and_then(|ahead| self.at.checked_add(ahead));
                // Nearly always: no end of the range in sight, and so one vector operation for eight packets.
                if let Some(end) = ahead.filter(|end| *end <= max) {
                    for (n, value) in into.iter_mut().enumerate() {
                        *value = self.at + step * n as u64;
                    }
                    self.at = end;
                    return;
                }
                for value in into {
                    *value = self.at;
                    self.at = self.at.checked_add(step).filter(|next| *next <= max).unwrap_or(min);
                }
            }
            Progress::Dec => {
                for value in into {
                    *value = self.at;
                    self.at = self.at.checked_sub(step).filter(|next| *next >= min).unwrap_or(max);
                }
            }
            Progress::Random => {
                let base = self.seed.wrapping_add(self.at.wrapping_mul(GOLDEN));
                self.at = self.at.wrapping_add(N as u64);
                if self.count <= 1 << 32 {
                    for (n, value) in into.iter_mut().enumerate() {
                        let drawn = mix(base.wrapping_add((n as u64).wrapping_mul(GOLDEN))) >> 32;
                        *value = min + ((drawn * self.count) >> 32) * step;
                    }
                } else {
                    for (n, value) in into.iter_mut().enumerate() {
                        let drawn = mix(base.wrapping_add((n as u64).wrapping_mul(GOLDEN)));
                        let place = ((u128::from(drawn) * u128::from(self.count)) >> 64) as u64;
                        *value = min + place * step;
                    }
                }
            }
            Progress::List(values) => {
                for value in into {
                    *value = values.get(self.at as usize).copied().unwrap_or(min);
                    self.at = if self.at as usize + 1 >= values.len() { 0 } else { self.at + 1 };
                }
            }
        }
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[inline(always)]
#[must_use]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Seed number `n` of a run of this seed.
#[must_use]
pub const fn seed(seed: u64, n: u64) -> u64 {
    mix(seed ^ mix(n.wrapping_add(GOLDEN)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn values(progress: Progress, min: u64, max: u64, step: u64, n: usize) -> Vec<u64> {
        let mut values = Values::new(Modifier { progress, min, max, step }, 42);
        let mut all = Vec::new();
        while all.len() < n {
            let mut some = [0; 16];
            values.fill(&mut some);
            all.extend(some);
        }
        all.truncate(n);
        all
    }

    #[test]
    fn in_turn_and_round() {
        assert_eq!(values(Progress::Inc, 5, 9, 2, 7), [5, 7, 9, 5, 7, 9, 5]);
        assert_eq!(values(Progress::Dec, 5, 9, 2, 7), [9, 7, 5, 9, 7, 5, 9]);
        assert_eq!(values(Progress::Inc, 5, 8, 2, 5), [5, 7, 5, 7, 5], "never beyond the end");
        assert_eq!(values(Progress::List(vec![3, 1, 2]), 0, 9, 1, 5), [3, 1, 2, 3, 1]);
        assert_eq!(values(Progress::Inc, 7, 7, 1, 3), [7, 7, 7]);
    }

    #[test]
    fn the_vector_way_and_the_other_agree() {
        for max in [15, 16, 17, 99, 100, 1000] {
            let expected: Vec<u64> = (0..500).map(|n| n % (max + 1)).collect();
            assert_eq!(values(Progress::Inc, 0, max, 1, 500), expected, "up to {max}");
        }
    }

    #[test]
    fn the_ends_of_numbers_are_reached_and_not_passed() {
        let most = u64::MAX;
        assert_eq!(values(Progress::Inc, most - 1, most, 1, 3), [most - 1, most, most - 1]);
        assert_eq!(values(Progress::Dec, 0, 1, 1, 3), [1, 0, 1]);
        let upper = values(Progress::Random, 0, most, 1, 2000).iter().filter(|v| **v > most / 2).count();
        assert!((900..1100).contains(&upper), "{upper} of 2000 in the upper half");
    }

    #[test]
    fn random_covers_its_range_evenly_and_repeats_by_seed() {
        let drawn = values(Progress::Random, 100, 190, 10, 10_000);
        assert_eq!(drawn, values(Progress::Random, 100, 190, 10, 10_000));
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 10);
        for value in (100..=190).step_by(10) {
            let times = drawn.iter().filter(|drawn| **drawn == value).count();
            assert!((850..1150).contains(&times), "{value} was drawn {times} times");
        }
    }
}
