//! Mappings that stand: hosts inside, and ports of theirs, that are always seen outside with the same address, and can be asked by it.

use super::super::translate::End;
use super::pool::Pool;
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tables::session::{Endpoint, Key};

/// One of them; addresses in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    /// The host's own address.
    pub inside: u32,
    /// The address that it is seen with.
    pub outside: u32,
    /// Of a port alone: protocol, the host's own port, and the one that it is seen with.
    pub port: Option<(u8, u16, u16)>,
    /// Who asks it from outside is seen with an address and a port of the pool ("twice NAT", RFC 2663 section 4.3).
    pub twice: bool,
}

/// A port, by protocol and endpoint, to the same on the other side.
type Ports = HashMap<(u8, End<u32>), End<u32>, RandomState>;
type Hosts = HashMap<u32, u32, RandomState>;

/// All mappings of a pool, both ways. No address and no port is there twice on either side.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    /// Whole addresses, from outside to inside and back.
    hosts: [Hosts; 2],
    /// Single ports, likewise. They come before the whole address.
    ports: [Ports; 2],
    /// Those of them, as they are seen, with whom both sides are translated: of a port alone with protocol and port.
    twice: HashSet<(u32, Option<(u8, u16)>), RandomState>,
}

impl Mappings {
    /// Of these.
    #[must_use]
    pub fn new(mappings: &[Mapping]) -> Self {
        let mut all = Self::default();
        for Mapping { inside, outside, port, twice } in mappings {
            if *twice {
                all.twice.insert((*outside, port.map(|(protocol, _, seen)| (protocol, seen))));
            }
            match port {
                None => {
                    all.hosts[0].insert(*outside, *inside);
                    all.hosts[1].insert(*inside, *outside);
                }
                Some((protocol, own, seen)) => {
                    let (own, seen) = ((*inside, *own), (*outside, *seen));
                    all.ports[0].insert((*protocol, seen), own);
                    all.ports[1].insert((*protocol, own), seen);
                }
            }
        }
        all
    }

    /// Addresses that hosts are seen with, some perhaps twice.
    pub fn outside(&self) -> impl Iterator<Item = u32> + '_ {
        self.hosts[0].keys().copied().chain(self.ports[0].keys().map(|(_, (address, _))| *address))
    }

    /// Who is meant outside by that endpoint.
    pub(super) fn inward(&self, protocol: u8, seen: End<u32>) -> Option<End<u32>> {
        self.across(0, protocol, seen)
    }

    /// Whether who asks that endpoint from outside is translated, too.
    pub(super) fn is_twice(&self, protocol: u8, seen: End<u32>) -> bool {
        let port = || self.ports[0].contains_key(&(protocol, seen)).then_some((protocol, seen.1));
        !self.twice.is_empty() && self.twice.contains(&(seen.0, port()))
    }

    /// What an endpoint inside is always seen as.
    pub(super) fn outward(&self, protocol: u8, own: End<u32>) -> Option<End<u32>> {
        self.across(1, protocol, own)
    }

    fn across(&self, way: usize, protocol: u8, end: End<u32>) -> Option<End<u32>> {
        let port = self.ports[way].get(&(protocol, end)).copied();
        port.or_else(|| Some((*self.hosts[way].get(&end.0)?, end.1)))
    }
}

/// Whose mappings an outside address is of, in all address spaces: a tenant's number, and its pool.
#[derive(Clone, Debug, Default)]
pub struct Mapped {
    addresses: HashMap<(u16, u32), (u16, Arc<Pool>), RandomState>,
    /// Pools that exchange prefixes, which are few, with their address spaces.
    exchanging: Vec<(u16, u16, Arc<Pool>)>,
}

impl Mapped {
    /// Adds the mappings of a tenant's pool.
    pub fn add(&mut self, context: u16, tenant: u16, pool: &Arc<Pool>) {
        for address in pool.mappings.outside() {
            self.addresses.insert((context, address), (tenant, Arc::clone(pool)));
        }
        if !pool.prefixes.is_empty() {
            self.exchanging.push((context, tenant, Arc::clone(pool)));
        }
    }

