//! Whose packets conform to what was agreed: the three colour markers of RFC 2697 (single rate), RFC 2698 (two rates) and RFC 4115 (two
//! rates, with the excess beside the committed one).
//!
//! | kind | bucket 0 fills at | bucket 1 fills at | a packet is green | yellow |
//! |---|---|---|---|---|
//! | [`Kind::SingleRate`] | CIR up to CBS | what bucket 0 has no room for, up to EBS | bucket 0 has enough: taken there | bucket 1 has enough: taken there |
//! | [`Kind::TwoRates`] | CIR up to CBS | PIR up to PBS | both have enough: taken from both | bucket 1 alone has enough: taken there |
//! | [`Kind::TwoRatesExcess`] | CIR up to CBS | EIR up to EBS | bucket 0 has more than enough: taken there | bucket 1 has: taken there |
//!
//! Everything else is red, and takes nothing. Where packets come coloured, yellow ones aren't green here, and red ones stay red. (RFC 4115 asks for *more*
//! tokens than the packet needs, the others for as many.)
//!
//! Tokens are counted in fractions, so that nothing is rounded: a nanosecond adds exactly the rate, a byte (or a packet) costs exactly as
//! many fractions as a second has nanoseconds, bits eight times as many. There is no division when packets come.
//!
//! [`Credit`] is one worker's. [`SharedCredit`] is shared by all: each bucket is one word, from which tokens are taken by compare-and-swap. A vector's packets
//! that all conform take theirs at once ([`SharedCredit::take_together`]); nobody holds tokens that it may not need, so there are never more than
//! were agreed, and no worker is short of some that another has in stock.

use core::sync::atomic::{AtomicU64, Ordering};

/// Fractions of a token: a rate of one per second adds one in a nanosecond.
const SECOND: u64 = 1_000_000_000;
/// The largest burst, in bytes or packets: two of them can be counted in fractions of a bit.
pub const MAX_BURST: u64 = 1 << 30;
/// The highest rate per second: ten terabits.
pub const MAX_RATE: u64 = 10_000_000_000_000;

/// What a meter says of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Colour {
    /// It conforms to the committed rate and burst.
    #[default]
    Green,
    /// It exceeds these, and not the others.
    Yellow,
    /// It violates all.
    Red,
}

impl Colour {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Green, Self::Yellow, Self::Red];

    /// Lower-case name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Red => "red",
        }
    }
}

/// Which marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// RFC 2697.
    #[default]
    SingleRate,
    /// RFC 2698.
    TwoRates,
    /// RFC 4115.
    TwoRatesExcess,
}

/// What rates and bursts are counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Rates in bits per second, bursts in bytes.
    #[default]
    Bits,
    /// Rates in bytes per second, bursts in bytes.
    Bytes,
    /// Rates in packets per second, bursts in packets.
    Packets,
}

/// What was agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rates {
    /// Which marker.
    pub kind: Kind,
    /// What the figures are counted in.
    pub unit: Unit,
    /// CIR.
    pub committed: u64,
    /// CBS.
    pub committed_burst: u64,
    /// PIR or EIR; unused with a single rate.
    pub other: u64,
    /// EBS or PBS.
    pub other_burst: u64,
}

/// Why rates can't be metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RatesError {
    /// Above [`MAX_RATE`].
    #[error("a rate of {0} per second is above {MAX_RATE}")]
    Rate(u64),
    /// Above [`MAX_BURST`].
    #[error("a burst of {0} is above {MAX_BURST}")]
    Burst(u64),
}

/// How a bucket fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filling {
    /// Fractions per nanosecond.
    rate: u64,
    /// Fractions that it has room for.
    full: u64,
    /// Nanoseconds in which all is full that it fills, whatever was there.
    time: u64,
}

impl Filling {
    const fn new(rate: u64, full: u64, all: u64) -> Self {
        // A bucket without a rate never fills.
        let time = if rate == 0 { 0 } else { all.div_ceil(rate) };
        Self { rate, full, time }
    }

