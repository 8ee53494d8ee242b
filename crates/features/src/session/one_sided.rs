//! The service `l4-one-sided`: where a session stands whose answers go past us, by what its initiator says.
//!
//! | protocol | established when | ends with |
//! |---|---|---|
//! | TCP | the initiator acknowledges, behind its SYN | its FIN: closing, since that of the other side isn't seen; or a RST: time-wait |
//! | others | the initiator has spoken again | its timeout |
//!
//! No tenant names it: [`balance`](super::balance) puts it on the chains of sessions with direct server return, in the place of [`l4-lifecycle`](super::lifecycle). So those of all others
//! aren't asked which kind they are. Answers that come here all the same are taken into account as there.

use super::entry::{Direction, Session, State};
use super::explain::{Meeting, Meets};
use super::lifecycle::{self, ACK, SYN, Step};
use super::services::{Chain, ONE_SIDED, SERVICES_ARC, Scopes, Service};
use super::serving::{RESUMES, Serve, Serving, Verdict, Visit};
use super::tuple::{begins_connection, tcp_flags};
use graph::{Feature, NodeSpec};
use std::sync::LazyLock;
use wire::IpProtocol;

graph::edges! {
    /// Where packets go besides other services and their arc.
    enum Next {
        Drop => "drop",
    }
}

/// The service's declaration.
pub(super) const SERVICE: Service = Service {
    node: NodeSpec {
        name: ONE_SIDED,
        help: "Follows connections whose answers go past, by what their initiators say.",
        edges: Next::NAMES,
        features: &[Feature {
            arc: SERVICES_ARC,
            runs_before: &["balance"],
            runs_after: &["tcp-check", "l4-lifecycle"],
        }],
        resumes: RESUMES,
        make: |cx| Serving::boxed(cx, OneSided),
        ..NodeSpec::EMPTY
    },
    both_ways: false,
    errors: false,
    scopes: Scopes::All,
    any_key: false,
    asked_again: true,
    explain,
};

/// The service's number.
pub(super) fn number() -> u8 {
    static NUMBER: LazyLock<u8> =
        LazyLock::new(|| super::order().number(SERVICE.node.name).unwrap_or_default());
    *NUMBER
}

/// What it would do.
fn explain(meeting: &mut Meeting<'_>) -> Meets {
    meeting.passes("follows the session by what its initiator says, and lets everything pass")
}

/// A session's chain with this service where its tenant has `l4-lifecycle`. That may have seen already what it needs of datagrams; `tcp-check` stands in for this one, too.
pub(super) fn on(chain: Chain, tenant: Chain) -> Chain {
    let chain = chain.without(lifecycle::number());
    if tenant.has(lifecycle::number()) { chain.with(number()) } else { chain }
}

/// A session's chain with `l4-lifecycle` where it has this service.
pub(super) fn off(chain: Chain) -> Chain {
    if chain.block().is_some() || !chain.has(number()) {
        return chain;
    }
    chain.without(number()).with(lifecycle::number())
}

struct OneSided;

impl Serve for OneSided {
    #[inline(always)]
    fn packet(&mut self, visit: &mut Visit<'_>) -> Verdict {
        let protocol = visit.protocol();
        let is_tcp = protocol == IpProtocol::TCP;
        let flags = if is_tcp { tcp_flags(visit.packets, visit.slot, visit.is_v6) } else { 0 };
        visit.step = packet(visit.session, protocol, visit.direction, flags);
        if !is_tcp && visit.session.state != State::Embryonic {
            // Nothing can happen by more datagrams of that side.
            visit.session.retire_from(visit.direction, visit.me);
        }
        Verdict::Next
    }
}

/// Takes a packet of the session into account; `flags` are those of a TCP segment.
fn packet(session: &mut Session, protocol: IpProtocol, direction: Direction, flags: u8) -> Step {
    let (is_tcp, forward) = (protocol == IpProtocol::TCP, direction == Direction::Forward);
    if is_tcp && forward && session.state == State::Closing && begins_connection(flags) {
        // Whether the other side has closed, too, isn't seen.
        session.state = State::TimeWait;
    }
    let step = lifecycle::packet(session, protocol, direction, flags);
    let again = if is_tcp { flags & (SYN | ACK) == ACK } else { !session.is_within(1) };
    if forward && again && session.state == State::Embryonic {
        session.state = State::Established;
        return Step::Moved;
    }
    step
}

#[cfg(test)]
mod tests {
    use super::super::lifecycle::{FIN, RST};
    use super::*;
    use Direction::{Forward, Reverse};

    #[test]
    fn who_is_answered_on_another_way_says_so_himself() {
        let mut session = Session::default();
        let packets = [
            (SYN, State::Embryonic, Step::Stays),
            (SYN, State::Embryonic, Step::Stays),
            (ACK, State::Established, Step::Moved),
            (FIN | ACK, State::Closing, Step::Moved),
            (ACK, State::Closing, Step::Stays),
            (SYN, State::Embryonic, Step::Reopened),
            (ACK, State::Established, Step::Moved),
            (RST, State::TimeWait, Step::Moved),
            (ACK, State::TimeWait, Step::Stays),
            (SYN, State::Embryonic, Step::Reopened),
        ];
        for (at, (flags, state, step)) in packets.into_iter().enumerate() {
            let did = packet(&mut session, IpProtocol::TCP, Forward, flags);
            assert_eq!((session.state, did), (state, step), "packet {at}");
        }
        // Answers may come all the same.
        for (direction, flags) in [(Reverse, SYN | ACK), (Forward, ACK)] {
            packet(&mut session, IpProtocol::TCP, direction, flags);
        }
        assert_eq!(session.state, State::Established);
        let mut session = Session::default();
        session.count(Forward, 60);
        assert_eq!(packet(&mut session, IpProtocol::UDP, Forward, 0), Step::Stays);
        session.count(Forward, 60);
        assert_eq!(packet(&mut session, IpProtocol::UDP, Forward, 0), Step::Moved);
    }

    #[test]
    fn it_takes_the_place_of_the_other_one_and_gives_it_back() {
        let (other, its) = (Chain::default().with(lifecycle::number()), Chain::default().with(number()));
        assert_eq!((on(other, other), off(its)), (its, other));
        // Of datagrams the other one has seen enough already.
        assert_eq!(on(Chain::default(), other), its);
        for chain in [Chain::default(), Chain::blocked(u16::MAX)] {
            assert_eq!((on(chain, Chain::default()), off(chain)), (chain, chain));
        }
    }
}
