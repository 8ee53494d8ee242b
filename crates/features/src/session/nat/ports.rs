//! In which order ports are tried.

use core::ops::RangeInclusive;

/// Primes above all numbers of ports: steps of each of them, in a circle of ports, meet every one once.
const STEPS: [u32; 16] = [
    65537, 75511, 85487, 95461, 105_437, 115_421, 125_383, 135_349, 145_349, 155_299, 165_287, 175_261,
    185_221, 195_193, 205_171, 215_141,
];

/// Ports of a range in the order in which they are tried: one's own, then those of the same parity (RFC 4787 REQ-4), then the others.
///
/// Where those of a parity begin, and how far it is from one to the next, is chosen by the caller's random number. One after the other,
/// ports in use would grow together, and what is left of a pool nearly used up would hardly be found (Knuth, The Art of Computer
/// Programming 6.4, algorithm D).
#[derive(Clone, Debug)]
pub(in super::super) struct Ports {
    own: Option<u16>,
    low: u32,
    high: u32,
    random: u32,
    /// Those that are tried now, of one parity.
    now: Circle,
    /// The parity that comes after that.
    then: Option<u32>,
}

/// Every second port, in steps.
#[derive(Clone, Copy, Debug)]
struct Circle {
    first: u32,
    count: u32,
    at: u32,
    /// 0 before it is needed, behind the first port: divisions take their time.
    step: u32,
    left: u32,
}

impl Circle {
    #[inline(always)]
    fn new(low: u32, high: u32, parity: u32, random: u32) -> Self {
        let first = low + ((low ^ parity) & 1);
        let count = if first > high { 0 } else { (high - first) / 2 + 1 };
        let at = ((u64::from(random) * u64::from(count)) >> 32) as u32;
        Self { first, count, at, step: 0, left: count }
    }

    #[inline(always)]
    fn next(&mut self, random: u32) -> Option<u16> {
        if self.left != self.count {
            if self.step == 0 {
                // Of bits that say least about where it begins.
                self.step = STEPS[random as usize % STEPS.len()] % self.count;
            }
            self.at += self.step;
            self.at -= if self.at >= self.count { self.count } else { 0 };
        }
        self.left = self.left.checked_sub(1)?;
        Some((self.first + 2 * self.at) as u16)
    }
}

impl Ports {
    /// Those of `range`, for whom `own` is its own port.
    #[inline(always)]
    pub(in super::super) fn new(range: &RangeInclusive<u16>, own: u16, random: u32) -> Self {
        let (low, high) = (u32::from(*range.start()), u32::from(*range.end()));
        let parity = u32::from(own) & 1;
        Self {
            own: range.contains(&own).then_some(own),
            low,
            high,
            random,
            now: Circle::new(low, high, parity, random),
            then: Some(parity ^ 1),
        }
    }
}

impl Iterator for Ports {
    type Item = u16;

    #[inline(always)]
    fn next(&mut self) -> Option<u16> {
        if let Some(own) = self.own.take() {
            return Some(own);
        }
        self.now.next(self.random).or_else(|| {
            self.now = Circle::new(self.low, self.high, self.then.take()?, self.random);
            self.now.next(self.random)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_is_tried_and_the_host_s_own_and_its_parity_come_first() {
        for (low, high) in [(1024, 65535), (0, 65535), (1000, 1000), (7, 12), (8, 13), (7, 7)] {
            for random in (0..16).map(|step| 0x9e37_79b0 | step).chain([0, 77, u32::MAX]) {
                for own in [9, 10, 65535, 80] {
                    let tried: Vec<u16> = Ports::new(&(low..=high), own, random).collect();
                    let mut all = tried.clone();
                    all.sort_unstable();
                    all.dedup();
                    assert_eq!(all, (low..=high).collect::<Vec<_>>());
                    let parities = if (low..=high).contains(&own) {
                        assert_eq!(tried[0], own);
                        &tried[1..]
                    } else {
                        &tried[..]
                    };
                    assert!(parities.is_sorted_by_key(|port| (port ^ own) & 1), "{own} {random}");
                }
            }
        }
    }

    /// As many tries as by chance, 1/(1 − 0.97) on average; one after the other they would be 556 (Knuth 6.4).
    #[test]
    fn what_is_left_of_a_pool_is_found_soon() {
        let (mut random, mut taken) = (1_u32, vec![false; 1 << 16]);
        let mut tries = Vec::new();
        for _ in 0..31_290 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // A congruential generator's lower bits are poor.
            let mut ports = Ports::new(&(1024..=65535), 2, random.swap_bytes()).skip(1);
            let (at, port) = ports.by_ref().enumerate().find(|(_, port)| !taken[usize::from(*port)]).unwrap();
            taken[usize::from(port)] = true;
            tries.push(at + 1);
        }
        let last = &tries[tries.len() - 300..];
        assert!(last.iter().sum::<usize>() / last.len() < 64, "{last:?}");
    }
}
