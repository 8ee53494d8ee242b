//! Pools of addresses for NAT.

use std::collections::{BTreeSet, HashSet};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use api::v1::{NatMapping, NatPool, NatProtocol};
use features::session::nat::{BlockSize, Mapping, PrefixPair};
use wire::IpProtocol;

use super::ipv4_span::{self, Ipv4Span};
use super::nat_prefix;
use crate::model::{Flaw, Name, fields};

/// The well-known ports are left alone (RFC 4787 section 4.2.1).
const FIRST_PORT: u16 = 1024;
/// Blocks of ports that a host has at most, unless it is said.
const BLOCKS_PER_HOST: u32 = 8;
/// Ports of a block at least: who finds none looks at all blocks of an address.
const SMALLEST_BLOCK: u32 = 16;
/// Blocks of a pool at most: each takes 8 bytes.
const MOST_BLOCKS: u64 = 1 << 22;

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
    /// Ports that hosts are given together.
    pub blocks: Option<BlockSize>,
    /// Hosts and ports that are always seen with the same, ordered.
    pub mappings: Vec<Mapping>,
    /// Prefixes of IPv6 that are exchanged, ordered.
    pub prefixes: Vec<PrefixPair>,
}

impl NatPoolSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(pool: &NatPool) -> Result<Self, Flaw> {
        let needs_none = !pool.mappings.is_empty() || !pool.prefixes.is_empty();
        let addresses = ipv4_span::parse_all(&pool.addresses, needs_none)?;
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
        let blocks = blocks(pool, &addresses, &(first..=last))?;
        let mappings = mappings(&pool.mappings, &addresses, &(first..=last))?;
        if deterministic.is_some() || addresses.is_empty() {
            none_is_twice(&pool.mappings, addresses.is_empty())?;
        }
        Ok(Self {
            name: fields::name("name", &pool.name)?,
            addresses,
            ports: first..=last,
            context,
            deterministic,
            blocks,
            mappings,
            prefixes: nat_prefix::parse(&pool.prefixes)?,
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
            block_size: self.blocks.map_or(0, |blocks| blocks.ports.into()),
            blocks_per_host: match self.blocks.map_or(BLOCKS_PER_HOST, |blocks| blocks.per_host.into()) {
                BLOCKS_PER_HOST => 0,
                other => other,
            },
            mappings: self.mappings.iter().map(mapping_to_api).collect(),
            prefixes: self.prefixes.iter().map(nat_prefix::to_api).collect(),
        }
    }

    /// Its addresses and those that hosts are mapped to, none twice.
    pub fn all_addresses(&self) -> Vec<Ipv4Span> {
        let mapped: BTreeSet<_> =
            self.mappings.iter().map(|mapping| Ipv4Span::host(mapping.outside)).collect();
        let others = mapped.into_iter().filter(|one| ipv4_span::overlapping(&self.addresses, *one).is_none());
        self.addresses.iter().copied().chain(others).collect()
    }
}

fn mapping_to_api(mapping: &Mapping) -> NatMapping {
    let address = |bits: u32| Ipv4Addr::from_bits(bits).to_string();
    let (protocol, own, seen) = mapping.port.unwrap_or_default();
    let udp = protocol == IpProtocol::UDP.0;
    NatMapping {
        inside: address(mapping.inside),
        outside: address(mapping.outside),
        outside_port: seen.into(),
        inside_port: if own == seen { 0 } else { own.into() },
        protocol: if udp { NatProtocol::Udp } else { NatProtocol::Unspecified }.into(),
        twice: mapping.twice,
    }
}

