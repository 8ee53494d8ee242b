//! The service `l4-lifecycle`: where a session stands, by what its two sides have said.
//!
//! | protocol | established when | ends with |
//! |---|---|---|
//! | UDP, SCTP, … | there was an answer | its timeout |
//! | ESP, AH | the initiator has spoken again: what comes back has another SPI, and is another session | its timeout |
//! | ICMP echo | there was a reply | its timeout |
//! | TCP | SYN, SYN from the other side, then the initiator has spoken again; found midway: there was an answer | two FINs or a RST: time-wait |
//!
//! Sequence numbers aren't looked at here: a RST is believed whoever sent it. Sessions whose answers go past us have
//! [`l4-one-sided`](super::one_sided) in its place.

use super::entry::{Direction, Session, State};
use super::explain::{Meeting, Meets};
use super::services::{SERVICES_ARC, Scopes, Service};
use super::serving::{RESUMES, Serve, Serving, Verdict, Visit};
use super::tuple::{begins_connection, tcp_flags};
use graph::{Feature, NodeSpec};
use std::sync::LazyLock;
use tables::session::Key;
use wire::IpProtocol;
use wire::TcpFlags;

graph::edges! {
    /// Where packets go besides other services and their arc.
    enum Next {
        Drop => "drop",
    }
}

/// The service's declaration.
pub(super) const SERVICE: Service = Service {
    node: NodeSpec {
        name: "l4-lifecycle",
        help: "Follows connections from their first packet to their last one.",
        edges: Next::NAMES,
        features: &[Feature { arc: SERVICES_ARC, runs_before: &[], runs_after: &[] }],
        resumes: RESUMES,
        make: |cx| Serving::boxed(cx, Lifecycle),
        ..NodeSpec::EMPTY
    },
    both_ways: false,
    errors: false,
    scopes: Scopes::All,
    any_key: true,
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
    meeting.passes("follows the session, and lets everything pass")
}

struct Lifecycle;

impl Serve for Lifecycle {
    #[inline(always)]
    fn packet(&mut self, visit: &mut Visit<'_>) -> Verdict {
        let protocol = visit.protocol();
        let flags =
            if protocol == IpProtocol::TCP { tcp_flags(visit.packets, visit.slot, visit.is_v6) } else { 0 };
        visit.step = packet(visit.session, protocol, visit.direction, flags);
        if protocol != IpProtocol::TCP
            && !(Key::has_one_direction(protocol.0) && visit.session.state == State::Embryonic)
        {
            // Of datagrams it has to know of one each way: nothing can happen by more of them.
            visit.session.retire_from(visit.direction, visit.me);
        }
        Verdict::Next
    }
}

pub(super) const FIN: u8 = TcpFlags::FIN.bits();
pub(super) const SYN: u8 = TcpFlags::SYN.bits();
pub(super) const RST: u8 = TcpFlags::RST.bits();
pub(super) const ACK: u8 = TcpFlags::ACK.bits();

/// What a packet has done to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing that anybody has to know of.
    Stays,
    /// It may be anybody's: it goes on, and the session's time isn't longer for it.
    Doubted,
    /// It stands elsewhere now.
    Moved,
    /// A connection that was over begins anew, from the same side.
    Reopened,
    /// It begins anew from the other side.
    Turned,
}

impl Step {
    /// A connection that was over begins anew, with a packet from that side of it.
    #[inline(always)]
    pub(super) const fn reopened(side: Direction) -> Self {
        match side {
            Direction::Forward => Self::Reopened,
            Direction::Reverse => Self::Turned,
        }
    }
}

/// Takes a packet of the session into account; `flags` are those of a TCP segment.
#[inline(always)]
pub(super) fn packet(session: &mut Session, protocol: IpProtocol, direction: Direction, flags: u8) -> Step {
    let tcp = protocol == IpProtocol::TCP;
    if session.state == State::Established && (!tcp || flags & (FIN | SYN | RST) == 0) {
        return Step::Stays;
    }
    if tcp {
        return segment(session, direction, flags);
    }
    let is_one_way = Key::has_one_direction(protocol.0);
    if is_one_way { again(session, direction) } else { answer(session, direction) }
}

/// A packet of a session that has one direction.
fn again(session: &mut Session, direction: Direction) -> Step {
    if session.state == State::Embryonic && direction == Direction::Forward && !session.is_within(1) {
        session.state = State::Established;
        return Step::Moved;
    }
    Step::Stays
}