    /// Fractions of that many nanoseconds; no more than fill it, and a rate above.
    #[inline(always)]
    const fn earned(&self, elapsed: u64) -> u64 {
        let counts = if elapsed < self.time { elapsed } else { self.time };
        counts * self.rate
    }
}

/// A meter: what says the colour of packets, by tokens that are kept elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    kind: Kind,
    fillings: [Filling; 2],
    /// Fractions that a packet costs, and each of its bytes.
    packet: u64,
    byte: u64,
    /// More have to be there than a packet costs.
    more: bool,
}

/// Two buckets that tokens are taken from.
trait Buckets {
    /// Takes as many fractions out of a bucket, where there are as many, or `more`.
    fn take(&mut self, bucket: usize, cost: u64, more: bool) -> bool;
}

impl Meter {
    /// Of what was agreed.
    ///
    /// # Errors
    /// [`RatesError`] where figures are too high to be counted.
    pub fn new(rates: &Rates) -> Result<Self, RatesError> {
        let single = rates.kind == Kind::SingleRate;
        let other = if single { 0 } else { rates.other };
        if let Some(rate) = [rates.committed, other].into_iter().find(|rate| *rate > MAX_RATE) {
            return Err(RatesError::Rate(rate));
        }
        let bursts = [rates.committed_burst, rates.other_burst];
        if let Some(burst) = bursts.into_iter().find(|burst| *burst > MAX_BURST) {
            return Err(RatesError::Burst(burst));
        }
        let (packet, byte, token) = match rates.unit {
            Unit::Bits => (0, 8 * SECOND, 8 * SECOND),
            Unit::Bytes => (0, SECOND, SECOND),
            Unit::Packets => (SECOND, 0, SECOND),
        };
        let [committed, excess] = bursts.map(|burst| burst * token);
        let all = if single { committed + excess } else { committed };
        Ok(Self {
            kind: rates.kind,
            fillings: [Filling::new(rates.committed, committed, all), Filling::new(other, excess, excess)],
            packet,
            byte,
            more: rates.kind == Kind::TwoRatesExcess,
        })
    }

    /// What a packet costs, in fractions of a token.
    #[inline(always)]
    #[must_use]
    pub const fn cost(&self, bytes: u32) -> u64 {
        // No packet is as long as the longest burst; so nothing overflows here.
        self.packet + (bytes as u64 & (MAX_BURST - 1)) * self.byte
    }

    /// The colour of a packet that came as `before`.
    #[inline(always)]
    fn colour(&self, buckets: &mut impl Buckets, cost: u64, before: Colour) -> Colour {
        if before == Colour::Red {
            return Colour::Red;
        }
        let mut take = |bucket| buckets.take(bucket, cost, self.more);
        let green = before == Colour::Green;
        match self.kind {
            Kind::SingleRate | Kind::TwoRatesExcess => match () {
                () if green && take(0) => Colour::Green,
                () if take(1) => Colour::Yellow,
                () => Colour::Red,
            },
            Kind::TwoRates => match () {
                () if !take(1) => Colour::Red,
                () if green && take(0) => Colour::Green,
                () => Colour::Yellow,
            },
        }
    }

    /// What the other bucket gets, where the first has no room for that much.
    #[inline(always)]
    const fn second(&self, elapsed: u64, overflow: u64) -> u64 {
        match self.kind {
            Kind::SingleRate => overflow,
            Kind::TwoRates | Kind::TwoRatesExcess => self.fillings[1].earned(elapsed),
        }
    }
}

/// Tokens of one worker's, in fractions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    tokens: [u64; 2],
    /// When they were counted, in nanoseconds.
    last: u64,
}

impl Buckets for [u64; 2] {
    #[inline(always)]
    fn take(&mut self, bucket: usize, cost: u64, more: bool) -> bool {
        let there = self[bucket];
        let enough = is_enough(there, cost, more);
        if enough {
            self[bucket] = there - cost;
        }
        enough
    }
}

impl Credit {
    /// Full buckets.
    #[must_use]
    pub const fn full(meter: &Meter, now: u64) -> Self {
        Self { tokens: [meter.fillings[0].full, meter.fillings[1].full], last: now }
    }

