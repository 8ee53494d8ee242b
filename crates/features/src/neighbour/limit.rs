//! How much of what comes in by an interface the control thread is told.

use graph::IfIndex;
use tables::token_bucket::TokenBucket;

/// Interfaces share a bucket with those whose index is the same modulo this: a pod that floods slows down few others.
const BUCKETS: usize = 64;
/// Packets a second that a bucket lets through.
const RATE: u64 = 200;
/// Packets that a bucket lets through at once: a vector.
const BURST: u64 = 256;

/// Limits what one worker tells the control thread, fairly between interfaces. The events' queue is bounded too; this
/// keeps one interface from filling it.
#[derive(Debug)]
pub(super) struct Limiter(Box<[TokenBucket]>);

impl Limiter {
    /// Full buckets.
    pub(super) fn new() -> Self {
        let bucket =
            TokenBucket::new(RATE, BURST, 1_000_000_000, 0).expect("a burst this small can be counted");
        Self(vec![bucket; BUCKETS].into_boxed_slice())
    }

    /// Whether a packet that came in by `interface` may go to the control thread at `now` (monotonic nanoseconds).
    pub(super) fn allows(&mut self, interface: IfIndex, now: u64) -> bool {
        let at = interface as usize % BUCKETS;
        self.0.get_mut(at).is_some_and(|bucket| bucket.take(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_floods_leaves_others_alone() {
        let mut limiter = Limiter::new();
        assert_eq!((0..10_000).filter(|_| limiter.allows(7, 5)).count() as u64, BURST);
        assert!(limiter.allows(8, 5));
        assert!(!limiter.allows(7, 5 + 1_000_000_000 / RATE - 1));
        assert!(limiter.allows(7, 5 + 1_000_000_000 / RATE));
    }
}
