//! What forwarding knows of interfaces and neighbours, and the routes that follow from them.

use super::route::{Origin, Pending, Prefix, Via, broadcasts, link_local, mapped};
use crate::interface::{Interface, InterfaceAddress, LinkMode};
use crate::ip::{MAX_REWRITE, NextHop, NextHopKind};
use core::net::{IpAddr, Ipv6Addr};
use graph::IfIndex;
use std::collections::BTreeMap;
use wire::{EtherType, EthernetHeader, IntoBytes, MacAddr};

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) vrf: u16,
    pub(super) up: bool,
    pub(super) mode: LinkMode,
    pub(super) mac: MacAddr,
    pub(super) mtu: u16,
    pub(super) addresses: Vec<InterfaceAddress>,
}

impl From<&Interface> for Link {
    fn from(interface: &Interface) -> Self {
        Self {
            vrf: interface.vrf,
            up: interface.up,
            mode: interface.mode,
            mac: interface.mac,
            mtu: interface.mtu,
            addresses: interface.addresses.to_vec(),
        }
    }
}

/// A route that follows from an address or a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Derived {
    pub(super) vrf: u16,
    pub(super) prefix: Prefix,
    pub(super) origin: Origin,
    pub(super) via: Via,
}

impl Link {
    /// The connected prefix of an address; `None` where there is no network behind it.
    fn network(address: &InterfaceAddress) -> Option<Prefix> {
        let prefix = Prefix::covering(address.address, address.prefix_len).ok()?;
        let host = Prefix::host(address.address);
        (prefix != host && link_local(address.address).is_none()).then_some(prefix)
    }

    /// Length of the longest connected prefix that contains `address`.
    fn covers(&self, address: IpAddr) -> Option<u8> {
        let networks = self.addresses.iter().filter_map(Self::network);
        networks.filter(|network| network.contains(address)).map(Prefix::len).max()
    }

    /// The routes that follow from the link's addresses.
    pub(super) fn routes(&self, index: IfIndex) -> Vec<Derived> {
        let mut routes = Vec::new();
        let mut add = |prefix, origin, via| routes.push(Derived { vrf: self.vrf, prefix, origin, via });
        for address in self.addresses.iter().filter(|address| link_local(address.address).is_none()) {
            add(Prefix::host(address.address), Origin::Local, Via::Local(index));
            let Some(network) = Self::network(address) else { continue };
            add(network, Origin::Connected, Via::Interface(index));
            // Directed broadcasts are dropped, and nobody is told (RFC 2644, RFC 1812 section 4.3.2.7).
            if let (Prefix::V4(network), LinkMode::Ethernet, true) = (network, self.mode, self.up) {
                for address in broadcasts(network).into_iter().flatten() {
                    add(Prefix::host(address.into()), Origin::Connected, Via::Blackhole);
                }
            }
        }
        routes.sort_unstable();
        routes.dedup();
        routes
    }

    /// What the link's own link-local addresses lead to, and, where there is IPv6 on it, all others of the link. Every
    /// Ethernet interface has the address made from its MAC address (RFC 4291 appendix A).
    pub(super) fn scoped(&self, index: IfIndex) -> impl Iterator<Item = (Option<Ipv6Addr>, Via)> {
        let ethernet = self.mode == LinkMode::Ethernet;
        let has_ipv6 = ethernet || self.addresses.iter().any(|address| address.address.is_ipv6());
        let own = self.addresses.iter().filter_map(|address| link_local(address.address));
        let own = own.chain(ethernet.then(|| wire::ipv6::link_local(self.mac)));
        let own = own.map(move |address| (Some(address), Via::Local(index)));
        has_ipv6.then_some((None, Via::Interface(index))).into_iter().chain(own)
    }

    /// The route to a neighbour itself, where it is on one of the link's networks.
    pub(super) fn neighbour_route(&self, index: IfIndex, address: IpAddr) -> Option<Derived> {
        let here = self.mode == LinkMode::Ethernet && self.covers(address).is_some();
        let via = Via::Address { address, interface: Some(index) };
        let prefix = Prefix::host(address);
        here.then_some(Derived { vrf: self.vrf, prefix, origin: Origin::Neighbour, via })
    }
}

/// All interfaces and resolved neighbours.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) list: BTreeMap<IfIndex, Link>,
    pub(super) neighbours: BTreeMap<(IfIndex, IpAddr), MacAddr>,
}

impl Links {
    /// The neighbours of one interface.
    pub(super) fn neighbours_of(&self, index: IfIndex) -> impl Iterator<Item = IpAddr> {
        let first = (index, IpAddr::from([0; 4]));
        let own = self.neighbours.range(first..).take_while(move |((of, _), _)| *of == index);
        own.map(|((_, address), _)| *address)
    }

    /// The interface in `vrf` whose connected network contains `address`, the longest where several do.
    pub(super) fn connected(&self, vrf: u16, address: IpAddr) -> Option<IfIndex> {
        let links = self.list.iter().filter(|(_, link)| link.vrf == vrf && link.up);
        let covering = links.filter_map(|(index, link)| Some((link.covers(address)?, *index)));
        covering.max_by_key(|(len, index)| (*len, core::cmp::Reverse(*index))).map(|(_, index)| index)
    }

    fn up(&self, index: IfIndex) -> Result<&Link, Pending> {
        match self.list.get(&index) {
            None => Err(Pending::NoInterface(index)),
            Some(link) if !link.up => Err(Pending::InterfaceDown(index)),
            Some(link) => Ok(link),
        }
    }

    /// The next hop that delivers to an own address.
    pub(super) fn local(&self, index: IfIndex) -> Result<NextHop, Pending> {
        let link = self.up(index)?;
        Ok(NextHop { kind: NextHopKind::Local, tx_if: index, mtu: link.mtu, ..NextHop::default() })
    }

    /// The next hop for whatever goes out by an interface.
    pub(super) fn out(&self, index: IfIndex) -> Result<NextHop, Pending> {
        let link = self.up(index)?;
        let kind = match link.mode {
            LinkMode::Ethernet => NextHopKind::Glean,
            LinkMode::Ip => NextHopKind::Rewrite,
        };
        Ok(NextHop { kind, tx_if: index, mtu: link.mtu, ..NextHop::default() })
    }

    /// The next hop to a neighbour: resolved, to be resolved, or one that needs no resolution.
    pub(super) fn to(&self, index: IfIndex, address: IpAddr) -> Result<NextHop, Pending> {
        let hop = NextHop { address: mapped(address), ..self.out(index)? };
        if hop.kind == NextHopKind::Rewrite {
            return Ok(hop);
        }
        let Some(mac) = self.neighbours.get(&(index, address)) else {
            return Ok(NextHop { kind: NextHopKind::Resolve, ..hop });
        };
        let ethertype = if address.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
        let ethernet = EthernetHeader { dst: *mac, src: self.up(index)?.mac, ethertype };
        let mut header = [0; MAX_REWRITE];
        header[..size_of::<EthernetHeader>()].copy_from_slice(ethernet.as_bytes());
        let header_len = size_of::<EthernetHeader>() as u8;
        Ok(NextHop { kind: NextHopKind::Rewrite, header_len, header, ..hop })
    }
}
