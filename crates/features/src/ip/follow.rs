//! The next hop that a packet's lookup ends at, for whoever asks about one that isn't there: step by step as [`super::lookup`] does.

use super::family::{Family, V4, V6};
use super::lookup::Drop;
use super::{ECMP_SEED, Fibs, LinkLocals, NextHop, NextHopKind, NextHops};
use core::net::IpAddr;
use graph::IfIndex;
use wire::IpProtocol;
use wire::flow::{Ipv4Flow, Ipv6Flow};

/// Groups and VRFs that a packet is led through at most, as by the lookup.
const MAX_STEPS: usize = 8;

/// A packet on its way: what its next hop depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The interface that it came in by.
    pub interface: IfIndex,
    /// IP protocol.
    pub protocol: IpProtocol,
    /// Source and destination with their ports.
    pub ends: [(IpAddr, u16); 2],
}

impl Followed {
    /// The flow hash, as the lookup computes it: never 0.
    fn hash(&self, symmetric: bool) -> u32 {
        let [(source, source_port), (destination, port)] = self.ends;
        let protocol = self.protocol;
        let (src_port, dst_port) = if protocol.has_ports() { (source_port, port) } else { (0, 0) };
        let hash = match (source, destination) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let flow = Ipv4Flow { src: src.to_bits(), dst: dst.to_bits(), src_port, dst_port, protocol };
                if symmetric { flow.symmetric_hash(ECMP_SEED) } else { flow.hash(ECMP_SEED) }
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let flow = Ipv6Flow { src: src.to_bits(), dst: dst.to_bits(), src_port, dst_port, protocol };
                if symmetric { flow.symmetric_hash(ECMP_SEED) } else { flow.hash(ECMP_SEED) }
            }
            _ => 0,
        };
        hash.max(1)
    }
}

/// Where the look-up of a packet in VRF `table` ends: at a way out, at us, or at a port split, which [decides](crate::port_split::decide) then.
///
/// # Errors
/// The drop reason of the lookup, where it goes nowhere.
pub fn follow(
    (fibs, hops, links): (&Fibs, &NextHops, &LinkLocals),
    table: u16,
    packet: &Followed,
) -> Result<NextHop, &'static str> {
    let dropped = |reason: Drop| Drop::SPECS[reason as usize].name;
    let destination = packet.ends[1].0;
    let lookup = |table: u16| -> Result<u32, &'static str> {
        let vrf = fibs.get(table).ok_or(dropped(Drop::NoVrf))?;
        Ok(match destination {
            IpAddr::V4(address) => V4::fib(vrf).lookup(address.to_bits()).0,
            IpAddr::V6(address) => V6::fib(vrf).lookup(address.to_bits()).0,
        })
    };
    let (mut id, mut table) = (lookup(table)?, table);
    for step in 0..MAX_STEPS {
        let hop = hops.get(id);
        match hop.kind {
            NextHopKind::Group => {
                let symmetric = fibs.get(table).is_some_and(|vrf| vrf.symmetric_hash);
                id = hops.choose_at(hop, packet.hash(symmetric), step);
            }
            NextHopKind::LookupIn => {
                table = hop.vrf;
                id = lookup(table)?;
            }
            NextHopKind::LinkLocal => {
                let IpAddr::V6(address) = destination else { return Err(dropped(Drop::LinkLocal)) };
                id = links.get(packet.interface, address);
                if hops.get(id).kind != NextHopKind::Local {
                    return Err(dropped(Drop::LinkLocal));
                }
            }
            NextHopKind::NoRoute => return Err(dropped(Drop::NoRoute)),
            NextHopKind::Blackhole => return Err(dropped(Drop::Blackhole)),
            NextHopKind::Unreachable => return Err(dropped(Drop::Unreachable)),
            NextHopKind::Prohibit => return Err(dropped(Drop::Prohibited)),
            NextHopKind::Rewrite
            | NextHopKind::Glean
            | NextHopKind::Local
            | NextHopKind::Resolve
            | NextHopKind::PortSplit => return Ok(*hop),
        }
    }
    Err(dropped(Drop::Loop))
}
