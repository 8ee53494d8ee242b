//! Rate limit of what must not flood: ICMP errors, log lines.

/// Why a limit can't be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenBucketError {
    /// `burst` tokens are too many to count in fractions of a tick.
    #[error(
        "a burst of {burst} tokens at {ticks_per_second} ticks a second can't be counted: lower the burst"
    )]
    Burst {
        /// The burst asked for.
        burst: u64,
        /// The clock's rate.
        ticks_per_second: u64,
    },
}

/// `rate` tokens a second, and up to `burst` of them at once.
///
/// The credit is counted in tokens × ticks per second: a tick adds exactly `rate`, a token costs exactly
/// `ticks_per_second`. Nothing is rounded, so the long-term rate is exact however often or seldom it is asked.
/// Not shared: each worker has its own, with its part of the rate.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: u64,
    cost: u64,
    full: u64,
    credit: u64,
    last: u64,
}

impl TokenBucket {
    /// A full bucket at tick `now`. A `rate` of 0 never refills, a `burst` of 0 never gives.
    ///
    /// # Errors
    /// [`TokenBucketError::Burst`] if `burst · ticks_per_second` is above `u64::MAX` (with nanoseconds: 18 · 10⁹).
    pub fn new(rate: u64, burst: u64, ticks_per_second: u64, now: u64) -> Result<Self, TokenBucketError> {
        let full =
            burst.checked_mul(ticks_per_second).ok_or(TokenBucketError::Burst { burst, ticks_per_second })?;
        Ok(Self { rate, cost: ticks_per_second, full, credit: full, last: now })
    }

    /// A full bucket whose ticks are nanoseconds.
    #[must_use]
    pub const fn per_second(rate: u32, burst: u32) -> Self {
        const NANOSECONDS: u64 = 1_000_000_000;
        // 32 bits times 30: this can't overflow.
        let full = burst as u64 * NANOSECONDS;
        Self { rate: rate as u64, cost: NANOSECONDS, full, credit: full, last: 0 }
    }

    /// Takes one token at tick `now`, if there is one. A clock that goes back adds nothing.
    #[inline]
    #[must_use]
    pub fn take(&mut self, now: u64) -> bool {
        self.take_up_to(1, now) == 1
    }

    /// Takes as many of `wanted` tokens as there are at tick `now`.
    #[inline]
    pub fn take_up_to(&mut self, wanted: u64, now: u64) -> u64 {
        self.refill(now);
        let given = self.credit.checked_div(self.cost).unwrap_or(0).min(wanted);
        self.credit -= given * self.cost;
        given
    }

    /// Whether [`take`](Self::take) would succeed at tick `now`.
    #[inline]
    #[must_use]
    pub fn has_token(&mut self, now: u64) -> bool {
        self.refill(now);
        self.cost != 0 && self.credit >= self.cost
    }

    #[inline]
    fn refill(&mut self, now: u64) {
        if now > self.last {
            let earned = u128::from(now - self.last) * u128::from(self.rate) + u128::from(self.credit);
            self.credit = u64::try_from(earned).unwrap_or(u64::MAX).min(self.full);
            self.last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NANOS: u64 = 1_000_000_000;

    #[test]
    fn gives_the_burst_and_then_the_rate() {
        for mut bucket in [TokenBucket::new(10, 3, NANOS, 5).unwrap(), TokenBucket::per_second(10, 3)] {
            assert_eq!((0..5).filter(|_| bucket.has_token(5) && bucket.take(5)).count(), 3);
            assert!(!bucket.has_token(5));
            assert!(!bucket.take(5 + NANOS / 10 - 1 - 5));
            assert!(bucket.take(5 + NANOS / 10));
            assert!(!bucket.take(4), "a clock that goes back adds nothing");
            assert_eq!(bucket.take_up_to(100, u64::MAX), 3, "no more than the burst, however long the pause");
        }
    }

    #[test]
    fn limits_of_the_numbers() {
        let mut never = TokenBucket::new(0, 0, NANOS, 0).unwrap();
        assert!(!never.take(u64::MAX));
        let mut no_clock = TokenBucket::new(1, 1, 0, 0).unwrap();
        assert!(!no_clock.has_token(9) && !no_clock.take(9));
        let burst = u64::MAX / NANOS + 1;
        let error = TokenBucket::new(1, burst, NANOS, 0).unwrap_err();
        assert_eq!(error, TokenBucketError::Burst { burst, ticks_per_second: NANOS });
    }

    proptest! {
        /// Asked at arbitrary moments, as often as that may be, it gives exactly burst + rate × time.
        #[test]
        fn does_not_drift(rate in 1..5_000_000u64, gaps in proptest::collection::vec(1..4_000_000u64, 1..500)) {
            let burst = rate * 4 + 1;
            let (mut bucket, mut now, mut given) = (TokenBucket::new(rate, burst, NANOS, 0).unwrap(), 0, 0);
            given += bucket.take_up_to(u64::MAX, 0);
            for gap in gaps {
                now += gap;
                given += bucket.take_up_to(u64::MAX, now);
            }
            let exact = u128::from(burst) + u128::from(rate) * u128::from(now) / u128::from(NANOS);
            prop_assert_eq!(u128::from(given), exact);
        }
    }
}