fn answer(session: &mut Session, direction: Direction) -> Step {
    if session.state == State::Embryonic && direction == Direction::Reverse {
        session.state = State::Established;
        return Step::Moved;
    }
    Step::Stays
}

fn segment(session: &mut Session, direction: Direction, flags: u8) -> Step {
    if session.state == State::TimeWait {
        if !begins_connection(flags) {
            return Step::Stays;
        }
        // Whoever asks first is the initiator now.
        session.initiated_by(direction);
        session.state = State::Embryonic;
        session.tcp_flags = [SYN, 0];
        return Step::reopened(direction);
    }
    session.tcp_flags[direction as usize] |= flags & (FIN | SYN | RST | ACK);
    let before = session.state;
    session.state = next(session, direction, flags);
    if session.state == before { Step::Stays } else { Step::Moved }
}

fn next(session: &Session, direction: Direction, flags: u8) -> State {
    let [forward, reverse] = session.tcp_flags;
    if flags & RST != 0 || forward & reverse & FIN != 0 {
        return State::TimeWait;
    }
    if (forward | reverse) & FIN != 0 && session.state != State::Embryonic {
        return State::Closing;
    }
    let open = if forward & SYN != 0 {
        reverse & SYN != 0 && forward & ACK != 0
    } else {
        direction == Direction::Reverse
    };
    match session.state {
        State::Embryonic if open => State::Established,
        state => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Forward, Reverse};

    fn after(protocol: IpProtocol, packets: &[(Direction, u8)]) -> State {
        let mut session = Session::default();
        for (direction, flags) in packets {
            packet(&mut session, protocol, *direction, *flags);
        }
        session.state
    }

    #[test]
    fn tcp_from_syn_to_time_wait() {
        let packets = [
            (Forward, SYN, State::Embryonic),
            (Forward, SYN, State::Embryonic),
            (Reverse, SYN | ACK, State::Embryonic),
            (Forward, ACK, State::Established),
            (Reverse, ACK, State::Established),
            (Forward, FIN | ACK, State::Closing),
            (Reverse, ACK, State::Closing),
            (Reverse, FIN | ACK, State::TimeWait),
            (Forward, ACK, State::TimeWait),
            (Forward, FIN | ACK, State::TimeWait),
        ];
        let mut session = Session::default();
        for (at, (direction, flags, state)) in packets.into_iter().enumerate() {
            packet(&mut session, IpProtocol::TCP, direction, flags);
            assert_eq!(session.state, state, "packet {at}");
        }
        assert_eq!(packet(&mut session, IpProtocol::TCP, Reverse, SYN), Step::Turned);
        assert_eq!((session.state, session.initiator_is_high()), (State::Embryonic, true));
        assert_eq!(session.direction(true), Forward, "who asks first is the initiator");
    }

    #[test]
    fn other_ways_of_tcp() {
        let tcp = |packets: &[(Direction, u8)]| after(IpProtocol::TCP, packets);
        assert_eq!(tcp(&[(Forward, SYN), (Reverse, RST | ACK)]), State::TimeWait, "refused");
        assert_eq!(
            tcp(&[(Forward, SYN), (Reverse, SYN), (Forward, SYN | ACK)]),
            State::Established,
            "both at once"
        );
        assert_eq!(tcp(&[(Forward, ACK), (Reverse, ACK)]), State::Established, "found midway");
        assert_eq!(tcp(&[(Forward, SYN), (Reverse, ACK)]), State::Embryonic, "no handshake");
        assert_eq!(tcp(&[(Forward, SYN), (Forward, ACK)]), State::Embryonic, "nobody has answered");
        assert_eq!(tcp(&[(Forward, FIN | ACK), (Reverse, FIN | ACK)]), State::TimeWait, "its last packets");
    }

    #[test]
    fn an_answer_establishes_what_has_no_connections() {
        for protocol in [IpProtocol::UDP, IpProtocol::ICMP, IpProtocol::ICMPV6, IpProtocol::SCTP] {
            assert_eq!(after(protocol, &[(Forward, 0), (Forward, 0)]), State::Embryonic);
            assert_eq!(after(protocol, &[(Forward, 0), (Reverse, 0), (Forward, 0)]), State::Established);
        }
    }
}