fn mappings(
    said: &[NatMapping],
    addresses: &[Ipv4Span],
    ports: &RangeInclusive<u16>,
) -> Result<Vec<Mapping>, Flaw> {
    let mut all: Vec<Mapping> = Vec::new();
    let (mut seen_by, mut owned_by) = (HashSet::new(), HashSet::new());
    for (index, one) in said.iter().enumerate() {
        let place = |field: &str| format!("mappings[{index}].{field}");
        let mapping = mapping(one, place)?;
        let Mapping { inside, outside, port, .. } = mapping;
        let (seen, ours) =
            (Ipv4Span::host(outside), ipv4_span::overlapping(addresses, Ipv4Span::host(outside)));
        if let Some(span) = ours
            && port.is_none_or(|(_, _, seen)| ports.contains(&seen))
        {
            let flaw = Flaw::new(
                place("outside"),
                format!("{seen} overlaps {span}, whose ports the pool gives to others"),
            );
            return Err(flaw.remedy("take an address that isn't the pool's, or a port below its first_port or above its last_port"));
        }
        if !seen_by.insert((outside, port.map(|(protocol, _, seen)| (protocol, seen)))) {
            return Err(Flaw::new(place("outside"), format!("{seen} is mapped already"))
                .remedy("map each address or port once"));
        }
        if !owned_by.insert((inside, port.map(|(protocol, own, _)| (protocol, own)))) {
            return Err(Flaw::new(place("inside"), format!("{} is mapped already", Ipv4Span::host(inside)))
                .remedy("a host is seen with one address"));
        }
        all.push(mapping);
    }
    // An address that is one host's inside and another's outside can't be told.
    let outside: HashSet<u32> = all.iter().map(|one| one.outside).collect();
    let both = all.iter().find(|one| outside.contains(&one.inside));
    if let Some(both) = both {
        return Err(Flaw::new("mappings", format!("{} is inside and outside", Ipv4Span::host(both.inside)))
            .remedy("take addresses outside that no host inside has"));
    }
    all.sort_unstable();
    Ok(all)
}

/// Who asks from outside has no share of such a pool.
fn none_is_twice(mappings: &[NatMapping], has_no_addresses: bool) -> Result<(), Flaw> {
    let Some(index) = mappings.iter().position(|mapping| mapping.twice) else { return Ok(()) };
    let (what, remedy) = if has_no_addresses {
        ("the pool has no addresses that who asks could be seen with", "say some in `addresses`")
    } else {
        (
            "a deterministic pool has nothing for who asks from outside",
            "leave out `deterministic`, or `twice`",
        )
    };
    Err(Flaw::new(format!("mappings[{index}].twice"), what).remedy(remedy))
}

fn mapping(said: &NatMapping, place: impl Fn(&str) -> String) -> Result<Mapping, Flaw> {
    let address = |field: &str, text: &str| {
        let field = place(field);
        let span = Ipv4Span::parse(&field, text)?;
        if span.first != span.last || !span.is_unicast() {
            return Err(Flaw::new(field, format!("{text} is no host's address")).remedy("take one address"));
        }
        Ok(span.first.to_bits())
    };
    let (inside, outside) = (address("inside", &said.inside)?, address("outside", &said.outside)?);
    let port = |field: &str, said: u32, default: u32| {
        fields::number(&place(field), said, 1..=u32::from(u16::MAX), default).map(|port| port as u16)
    };
    let protocol = fields::choice(&place("protocol"), said.protocol, NatProtocol::Tcp)?;
    if said.outside_port == 0 {
        let unused = [("inside_port", said.inside_port != 0), ("protocol", said.protocol != 0)];
        if let Some((field, _)) = unused.into_iter().find(|(_, given)| *given) {
            return Err(Flaw::new(place(field), "is for a port, but outside_port isn't said")
                .remedy("say it, or leave both out to map the whole address"));
        }
        return Ok(Mapping { inside, outside, port: None, twice: said.twice });
    }
    let seen = port("outside_port", said.outside_port, 0)?;
    let own = port("inside_port", said.inside_port, said.outside_port)?;
    let protocol = if protocol == NatProtocol::Udp { IpProtocol::UDP } else { IpProtocol::TCP };
    Ok(Mapping { inside, outside, port: Some((protocol.0, own, seen)), twice: said.twice })
}

