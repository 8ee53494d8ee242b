//! Times under way.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::Serialize;

/// Greatest latency that is told apart from greater ones: 18 minutes in nanoseconds.
const MOST: u64 = 1 << 40;

/// Latency in nanoseconds, three digits exact.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Packets that it was measured of.
    pub count: u64,
    /// Least.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Half of all took at most this.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p99_9: u64,
    /// 99.99 %.
    pub p99_99: u64,
    /// 99.999 %.
    pub p99_999: u64,
    /// 99.9999 %.
    pub p99_9999: u64,
    /// Greatest.
    pub max: u64,
    /// The whole histogram: HdrHistogram V2, compressed, in base64 (as CSIT's results have it, but in nanoseconds).
    pub hdrh: String,
}

impl Latency {
    /// Of histograms in ticks of a clock that has `frequency` of them per second; `None` if there is nothing in them.
    #[must_use]
    pub fn of<'a>(histograms: impl Iterator<Item = &'a Histogram<u64>>, frequency: f64) -> Option<Self> {
        let mut all = Histogram::<u64>::new_with_bounds(1, MOST, 3).ok()?;
        for histogram in histograms {
            for step in histogram.iter_recorded() {
                let nanoseconds = step.value_iterated_to() as f64 * 1e9 / frequency;
                all.saturating_record_n(nanoseconds as u64, step.count_at_value());
            }
        }
        if all.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&all, &mut bytes).ok()?;
        let quantile = |part| all.value_at_quantile(part);
        Some(Self {
            count: all.len(),
            min: all.min(),
            mean: all.mean(),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            p99_99: quantile(0.9999),
            p99_999: quantile(0.99999),
            p99_9999: quantile(0.999_999),
            max: all.max(),
            hdrh: STANDARD.encode(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        let mut ticks = Histogram::<u64>::new(3).unwrap();
        (1..=1000).for_each(|n| ticks.record(n * 2600).unwrap());
        let latency = Latency::of([&ticks].into_iter(), 2.6e9).unwrap();
        let near = |value: u64, expected: f64| (value as f64 / expected - 1.0).abs() < 0.003;
        assert_eq!(latency.count, 1000);
        assert!(
            near(latency.min, 1e3)
                && near(latency.p50, 5e5)
                && near(latency.p99, 9.9e5)
                && near(latency.max, 1e6),
            "{latency:?}"
        );
        assert!((latency.mean / 500_500.0 - 1.0).abs() < 0.003);
        assert!(
            latency.hdrh.starts_with("HISTFAAA"),
            "what every compressed V2 histogram begins with: {}",
            latency.hdrh
        );
        assert_eq!(Latency::of([].into_iter(), 1e9), None);
    }
}
