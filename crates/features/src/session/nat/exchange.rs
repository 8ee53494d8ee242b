//! Which sessions of IPv6 have a prefix exchanged, and for what (NPTv6, RFC 6296).
//!
//! The RFC's translator knows no sessions. Here it is one of a session's services like `nat` for IPv4: what a session is given holds for all of its packets, its ICMP errors too, and services before it see
//! addresses inside. What leads outside with a prefix that isn't exchanged keeps it.

use super::super::tenants::Tenant;
use super::way::{Way, way};
use crate::ip::{Fibs, NextHops};
use core::net::{IpAddr, Ipv6Addr};
use graph::IfIndex;
use tables::session::{Endpoint, Key};

/// What becomes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exchange {
    /// Initiator and responder are seen so.
    Beyond([Endpoint; 2]),
    /// It keeps its addresses.
    Keeps,
    /// No route leads to its destination now.
    Nowhere,
    /// An address can't be exchanged.
    Unmappable,
}

/// What a session is to be translated to whose initiator and responder these are, and whose first packet has come in by that interface and is looked up in that
/// table.
pub(super) fn of(
    tenant: &Tenant,
    (fibs, hops): (&Fibs, &NextHops),
    (interface, table): (IfIndex, u16),
    [host, remote]: [Endpoint; 2],
) -> Exchange {
    let Some(pool) = tenant.nat.as_ref().filter(|pool| !pool.prefixes.is_empty()) else {
        return Exchange::Keeps;
    };
    let (IpAddr::V6(own), IpAddr::V6(asked)) = (host.0, remote.0) else { return Exchange::Keeps };
    let from_outside = tenant.is_outside(interface);
    let meant = pool.prefixes.inward(asked.to_bits());
    if meant.is_none() {
        if from_outside {
            return Exchange::Keeps;
        }
        match way(tenant, fibs, hops, table, remote.0) {
            Way::Outside => {}
            Way::Inside => return Exchange::Keeps,
            Way::Nowhere => return Exchange::Nowhere,
        }
    }
    let seen = if from_outside { None } else { pool.prefixes.outward(own.to_bits()) };
    let (Ok(seen), Ok(meant)) = (seen.transpose(), meant.transpose()) else { return Exchange::Unmappable };
    if seen.is_none() && meant.is_none() {
        return Exchange::Keeps;
    }
    let of = |bits: Option<u128>, end: Endpoint| {
        bits.map_or(end, |bits| (Ipv6Addr::from_bits(bits).into(), end.1))
    };
    Exchange::Beyond([of(seen, host), of(meant, remote)])
}

/// Whether a session may go on as its near side and far one are seen, now that its tenant has changed.
pub(in super::super) fn holds(tenant: &Tenant, key: &Key, near_is_high: bool, beyond: [Endpoint; 2]) -> bool {
    let Some(pool) = &tenant.nat else { return false };
    let (low, high) = key.endpoints();
    let [host, remote] = if near_is_high { [high, low] } else { [low, high] };
    let exchanged = |end: Endpoint, inward: bool| {
        let IpAddr::V6(address) = end.0 else { return None };
        let prefixes = &pool.prefixes;
        let other =
            if inward { prefixes.inward(address.to_bits()) } else { prefixes.outward(address.to_bits()) };
        Some((IpAddr::from(Ipv6Addr::from_bits(other?.ok()?)), end.1))
    };
    let (seen, meant) = (exchanged(host, false), exchanged(remote, true));
    let began_outside = beyond[0] == host && meant.is_some();
    let as_seen = began_outside || beyond[0] == seen.unwrap_or(host);
    let as_asked = beyond[1] == meant.unwrap_or(remote);
    tenant.chain[0].has(super::number()) && as_seen && as_asked && (seen.is_some() || meant.is_some())
}
