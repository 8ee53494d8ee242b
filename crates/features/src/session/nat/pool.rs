//! Addresses and ports that inside hosts are seen with.

use super::super::tenants::Tenants;
use super::bind::NoPort;
use super::blocks::Blocks;
use super::mappings::Mappings;
use super::ports::Ports;
use super::prefixes::Prefixes;
use core::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tables::session::Seed;

/// Figures that all workers change. Touched when a translation comes or goes, not for each packet.
#[derive(Debug, Default)]
pub struct Figures {
    /// Translations that there have been.
    pub created: AtomicU64,
    /// Those of them that have ended. Only two are counted, as an addition that all workers see takes as long as a dozen others.
    ended: AtomicU64,
    /// Packets whose session found no port to its destination.
    pub exhausted: AtomicU64,
    /// Packets whose host was given no block more.
    pub without_block: AtomicU64,
}

impl Figures {
    /// Translations that there are.
    #[must_use]
    pub fn translations(&self) -> u64 {
        let ended = self.ended.load(Ordering::Relaxed);
        self.created.load(Ordering::Relaxed).saturating_sub(ended)
    }

    pub(super) fn take(&self) {
        self.created.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn give(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a packet whose session has no port of the pool for that reason, which it gives back.
    pub(super) fn refuse(&self, why: NoPort) -> NoPort {
        let figure = if matches!(why, NoPort::NoBlock | NoPort::NoMore) {
            &self.without_block
        } else {
            &self.exhausted
        };
        figure.fetch_add(1, Ordering::Relaxed);
        why
    }
}

/// Hosts that have their ports by their address alone (RFC 7422): nobody has to log who had which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deterministic {
    /// The first of them.
    pub first: u32,
    /// The last of them.
    pub last: u32,
}

/// A pool, as workers see it.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name.
    pub name: Arc<str>,
    /// Its addresses, ascending ranges without overlap, in host byte order; none where it has mappings alone.
    pub addresses: Vec<RangeInclusive<u32>>,
    /// Ports of each of them.
    pub ports: RangeInclusive<u16>,
    /// Hosts that have their ports by their address; no other host has any then.
    pub deterministic: Option<Deterministic>,
    /// Blocks of ports that hosts are given as they need them; no host has any other port then. The same through all versions of the tables.
    pub blocks: Option<Arc<Blocks>>,
    /// Hosts and ports that are always seen with the same.
    pub mappings: Mappings,
    /// Prefixes of IPv6 that are exchanged.
    pub prefixes: Prefixes,
    /// Its figures: the same through all versions of the tables.
    pub figures: Arc<Figures>,
}

/// What a host may be seen with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) address: u32,
    pub(super) ports: RangeInclusive<u16>,
}

/// Number of addresses of a range.
pub(super) const fn len(range: &RangeInclusive<u32>) -> u64 {
    (*range.end() as u64 + 1).saturating_sub(*range.start() as u64)
}

