//! What the state machine knows of interfaces.

use crate::interface::{Interface, InterfaceAddress, LinkMode};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use graph::IfIndex;
use std::collections::BTreeMap;
use wire::MacAddr;
use wire::ipv6::{Ipv6Class, Ipv6Kind};

/// An interface on which neighbours are asked for: Ethernet, and up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) mac: MacAddr,
    pub(super) vrf: u16,
    pub(super) addresses: Vec<InterfaceAddress>,
    /// With these, the one by the MAC address.
    all: Vec<InterfaceAddress>,
    /// When own addresses were defended last.
    pub(super) defended: BTreeMap<IpAddr, u64>,
    /// Nobody is asked before: see [`Config::settle`](super::Config::settle).
    pub(super) quiet_until: u64,
}

impl Link {
    /// `None` where there are no neighbours: the interface is down or has no link-layer addresses.
    pub(super) fn of(interface: &Interface) -> Option<Self> {
        let speaks = interface.exists && interface.up && interface.mode == LinkMode::Ethernet;
        speaks.then(|| Self {
            mac: interface.mac,
            vrf: interface.vrf,
            addresses: interface.addresses.to_vec(),
            all: interface.own().collect(),
            defended: BTreeMap::new(),
            quiet_until: 0,
        })
    }

    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        self.all.iter().any(|own| own.address == address)
    }

    /// The configured own addresses: those that are announced.
    pub(super) fn own(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().map(|own| own.address)
    }

    /// Whether `address` lies in a connected network.
    pub(super) fn covers(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| covers(own, address))
    }

    /// The own address to ask for `target` with: of the same network; else any of the same kind.
    fn source(&self, target: IpAddr) -> Option<IpAddr> {
        let near = self.all.iter().find(|own| covers(own, target));
        let alike = |own: &&InterfaceAddress| {
            own.address.is_ipv4() == target.is_ipv4() && is_link_local(own.address) == is_link_local(target)
        };
        near.or_else(|| self.all.iter().find(alike)).map(|own| own.address)
    }
}

/// All links, by interface.
#[derive(Debug, Default)]
pub(super) struct Links(pub(super) BTreeMap<IfIndex, Link>);

impl Links {
    /// The address to ask for `target` with on `interface`. One without an address of the kind borrows one of another
    /// interface in its VRF. Where there is none at all it is asked without a source, as a station does that looks
    /// whether an address is free: who has it answers that too.
    pub(super) fn source(&self, interface: IfIndex, target: IpAddr) -> IpAddr {
        let none = match target {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let Some(link) = self.0.get(&interface) else { return none };
        let others = || self.0.values().filter(|other| other.vrf == link.vrf && !is_link_local(target));
        link.source(target).or_else(|| others().find_map(|other| other.source(target))).unwrap_or(none)
    }
}

/// Whether `address` lies in the connected network of an own address.
fn covers(own: &InterfaceAddress, address: IpAddr) -> bool {
    let len = u32::from(own.prefix_len);
    match (own.address, address) {
        (IpAddr::V4(own), IpAddr::V4(address)) => {
            (own.to_bits() ^ address.to_bits()).checked_shr(32 - len.min(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(own), IpAddr::V6(address)) => {
            (own.to_bits() ^ address.to_bits()).checked_shr(128 - len.min(128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.kind() == Ipv6Kind::LinkLocal)
}

/// Whether a neighbour can have the address at all: unicast, and no broadcast address of a connected network.
pub(super) fn can_be_neighbour(link: &Link, address: IpAddr) -> bool {
    let possible = match address {
        IpAddr::V4(address) => {
            use wire::ipv4::{Ipv4Class, Ipv4Kind};
            matches!(address.kind(), Ipv4Kind::Unicast | Ipv4Kind::LinkLocal)
        }
        IpAddr::V6(address) => {
            matches!(address.kind(), Ipv6Kind::Unicast | Ipv6Kind::UniqueLocal | Ipv6Kind::LinkLocal)
        }
    };
    possible && !link.is_own(address) && !link.addresses.iter().any(|own| is_broadcast(own, address))
}

/// First and last address of a connected IPv4 network of more than two addresses (RFC 3021).
fn is_broadcast(own: &InterfaceAddress, address: IpAddr) -> bool {
    let (IpAddr::V4(network), IpAddr::V4(asked)) = (own.address, address) else { return false };
    if own.prefix_len >= 31 {
        return false;
    }
    let hosts = u32::MAX >> own.prefix_len;
    covers(own, address)
        && (asked.to_bits() & hosts == hosts || asked.to_bits() & hosts == 0)
        && network != asked
}
