//! The service `nat`: inside hosts are seen outside with addresses and ports of a pool (NAPT, RFC 3022; RFC 4787, 5382, 5508).
//!
//! | packet | what becomes of it |
//! |---|---|
//! | the first one of a session that leads outside | its source is given an address and a port of the tenant's pool, or those that it is mapped to: from now on the session is found by these, too |
//! | the first one from outside to what a host inside is mapped to | its destination is replaced by the host |
//! | the first one from inside to that, or from outside where that is mapped twice | both are replaced |
//! | from inside, of such a session | what was replaced is |
//! | from outside, to that address and port | it is replaced back |
//! | an ICMP error about one of these | itself and the packet that it quotes are translated |
//! | of a session that leads elsewhere, or was there before | passes as it is |
//!
//! Addresses of IPv6 keep their ports, and have one prefix exchanged for another (NPTv6, RFC 6296), in either direction.
//!
//! [`Pool`] is what configuration says, [`Mappings`] what of it always stands; [`Prefixes`] what is exchanged; `bind` gives ports and takes them back, `block_ports` those of [`Blocks`], `exchange` does so with prefixes; `way` says what leads outside; packets are changed as
//! `translate` does it.

mod bind;
mod block_ports;
mod blocks;
mod exchange;
mod explain;
mod likely;
mod mappings;
mod pool;
mod ports;
mod prefixes;
mod way;

pub use blocks::{Binding, BlockSize, Blocks};
pub use mappings::{Mapped, Mapping, Mappings};
pub use pool::{Deterministic, Figures, Pool};
pub use prefixes::{PrefixPair, Prefixes};

pub(super) use bind::{Pools, Wish, holds};
pub(super) use exchange::holds as holds_exchanged;
pub(super) use ports::Ports;

use super::entry::{Flow, Marks, Session};
use super::services::{SERVICES_ARC, Scopes, Service};
use super::serving::{Ahead, Arrival, Entry, Oncoming, RESUMES, Serve, Serving, Verdict, Visit};
use super::sessions::Sessions;
use super::tenants::Tenant;
use super::translate::{self, Address, End, Told};
use crate::ip::{Fibs, NextHops};
use bind::NoPort;
use exchange::Exchange;
use graph::publish::Key as Part;
use graph::{Feature, IfIndex, NodeContext, NodeSpec};
use likely::AllLikely;
use std::sync::LazyLock;
use tables::session::Key;
use way::{Way, way};
use wire::IpProtocol;

graph::edges! {
    /// Where packets go besides other services and their arc.
    enum Next {
        Drop => "drop",
    }
}

graph::drops! {
    /// Why a packet isn't translated and gets no further.
    enum Drop {
        /// All ports of the pool that the host may have are in use to that destination: more addresses, or shorter timeouts.
        PoolExhausted => "pool-exhausted", Loss,
        /// The host has as many blocks of ports as it may, or none of the addresses that it asks has one left for it: more addresses, smaller blocks, or more for each host.
        NoBlock => "no-block", Loss,
        /// The host is none of those that the pool has ports for.
        NoShare => "no-share", Loss,
        /// The tenant's pool isn't there yet.
        NoPool => "no-pool", Loss,
        /// Its addresses or ports aren't those that packets of its session have on that side: it went round the translation.
        Untranslated => "untranslated", Invalid,
        /// Its headers aren't whole in what is looked at.
        TooShort => "too-short", Invalid,
        /// Its host is mapped, or its prefix exchanged, and its answers couldn't be told from those of another session.
        InUse => "in-use", Loss,
        /// Its prefix can't be exchanged for the outside's so that checksums stay: its subnet is ffff (RFC 6296 section 3.4), or all of its interface identifier.
        Unmappable => "unmappable", Loss,
        /// It is of ESP, which has no ports that could be told apart, and its host isn't mapped as a whole: give it a static mapping, or have it use UDP (RFC 3948).
        NoPorts => "no-ports", Loss,
        /// It is of AH, which has its receiver refuse other addresses (RFC 4302 section 3.3.3.1): no translation of it can be right.
        Authenticated => "authenticated", Loss,
    }
}

graph::counters! {
    /// What is counted besides drops.
    enum Counter {
        /// Sessions that were given an address and a port.
        Translated => "translated",
        /// Packets that were translated on their way out; of sessions that began outside, on their way in.
        Out => "out",
        /// Packets that were translated on the way back.
        In => "in",
        /// ICMP errors that were translated with the packet that they quote.
        Errors => "errors",
        /// Sessions that pass as they are, since they don't lead outside or were there before.
        Exempt => "exempt",
    }
}