    /// There are none any more.
    pub fn clear(&mut self) {
        self.addresses.clear();
        self.exchanging.clear();
    }

    /// Whose prefix an endpoint outside has, and the host inside that is meant by it.
    fn exchanged(&self, context: u16, seen: Endpoint) -> Option<(u16, Endpoint)> {
        let of_context = self.exchanging.iter().filter(|(of, ..)| *of == context);
        of_context.into_iter().find_map(|(_, tenant, pool)| Some((*tenant, pool.prefixes.host(seen)?)))
    }

    fn inward(&self, key: &Key, seen: End<u32>) -> Option<(u16, End<u32>)> {
        let (tenant, pool) = self.addresses.get(&(key.context(), seen.0))?;
        Some((*tenant, pool.mappings.inward(key.protocol(), seen)?))
    }

    /// The tenant whose host is meant by the destination of a packet with that key; 0: none.
    #[must_use]
    pub fn tenant(&self, key: &Key, from_high: bool) -> u16 {
        if !key.is_v4() && !self.exchanging.is_empty() {
            let (low, high) = key.endpoints();
            let exchanged = self.exchanged(key.context(), if from_high { low } else { high });
            return exchanged.map_or(0, |(tenant, _)| tenant);
        }
        if self.addresses.is_empty() || !key.is_v4() {
            return 0;
        }
        let (low, high) = key.v4_endpoints();
        self.inward(key, if from_high { low } else { high }).map_or(0, |(tenant, _)| tenant)
    }

    /// The key with hosts' own addresses, the same on both sides of a translation. `None` where it is so itself.
    pub(in super::super) fn plain(&self, key: &Key) -> Option<Key> {
        if !key.is_v4() && !self.exchanging.is_empty() {
            let (low, high) = key.endpoints();
            let own = [low, high].map(|end| self.exchanged(key.context(), end).map(|(_, own)| own));
            own.iter().any(Option::is_some).then_some(())?;
            let own = [own[0].unwrap_or(low), own[1].unwrap_or(high)];
            return Key::of(key.context(), key.protocol(), own[0], own[1]).map(|(key, _)| key);
        }
        if self.addresses.is_empty() || !key.is_v4() {
            return None;
        }
        let (low, high) = key.v4_endpoints();
        let own = [low, high].map(|end| self.inward(key, end).map(|(_, own)| own));
        let any = own.iter().any(Option::is_some);
        let own = (own[0].unwrap_or(low), own[1].unwrap_or(high));
        any.then(|| Key::v4_by_protocol(key.context(), key.protocol(), own.0, own.1).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::IpProtocol;

    const TCP: u8 = IpProtocol::TCP.0;
    const UDP: u8 = IpProtocol::UDP.0;

    #[test]
    fn a_port_s_mapping_comes_before_its_host_s() {
        let host = Mapping { inside: 10, outside: 100, port: None, twice: true };
        let port = Mapping { inside: 11, outside: 100, port: Some((TCP, 80, 8080)), twice: false };
        let mappings = Mappings::new(&[host, port]);
        assert_eq!(mappings.inward(TCP, (100, 8080)), Some((11, 80)));
        assert_eq!(mappings.inward(UDP, (100, 8080)), Some((10, 8080)));
        assert_eq!(mappings.inward(TCP, (100, 80)), Some((10, 80)));
        assert_eq!(mappings.inward(TCP, (10, 80)), None);
        let twice =
            [(TCP, 8080), (UDP, 8080), (TCP, 80)].map(|(of, port)| mappings.is_twice(of, (100, port)));
        assert_eq!(twice, [false, true, true]);
        assert!(!mappings.is_twice(TCP, (10, 80)));
        assert_eq!(mappings.outward(TCP, (11, 80)), Some((100, 8080)));
        assert_eq!(mappings.outward(TCP, (11, 81)), None);
        assert_eq!(mappings.outward(UDP, (10, 8080)), Some((100, 8080)));
        let mut outside: Vec<_> = mappings.outside().collect();
        outside.dedup();
        assert_eq!(outside, [100]);
    }
}
