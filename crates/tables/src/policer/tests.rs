//! Beside the RFCs' algorithms in rational numbers.

use super::*;
use num_rational::Ratio;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64 as Counter};
use std::vec::Vec;

type Tokens = Ratio<i128>;

/// The RFC's text, by tokens that are bytes (or packets), and seconds.
struct Oracle {
    rates: Rates,
    tc: Tokens,
    /// Te, or Tp.
    other: Tokens,
    /// Seconds.
    last: Tokens,
}

impl Oracle {
    fn new(rates: Rates) -> Self {
        let whole = |burst: u64| Tokens::from_integer(burst.into());
        Self {
            rates,
            tc: whole(rates.committed_burst),
            other: whole(rates.other_burst),
            last: Tokens::from_integer(0),
        }
    }

    fn fill(&mut self, now: Tokens) {
        let elapsed = now - self.last;
        self.last = now;
        let per_token = if self.rates.unit == Unit::Bits { 8 } else { 1 };
        let earned = |rate: u64| elapsed * Tokens::new(rate.into(), per_token);
        let [cbs, other] =
            [self.rates.committed_burst, self.rates.other_burst].map(|b| Tokens::from_integer(b.into()));
        let committed = self.tc + earned(self.rates.committed);
        self.tc = committed.min(cbs);
        let more = match self.rates.kind {
            // RFC 2697: "if Tc is less than CBS, Tc is incremented by one, else if Te is less than EBS, Te is".
            Kind::SingleRate => committed - self.tc,
            Kind::TwoRates | Kind::TwoRatesExcess => earned(self.rates.other),
        };
        self.other = (self.other + more).min(other);
    }

    fn colour(&mut self, now: Tokens, bytes: u32, before: Colour) -> Colour {
        use Colour::{Green, Red, Yellow};
        self.fill(now);
        let b = Tokens::from_integer(if self.rates.unit == Unit::Packets { 1 } else { bytes.into() });
        let zero = Tokens::from_integer(0);
        match self.rates.kind {
            Kind::SingleRate => {
                if before == Green && self.tc - b >= zero {
                    self.tc -= b;
                    Green
                } else if before != Red && self.other - b >= zero {
                    self.other -= b;
                    Yellow
                } else {
                    Red
                }
            }
            Kind::TwoRates => {
                if before == Red || self.other - b < zero {
                    Red
                } else if before == Yellow || self.tc - b < zero {
                    self.other -= b;
                    Yellow
                } else {
                    self.other -= b;
                    self.tc -= b;
                    Green
                }
            }
            Kind::TwoRatesExcess => {
                if before == Green && self.tc - b > zero {
                    self.tc -= b;
                    Green
                } else if before != Red && self.other - b > zero {
                    self.other -= b;
                    Yellow
                } else {
                    Red
                }
            }
        }
    }
}

const KINDS: [Kind; 3] = [Kind::SingleRate, Kind::TwoRates, Kind::TwoRatesExcess];
const UNITS: [Unit; 3] = [Unit::Bits, Unit::Bytes, Unit::Packets];

fn rates() -> impl Strategy<Value = Rates> {
    let rate = prop_oneof![1..100u64, 1000..10_000_000u64, Just(MAX_RATE)];
    let burst = prop_oneof![0..40u64, 1000..20_000u64, Just(MAX_BURST)];
    (0..3usize, 0..3usize, rate.clone(), burst.clone(), rate, burst).prop_map(
        |(kind, unit, committed, committed_burst, other, other_burst)| Rates {
            kind: KINDS[kind],
            unit: UNITS[unit],
            committed,
            committed_burst,
            other,
            other_burst,
        },
    )
}

/// Nanoseconds to the next packet, its bytes and its colour.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u32, usize)>> {
    let gap = prop_oneof![Just(0), 1..1000u64, 1000..5_000_000u64, 1_000_000_000..100_000_000_000u64];
    proptest::collection::vec((gap, 20..9000u32, 0..3usize), 1..300)
}

proptest! {
    #[test]
    fn colours_are_those_of_the_rfc(rates in rates(), arrivals in arrivals(), aware in any::<bool>()) {
        let meter = Meter::new(&rates).unwrap();
        let (mut oracle, mut credit, shared) = (Oracle::new(rates), Credit::full(&meter, 0), SharedCredit::full(&meter, 0));
        let mut now = 0;
        for (gap, bytes, before) in arrivals {
            now += gap;
            let before = if aware { Colour::ALL[before] } else { Colour::Green };
            let expected = oracle.colour(Tokens::new(now.into(), 1_000_000_000), bytes, before);
            prop_assert_eq!(credit.colour(&meter, now, bytes, before), expected);
            shared.fill(&meter, now);
            prop_assert_eq!(shared.colour(&meter, bytes, before), expected);
        }
    }

    /// Packets that come at the same moment get the same colours together as one by one.
    #[test]
    fn together_is_one_by_one(rates in rates(), vectors in proptest::collection::vec((0..5_000_000u64, proptest::collection::vec(20..3000u32, 1..30)), 1..40)) {
        let meter = Meter::new(&rates).unwrap();
        let (mut alone, shared) = (Credit::full(&meter, 0), SharedCredit::full(&meter, 0));
        let mut now = 0;
        for (gap, packets) in vectors {
            now += gap;
            shared.fill(&meter, now);
            let one_by_one: Vec<_> = packets.iter().map(|bytes| alone.colour(&meter, now, *bytes, Colour::Green)).collect();
            let cost = packets.iter().map(|bytes| meter.cost(*bytes)).sum();
            let together = shared.take_together(&meter, cost);
            prop_assert_eq!(together, one_by_one.iter().all(|colour| *colour == Colour::Green));
            if !together {
                let each: Vec<_> = packets.iter().map(|bytes| shared.colour(&meter, *bytes, Colour::Green)).collect();
                prop_assert_eq!(each, one_by_one);
            }
        }
    }
}

