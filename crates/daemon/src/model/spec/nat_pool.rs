//! Pools of addresses for NAT.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use api::v1::NatPool;
use features::session::nat::Deterministic;

use super::IpRange;
use crate::model::{Flaw, Name, fields};

/// The well-known ports are left alone (RFC 4787 section 4.2.1).
const FIRST_PORT: u16 = 1024;

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
    fn parse(field: &str, text: &str) -> Result<Self, Flaw> {
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
                    .remedy("leave it out: IPv6 isn't translated"))
            }
        }
    }

    /// Number of addresses.
    fn len(self) -> u64 {
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

    fn is_unicast(self) -> bool {
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

/// A pool of addresses for NAT; see [`NatPool`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatPoolSpec {
    /// Unique name.
    pub name: Name,
    /// Its addresses, ascending, none twice.
    pub addresses: Vec<Ipv4Span>,
    /// Ports of each of them.
    pub ports: RangeInclusive<u16>,
    /// Address space of the outside.
    pub context: u16,
    /// Hosts that have their ports by their address.
    pub deterministic: Option<Ipv4Span>,
}

impl NatPoolSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(pool: &NatPool) -> Result<Self, Flaw> {
        let addresses = addresses(&pool.addresses)?;
        let port = |field, said, default| fields::number(field, said, 1..=u32::from(u16::MAX), default);
        let first = port("first_port", pool.first_port, FIRST_PORT.into())? as u16;
        let last = port("last_port", pool.last_port, u16::MAX.into())? as u16;
        if last < first {
            let flaw = Flaw::new("last_port", format!("{last} is below the first one, {first}"));
            return Err(flaw.remedy("exchange the two, or leave one out"));
        }
        let context = u16::try_from(pool.context).map_err(|_| {
            Flaw::new("context", format!("{} is out of range", pool.context)).remedy("take 0 to 65535")
        })?;
        let deterministic = match pool.deterministic.as_str() {
            "" => None,
            text => Some(deterministic(Ipv4Span::parse("deterministic", text)?, &addresses, first..=last)?),
        };
        Ok(Self {
            name: fields::name("name", &pool.name)?,
            addresses,
            ports: first..=last,
            context,
            deterministic,
        })
    }

    /// The canonical form.
    pub fn to_api(&self) -> NatPool {
        let unless = |port: u16, default: u16| if port == default { 0 } else { port.into() };
        NatPool {
            name: self.name.to_string(),
            addresses: self.addresses.iter().map(ToString::to_string).collect(),
            first_port: unless(*self.ports.start(), FIRST_PORT),
            last_port: unless(*self.ports.end(), u16::MAX),
            context: self.context.into(),
            deterministic: self.deterministic.map(|hosts| hosts.to_string()).unwrap_or_default(),
        }
    }
}

fn addresses(texts: &[String]) -> Result<Vec<Ipv4Span>, Flaw> {
    let mut spans = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let field = format!("addresses[{index}]");
        let span = Ipv4Span::parse(&field, text)?;
        if !span.is_unicast() {
            return Err(Flaw::new(field, format!("{text} has addresses that are no host's"))
                .remedy("leave out 0.0.0.0/8, 127.0.0.0/8 and 224.0.0.0/3"));
        }
        if let Some(other) = spans.iter().find(|other| span.overlaps(**other)) {
            return Err(Flaw::new(field, format!("{text} overlaps {other}")).remedy("say each address once"));
        }
        spans.push(span);
    }
    if spans.is_empty() {
        return Err(
            Flaw::new("addresses", "a pool without addresses is of no use").remedy("say one at least")
        );
    }
    spans.sort_unstable();
    Ok(spans)
}

/// Hosts that have a port each, at least.
fn deterministic(
    hosts: Ipv4Span,
    addresses: &[Ipv4Span],
    ports: RangeInclusive<u16>,
) -> Result<Ipv4Span, Flaw> {
    let size: u64 = addresses.iter().map(|span| span.len()).sum();
    if hosts.len().div_ceil(size) > ports.len() as u64 {
        let what =
            format!("{} hosts can't have {} ports of {size} addresses among them", hosts.len(), ports.len());
        return Err(Flaw::new("deterministic", what).remedy("take more addresses or ports, or fewer hosts"));
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> NatPool {
        NatPool { name: "out".into(), addresses: vec!["192.0.2.1".into()], ..NatPool::default() }
    }

    #[test]
    fn the_canonical_form_is_what_differs_from_the_defaults() {
        for api in [
            pool(),
            NatPool {
                addresses: vec!["192.0.2.0/28".into(), "192.0.2.20-192.0.2.29".into(), "198.51.100.7".into()],
                first_port: 2000,
                last_port: 2999,
                context: 7,
                deterministic: "10.0.0.0/24".into(),
                ..pool()
            },
        ] {
            assert_eq!(NatPoolSpec::parse(&api).unwrap().to_api(), api);
        }
        let said = NatPool {
            addresses: vec!["198.51.100.7/32".into(), "192.0.2.1".into()],
            first_port: 1024,
            last_port: 65535,
            ..pool()
        };
        let canonical = NatPool { addresses: vec!["192.0.2.1".into(), "198.51.100.7".into()], ..pool() };
        assert_eq!(NatPoolSpec::parse(&said).unwrap().to_api(), canonical);
    }

    #[test]
    fn flaws_name_their_field() {
        let of = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (api, field) in [
            (NatPool { name: "a b".into(), ..pool() }, "name"),
            (NatPool { addresses: vec![], ..pool() }, "addresses"),
            (NatPool { addresses: of(&["192.0.2.1", "x"]), ..pool() }, "addresses[1]"),
            (NatPool { addresses: of(&["fd00::1"]), ..pool() }, "addresses[0]"),
            (NatPool { addresses: of(&["192.0.2.0/28", "192.0.2.15"]), ..pool() }, "addresses[1]"),
            (NatPool { addresses: of(&["224.0.0.1"]), ..pool() }, "addresses[0]"),
            (NatPool { addresses: of(&["0.0.0.0/0"]), ..pool() }, "addresses[0]"),
            (NatPool { first_port: 70_000, ..pool() }, "first_port"),
            (NatPool { last_port: 1000, ..pool() }, "last_port"),
            (NatPool { context: 65_536, ..pool() }, "context"),
            (NatPool { deterministic: "10.0.0.0/33".into(), ..pool() }, "deterministic"),
            (NatPool { deterministic: "10.0.0.0/16".into(), ..pool() }, "deterministic"),
        ] {
            assert_eq!(NatPoolSpec::parse(&api).unwrap_err().field, field, "{api:?}");
        }
    }
}
