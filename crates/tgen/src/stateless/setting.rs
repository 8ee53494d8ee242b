//! A header's field as a profile gives it: one value, or how it changes.

use super::modifier::{Modifier, Progress};
use core::fmt;
use core::marker::PhantomData;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use wire::MacAddr;

/// What fields hold.
pub trait Number: Copy {
    /// What it is, for people.
    const WHAT: &'static str;

    /// From text.
    ///
    /// # Errors
    /// What is wrong with it.
    fn parse(text: &str) -> Result<Self, String>;

    /// From a number of a profile.
    ///
    /// # Errors
    /// What is wrong with it.
    fn from_number(number: i64) -> Result<Self, String> {
        Err(format!("{number} is a number; expected {}", Self::WHAT))
    }

    /// It as a number, or the lower 64 bits of it.
    fn bits(self) -> u64;

    /// What stands above these bits, where there are more than 64.
    fn upper(self) -> u64 {
        0
    }
}

macro_rules! plain {
    ($($kind:ty, $what:literal;)*) => {$(
        impl Number for $kind {
            const WHAT: &'static str = $what;

            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("{text:?} is not {}", Self::WHAT))
            }

            fn from_number(number: i64) -> Result<Self, String> {
                Self::try_from(number).map_err(|_| format!("{number} is not {}", Self::WHAT))
            }

            fn bits(self) -> u64 {
                self.into()
            }
        }
    )*};
}

plain! {
    u8, "a number from 0 to 255";
    u16, "a number from 0 to 65535";
    u32, "a number from 0 to 4294967295";
}

macro_rules! address {
    ($($kind:ty, $what:literal, |$value:ident| $bits:expr;)*) => {$(
        impl Number for $kind {
            const WHAT: &'static str = $what;

            fn parse(text: &str) -> Result<Self, String> {
                Self::from_str(text).map_err(|_| format!("{text:?} is not {}", Self::WHAT))
            }

            fn bits(self) -> u64 {
                let $value = self;
                $bits
            }
        }
    )*};
}

address! {
    MacAddr, "an Ethernet address such as \"02:00:00:00:00:01\"", |mac| mac.to_u64();
    Ipv4Addr, "an IPv4 address such as \"10.0.0.1\"", |address| u32::from(address).into();
}

impl Number for Ipv6Addr {
    const WHAT: &'static str = "an IPv6 address such as \"2001:db8::1\"";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("{text:?} is not {}", Self::WHAT))
    }

    /// The interface identifier.
    fn bits(self) -> u64 {
        u128::from(self) as u64
    }

    /// The network.
    fn upper(self) -> u64 {
        (u128::from(self) >> 64) as u64
    }
}

/// A field: its value in the first packet, and how it changes, if it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value, or one of its values.
    pub value: T,
    /// How its [bits](Number::bits) change.
    pub modifier: Option<Modifier>,
    /// How what stands [above](Number::upper) them changes. Where both do, both are lists, in step with each other.
    pub upper: Option<Modifier>,
}

impl<T> Setting<T> {
    /// One that stays.
    pub const fn fixed(value: T) -> Self {
        Self { value, modifier: None, upper: None }
    }
}

impl<T: Number> Setting<T> {
    /// One that goes from one value to another by steps of `step`, and again. It goes through the upper 64 bits where `from` and
    /// `to` differ in these alone.
    ///
    /// # Errors
    /// What is wrong with the range.
    pub fn range(from: T, to: T, step: u64, progress: Progress) -> Result<Self, String> {
        let networks = from.upper() != to.upper();
        if networks && from.bits() != to.bits() {
            return Err("`from` and `to` differ in their upper and in their lower 64 bits: a range goes through one half of an IPv6 address, or give a `list`".into());
        }
        let (min, max) = if networks { (from.upper(), to.upper()) } else { (from.bits(), to.bits()) };
        if min > max {
            return Err(
                "`from` is greater than `to`: swap them, and give order = \"dec\" to count down".into()
            );
        }
        if step == 0 {
            return Err("`step` is 0: it must be at least 1".into());
        }
        let modifier = Some(Modifier { progress, min, max, step });
        let fixed = Self::fixed(from);
        Ok(if networks { Self { upper: modifier, ..fixed } } else { Self { modifier, ..fixed } })
    }

    /// One that takes these values in turn.
    ///
    /// # Errors
    /// What is wrong with the list.
    pub fn list(values: &[T]) -> Result<Self, String> {
        let Some(first) = values.first().copied() else {
            return Err("`list` is empty: give at least one value".into());
        };
        let modifier = Some(in_turn(values.iter().map(|value| value.bits()).collect()));
        let networks = values.iter().any(|value| value.upper() != first.upper());
        let upper = networks.then(|| in_turn(values.iter().map(|value| value.upper()).collect()));
        Ok(Self { value: first, modifier, upper })
    }
}

fn in_turn(values: Vec<u64>) -> Modifier {
    let (min, max) =
        values.iter().fold((u64::MAX, 0), |(min, max), value| (min.min(*value), max.max(*value)));
    Modifier { progress: Progress::List(values), min, max, step: 1 }
}

/// Order of a range, in a profile.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    Inc,
    Dec,
    Random,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "T: Number")]
struct Change<T> {
    from: Option<One<T>>,
    to: Option<One<T>>,
    #[serde(default = "one")]
    step: u64,
    #[serde(default)]
    order: Order,
    list: Option<Vec<One<T>>>,
}

const fn one() -> u64 {
    1
}

impl<T: Number> Change<T> {
    fn setting(self) -> Result<Setting<T>, String> {
        let progress = match self.order {
            Order::Inc => Progress::Inc,
            Order::Dec => Progress::Dec,
            Order::Random => Progress::Random,
        };
        match (self.from, self.to, self.list) {
            (Some(from), Some(to), None) => Setting::range(from.0, to.0, self.step, progress),
            (None, None, Some(list)) => Setting::list(&list.into_iter().map(|one| one.0).collect::<Vec<_>>()),
            _ => Err("give either `from` and `to`, or `list`".into()),
        }
    }
}

/// One value.
struct One<T>(T);

struct OneVisitor<T>(PhantomData<T>);

impl<T: Number> Visitor<'_> for OneVisitor<T> {
    type Value = One<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::WHAT)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<One<T>, E> {
        T::parse(text).map(One).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<One<T>, E> {
        T::from_number(number).map(One).map_err(E::custom)
    }
}

impl<'de, T: Number> Deserialize<'de> for One<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneVisitor(PhantomData))
    }
}

struct SettingVisitor<T>(PhantomData<T>);

impl<'de, T: Number> Visitor<'de> for SettingVisitor<T> {
    type Value = Setting<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, or {{ from = …, to = …, order = \"inc\"|\"dec\"|\"random\" }}, or {{ list = [ … ] }}",
            T::WHAT
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        T::parse(text).map(Setting::fixed).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        T::from_number(number).map(Setting::fixed).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let change = Change::<T>::deserialize(MapAccessDeserializer::new(map))?;
        change.setting().map_err(A::Error::custom)
    }
}

impl<'de, T: Number> Deserialize<'de> for Setting<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SettingVisitor(PhantomData))
    }
}
