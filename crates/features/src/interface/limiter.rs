//! Rate limits that one interface can't use up for others.

use graph::IfIndex;
use tables::token_bucket::TokenBucket;

/// A rate limit per interface, for one worker. It takes 40 bytes for every interface index up to the highest one seen.
#[derive(Debug)]
pub(crate) struct Limiter {
    full: TokenBucket,
    buckets: Vec<TokenBucket>,
}

impl Limiter {
    /// Allows each interface `rate` packets per second and bursts of `burst`.
    pub(crate) const fn new(rate: u32, burst: u32) -> Self {
        Self { full: TokenBucket::per_second(rate, burst), buckets: Vec::new() }
    }

    /// Charges one packet to `interface` at `now` (monotonic nanoseconds). False, and nothing charged, if its limit is reached.
    pub(crate) fn allows(&mut self, interface: IfIndex, now: u64) -> bool {
        self.bucket(interface).is_some_and(|bucket| bucket.take(now))
    }

    /// Whether [`allows`](Self::allows) would be true; nothing is charged.
    pub(crate) fn would_allow(&mut self, interface: IfIndex, now: u64) -> bool {
        self.bucket(interface).is_some_and(|bucket| bucket.has_token(now))
    }

    fn bucket(&mut self, interface: IfIndex) -> Option<&mut TokenBucket> {
        let at = usize::from(interface);
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, self.full);
        }
        self.buckets.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_floods_leaves_all_others_alone() {
        let mut limiter = Limiter::new(200, 256);
        assert_eq!((0..10_000).filter(|_| limiter.allows(7, 5)).count(), 256);
        assert!(!limiter.would_allow(7, 5) && limiter.would_allow(8, 5));
        assert!((0..=1000).filter(|other| *other != 7).all(|other| limiter.allows(other, 5)));
        assert!(!limiter.allows(7, 5 + 5_000_000 - 6));
        assert!(limiter.allows(7, 5 + 5_000_000));
    }
}
