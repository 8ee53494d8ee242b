//! The words of the routing table.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;
use graph::IfIndex;
use wire::{Ipv4Prefix, Ipv6Prefix, PrefixError};

/// A destination: an address prefix of either IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Prefix {
    /// IPv4.
    V4(Ipv4Prefix),
    /// IPv6.
    V6(Ipv6Prefix),
}

impl Prefix {
    /// The prefix of this length that covers `address`.
    ///
    /// # Errors
    /// [`PrefixError::BadLength`].
    pub fn covering(address: IpAddr, len: u8) -> Result<Self, PrefixError> {
        Ok(match address {
            IpAddr::V4(address) => Self::V4(Ipv4Prefix::covering(address, len)?),
            IpAddr::V6(address) => Self::V6(Ipv6Prefix::covering(address, len)?),
        })
    }

    /// The prefix that covers one address.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(Ipv4Prefix::host(address)),
            IpAddr::V6(address) => Self::V6(Ipv6Prefix::host(address)),
        }
    }

    /// Bits that count.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "the length of a prefix, not of a container")]
    pub fn len(self) -> u8 {
        match self {
            Self::V4(prefix) => prefix.len(),
            Self::V6(prefix) => prefix.len(),
        }
    }

    /// First address.
    #[must_use]
    pub fn network(self) -> IpAddr {
        match self {
            Self::V4(prefix) => prefix.network().into(),
            Self::V6(prefix) => prefix.network().into(),
        }
    }

    /// Whether `address` is in it; never one of the other IP version.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::V4(prefix), IpAddr::V4(address)) => prefix.contains(address),
            (Self::V6(prefix), IpAddr::V6(address)) => prefix.contains(address),
            _ => false,
        }
    }
}

impl From<Ipv4Prefix> for Prefix {
    fn from(prefix: Ipv4Prefix) -> Self {
        Self::V4(prefix)
    }
}

impl From<Ipv6Prefix> for Prefix {
    fn from(prefix: Ipv6Prefix) -> Self {
        Self::V6(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(prefix) => prefix.fmt(f),
            Self::V6(prefix) => prefix.fmt(f),
        }
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        if text.contains(':') { text.parse().map(Self::V6) } else { text.parse().map(Self::V4) }
    }
}

/// Where a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Via {
    /// To the router (or host) of this address; on `interface`, or where that isn't said on the interface whose
    /// connected network the address belongs to.
    Address {
        /// Address of the next router.
        address: IpAddr,
        /// Interface it is reached by.
        interface: Option<IfIndex>,
    },
    /// Out by this interface; on Ethernet the destination itself is resolved.
    Interface(IfIndex),
    /// The destination is looked up again in another VRF.
    Vrf(u16),
    /// The destination is an IPv6 link-local address, known on its link only.
    LinkLocal,
    /// The destination is an address of our own, on this interface.
    Local(IfIndex),
    /// One of two interfaces, by destination port: a [`SplitRule`](super::SplitRule) by its number.
    PortSplit(u32),
    /// Packets are dropped silently.
    Blackhole,
    /// Packets are dropped and their senders told: host unreachable.
    Unreachable,
    /// Packets are dropped and their senders told: administratively prohibited.
    Prohibit,
}

impl Via {
    /// Whether it is no way to anywhere, so that no other path can stand beside it.
    #[must_use]
    pub const fn is_action(self) -> bool {
        matches!(
            self,
            Self::Blackhole
                | Self::Unreachable
                | Self::Prohibit
                | Self::LinkLocal
                | Self::Local(_)
                | Self::PortSplit(_)
        )
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { address, interface: None } => write!(f, "via {address}"),
            Self::Address { address, interface: Some(interface) } => {
                write!(f, "via {address} interface {interface}")
            }
            Self::Interface(interface) => write!(f, "interface {interface}"),
            Self::Vrf(vrf) => write!(f, "vrf {vrf}"),
            Self::Local(interface) => write!(f, "local, interface {interface}"),
            Self::PortSplit(_) => f.write_str("by port"),
            Self::LinkLocal => f.write_str("on its link"),
            Self::Blackhole => f.write_str("blackhole"),
            Self::Unreachable => f.write_str("unreachable"),
            Self::Prohibit => f.write_str("prohibit"),
        }
    }
}

/// One of a route's next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    /// Where it leads.
    pub via: Via,
    /// Its share of the traffic, relative to the others'; at least 1.
    pub weight: u32,
}

impl From<Via> for Path {
    fn from(via: Via) -> Self {
        Self { via, weight: 1 }
    }
}

/// Where a route comes from, in order of preference: of several routes to one prefix the first that leads somewhere is
/// used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// An own address.
    Local,
    /// A network that an interface is connected to, and its broadcast addresses.
    Connected,
    /// Configured.
    Static,
    /// A neighbour on a connected network whose link-layer address is known.
    Neighbour,
    /// Addresses of one link, which no route but their own leads to.
    LinkLocal,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Connected => "connected",
            Self::Static => "static",
            Self::Neighbour => "neighbour",
            Self::LinkLocal => "link-local",
        })
    }
}

/// What a path waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// The interface doesn't exist.
    NoInterface(IfIndex),
    /// The interface is administratively down.
    InterfaceDown(IfIndex),
    /// No connected network contains the address of the next router.
    NotConnected(IpAddr),
    /// The VRF doesn't exist.
    NoVrf(u16),
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInterface(interface) => write!(f, "interface {interface} doesn't exist"),
            Self::InterfaceDown(interface) => write!(f, "interface {interface} is down"),
            Self::NotConnected(address) => write!(f, "no connected network contains {address}"),
            Self::NoVrf(vrf) => write!(f, "VRF {vrf} doesn't exist"),
        }
    }
}

/// Whether packets can follow a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteState {
    /// At least one path leads somewhere.
    Active,
    /// None does; the route is kept and used as soon as one does. This is what the first path waits for.
    Pending(Pending),
}

/// IPv4 as IPv4-mapped IPv6, as next hops store addresses.
pub(super) fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Whether both are of one IP version.
pub(super) fn same_family(address: IpAddr, prefix: Prefix) -> bool {
    matches!((address, prefix), (IpAddr::V4(_), Prefix::V4(_)) | (IpAddr::V6(_), Prefix::V6(_)))
}

/// Addresses of a connected network that are broadcasts: the first and the last one, where it has room for hosts besides.
pub(super) fn broadcasts(prefix: Ipv4Prefix) -> Option<[Ipv4Addr; 2]> {
    (prefix.len() <= 30).then(|| [prefix.network(), prefix.last()])
}

/// `fe80::/10`: addresses of one link, not of a VRF.
pub(super) fn link_local(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => Some(address),
        _ => None,
    }
}

/// Addresses of one link. A default route must not lead there (RFC 4291 section 2.5.6, RFC 3927 section 7). Those of IPv4 are
/// a VRF's like any other where a network or route says so: clusters give services such addresses.
pub(super) fn link_local_prefixes() -> Result<[Prefix; 2], PrefixError> {
    let v6 = Ipv6Prefix::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10).map(Prefix::V6)?;
    let v4 = Ipv4Prefix::new(Ipv4Addr::new(169, 254, 0, 0), 16).map(Prefix::V4)?;
    Ok([v6, v4])
}
