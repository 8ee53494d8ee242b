//! Which addresses a station on an interface is answered for.

use super::adjacency::Adjacencies;
use crate::interface::Interface;
use core::net::{IpAddr, Ipv6Addr};
use graph::IfIndex;
use wire::ipv6::link_local;

/// Whether `address` is the interface's own. Every Ethernet interface also has the IPv6 link-local address made from its
/// MAC address.
pub(crate) fn is_own(interface: &Interface, address: IpAddr) -> bool {
    interface.addresses.iter().any(|own| own.address == address)
        || address == IpAddr::V6(own_link_local(interface))
}

/// The interface's link-local address (RFC 4291 appendix A).
pub(crate) fn own_link_local(interface: &Interface) -> Ipv6Addr {
    link_local(interface.mac)
}

/// Whether to answer for `target`, which is behind us, to `asker` on interface `rx_if`: it lies in a configured range,
/// and its own station doesn't hear the question. Not where the asker is looking whether the address is free, or
/// already has it: every address of a wide range would seem taken.
pub(super) fn is_proxied(
    interface: &Interface,
    rx_if: IfIndex,
    adjacencies: &Adjacencies<'_>,
    asker: IpAddr,
    target: IpAddr,
) -> bool {
    interface.proxy_ranges.iter().any(|(first, last)| (*first..=*last).contains(&target))
        && !asker.is_unspecified()
        && asker != target
        && !adjacencies.leads_to(target, rx_if)
}
