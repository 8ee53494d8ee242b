//! Ranges of IPv4 addresses.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use features::session::nat::Deterministic;

use super::IpRange;
use crate::model::{Flaw, fields};

/// IPv4 addresses from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ipv4Span {
    /// The first.
    pub first: Ipv4Addr,
    /// The last, not below the first.
    pub last: Ipv4Addr,
}

impl Ipv4Span {
    /// Reads an address, a prefix or a range.
    pub(super) fn parse(field: &str, text: &str) -> Result<Self, Flaw> {
        let range = if text.contains(['/', '-']) {
            IpRange::parse(field, text)?
        } else {
            let address = fields::address(field, text)?;
            IpRange { first: address, last: address }
        };
        match (range.first, range.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => Ok(Self { first, last }),
            _ => {
                Err(Flaw::new(field, format!("{text} isn't IPv4"))
                    .remedy("say prefixes of IPv6 in `prefixes`"))
            }
        }
    }

    /// An address alone.
    pub(super) fn host(address: u32) -> Self {
        let address = Ipv4Addr::from_bits(address);
        Self { first: address, last: address }
    }

    /// Number of addresses.
    pub(super) fn len(self) -> u64 {
        u64::from(self.last.to_bits()) - u64::from(self.first.to_bits()) + 1
    }

    /// Whether an address is in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// As workers see hosts that have their ports by their address.
    pub fn to_bits(self) -> Deterministic {
        Deterministic { first: self.first.to_bits(), last: self.last.to_bits() }
    }

    /// Whether all of them are a host's each.
    pub(super) fn is_unicast(self) -> bool {
        // The last one of 0/8, 127/8, and all from 224/3 on.
        let not = [(0, 0x00ff_ffff), (0x7f00_0000, 0x7fff_ffff), (0xe000_0000, u32::MAX)];
        let span =
            |(first, last)| Self { first: Ipv4Addr::from_bits(first), last: Ipv4Addr::from_bits(last) };
        !not.map(span).iter().any(|other| self.overlaps(*other))
    }
}

impl fmt::Display for Ipv4Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return self.first.fmt(formatter);
        }
        IpRange { first: self.first.into(), last: self.last.into() }.fmt(formatter)
    }
}

/// The one that overlaps a span, of ascending ones of which no two overlap: the last that begins in it or before.
pub(super) fn overlapping(ascending: &[Ipv4Span], span: Ipv4Span) -> Option<Ipv4Span> {
    let behind = ascending.partition_point(|one| one.first <= span.last);
    ascending[..behind].last().copied().filter(|one| one.overlaps(span))
}

/// Reads a pool's addresses, none of which is there twice; ascending. `needs_none`: there may be none.
///
/// # Errors
/// [`Flaw`] naming the field.
pub(super) fn parse_all(texts: &[String], needs_none: bool) -> Result<Vec<Ipv4Span>, Flaw> {
    let mut spans = BTreeSet::new();
    for (index, text) in texts.iter().enumerate() {
        let field = format!("addresses[{index}]");
        let span = Ipv4Span::parse(&field, text)?;
        if !span.is_unicast() {
            return Err(Flaw::new(field, format!("{text} has addresses that are no host's"))
                .remedy("leave out 0.0.0.0/8, 127.0.0.0/8 and 224.0.0.0/3"));
        }
        // Of those that don't overlap, the last one that begins in it or before.
        let upto = Ipv4Span { first: span.last, last: Ipv4Addr::BROADCAST };
        if let Some(other) = spans.range(..=upto).next_back().filter(|other| span.overlaps(**other)) {
            return Err(Flaw::new(field, format!("{text} overlaps {other}")).remedy("say each address once"));
        }
        spans.insert(span);
    }
    if spans.is_empty() && !needs_none {
        return Err(
            Flaw::new("addresses", "a pool without addresses is of no use").remedy("say one at least")
        );
    }
    Ok(spans.into_iter().collect())
}
