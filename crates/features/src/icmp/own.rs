//! What is sent from here: from which address, how often, and how it enters the graph.

use crate::interface::{Interface, Interfaces, Limiter};
use core::net::IpAddr;
use graph::IfIndex;
use graph::packet::{Flags, Meta, Offload};

/// The limit of errors that a worker sends about what comes in by one interface (RFC 1812 section 4.3.2.8, RFC 4443 section
/// 2.4 f): 1000 a second, a vector at once. Each interface has its own, so that nobody uses up what another's path MTU
/// discovery needs.
pub(crate) const ERRORS: Limiter = Limiter::new(1000, 256);

/// The packet, whose IP header is at `data`, is one of our own from now on: nothing that was known of the one it was made
/// from holds any more. It is looked up in the VRF of the interface that that one came in by.
pub(crate) fn make_own(meta: &mut Meta, interfaces: &Interfaces) {
    meta.flags = Flags::LOCAL;
    meta.l2 = meta.data;
    meta.l3 = meta.data;
    meta.table = interfaces.get(meta.rx_if).vrf;
    (meta.flow_hash, meta.next_hop, meta.offload) = (0, 0, Offload::default());
}

/// The address to speak to `to` from about a packet to `dst` that came in by `rx_if`:
///
/// 1. `dst` itself, where it is one of our addresses in the interface's VRF (RFC 4443 section 2.2 a): who sent the packet
///    knows us by that name;
/// 2. an address of the interface, in the same network as `to` if there is one (RFC 1812 section 4.3.2.4);
/// 3. one of another interface of its VRF, where the interface has none.
pub(super) fn source(interfaces: &Interfaces, rx_if: IfIndex, dst: IpAddr, to: IpAddr) -> Option<IpAddr> {
    let interface = interfaces.get(rx_if);
    let vrf =
        || interfaces.iter().map(|(_, other)| other).filter(|other| other.vrf == interface.vrf && other.up);
    let has_dst = |other: &Interface| other.own().any(|own| own.address == dst);
    let is_dst = if is_link_local(dst) { has_dst(interface) } else { vrf().any(has_dst) };
    if is_dst {
        return Some(dst);
    }
    near(interface, to).or_else(|| vrf().filter(|_| !is_link_local(to)).find_map(|other| near(other, to)))
}

/// An address of the interface that can speak to `to`, of the same network if possible.
fn near(interface: &Interface, to: IpAddr) -> Option<IpAddr> {
    let scope = is_link_local(to);
    let own = interface.own();
    let mut own =
        own.filter(|own| own.address.is_ipv4() == to.is_ipv4() && is_link_local(own.address) == scope);
    let first = own.clone().next();
    own.find(|own| common_bits(own.address, to) >= u32::from(own.prefix_len)).or(first).map(|own| own.address)
}

/// Leading bits in which two addresses of one kind agree.
fn common_bits(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

/// IPv6 addresses that mean something on one link only. IPv4's (RFC 3927) are unique enough to be used anywhere.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}
