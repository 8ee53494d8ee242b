//! All tunnels, found by what a packet says and by the interface it leaves by: a part of the tables.

use super::outer::Outer;
use crate::interface::{Interfaces, LinkMode};
use core::fmt;
use core::net::IpAddr;
use foldhash::fast::RandomState;
use graph::IfIndex;
use std::collections::{HashMap, HashSet};

/// What stands between UDP and what is carried. The number is added to [`UDP_LISTENERS`](crate::local::UDP_LISTENERS): the
/// key under which input nodes attach themselves to `ip4-local` and `ip6-local`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Encapsulation {
    /// RFC 7348; carries Ethernet frames.
    #[default]
    Vxlan = 0,
    /// RFC 8926; carries Ethernet frames or IP packets.
    Geneve = 1,
}

impl Encapsulation {
    /// How many there are.
    pub const COUNT: usize = 2;

    /// Node at which the `interface-output` arc of such tunnels ends.
    #[must_use]
    pub const fn output(self) -> &'static str {
        match self {
            Self::Vxlan => super::vxlan_output::NODE.name,
            Self::Geneve => super::geneve_output::NODE.name,
        }
    }
}

/// Differentiated services code point of outer headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dscp {
    /// Always this, 0 to 63.
    Fixed(u8),
    /// That of the packet inside; 0 where it has none.
    Copied,
}

impl Default for Dscp {
    fn default() -> Self {
        Self::Fixed(0)
    }
}

/// Where an interface's frames go: to one other end of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tunnel {
    /// Format.
    pub encapsulation: Encapsulation,
    /// Our address.
    pub local: IpAddr,
    /// The other end's address, of the same family.
    pub remote: IpAddr,
    /// Network identifier, 24 bits.
    pub vni: u32,
    /// UDP port of both ends.
    pub port: u16,
    /// VRF that both addresses are in.
    pub vrf: u16,
    /// Time to live (hop limit) of outer headers.
    pub ttl: u8,
    /// DSCP of outer headers.
    pub dscp: Dscp,
    /// Whether UDP checksums are sent; and, with Geneve over IPv6, whether what comes must have one.
    pub checksum: bool,
}

impl Tunnel {
    /// Whether what comes without UDP checksum is taken. Over IPv4 it always may be; VXLAN must take it (RFC 7348 section 5); over IPv6 it is only where both ends are set
    /// up so (RFC 6935 section 5, RFC 6936 section 4, RFC 8926 section 4.3.1).
    fn takes_zero(&self) -> bool {
        self.local.is_ipv4() || self.encapsulation == Encapsulation::Vxlan || !self.checksum
    }
}

/// `vni 100, 10.0.0.1 to 10.0.0.2 port 4789`.
impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vni {}, {} to {} port {}", self.vni, self.local, self.remote, self.port)
    }
}

/// Where packets arrive: VRF, our address, UDP port.
pub(super) type Door = (u16, IpAddr, u16);

/// Who may come in there: the other end, network identifier.
pub(super) type Guest = (IpAddr, u32);

/// All tunnels.
#[derive(Clone, Debug, Default)]
pub struct Tunnels {
    doors: HashMap<Door, Encapsulation, RandomState>,
    /// Own addresses of all tunnels with their VRFs: fragments have no port to go by.
    locals: HashSet<(u16, IpAddr), RandomState>,
    ends: HashMap<(Door, Guest), End, RandomState>,
    peers: HashSet<(Door, IpAddr), RandomState>,
    outers: Vec<Option<Outer>>,
}

/// Our end of a tunnel, as what comes through it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Its interface.
    pub(super) index: IfIndex,
    /// What frames of that begin with.
    pub(super) mode: LinkMode,
    /// Packets without UDP checksum are taken.
    pub(super) zero: bool,
}

/// What a received packet's tunnel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This one.
    Tunnel(End),
    /// None from there has this network identifier.
    UnknownVni,
    /// There is none from there.
    UnknownPeer,
}

impl Tunnels {
    /// The tunnels of these interfaces. Where two are the same, the one with the lower index is found.
    #[must_use]
    pub fn of(interfaces: &Interfaces) -> Self {
        let mut all = Self::default();
        for (index, interface) in interfaces.iter() {
            let Some(tunnel) = interface.tunnel else { continue };
            let door = (tunnel.vrf, tunnel.local, tunnel.port);
            let guest = (tunnel.remote, tunnel.vni);
            all.doors.entry(door).or_insert(tunnel.encapsulation);
            all.locals.insert((tunnel.vrf, tunnel.local));
            let end = End { index, mode: interface.mode, zero: tunnel.takes_zero() };
            all.ends.entry((door, guest)).or_insert(end);
            all.peers.insert((door, tunnel.remote));
            let at = usize::from(index);
            if all.outers.len() <= at {
                all.outers.resize_with(at + 1, || None);
            }
            all.outers[at] = Some(Outer::new(&tunnel, interface.mode));
        }
        all
    }

    /// Whether there is none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.doors.is_empty()
    }

    /// Whether `local` is an end of some tunnel in that VRF.
    #[must_use]
    pub fn has_end(&self, vrf: u16, local: IpAddr) -> bool {
        self.locals.contains(&(vrf, local))
    }

    /// What listens on a UDP port of our address `local`.
    #[must_use]
    pub fn listener(&self, vrf: u16, local: IpAddr, port: u16) -> Option<Encapsulation> {
        self.doors.get(&(vrf, local, port)).copied()
    }

    /// The tunnel that a packet came through.
    pub(super) fn find(&self, door: Door, guest: Guest) -> Found {
        match self.ends.get(&(door, guest)) {
            Some(end) => Found::Tunnel(*end),
            None if self.peers.contains(&(door, guest.0)) => Found::UnknownVni,
            None => Found::UnknownPeer,
        }
    }

    /// What goes in front of packets that leave by interface `index`, where that is a tunnel.
    #[inline]
    pub(super) fn outer(&self, index: IfIndex) -> Option<&Outer> {
        self.outers.get(usize::from(index)).and_then(Option::as_ref)
    }
}
