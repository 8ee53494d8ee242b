//! Which addresses a station on an interface is answered for.

use super::claim::Claims;
use crate::interface::Interface;
use core::net::{IpAddr, Ipv6Addr};

/// Whether `address` is the interface's own.
pub(super) fn is_own(interface: &Interface, address: IpAddr) -> bool {
    interface.own().any(|own| own.address == address)
}

/// Whether to answer for `target`, which is behind us, to `asker` on the interface: it lies in a configured range,
/// and its own station doesn't hear the question. Not where the asker is looking whether the address is free, or
/// already has it: every address of a wide range would seem taken.
pub(super) fn is_proxied(interface: &Interface, claims: &Claims<'_>, asker: IpAddr, target: IpAddr) -> bool {
    interface.proxy_ranges.iter().any(|(first, last)| (*first..=*last).contains(&target))
        && !asker.is_unspecified()
        && asker != target
        && !claims.leads_back(target)
}

/// The interface's IPv6 address that speaks to `asker` for others: link-local to a link-local one.
pub(super) fn own_v6(interface: &Interface, asker: Ipv6Addr) -> Option<Ipv6Addr> {
    let own = interface.own().filter_map(|own| match own.address {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    });
    let alike = |own: &Ipv6Addr| own.is_unicast_link_local() == asker.is_unicast_link_local();
    own.clone().find(alike).or_else(|| own.clone().next())
}
