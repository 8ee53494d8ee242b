//! What is sent from here: from which address, and how it enters the graph.

use crate::interface::{Interface, Interfaces};
use core::net::IpAddr;
use core::net::Ipv4Addr;
use graph::IfIndex;
use graph::packet::{Flags, Meta, Offload};
use tables::token_bucket::TokenBucket;

/// Errors a second that a worker sends.
const RATE: u64 = 1000;
/// Errors that a worker sends at once: a vector.
const BURST: u64 = 256;

/// The limit of errors (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 f), full.
pub(super) fn limit() -> TokenBucket {
    TokenBucket::new(RATE, BURST, 1_000_000_000, 0).expect("a burst this small can be counted")
}

/// The packet, whose IP header is at `data`, is one of our own from now on: nothing that was known of the one it was made
/// from holds any more. It is looked up in the VRF of the interface that that one came in by.
pub(super) fn make_own(meta: &mut Meta, interfaces: &Interfaces) {
    let private = meta.flags.has(Flags::PRIVATE_BODY);
    meta.flags = Flags::LOCAL;
    if private {
        meta.flags.set(Flags::PRIVATE_BODY);
    }
    meta.l2 = meta.data;
    meta.l3 = meta.data;
    meta.table = interfaces.get(meta.rx_if).vrf;
    (meta.flow_hash, meta.next_hop, meta.offload) = (0, 0, Offload::default());
}

/// The address to tell `to` something from: one of the interface that its packet came in by, in the same network if
/// there is one; where that interface has none, one of another interface of its VRF (RFC 1812 section 4.3.2.4).
pub(super) fn source_v4(interfaces: &Interfaces, rx_if: IfIndex, to: Ipv4Addr) -> Option<Ipv4Addr> {
    let interface = interfaces.get(rx_if);
    let others = || interfaces.iter().filter(|(_, other)| other.vrf == interface.vrf && other.up);
    nearest_v4(interface, to).or_else(|| others().find_map(|(_, other)| nearest_v4(other, to)))
}

fn nearest_v4(interface: &Interface, to: Ipv4Addr) -> Option<Ipv4Addr> {
    let own = interface.addresses.iter().filter_map(|own| match own.address {
        IpAddr::V4(address) => Some((address, u32::from(own.prefix_len))),
        IpAddr::V6(_) => None,
    });
    let near = |(address, len): &(Ipv4Addr, u32)| {
        (address.to_bits() ^ to.to_bits()).checked_shr(32 - (*len).min(32)).unwrap_or(0) == 0
    };
    own.clone().find(near).or_else(|| own.clone().next()).map(|(address, _)| address)
}
