//! The service `direct-return`: sends packets of sessions whose VIP says so to their backend as they are (direct server return).
//!
//! | packet | what becomes of it |
//! |---|---|
//! | to the VIP; an ICMP error about an answer | goes to the backend's link-layer address, by `ip4-direct` or `ip6-direct`; nothing in it is changed but the hops that are left |
//! | from the VIP | passes: mostly, none comes here |
//!
//! No tenant names it: [`balance`](super::balance) puts it on the chains of these sessions. It is the last service, since nothing comes behind the way that a packet takes.

use super::entry::Flow;
use super::explain::{Meeting, Meets};
use super::one_sided;
use super::services::{Chain, SERVICES_ARC, Scopes, Service};
use super::serving::{Ahead, RESUMES, Serve, Serving, Verdict, Visit};
use super::sessions::Sessions;
use super::tenants::Tenant;
use crate::neighbour::note;
use core::net::IpAddr;
use graph::{Feature, NodeSpec};
use std::sync::LazyLock;

graph::edges! {
    /// Where packets go besides their arc.
    enum Next {
        Drop => "drop",
        Direct4 => "ip4-direct",
        Direct6 => "ip6-direct",
    }
}

graph::drops! {
    /// Why a packet gets no further.
    enum Drop {
        /// There is no room for a note before the packet.
        NoHeadroom => "no-headroom", Bug,
    }
}

graph::counters! {
    /// What is counted.
    enum Counter {
        /// Packets that went to backends as they were.
        Sent => "sent",
    }
}

/// The service's declaration.
pub(super) const SERVICE: Service = Service {
    node: NodeSpec {
        name: super::services::DIRECT_RETURN,
        help: "Sends packets of sessions with direct server return to their backend as they are.",
        edges: Next::NAMES,
        drops: Drop::SPECS,
        counters: Counter::SPECS,
        features: &[Feature { arc: SERVICES_ARC, runs_before: &[], runs_after: BEHIND }],
        resumes: RESUMES,
        make: |cx| Serving::boxed(cx, DirectReturn),
        ..NodeSpec::EMPTY
    },
    both_ways: false,
    errors: true,
    scopes: Scopes::DEFAULT,
    any_key: false,
    asked_again: true,
    explain,
};

/// All others; those that are written elsewhere are added to them.
pub(super) const BEHIND: &[&str] = &[
    "tcp-check",
    "l4-lifecycle",
    "l4-one-sided",
    "session-stats",
    "balance",
    "acl",
    "policer",
    "redirect",
    "nat",
];

/// The service's number.
pub(super) fn number() -> u8 {
    static NUMBER: LazyLock<u8> =
        LazyLock::new(|| super::order().number(SERVICE.node.name).unwrap_or_default());
    *NUMBER
}

/// Both chains of a session of that tenant whose answers go past us, where it had those.
pub(super) fn on(chain: [Chain; 2], tenant: &Tenant) -> [Chain; 2] {
    let way = |way: usize| one_sided::on(chain[way], tenant.chain[way]).with(number());
    [way(0), way(1)]
}

/// Both chains of one whose answers don't.
pub(super) fn off(chain: [Chain; 2]) -> [Chain; 2] {
    chain.map(|chain| one_sided::off(chain.without(number())))
}

/// What it would do is said by `balance`.
fn explain(_: &mut Meeting<'_>) -> Meets {
    Meets::Passes
}

struct DirectReturn;

impl Serve for DirectReturn {
    #[inline(always)]
    fn fetch(sessions: &Sessions, flow: Flow, ahead: Ahead) {
        if ahead == Ahead::First {
            sessions.translations.fetch(flow, ahead);
        }
    }

    fn packet(&mut self, visit: &mut Visit<'_>) -> Verdict {
        let Some((backend, near_is_high)) = visit.translations.direct(visit.handle) else {
            return Verdict::Next;
        };
        if visit.from_high != near_is_high {
            return Verdict::Next;
        }
        let address = match backend {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        if !note(visit.packets, visit.slot, address.octets()) {
            return Verdict::Drop(Drop::NoHeadroom.into());
        }
        visit.count(Counter::Sent);
        Verdict::To(if visit.is_v6 { Next::Direct6 } else { Next::Direct4 }.edge())
    }

    fn fragment(&mut self, visit: &mut Visit<'_>) -> Verdict {
        self.packet(visit)
    }
}
