//! The interface table.

use super::sub_interfaces::SubInterfaces;
use crate::tunnel::Tunnel;
use core::fmt;
use core::net::IpAddr;
use graph::IfIndex;
use std::sync::Arc;
use wire::MacAddr;

/// What a frame on the interface begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkMode {
    /// An Ethernet header.
    #[default]
    Ethernet,
    /// An IP header: memif in IP mode, tun. Needs no neighbours.
    Ip,
}

/// What becomes of frames received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer2 {
    /// The interface routes: frames to its own address or a group go to the network layer.
    #[default]
    None,
    /// It is a member of a bridge.
    Bridge {
        /// Number of the bridge.
        bridge: u16,
        /// Members of the same group don't reach each other; 0: no group.
        split_horizon_group: u8,
        /// It is the bridge's routed leg: what it "sends" enters the bridge, what the bridge sends to it is routed.
        bvi: bool,
    },
    /// Every frame goes to another interface, unseen.
    CrossConnect {
        /// The other one.
        peer: IfIndex,
    },
}

/// Check of the source address (RFC 3704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rpf {
    /// None.
    #[default]
    Off,
    /// Any route back will do.
    Loose,
    /// The route back must lead through the interface the packet came in by.
    Strict,
}

/// Tags that a sub-interface strips and pushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlanTags {
    /// Ethertype of the outer tag: 0x8100 or 0x88a8.
    pub outer_type: u16,
    /// Outer VLAN id, 1 to 4094.
    pub outer: u16,
    /// Inner VLAN id (ethertype 0x8100), or 0 where there is one tag.
    pub inner: u16,
}

/// The ids: `100`, or `100.200` for two tags.
impl fmt::Display for VlanTags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inner {
            0 => write!(f, "{}", self.outer),
            inner => write!(f, "{}.{inner}", self.outer),
        }
    }
}

/// An own address with its connected network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// Length of the connected prefix.
    pub prefix_len: u8,
}

/// An interface as nodes see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// There is an interface of this index.
    pub exists: bool,
    /// Administratively up. A packet that came in by an interface that is down goes no further than its input node
    /// (its `device-input` chain is empty), and what leaves by one likewise.
    pub up: bool,
    /// What frames begin with.
    pub mode: LinkMode,
    /// What nothing here takes of its VRF's packets to our own addresses is sent there, and what comes from there is our own: memif
    /// in mode punt/inject.
    pub punt_inject: bool,
    /// Own Ethernet address.
    pub mac: MacAddr,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// VRF: index into [`crate::ip::Fibs`].
    pub vrf: u16,
    /// Bridging.
    pub layer2: Layer2,
    /// Reverse path filter.
    pub rpf: Rpf,
    /// For a VLAN sub-interface: the interface below and the tags.
    pub vlan: Option<(IfIndex, VlanTags)>,
    /// For a tunnel: where it leads.
    pub tunnel: Option<Tunnel>,
    /// Sub-interfaces stacked on this one, by their tags.
    pub sub_interfaces: Arc<SubInterfaces>,
    /// Own addresses.
    pub addresses: Arc<Vec<InterfaceAddress>>,
    /// Foreign addresses that ARP and neighbour solicitations are answered for: inclusive ranges, of one family each.
    pub proxy_ranges: Arc<Vec<(IpAddr, IpAddr)>>,
    /// Sources that the reverse path filter lets pass besides, likewise.
    pub allowed_sources: Arc<Vec<(IpAddr, IpAddr)>>,
    /// Its name, for traces.
    pub name: Arc<str>,
}

/// Bytes of an Ethernet header without VLAN tags.
const ETHERNET_HEADER: u32 = 14;

impl Interface {
    /// All own addresses: the configured ones, and the link-local one that every Ethernet interface has by its MAC address
    /// (RFC 4291 appendix A).
    pub fn own(&self) -> impl Iterator<Item = InterfaceAddress> + Clone {
        let by_mac = (self.mode == LinkMode::Ethernet && self.exists)
            .then(|| InterfaceAddress { address: wire::ipv6::link_local(self.mac).into(), prefix_len: 64 });
        self.addresses.iter().copied().chain(by_mac)
    }

    /// Largest untagged frame that the interface takes, in bytes without FCS: its MTU and, on Ethernet, 14 bytes.
    #[must_use]
    #[inline(always)]
    pub const fn frame_limit(&self) -> u32 {
        match self.mode {
            LinkMode::Ethernet => self.mtu as u32 + ETHERNET_HEADER,
            LinkMode::Ip => self.mtu as u32,
        }
    }
}

/// All interfaces, by index. Index 0 is never an interface.
#[derive(Clone, Debug, Default)]
pub struct Interfaces {
    list: Vec<Interface>,
    none: Interface,
    /// Those that are for punt and inject, in order.
    punt_inject: Vec<IfIndex>,
}

impl Interfaces {
    /// The interface; one that doesn't exist and is down where there is none of that index.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, index: IfIndex) -> &Interface {
        self.list.get(index as usize).unwrap_or(&self.none)
    }

    /// Sets or, with `None`, removes an interface.
    pub fn set(&mut self, index: IfIndex, interface: Option<Interface>) {
        let at = index as usize;
        if self.list.len() <= at {
            self.list.resize_with(at + 1, Interface::default);
        }
        self.list[at] = interface.unwrap_or_default();
        let place = self.punt_inject.partition_point(|other| *other < index);
        match (self.punt_inject.get(place) == Some(&index), self.list[at].punt_inject) {
            (false, true) => self.punt_inject.insert(place, index),
            (true, false) => drop(self.punt_inject.remove(place)),
            _ => {}
        }
    }

    /// The interface to which packets of this VRF are sent that nothing here takes.
    #[must_use]
    pub fn punt(&self, vrf: u16) -> Option<(IfIndex, &Interface)> {
        let all = self.punt_inject.iter().map(|index| (*index, self.get(*index)));
        let mut open = all.filter(|(_, interface)| interface.up && interface.layer2 == Layer2::None);
        open.find(|(_, interface)| interface.vrf == vrf)
    }

    /// The interface by whose queues packets leave that are sent by `index`: its own, or those of the one below. `None`: it needs nobody's, since it leads into a
    /// bridge or a tunnel.
    #[must_use]
    pub fn carrier(&self, index: IfIndex) -> Option<IfIndex> {
        let below = self.get(index).vlan.map_or(index, |(parent, _)| parent);
        let inside = |interface: &Interface| {
            matches!(interface.layer2, Layer2::Bridge { bvi: true, .. }) || interface.tunnel.is_some()
        };
        (!inside(self.get(index)) && !inside(self.get(below))).then_some(below)
    }

    /// All that exist, with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (IfIndex, &Interface)> {
        self.list
            .iter()
            .enumerate()
            .filter(|(_, interface)| interface.exists)
            .map(|(at, i)| (at as IfIndex, i))
    }
}
