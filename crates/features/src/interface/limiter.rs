//! Limits that one interface can't use up for others.

use graph::IfIndex;
use tables::token_bucket::TokenBucket;

/// A rate limit per interface: so many packets a second, and so many at once, of each. One worker's.
///
/// The memory is 40 bytes for every interface index up to the highest that was asked about.
#[derive(Debug)]
pub(crate) struct Limiter {
    full: TokenBucket,
    buckets: Vec<TokenBucket>,
}

impl Limiter {
    /// Lets `rate` packets a second of each interface through, and `burst` at once.
    pub(crate) const fn new(rate: u32, burst: u32) -> Self {
        Self { full: TokenBucket::per_second(rate, burst), buckets: Vec::new() }
    }

    /// Whether one more packet that came in by `interface` may pass at `now` (monotonic nanoseconds).
    pub(crate) fn allows(&mut self, interface: IfIndex, now: u64) -> bool {
        let at = usize::from(interface);
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, self.full);
        }
        self.buckets.get_mut(at).is_some_and(|bucket| bucket.take(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_floods_leaves_all_others_alone() {
        let mut limiter = Limiter::new(200, 256);
        assert_eq!((0..10_000).filter(|_| limiter.allows(7, 5)).count(), 256);
        assert!((0..=1000).filter(|other| *other != 7).all(|other| limiter.allows(other, 5)));
        assert!(!limiter.allows(7, 5 + 5_000_000 - 6));
        assert!(limiter.allows(7, 5 + 5_000_000));
    }
}