impl Pool {
    /// Number of addresses.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.addresses.iter().map(len).sum()
    }

    /// Ports of each address.
    #[must_use]
    pub fn ports_each(&self) -> u32 {
        (u32::from(*self.ports.end()) + 1).saturating_sub((*self.ports.start()).into())
    }

    /// Ports of each host, where hosts have theirs by their address.
    #[must_use]
    pub fn ports_per_host(&self) -> Option<u32> {
        let hosts = self.deterministic?;
        Some(self.ports_each() / self.hosts_per_address(hosts)?)
    }

    fn hosts_per_address(&self, Deterministic { first, last }: Deterministic) -> Option<u32> {
        let hosts = u64::from(last.checked_sub(first)?) + 1;
        u32::try_from(hosts.div_ceil(self.size().max(1))).ok()
    }

    /// Whether an address is one of the pool's.
    #[must_use]
    pub fn has(&self, address: u32) -> bool {
        let behind = self.addresses.partition_point(|range| *range.start() <= address);
        behind.checked_sub(1).is_some_and(|at| self.addresses[at].contains(&address))
    }

    /// What the host may be seen with: always the same address ("paired", RFC 4787 REQ-2), or, where there are blocks, the one that it asks for them first. `None` where it has none.
    pub(super) fn share(&self, host: u32, shares: &Seed) -> Option<Share> {
        let Some(hosts) = self.deterministic else {
            let at = u64::from(shares.hash(&tables::session::Key::v4(0, 0, (host, 0), (host, 0)).0));
            return Some(Share {
                address: self.address((at * self.size()) >> 32)?,
                ports: self.ports.clone(),
            });
        };
        let number = host.checked_sub(hosts.first).filter(|_| host <= hosts.last)?;
        let each = self.hosts_per_address(hosts)?;
        let ports = self.ports_each() / each;
        let first = u32::from(*self.ports.start()) + number % each * ports;
        let last = (first + ports).checked_sub(1).filter(|last| *last >= first)?;
        Some(Share { address: self.address((number / each).into())?, ports: first as u16..=last as u16 })
    }

    fn address(&self, mut at: u64) -> Option<u32> {
        for range in &self.addresses {
            if at < len(range) {
                return Some(range.start() + at as u32);
            }
            at -= len(range);
        }
        None
    }

    /// Whether a host that is seen with that address and port may go on to be.
    pub(super) fn covers(&self, host: u32, (address, port): (u32, u16), tenants: &Tenants) -> bool {
        if let Some(blocks) = &self.blocks {
            return blocks.has(host, (address, port));
        }
        if self.deterministic.is_none() {
            return self.has(address) && self.ports.contains(&port);
        }
        let share = self.share(host, &tenants.shares);
        share.is_some_and(|share| share.address == address && share.ports.contains(&port))
    }
}

impl Share {
    /// Its ports in the order in which they are tried.
    #[inline(always)]
    pub(super) fn candidates(&self, own: u16, start: u32) -> Ports {
        Ports::new(&self.ports, own, start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(addresses: &[RangeInclusive<u32>], ports: RangeInclusive<u16>) -> Pool {
        Pool {
            name: "out".into(),
            addresses: addresses.to_vec(),
            ports,
            deterministic: None,
            blocks: None,
            mappings: Mappings::default(),
            prefixes: Prefixes::default(),
            figures: Arc::default(),
        }
    }

    #[test]
    fn a_host_has_one_address_and_hosts_are_spread() {
        let (pool, seed) = (
            pool(&[100..=103, 200..=203], 1024..=65535),
            Seed::known([0x9e37_79b9, 0x1234_5678_9abc_def1, 77, 0xfeed_f00d_dead_beef]),
        );
        let mut hosts = std::collections::BTreeMap::<u32, u32>::new();
        for host in 0..8000 {
            let share = pool.share(host, &seed).unwrap();
            assert_eq!(pool.share(host, &seed), Some(share.clone()));
            assert!(pool.has(share.address));
            *hosts.entry(share.address).or_default() += 1;
        }
        assert_eq!(hosts.len(), 8);
        assert!(hosts.values().all(|hosts| (800..1200).contains(hosts)), "{hosts:?}");
        assert!(![99, 104, 199, 204].iter().any(|address| pool.has(*address)));
    }

    /// RFC 7422 section 2: 1000 hosts on 4 addresses: 250 each, of 258 ports.
    #[test]
    fn deterministic_shares_never_overlap() {
        let mut pool = pool(&[100..=102, 300..=300], 1024..=65535);
        pool.deterministic = Some(Deterministic { first: 5000, last: 5999 });
        assert_eq!(pool.ports_per_host(), Some(258));
        let mut taken = std::collections::BTreeSet::new();
        let seed = Seed::known([0; 4]);
        for host in 5000..6000 {
            let Share { address, ports } = pool.share(host, &seed).unwrap();
            assert_eq!(ports.len(), 258);
            assert!(pool.has(address));
            assert!(ports.into_iter().all(|port| port >= 1024 && taken.insert((address, port))));
        }
        assert_eq!(pool.share(4999, &seed), None);
        assert_eq!(pool.share(6000, &seed), None);
    }
}
