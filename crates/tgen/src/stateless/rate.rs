//! Rates as people write them.

use core::fmt;
use core::str::FromStr;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// Bytes that a frame takes on an Ethernet beside its own: FCS, preamble, start delimiter, least gap.
pub const L1_OVERHEAD: f64 = 24.0;

/// Most packets per second that can be asked for: one each nanosecond, beyond what any core sends.
pub const MOST_PACKETS: f64 = 1e9;
/// Most bits per second that can be asked for.
const MOST_BITS: f64 = 1e12;

/// How fast a stream is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rate {
    /// As fast as it is taken.
    #[default]
    Max,
    /// Packets per second.
    Packets(f64),
    /// Bits of frames, without FCS, per second.
    L2(f64),
    /// Bits on an Ethernet of that speed: with FCS, preamble and gap.
    L1(f64),
}

impl Rate {
    /// Packets per second, for frames of `bytes` on average; `None`: as many as can be.
    #[must_use]
    pub fn packets(self, bytes: f64) -> Option<f64> {
        match self {
            Self::Max => None,
            Self::Packets(rate) => Some(rate),
            Self::L2(rate) => Some(rate / (bytes * 8.0)),
            Self::L1(rate) => Some(rate / ((bytes + L1_OVERHEAD) * 8.0)),
        }
    }
}

type Unit = (&'static str, fn(f64) -> Rate);

const UNITS: [Unit; 4] =
    [("bps-l1", Rate::L1), ("bps-l2", Rate::L2), ("bps", Rate::L2), ("pps", Rate::Packets)];

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "{text:?} is no rate: give packets per second (1000, 2.5Mpps), bits per second (10Gbps: frames without \
                 FCS; 10Gbps-l1: as on an Ethernet) or max"
            )
        };
        let lower = text.trim().to_ascii_lowercase();
        if lower == "max" {
            return Ok(Self::Max);
        }
        let unit = UNITS.iter().find_map(|(name, of)| Some((lower.strip_suffix(name)?, *of)));
        let (number, of) = unit.unwrap_or((&lower, Self::Packets));
        let (number, factor) = match number.char_indices().next_back() {
            Some((at, 'k')) => (&number[..at], 1e3),
            Some((at, 'm')) => (&number[..at], 1e6),
            Some((at, 'g')) => (&number[..at], 1e9),
            _ => (number, 1.0),
        };
        let number: f64 = number.trim().parse().map_err(|_| bad())?;
        rate(number * factor, of)
            .map_err(|why| why.map_or_else(bad, |most| format!("{text:?} is no rate: {most}")))
    }
}

/// 0 has always meant "as many as can be". The error is what can be asked for at most, where that is less.
fn rate(number: f64, of: fn(f64) -> Rate) -> Result<Rate, Option<&'static str>> {
    let rate = of(number);
    let most = if matches!(rate, Rate::Packets(_)) { MOST_PACKETS } else { MOST_BITS };
    match number {
        0.0 => Ok(Rate::Max),
        n if n > most => Err(Some(TOO_MUCH)),
        n if n > 0.0 => Ok(rate),
        _ => Err(None),
    }
}

const TOO_MUCH: &str = "it is at most 1Gpps or 1000Gbps; max is as many as can be";

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.write_str("max"),
            Self::Packets(rate) => write!(f, "{rate} pps"),
            Self::L2(rate) => write!(f, "{rate} bps"),
            Self::L1(rate) => write!(f, "{rate} bps-l1"),
        }
    }
}

struct RateVisitor;

impl Visitor<'_> for RateVisitor {
    type Value = Rate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rate: packets per second (1000, \"2.5Mpps\"), bits per second (\"10Gbps\") or \"max\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Rate, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Rate, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Rate, E> {
        rate(number, Rate::Packets).map_err(|why| {
            E::custom(format!("{number} is no rate: {}", why.unwrap_or("it must not be below 0")))
        })
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RateVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for (text, rate) in [
            ("max", Rate::Max),
            ("0", Rate::Max),
            ("1000", Rate::Packets(1000.0)),
            ("2.5Mpps", Rate::Packets(2.5e6)),
            ("9 kpps", Rate::Packets(9e3)),
            ("10Gbps", Rate::L2(1e10)),
            ("10gbps-L1", Rate::L1(1e10)),
            ("5e5", Rate::Packets(5e5)),
        ] {
            assert_eq!(text.parse(), Ok(rate), "{text}");
        }
        for text in ["", "fast", "-1", "NaN", "inf", "10Gbit"] {
            assert!(text.parse::<Rate>().unwrap_err().contains("is no rate"), "{text}");
        }
    }

    #[test]
    fn line_rate_of_ten_gigabit() {
        // RFC 2544's well-known figure: 14 880 952 frames of 64 bytes with FCS.
        let rate = Rate::L1(1e10).packets(60.0).unwrap();
        assert_eq!(rate as u64, 14_880_952);
        assert_eq!(Rate::L2(8e6).packets(1000.0), Some(1000.0));
    }
}
