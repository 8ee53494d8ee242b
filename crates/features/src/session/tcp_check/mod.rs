//! The service `tcp-check`: both sides of TCP connections, by flags, sequence numbers and windows.
//!
//! | packet | what becomes of it |
//! |---|---|
//! | a segment that the receiver can take (RFC 9293 section 3.10.7.4) | passes, and the connection goes on |
//! | RST with the very number that is expected (RFC 5961 section 3.2) | passes, and the connection is over |
//! | RST elsewhere in the window, SYN in a connection (RFC 5961 section 4.2) | passes and changes nothing: the receiver asks whether it is meant |
//! | data, acknowledgments, RSTs outside the windows; flags that make no sense | dropped, by reason |
//! | SYN of a new connection in TIME-WAIT (RFC 9293 section 3.6.1, RFC 6191) | passes, and the session begins anew |
//! | the first one of a session, which isn't a SYN | as the tenant's `midstream` says |
//! | a segment behind a SYN whose answer wasn't seen | passes: what takes another way isn't checked |
//! | the same of a VIP with direct server return | passes, and the connection is open: its answers are never seen |
//!
//! It stands in for `l4-lifecycle` and `l4-one-sided` where they are on a chain, too: a session is where its connection is. What isn't TCP it lets alone.
//! [`Segment`] is what matters of a packet, [`Track`] what is known of a connection.

mod segment;
mod side;
mod track;

pub(super) use segment::Segment;
pub use track::{TcpState, Track};

use super::entry::{Flow, Marks, State};
use super::explain::{Meeting, Meets};
use super::lifecycle::{self, Step};
use super::one_sided;
use super::onward::Numbers;
use super::services::{Chain, SERVICES_ARC, Scopes, Service};
use super::serving::{Ahead, RESUMES, Serve, Serving, Verdict, Visit};
use super::sessions::Sessions;
use super::tenants::Midstream;
use super::tuple::begins_connection;
use graph::{Feature, NodeSpec, prefetch_read};
use track::{Doubt, Outcome, Refusal};
use wire::IpProtocol;

graph::edges! {
    /// Where packets go besides other services and their arc.
    enum Next {
        Drop => "drop",
    }
}

graph::drops! {
    /// Why a segment gets no further.
    enum Drop {
        /// The TCP header isn't whole, or its length can't be.
        BadHeader => "bad-header", Invalid,
        /// Flags that no TCP sends together, or none that it always sends.
        BadFlags => "bad-flags", Invalid,
        /// The beginning of the connection was never seen, and the tenant wants no such connections.
        Midstream => "midstream", Loss,
        /// An earlier segment of a connection whose beginning was never seen has it blocked until it is silent.
        Blocked => "blocked", Loss,
        /// Its sequence numbers are none that the receiver takes: a forgery, or a segment that was under way for very long.
        OutOfWindow => "out-of-window", Invalid,
        /// It acknowledges what was never sent, or what was sent very long ago.
        BadAcknowledgment => "bad-acknowledgment", Invalid,
        /// A RST outside the window, or one that answers no SYN: a forgery, or one that comes very late.
        RstOutOfWindow => "rst-out-of-window", Invalid,
    }
}

graph::counters! {
    /// What is counted besides drops.
    enum Counter {
        /// Connections that were opened by both sides.
        Established => "established",
        /// Connections that both sides have closed.
        Closed => "closed",
        /// Connections that a RST has ended, or refused.
        Reset => "reset",
        /// Connections that were followed from somewhere in the middle.
        Adopted => "adopted",
        /// Connections that were over and began anew.
        Reopened => "reopened",
        /// RSTs in the window, but without the number that is expected: they pass and change nothing.
        DoubtfulRst => "doubtful-rst",
        /// SYNs in a connection: they pass and change nothing.
        DoubtfulSyn => "doubtful-syn",
        /// Acknowledgments from where no SYN has come from: they pass and change nothing.
        DoubtfulAck => "doubtful-ack",
    }
}

/// The service's declaration.
pub(super) const SERVICE: Service = Service {
    node: NodeSpec {
        name: "tcp-check",
        help: "Follows both sides of TCP connections and drops what can't be theirs.",
        edges: Next::NAMES,
        drops: Drop::SPECS,
        counters: Counter::SPECS,
        features: &[Feature { arc: SERVICES_ARC, runs_before: &["l4-lifecycle"], runs_after: &[] }],
        resumes: RESUMES,
        make: |cx| {
            let others = [lifecycle::SERVICE, one_sided::SERVICE];
            let all = Numbers::of(cx);
            let numbers = others.iter().filter_map(|other| all.number(other.node.name));
            Serving::boxed(cx, TcpCheck { stands_for: numbers.fold(Chain::default(), Chain::with) })
        },
        ..NodeSpec::EMPTY
    },
    both_ways: true,
    errors: false,
    scopes: Scopes::All,
    any_key: false,
    asked_again: true,
    explain,
};