#[test]
fn several_workers_together_have_what_was_agreed_and_no_more() {
    const BYTES: u32 = 1000;
    const END: u64 = 2_000_000_000;
    for kind in KINDS {
        let rates = Rates {
            kind,
            unit: Unit::Bytes,
            committed: 50_000_000,
            committed_burst: 100_000,
            other: 70_000_000,
            other_burst: 30_000,
        };
        let meter = Meter::new(&rates).unwrap();
        let shared = Arc::new(SharedCredit::full(&meter, 0));
        let clock = Arc::new(Counter::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..3_u64)
            .map(|number| {
                let (shared, clock, stop) = (Arc::clone(&shared), Arc::clone(&clock), Arc::clone(&stop));
                std::thread::spawn(move || {
                    let mut colours = [0_u64; 3];
                    while !stop.load(Ordering::Relaxed) {
                        // Clocks are read at the beginning of a vector, and are some time apart.
                        let now = clock.fetch_add(20_000 + number * 7000, Ordering::Relaxed);
                        if now > END {
                            stop.store(true, Ordering::Relaxed);
                            break;
                        }
                        shared.fill(&meter, now);
                        if shared.take_together(&meter, 4 * meter.cost(BYTES)) {
                            colours[0] += 4;
                        } else {
                            (0..4).for_each(|_| {
                                colours[shared.colour(&meter, BYTES, Colour::Green) as usize] += 1
                            });
                        }
                    }
                    colours
                })
            })
            .collect();
        let colours = workers.into_iter().map(|worker| worker.join().unwrap());
        let [green, yellow, red] = colours.fold([0; 3], |sum, one| [0, 1, 2].map(|at| sum[at] + one[at]));
        // What is left in the buckets at the end, too.
        shared.fill(&meter, END);
        let left = |at: usize| shared.tokens[at].load(Ordering::Relaxed) / SECOND;
        let bytes = |packets: u64| packets * u64::from(BYTES);
        let committed = rates.committed_burst + rates.committed * END / SECOND;
        let other = rates.other_burst + rates.other * END / SECOND;
        assert!(red > 0 && yellow > 0, "{kind:?}: {green} {yellow} {red}");
        match kind {
            Kind::SingleRate => {
                let all = committed + rates.other_burst;
                assert!(bytes(green + yellow) + left(0) + left(1) <= all, "{green} {yellow}");
            }
            Kind::TwoRates => {
                assert!(bytes(green) + left(0) <= committed, "{green} of {committed}");
                assert!(bytes(green + yellow) + left(1) <= other, "{green} {yellow} of {other}");
            }
            Kind::TwoRatesExcess => {
                assert!(bytes(green) + left(0) <= committed, "{green} of {committed}");
                assert!(bytes(yellow) + left(1) <= other, "{yellow} of {other}");
            }
        }
        // Nothing is lost but what found the buckets full: packets come at several times the rates.
        assert!(bytes(green) + left(0) >= committed * 99 / 100, "{kind:?}: {green} of {committed}");
    }
}

#[test]
fn figures_that_cannot_be_counted_are_refused() {
    let rates =
        Rates { committed: MAX_RATE, committed_burst: MAX_BURST, other_burst: MAX_BURST, ..Rates::default() };
    let meter = Meter::new(&rates).unwrap();
    let mut credit = Credit::full(&meter, 0);
    for now in [1, u64::MAX / 2, u64::MAX] {
        assert_eq!(credit.colour(&meter, now, u32::MAX, Colour::Green), Colour::Green);
    }
    assert_eq!(Meter::new(&Rates { committed: MAX_RATE + 1, ..rates }), Err(RatesError::Rate(MAX_RATE + 1)));
    assert_eq!(Meter::new(&Rates { other: MAX_RATE + 1, ..rates }), Ok(meter), "it isn't looked at");
    let error = Meter::new(&Rates { other_burst: MAX_BURST + 1, ..rates }).unwrap_err();
    assert_eq!(error, RatesError::Burst(MAX_BURST + 1));
}

#[test]
fn a_clock_that_goes_back_adds_nothing() {
    let rates = Rates { unit: Unit::Packets, committed: 1, committed_burst: 1, ..Rates::default() };
    let meter = Meter::new(&rates).unwrap();
    let (mut credit, shared) = (Credit::full(&meter, 5), SharedCredit::full(&meter, 5));
    let mut at = |now| {
        shared.fill(&meter, now);
        assert_eq!(shared.colour(&meter, 64, Colour::Green), credit.colour(&meter, now, 64, Colour::Green));
        credit
    };
    at(5);
    at(4);
    at(3 * SECOND);
    at(2 * SECOND);
}
