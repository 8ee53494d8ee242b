//! The service `balance`: sessions that are meant for a VIP are given one of its backends.
//!
//! | packet | what becomes of it |
//! |---|---|
//! | the first one of a session to a VIP | a backend is chosen and kept in the session, whatever becomes of backends later: from now on the session is found by the backend's answers, too |
//! | from the client | its destination is replaced |
//! | from the backend | its source is replaced |
//! | an ICMP error about one of these | itself and the packet that it quotes are translated |
//! | of a session to a VIP with direct server return | passes as it is, and goes to its backend by [`direct-return`](super::direct_return) |
//! | of a session to somebody else | passes as it is, and the next one doesn't come here |
//!
//! * [`Vips`]: VIPs as workers see them, and how a backend is chosen; `affinity`: which one a client had last.
//! * `bind`: gives a session its backend; what both do with packets is in `translate`.
//! * [`Ledger`]: what is counted of backends, and what becomes of their sessions.
//! * [`control`]: the one who writes all that.

mod affinity;
mod bind;
pub mod control;
mod explain;
mod ledger;
mod vips;

pub use ledger::{Account, Figures, Ledger, Standing};
pub use vips::{Algorithm, SourceNat, Vip, Vips};

pub(super) use ledger::Books;

use super::entry::{Flow, Marks, Session, State};
use super::services::{SERVICES_ARC, Scopes, Service};
use super::serving::{Ahead, Arrival, Entry, RESUMES, Serve, Serving, Telling, Verdict, Visit};
use super::session_stats;
use super::sessions::Sessions;
use super::tenants::TICK_BITS;
use super::translate::{self, Told};
use bind::Refused;
use graph::{Feature, NodeSpec};
use std::sync::LazyLock;

graph::edges! {
    /// Where packets go besides other services and their arc.
    enum Next {
        Drop => "drop",
        Icmp4 => "icmp4-error",
        Icmp6 => "icmp6-error",
        Reset => "tcp-reset",
    }
}

graph::drops! {
    /// Why a packet isn't translated and gets no further.
    enum Drop {
        /// The VIP has no backend that takes sessions.
        NoBackend => "no-backend", Loss,
        /// The same, and the client is told: by a RST, or an ICMP error that says that nobody listens at the port.
        Rejected => "rejected", Loss,
        /// The VIP isn't there for the client's address.
        Source => "source-denied", Loss,
        /// Its answers couldn't be told from those of another session: the client speaks with the backend itself by the same ports, or all ports are used.
        InUse => "in-use", Loss,
        /// Its addresses or ports aren't those that packets of its session have on that side: it went round the translation.
        Untranslated => "untranslated", Invalid,
        /// Its headers aren't whole in what is looked at.
        TooShort => "too-short", Invalid,
    }
}

graph::counters! {
    /// What is counted besides drops.
    enum Counter {
        /// Sessions that were given a backend.
        Balanced => "balanced",
        /// Sessions that were given another one, since the first took no more and hadn't answered.
        Rebalanced => "rebalanced",
        /// Packets to backends: translated, or on their way there as they are.
        To => "to-backends",
        /// Packets from backends: translated, or with the VIP's address already.
        From => "from-backends",
        /// ICMP errors that were translated with the packet that they quote.
        Errors => "errors",
        /// Sessions that pass as they are, since they aren't meant for a VIP or were there before.
        Exempt => "exempt",
    }
}