/// Hosts that have a port each, at least.
fn deterministic(
    hosts: Ipv4Span,
    addresses: &[Ipv4Span],
    ports: RangeInclusive<u16>,
) -> Result<Ipv4Span, Flaw> {
    let size: u64 = addresses.iter().map(|span| span.len()).sum();
    if size == 0 {
        return Err(Flaw::new("deterministic", "there are no addresses to share out").remedy("say some"));
    }
    if hosts.len().div_ceil(size) > ports.len() as u64 {
        let what =
            format!("{} hosts can't have {} ports of {size} addresses among them", hosts.len(), ports.len());
        return Err(Flaw::new("deterministic", what).remedy("take more addresses or ports, or fewer hosts"));
    }
    Ok(hosts)
}

/// A block at least of each address, and of each host.
fn blocks(
    pool: &NatPool,
    addresses: &[Ipv4Span],
    ports: &RangeInclusive<u16>,
) -> Result<Option<BlockSize>, Flaw> {
    if pool.block_size == 0 {
        return match pool.blocks_per_host {
            0 => Ok(None),
            _ => Err(Flaw::new("blocks_per_host", "is of blocks, but block_size isn't said")
                .remedy("say it, or leave both out")),
        };
    }
    if !pool.deterministic.is_empty() {
        return Err(Flaw::new("block_size", "a deterministic pool's hosts have their ports already")
            .remedy("leave out `deterministic`, or `block_size`"));
    }
    if addresses.is_empty() {
        return Err(Flaw::new("block_size", "there are no addresses to share out").remedy("say some"));
    }
    let size = fields::number("block_size", pool.block_size, SMALLEST_BLOCK..=ports.len() as u32, 0)?;
    let count = addresses.iter().map(|span| span.len()).sum::<u64>() * u64::from(ports.len() as u32 / size);
    if count > MOST_BLOCKS {
        let flaw =
            Flaw::new("block_size", format!("the pool would have {count} blocks, more than {MOST_BLOCKS}"));
        return Err(flaw.remedy("take larger blocks, or fewer addresses"));
    }
    if let Some(index) = pool.mappings.iter().position(|mapping| mapping.twice) {
        let flaw = Flaw::new(
            format!("mappings[{index}].twice"),
            "whoever asks from outside would be given a block of ports",
        );
        return Err(flaw.remedy("leave out `block_size`, or `twice`"));
    }
    let most = ports.len() as u32 / size;
    let default = BLOCKS_PER_HOST.min(most);
    let per_host = fields::number("blocks_per_host", pool.blocks_per_host, 1..=most, default)?;
    Ok(Some(BlockSize { ports: size as u16, per_host: per_host as u16 }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::v1::NatPrefix;

    fn pool() -> NatPool {
        NatPool { name: "out".into(), addresses: vec!["192.0.2.1".into()], ..NatPool::default() }
    }

    fn mapped(port: u32) -> NatMapping {
        let (inside, outside) = ("10.0.0.1".into(), "192.0.2.2".into());
        NatMapping { inside, outside, outside_port: port, ..NatMapping::default() }
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
            NatPool {
                mappings: vec![
                    NatMapping { inside_port: 80, twice: true, ..mapped(443) },
                    NatMapping { protocol: NatProtocol::Udp.into(), ..mapped(53) },
                    NatMapping {
                        inside: "10.0.0.2".into(),
                        outside: "192.0.2.3".into(),
                        ..NatMapping::default()
                    },
                ],
                ..pool()
            },
            NatPool { block_size: 512, ..pool() },
            NatPool { block_size: 64512, blocks_per_host: 1, ..pool() },
            NatPool { addresses: vec![], mappings: vec![mapped(0)], ..pool() },
            NatPool {
                addresses: vec![],
                prefixes: vec![NatPrefix { inside: "fd00::/48".into(), outside: "2001:db8:1::/48".into() }],
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

    /// As many as take seconds where each is compared with all others.
    #[test]
    fn a_pool_may_have_many_addresses_and_mappings() {
        let at = |network: u32, host: u32| Ipv4Addr::from_bits(network | host).to_string();
        let one = |host| NatMapping {
            inside: at(10 << 24, host),
            outside: at(11 << 24, host),
            ..NatMapping::default()
        };
        let mut many = NatPool {
            addresses: (0..20_000).map(|host| at(12 << 24, 2 * host)).collect(),
            mappings: (0..20_000).map(one).collect(),
            ..pool()
        };
        let spec = NatPoolSpec::parse(&many).unwrap();
        assert_eq!(spec.all_addresses().len(), 40_000);
        assert_eq!(spec.to_api(), many);
        for (address, overlaps) in [("12.0.0.1", false), ("12.0.0.7-12.0.0.9", true), ("12.0.0.0/8", true)] {
            many.addresses.push(address.into());
            assert_eq!(NatPoolSpec::parse(&many).is_err(), overlaps, "{address}");
            many.addresses.pop();
        }
    }

    #[test]
    fn flaws_name_their_field() {
        let of = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let maps = |mappings: &[NatMapping]| NatPool { mappings: mappings.to_vec(), ..pool() };
        // Below the pool's first port, its address may have others.
        assert!(
            NatPoolSpec::parse(&maps(&[NatMapping { outside: "192.0.2.1".into(), ..mapped(1023) }])).is_ok()
        );
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
            (NatPool { block_size: 64513, ..pool() }, "block_size"),
            (NatPool { block_size: 15, ..pool() }, "block_size"),
            (NatPool { block_size: 16, addresses: of(&["10.0.0.0/8"]), ..pool() }, "block_size"),
            (
                NatPool { block_size: 64, ..maps(&[NatMapping { twice: true, ..mapped(0) }]) },
                "mappings[0].twice",
            ),
            (NatPool { block_size: 64, deterministic: "10.0.0.0/24".into(), ..pool() }, "block_size"),
            (NatPool { block_size: 64, addresses: vec![], ..maps(&[mapped(0)]) }, "block_size"),
            (NatPool { block_size: 40_000, blocks_per_host: 2, ..pool() }, "blocks_per_host"),
            (NatPool { blocks_per_host: 2, ..pool() }, "blocks_per_host"),
            (
                maps(&[mapped(0), NatMapping { inside: "10.0.0.9".into(), ..mapped(0) }]),
                "mappings[1].outside",
            ),
            (
                maps(&[mapped(0), NatMapping { outside: "192.0.2.9".into(), ..mapped(0) }]),
                "mappings[1].inside",
            ),
            (
                maps(&[mapped(80), NatMapping { inside: "10.0.0.9".into(), ..mapped(80) }]),
                "mappings[1].outside",
            ),
            (maps(&[NatMapping { outside: "192.0.2.1".into(), ..mapped(0) }]), "mappings[0].outside"),
            (maps(&[NatMapping { outside: "192.0.2.1".into(), ..mapped(1024) }]), "mappings[0].outside"),
            (maps(&[NatMapping { inside_port: 7, ..mapped(0) }]), "mappings[0].inside_port"),
            (
                NatPool {
                    addresses: vec![],
                    ..maps(&[mapped(53), NatMapping { twice: true, ..mapped(54) }])
                },
                "mappings[1].twice",
            ),
            (
                NatPool {
                    deterministic: "10.0.0.0/24".into(),
                    ..maps(&[NatMapping { twice: true, ..mapped(0) }])
                },
                "mappings[0].twice",
            ),
            (maps(&[NatMapping { protocol: 2, ..mapped(0) }]), "mappings[0].protocol"),
            (maps(&[NatMapping { protocol: 9, ..mapped(1) }]), "mappings[0].protocol"),
            (maps(&[mapped(70_000)]), "mappings[0].outside_port"),
            (maps(&[NatMapping { inside: "fd00::1".into(), ..mapped(0) }]), "mappings[0].inside"),
            (maps(&[NatMapping { outside: "192.0.2.0/30".into(), ..mapped(0) }]), "mappings[0].outside"),
            (maps(&[NatMapping { outside: "10.0.0.1".into(), ..mapped(0) }]), "mappings"),
        ] {
            assert_eq!(NatPoolSpec::parse(&api).unwrap_err().field, field, "{api:?}");
        }
    }
}