    /// The colour of a packet that comes at `now` (nanoseconds) as `before`. A clock that goes back adds nothing.
    #[inline(always)]
    pub fn colour(&mut self, meter: &Meter, now: u64, bytes: u32, before: Colour) -> Colour {
        if now > self.last {
            let elapsed = now - self.last;
            let [first, second] = &mut self.tokens;
            let overflow = put(first, meter.fillings[0].earned(elapsed), meter.fillings[0].full);
            put(second, meter.second(elapsed, overflow), meter.fillings[1].full);
            self.last = now;
        }
        meter.colour(&mut self.tokens, meter.cost(bytes), before)
    }
}

#[inline(always)]
const fn is_enough(there: u64, cost: u64, more: bool) -> bool {
    if more { there > cost } else { there >= cost }
}

/// Fills a bucket; gives what it has no room for.
#[inline(always)]
fn put(tokens: &mut u64, earned: u64, full: u64) -> u64 {
    let put = earned.min(full - *tokens);
    *tokens += put;
    earned - put
}

/// Tokens that all workers take from, on a cache line of their own.
#[derive(Debug)]
#[repr(align(64))]
pub struct SharedCredit {
    tokens: [AtomicU64; 2],
    last: AtomicU64,
}

impl Buckets for &[AtomicU64; 2] {
    #[inline(always)]
    fn take(&mut self, bucket: usize, cost: u64, more: bool) -> bool {
        let word = &self[bucket];
        let mut there = word.load(Ordering::Relaxed);
        // Where there are too few, nothing is written: workers that drop don't disturb each other.
        while is_enough(there, cost, more) {
            match word.compare_exchange_weak(there, there - cost, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => there = now,
            }
        }
        false
    }
}

impl SharedCredit {
    /// Full buckets.
    #[must_use]
    pub fn full(meter: &Meter, now: u64) -> Self {
        Self { tokens: meter.fillings.map(|filling| AtomicU64::new(filling.full)), last: AtomicU64::new(now) }
    }

    /// Fills the buckets up to `now` (nanoseconds): once for a vector. A clock that is behind adds nothing.
    ///
    /// One worker alone adds what a span of time has earned: who has the later clock. Until it has, others may miss these tokens; they are
    /// never there twice.
    #[inline]
    pub fn fill(&self, meter: &Meter, now: u64) {
        let last = self.last.load(Ordering::Relaxed);
        let (ok, no) = (Ordering::Relaxed, Ordering::Relaxed);
        if now <= last || self.last.compare_exchange(last, now, ok, no).is_err() {
            return;
        }
        let elapsed = now - last;
        let overflow = self.put(0, meter.fillings[0].earned(elapsed), meter.fillings[0].full);
        self.put(1, meter.second(elapsed, overflow), meter.fillings[1].full);
    }

    #[inline(always)]
    fn put(&self, bucket: usize, earned: u64, full: u64) -> u64 {
        let word = &self.tokens[bucket];
        let mut there = word.load(Ordering::Relaxed);
        loop {
            let mut filled = there;
            let overflow = put(&mut filled, earned, full);
            if filled == there {
                return overflow;
            }
            match word.compare_exchange_weak(there, filled, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return overflow,
                Err(now) => there = now,
            }
        }
    }

    /// The colour of a packet that comes as `before`, by the tokens that were there when they were [filled up](Self::fill).
    #[inline(always)]
    pub fn colour(&self, meter: &Meter, bytes: u32, before: Colour) -> Colour {
        meter.colour(&mut &self.tokens, meter.cost(bytes), before)
    }

    /// Takes what several packets cost together that all came green, if that leaves all of them green; else nothing: they ask one by one.
    #[inline(always)]
    #[must_use]
    pub fn take_together(&self, meter: &Meter, cost: u64) -> bool {
        let mut tokens = &self.tokens;
        if !tokens.take(0, cost, meter.more) {
            return false;
        }
        let all = meter.kind != Kind::TwoRates || tokens.take(1, cost, meter.more);
        if !all {
            // Nobody can have filled it beyond that since: whoever has, has lost the difference.
            self.put(0, cost, meter.fillings[0].full);
        }
        all
    }
}

#[cfg(test)]
mod tests;