/// The service's declaration.
pub(super) const SERVICE: Service = Service {
    node: NodeSpec {
        name: "balance",
        help: "Gives sessions that are meant for a VIP one of its backends.",
        edges: Next::NAMES,
        drops: Drop::SPECS,
        counters: Counter::SPECS,
        // Who checks sees the packet as clients send it, and of answers what isn't theirs is dropped before.
        features: &[Feature {
            arc: SERVICES_ARC,
            runs_before: &["nat"],
            runs_after: &["tcp-check", "l4-lifecycle"],
        }],
        resumes: RESUMES,
        make: |cx| Serving::boxed(cx, Balance),
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

/// Packets without an answer after which nobody asks whether the backend still takes sessions.
const TRIALS: u64 = 8;

/// What is counted of packets, and why they are dropped.
const TOLD: Told = Told {
    out: Counter::To as u8,
    back: Counter::From as u8,
    errors: Counter::Errors as u8,
    foreign: Drop::Untranslated as u8,
    short: Drop::TooShort as u8,
};

struct Balance;

impl Serve for Balance {
    const ENTERS: bool = true;
    const TOLD: Option<Telling> = Some(Telling {
        reason: Drop::Rejected as u8,
        icmp: [Next::Icmp4 as u8, Next::Icmp6 as u8],
        reset: Next::Reset as u8,
    });

    #[inline(always)]
    fn fetch(sessions: &Sessions, flow: Flow, ahead: Ahead) {
        sessions.translations.fetch(flow, ahead);
    }

    #[inline(always)]
    fn wants(session: &Session) -> bool {
        !session.marks.has(Marks::TRANSLATED) || session.is_within(TRIALS)
    }

    fn enter(&mut self, arrival: &mut Arrival<'_>) -> Entry {
        let translated = |session: &Session| session.marks.has(Marks::TRANSLATED);
        match arrival.sessions.table.get(arrival.session).is_some_and(translated) {
            true => Self::again(arrival),
            false => Self::begin(arrival, Counter::Balanced),
        }
    }

    #[inline(always)]
    fn packet(&mut self, visit: &mut Visit<'_>) -> Verdict {
        translate::packet(visit, true, TOLD)
    }

    fn fragment(&mut self, visit: &mut Visit<'_>) -> Verdict {
        translate::fragment(visit, true, TOLD)
    }
}

impl Balance {
    /// A packet of a session that has a backend which hasn't answered.
    #[inline(never)]
    fn again(arrival: &mut Arrival<'_>) -> Entry {
        let Some(handle) = arrival.sessions.table.handle(arrival.session) else { return Entry::Goes };
        let translations = &arrival.sessions.translations;
        // Where answers go past us, it is the client that says whether there was one.
        let unseen = translations.direct(handle).is_some();
        let stays =
            |session: &Session| unseen && session.state != State::Embryonic || translations.takes(handle);
        if arrival.sessions.table.get(arrival.session).is_none_or(stays) {
            return Entry::Goes;
        }
        let bytes = arrival.packets.meta(arrival.slot).len();
        arrival.sessions.forsake(arrival.tenants, arrival.session, bytes, arrival.tick);
        session_stats::note_anew(arrival);
        Self::begin(arrival, Counter::Rebalanced)
    }

    /// A packet of a session that has no backend: it gets one, or never will.
    #[inline(never)]
    fn begin(arrival: &mut Arrival<'_>, counter: Counter) -> Entry {
        let (number, tenants) = (arrival.session, arrival.tenants);
        let Some((_, key, session)) = arrival.sessions.table.visit(number) else { return Entry::Goes };
        let responder = key.each_endpoint()[usize::from(!session.initiator_is_high())];
        // One that has answers without keeps its addresses: its other side knows no others.
        let vip = tenants.vips.get(&responder).filter(|_| session.is_unanswered());
        let Some(vip) = vip else {
            session.retire(arrival.me);
            arrival.count(Counter::Exempt.into());
            return Entry::Passes;
        };
        let seconds = ((arrival.tick << TICK_BITS) / 1_000_000_000) as u32;
        match arrival.sessions.balance(tenants, arrival.worker, number, (vip, responder), seconds) {
            Ok(()) => {
                arrival.count(counter.into());
                Entry::Goes
            }
            Err(refused) => {
                vip.refuse();
                Entry::Refused(match refused {
                    Refused::Source => Drop::Source.into(),
                    Refused::NoBackend if vip.rejects => Drop::Rejected.into(),
                    Refused::NoBackend => Drop::NoBackend.into(),
                    Refused::InUse => Drop::InUse.into(),
                })
            }
        }
    }
}