/// The service's declaration.
pub(super) const SERVICE: Service = Service {
    node: NodeSpec {
        name: "nat",
        help: "Gives sessions that lead outside an address and a port of the tenant's pool.",
        edges: Next::NAMES,
        drops: Drop::SPECS,
        counters: Counter::SPECS,
        // Who checks sees the packet as inside hosts send it, and of answers what isn't theirs is dropped before.
        features: &[Feature {
            arc: SERVICES_ARC,
            runs_before: &[],
            runs_after: &["tcp-check", "l4-lifecycle"],
        }],
        resumes: RESUMES,
        make: |cx| Serving::boxed(cx, Nat::of(cx)),
        ..NodeSpec::EMPTY
    },
    both_ways: true,
    errors: true,
    scopes: Scopes::DEFAULT,
    any_key: false,
    asked_again: true,
    explain: explain::explain,
};

/// The service's number.
pub(super) fn number() -> u8 {
    static NUMBER: LazyLock<u8> =
        LazyLock::new(|| super::order().number(SERVICE.node.name).unwrap_or_default());
    *NUMBER
}

/// What is counted of packets, and why they are dropped.
const TOLD: Told = Told {
    out: Counter::Out as u8,
    back: Counter::In as u8,
    errors: Counter::Errors as u8,
    foreign: Drop::Untranslated as u8,
    short: Drop::TooShort as u8,
};

struct Nat {
    fibs: Part<Fibs>,
    hops: Part<NextHops>,
    /// In the vector before this one sessions were given ports: most likely it is so again.
    begins: bool,
    likely: AllLikely,
}

impl Serve for Nat {
    const ENTERS: bool = true;

    #[inline(always)]
    fn fetch(sessions: &Sessions, flow: Flow, ahead: Ahead) {
        // It leads to nothing: there is no backend.
        if ahead == Ahead::First {
            sessions.translations.fetch(flow, ahead);
        }
    }

    #[inline(always)]
    fn wants(session: &Session) -> bool {
        !session.marks.has(Marks::TRANSLATED)
    }

    fn vector(&mut self, coming: Oncoming<'_>) {
        self.likely.forget();
        if core::mem::take(&mut self.begins) {
            let Oncoming { packets, sessions, tenants, worker, .. } = coming;
            let indices = coming.slots.iter().map(|slot| Flow(packets.meta(*slot).next_hop).session());
            self.likely.work_out(sessions, (tenants, worker), indices);
        }
    }

    fn enter(&mut self, arrival: &mut Arrival<'_>) -> Entry {
        self.begin(arrival)
    }

    #[inline(always)]
    fn packet(&mut self, visit: &mut Visit<'_>) -> Verdict {
        translate::packet(visit, false, TOLD)
    }

    fn fragment(&mut self, visit: &mut Visit<'_>) -> Verdict {
        translate::fragment(visit, false, TOLD)
    }
}

impl Nat {
    fn of(cx: &NodeContext<'_>) -> Self {
        Self { fibs: cx.table(), hops: cx.table(), begins: false, likely: AllLikely::default() }
    }