/// What it would do with a segment whose numbers are right.
fn explain(meeting: &mut Meeting<'_>) -> Meets {
    if meeting.packet().protocol != IpProtocol::TCP {
        return meeting.passes("no TCP: it passes");
    }
    let seen = meeting.there.and_then(|(handle, _)| meeting.sessions.tcp.get(handle).and_then(Track::states));
    if let Some([initiator, responder]) = seen {
        return meeting.passes(format!(
            "passes where its numbers fit; the initiator is in {}, the responder in {}",
            initiator.name(),
            responder.name()
        ));
    }
    let seen_before = meeting.there.is_some_and(|(_, session)| session.marks.has(Marks::UNCHECKED));
    match meeting.tenant.midstream {
        _ if begins_connection(meeting.packet().flags) => meeting.passes("begins a connection"),
        Midstream::Remove if !seen_before => {
            meeting.drops(None, "its connection's beginning wasn't seen", reason(Drop::Midstream))
        }
        Midstream::Security if !seen_before => {
            meeting.drops(None, "its connection's beginning wasn't seen", reason(Drop::Blocked))
        }
        _ => meeting.passes("its connection's beginning wasn't seen: it is followed from here on"),
    }
}

const fn reason(drop: Drop) -> &'static str {
    Drop::SPECS[drop as usize].name
}

struct TcpCheck {
    /// The services that it stands in for.
    stands_for: Chain,
}

impl Serve for TcpCheck {
    const MOVES: bool = true;

    #[inline(always)]
    fn fetch(sessions: &Sessions, flow: Flow, ahead: Ahead) {
        if ahead == Ahead::First {
            sessions.tcp.soon(flow.session(), prefetch_read);
        }
    }

    #[inline(always)]
    fn packet(&mut self, visit: &mut Visit<'_>) -> Verdict {
        if visit.protocol() != IpProtocol::TCP {
            visit.session.retire(visit.me);
            return Verdict::Next;
        }
        visit.session.retire_all(self.stands_for);
        let Some(segment) = Segment::read(visit.packets, visit.slot, visit.is_v6) else {
            return Verdict::Drop(Drop::BadHeader.into());
        };
        let Some((track, _)) = visit.tcp.get_mut(visit.handle) else { return Verdict::Next };
        let outcome = track.segment(visit.direction, &segment);
        if outcome == Outcome::Fits {
            let state = track.phase();
            return if state == visit.session.state { Verdict::Next } else { moved(visit, state) };
        }
        unusual(visit, &{ segment }, outcome)
    }
}

/// The connection stands elsewhere now.
#[inline(never)]
fn moved(visit: &mut Visit<'_>, state: State) -> Verdict {
    let reset = visit.tcp.get(visit.handle).is_some_and(Track::is_reset);
    visit.session.state = state;
    visit.step = Step::Moved;
    match state {
        State::Established => visit.count(Counter::Established),
        State::TimeWait if reset => visit.count(Counter::Reset),
        State::TimeWait => visit.count(Counter::Closed),
        // A SYN, in a session that was there before the service was on its chain.
        State::Embryonic => return reopened(visit),
        State::Closing => {}
    }
    Verdict::Next
}

#[inline(never)]
fn unusual(visit: &mut Visit<'_>, segment: &Segment, outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::Fits => return Verdict::Next,
        Outcome::Refused(refusal) => {
            let reason = match refusal {
                Refusal::Flags => Drop::BadFlags,
                Refusal::Window => Drop::OutOfWindow,
                Refusal::Acknowledgment => Drop::BadAcknowledgment,
                Refusal::Rst => Drop::RstOutOfWindow,
            };
            return Verdict::Drop(reason.into());
        }
        Outcome::Doubtful(doubt) => {
            visit.step = Step::Doubted;
            visit.count(match doubt {
                Doubt::Rst => Counter::DoubtfulRst,
                Doubt::Syn => Counter::DoubtfulSyn,
                Doubt::Ack => Counter::DoubtfulAck,
            });
        }
        Outcome::Reopens => return reopened(visit),
        Outcome::Midstream => return midstream(visit, segment),
    }
    Verdict::Next
}

/// A connection begins in a session that is there already.
fn reopened(visit: &mut Visit<'_>) -> Verdict {
    visit.session.initiated_by(visit.direction);
    visit.session.state = State::Embryonic;
    // What `l4-lifecycle` has seen was of the one before.
    visit.session.tcp_flags = [0; 2];
    visit.step = Step::reopened(visit.direction);
    visit.count(Counter::Reopened);
    Verdict::Next
}

/// The session's first segment here isn't the first one of its connection.
fn midstream(visit: &mut Visit<'_>, segment: &Segment) -> Verdict {
    let seen_before = visit.session.marks.has(Marks::UNCHECKED);
    let other = visit.session.packets()[1 - visit.direction as usize];
    match visit.tenant().map(|tenant| tenant.midstream).unwrap_or_default() {
        Midstream::Remove if !seen_before => Verdict::End(Drop::Midstream.into()),
        Midstream::Security if !seen_before => Verdict::Block(Drop::Blocked.into()),
        _ => {
            let Some((track, _)) = visit.tcp.get_mut(visit.handle) else { return Verdict::Next };
            track.adopt(visit.direction, segment, seen_before && other > 0);
            let state = track.phase();
            visit.count(Counter::Adopted);
            if state == visit.session.state { Verdict::Next } else { moved(visit, state) }
        }
    }
}
