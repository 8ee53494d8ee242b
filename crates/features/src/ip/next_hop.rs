//! Next hops: what a lookup finds. A part of the tables, shared by both IP versions and all VRFs.

use super::{Tallies, Tally};
use crate::port_split::SplitHop;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use graph::IfIndex;
use std::collections::BTreeMap;

/// Longest header a next hop can prepend: Ethernet and two VLAN tags.
pub const MAX_REWRITE: usize = 22;

/// Seed of the flow hash that chooses among equal-cost next hops: that choice's own, see [`wire::flow`].
pub const ECMP_SEED: u64 = 0x65636d70;

/// What is done with a packet that a lookup has led here. The number is the key under which the node that does it
/// attaches itself to `ip4-lookup` and `ip6-lookup`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NextHopKind {
    /// There is no route: the packet is dropped, its sender told (destination unreachable: network).
    #[default]
    NoRoute = 0,
    /// Prepend [`NextHop::header`] and send by `tx_if`. With an empty header: an interface without neighbours.
    Rewrite = 1,
    /// A connected network: the destination itself has to be resolved on `tx_if`.
    Glean = 2,
    /// One of our own addresses.
    Local = 3,
    /// Known next router (or neighbour) whose link-layer address isn't known yet: resolve `NextHop::address` on `tx_if`.
    Resolve = 4,
    /// Several next hops, chosen by flow hash; taken care of by the lookup itself.
    Group = 5,
    /// Look the destination up again, in VRF `vrf`.
    LookupIn = 6,
    /// Drop silently.
    Blackhole = 7,
    /// Drop and tell the sender (destination unreachable: host).
    Unreachable = 8,
    /// Drop and tell the sender (administratively prohibited).
    Prohibit = 9,
    /// A link-local address. Of IPv6: look it up in [`super::LinkLocals`], for the interface that the packet belongs to. Of
    /// IPv4: no route leads there.
    LinkLocal = 10,
    /// One of two others, by destination port: [`NextHops::splits`].
    PortSplit = 11,
}

/// A next hop, one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct NextHop {
    /// What is done.
    pub kind: NextHopKind,
    /// Bytes of `header` that are used.
    pub header_len: u8,
    /// Interface to leave by.
    pub tx_if: IfIndex,
    /// Largest IP packet that it takes, in bytes.
    pub mtu: u16,
    /// VRF for `LookupIn`.
    pub vrf: u16,
    /// For `Group`: first bucket in [`NextHops::buckets`]. For `PortSplit`: its place in [`NextHops::splits`].
    pub first_bucket: u32,
    /// For `Group`: number of buckets minus one; the number is a power of two.
    pub bucket_mask: u16,
    /// Link-layer header, as it is prepended.
    pub header: [u8; MAX_REWRITE],
    /// Address to resolve, for `Resolve` (IPv4 as IPv4-mapped IPv6); the neighbour's own, for `Rewrite`.
    pub address: [u8; 16],
    /// For `Rewrite` and `Resolve`: where packets are counted, in [`NextHops::tallies`]. 0 for all others.
    pub adjacency: u32,
}

const _: () = assert!(size_of::<NextHop>() == 64);

impl NextHop {
    /// The router or neighbour it leads to, where it leads to one.
    #[must_use]
    pub fn neighbour(&self) -> Option<IpAddr> {
        let address = Ipv6Addr::from(self.address);
        let v4 = address.to_ipv4_mapped().map(IpAddr::from);
        (!address.is_unspecified()).then(|| v4.unwrap_or(address.into()))
    }