    /// A packet of a session that has no translation: it gets one, or never will.
    #[inline(never)]
    fn begin(&mut self, arrival: &mut Arrival<'_>) -> Entry {
        let number = arrival.session;
        let (table, rx_if) =
            (arrival.packets.meta(arrival.slot).table, arrival.packets.meta(arrival.slot).rx_if);
        let came_by = arrival.sessions.came_by(arrival.tenants, number, rx_if);
        let Some((_, key, session)) = arrival.sessions.table.visit(number) else { return Entry::Goes };
        // One that has begun without keeps its addresses: its other side knows no others.
        if !session.is_unanswered() {
            session.retire(arrival.me);
            arrival.count(Counter::Exempt.into());
            return Entry::Passes;
        }
        let Some(tenant) = arrival.tenants.get(session.tenant) else { return Entry::Goes };
        let (fibs, hops) = (arrival.tables.get(self.fibs), arrival.tables.get(self.hops));
        if !key.is_v4() {
            let (low, high) = key.endpoints();
            let sides = if session.initiator_is_high() { [high, low] } else { [low, high] };
            let exchange = exchange::of(tenant, (fibs, hops), (came_by, table), sides);
            return Self::exchanged(arrival, tenant, exchange, key.protocol());
        }
        let sides = sides(&key, session.initiator_is_high());
        let (leads, wish) = wish(tenant, (fibs, hops), (came_by, table), key.protocol(), sides);
        match leads {
            Way::Outside => {}
            Way::Nowhere => return Entry::Passes,
            Way::Inside => {
                session.retire(arrival.me);
                arrival.count(Counter::Exempt.into());
                return Entry::Passes;
            }
        }
        if let Some(why) = unfit(key.protocol(), wish.source.is_some()) {
            return Entry::Refused(why.into());
        }
        let Some(pool) = &tenant.nat else { return Entry::Refused(Drop::NoPool.into()) };
        let (likely, tick) = (self.likely.at(arrival.at), arrival.tick);
        match arrival.sessions.translate(arrival.tenants, arrival.worker, number, (pool, wish), likely, tick)
        {
            Ok(()) => {
                self.begins |= wish.source.is_none();
                arrival.count(Counter::Translated.into());
                Entry::Goes
            }
            Err(NoPort::Exhausted) => Entry::Refused(Drop::PoolExhausted.into()),
            Err(NoPort::NoBlock | NoPort::NoMore) => Entry::Refused(Drop::NoBlock.into()),
            Err(NoPort::InUse) => Entry::Refused(Drop::InUse.into()),
            Err(NoPort::NoShare) => Entry::Refused(Drop::NoShare.into()),
        }
    }
}

impl Nat {
    /// A packet of a session of IPv6 without a translation, likewise.
    fn exchanged(arrival: &mut Arrival<'_>, tenant: &Tenant, exchange: Exchange, protocol: u8) -> Entry {
        let number = arrival.session;
        if let (Exchange::Beyond(_), Some(why)) = (exchange, unfit(protocol, true)) {
            return Entry::Refused(why.into());
        }
        let (beyond, pool) = match (exchange, &tenant.nat) {
            (Exchange::Beyond(beyond), Some(pool)) => (beyond, pool),
            (Exchange::Nowhere, _) => return Entry::Passes,
            (Exchange::Unmappable, _) => return Entry::Refused(Drop::Unmappable.into()),
            (Exchange::Keeps | Exchange::Beyond(_), _) => {
                if let Some(session) = arrival.sessions.table.get_mut(number) {
                    session.retire(arrival.me);
                }
                arrival.count(Counter::Exempt.into());
                return Entry::Passes;
            }
        };
        match arrival.sessions.exchange(number, pool, beyond) {
            Ok(()) => {
                arrival.count(Counter::Translated.into());
                Entry::Goes
            }
            Err(_) => Entry::Refused(Drop::InUse.into()),
        }
    }
}

/// Why a session can't be translated, if its protocol can't. `is_mapped`: its host's address is replaced by one that is its alone.
fn unfit(protocol: u8, is_mapped: bool) -> Option<Drop> {
    match IpProtocol(protocol) {
        IpProtocol::AH => Some(Drop::Authenticated),
        IpProtocol::ESP if !is_mapped => Some(Drop::NoPorts),
        _ => None,
    }
}

/// Initiator and responder.
fn sides(key: &Key, initiator_is_high: bool) -> [End<u32>; 2] {
    let (low, high) = key.v4_endpoints();
    if initiator_is_high { [high, low] } else { [low, high] }
}

/// Whether a session leads outside that begins at an interface with a VRF, and what it is to be translated to then.
fn wish(
    tenant: &Tenant,
    (fibs, hops): (&Fibs, &NextHops),
    (interface, table): (IfIndex, u16),
    protocol: u8,
    [host, remote]: [End<u32>; 2],
) -> (Way, Wish) {
    let mappings = tenant.nat.as_ref().map(|pool| &pool.mappings);
    let meant = mappings.and_then(|mappings| mappings.inward(protocol, remote));
    let from_outside = tenant.is_outside(interface);
    let leads = match (meant, from_outside) {
        (Some(_), _) => Way::Outside,
        // Its host isn't mapped any more.
        (None, true) => Way::Inside,
        (None, false) => way(tenant, fibs, hops, table, remote.0.ip()),
    };
    let mapped = || mappings.and_then(|mappings| mappings.outward(protocol, host));
    let twice = || mappings.is_some_and(|mappings| mappings.is_twice(protocol, remote));
    let source = if from_outside { (!twice()).then_some(host) } else { mapped() };
    (leads, Wish { source, responder: meant.unwrap_or(remote) })
}