    /// Counts packets that were sent by it, whose lengths come to `bytes` without its header.
    #[inline(always)]
    pub fn count(&self, tally: Tally<'_>, packets: usize, bytes: u32) {
        let packets = packets as u64;
        let headers = packets * u64::from(self.header_len);
        tally.add(self.adjacency, packets, u64::from(bytes) + headers);
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            NextHopKind::NoRoute => return f.write_str("no route"),
            NextHopKind::Blackhole => return f.write_str("drop silently"),
            NextHopKind::Unreachable => return f.write_str("drop, tell: unreachable"),
            NextHopKind::Prohibit => return f.write_str("drop, tell: prohibited"),
            NextHopKind::LinkLocal => return f.write_str("by its link"),
            NextHopKind::Group => return write!(f, "one of {} buckets", u32::from(self.bucket_mask) + 1),
            NextHopKind::PortSplit => return f.write_str("one of two, by port"),
            NextHopKind::LookupIn => return write!(f, "look up in VRF {}", self.vrf),
            NextHopKind::Local => return write!(f, "deliver here, interface {}", self.tx_if),
            NextHopKind::Glean => write!(f, "resolve the destination on interface {}", self.tx_if)?,
            NextHopKind::Resolve => write!(f, "resolve on interface {}", self.tx_if)?,
            NextHopKind::Rewrite => write!(f, "send by interface {}", self.tx_if)?,
        }
        if let Some(neighbour) = self.neighbour() {
            write!(f, " to {neighbour}")?;
        }
        if self.header_len > 0 {
            f.write_str(" behind ")?;
            let header = self.header.get(..self.header_len.into()).unwrap_or_default();
            header.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        write!(f, ", MTU {}", self.mtu)
    }
}

/// All next hops, by the id that the forwarding tables hold. Id 0 is "no route".
#[derive(Clone, Debug)]
pub struct NextHops {
    /// The next hops.
    pub list: Vec<NextHop>,
    /// Ids of the members of all groups, in blocks of a power of two.
    pub buckets: Vec<u32>,
    /// Ids of members whose weight gives them no bucket, by their group's first bucket: nothing goes that way, but packets may come from there.
    pub idle: BTreeMap<u32, Vec<u32>>,
    /// What port splits lead to.
    pub splits: Vec<SplitHop>,
    /// What has been sent, by adjacency.
    pub tallies: Tallies,
}

impl Default for NextHops {
    fn default() -> Self {
        let list = vec![NextHop::default()];
        Self {
            list,
            buckets: Vec::new(),
            idle: BTreeMap::new(),
            splits: Vec::new(),
            tallies: Tallies::default(),
        }
    }
}

impl NextHops {
    /// The next hop of that id; "no route" for one that isn't there.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, id: u32) -> &NextHop {
        self.list.get(id as usize).unwrap_or(&self.list[0])
    }

    /// Counts packets that were sent by next hop `id`, whose lengths come to `bytes` without its header.
    #[inline(always)]
    pub fn count(&self, tally: Tally<'_>, id: u32, packets: usize, bytes: u32) {
        self.get(id).count(tally, packets, bytes);
    }

    /// What the port split `hop` leads to; `None` where it is no port split.
    #[must_use]
    #[inline(always)]
    pub fn split(&self, hop: &NextHop) -> Option<&SplitHop> {
        let split = self.splits.get(hop.first_bucket as usize);
        split.filter(|_| hop.kind == NextHopKind::PortSplit)
    }

    /// Whether one of the two next hops of the port split `hop` leads through `interface`.
    #[must_use]
    pub fn splits_by(&self, hop: &NextHop, interface: IfIndex) -> bool {
        let ways = self.split(hop).map(|split| [split.matching, split.others]);
        ways.into_iter().flatten().any(|id| self.get(id).tx_if == interface)
    }

    /// The next hops of group `group` that lead somewhere: as often as they have buckets, or once.
    pub fn members(&self, group: &NextHop) -> impl Iterator<Item = &NextHop> {
        let first = group.first_bucket as usize;
        let buckets = self.buckets.get(first..=first + usize::from(group.bucket_mask)).unwrap_or_default();
        let idle = self.idle.get(&group.first_bucket).into_iter().flatten();
        buckets.iter().chain(idle).map(|id| self.get(*id))
    }

    /// The member of group `group` for a flow that has been led through `step` groups before. Bits that have chosen once would choose the same
    /// way in the next group: others are taken.
    #[must_use]
    #[inline]
    pub fn choose_at(&self, group: &NextHop, flow_hash: u32, step: usize) -> u32 {
        self.choose(group, flow_hash.rotate_right(8 * step as u32))
    }

    /// The member of group `group` for a flow.
    #[must_use]
    #[inline]
    pub fn choose(&self, group: &NextHop, flow_hash: u32) -> u32 {
        let bucket = group.first_bucket + (flow_hash & u32::from(group.bucket_mask));
        self.buckets.get(bucket as usize).copied().unwrap_or(0)
    }
}
