//! The state machine: what arrives, what is sent, what is due.

use super::tcb::before;
use super::{Close, Role, Rules, State, Tcb};
use crate::stateful::clock::Now;
use crate::stateful::counts::{Cause, Counts};
use crate::stateful::outbox::Outbox;
use crate::stateful::packet::Segment;
use wire::TcpFlags;

pub(super) const SYN: u8 = TcpFlags::SYN.bits();
pub(super) const ACK: u8 = TcpFlags::ACK.bits();
const FIN_ACK: u8 = TcpFlags::FIN.bits() | ACK;
const PSH_ACK: u8 = TcpFlags::PSH.bits() | ACK;
const RST: u8 = TcpFlags::RST.bits();
/// Segment size where the other end names none (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;

/// Longest time between two retransmissions, in milliseconds: an hour.
const LONGEST: u32 = 3_600_000;

/// What a state machine works with.
#[derive(Debug)]
pub struct Context<'a> {
    /// What all connections have in common.
    pub rules: &'a Rules,
    /// The time.
    pub now: Now,
    /// Where segments go.
    pub out: &'a mut Outbox<Segment>,
    /// What is counted.
    pub counts: &'a mut Counts,
}

impl Context<'_> {
    /// Begins a connection of the client.
    pub fn open(&mut self, tcb: &mut Tcb) {
        tcb.state = State::SynSent;
        self.counts.attempted += 1;
        self.send_syn(tcb, SYN);
        self.wait(tcb);
    }

    /// Answers a SYN, which `tcb` was made from.
    pub fn accept(&mut self, tcb: &mut Tcb, syn: &Segment) {
        tcb.state = State::SynReceived;
        self.counts.attempted += 1;
        self.synchronize(tcb, syn);
        self.send_syn(tcb, SYN | ACK);
        self.wait(tcb);
    }

    /// A segment for no connection: answered by RST, unless it is one.
    pub fn reject(&mut self, segment: &Segment) {
        self.counts.stray += 1;
        if segment.has(TcpFlags::RST) {
            return;
        }
        let (seq, ack, flags) = if segment.has(TcpFlags::ACK) {
            (segment.ack, 0, RST)
        } else {
            (0, segment.seq.wrapping_add(segment.span()), RST | ACK)
        };
        self.out.push(Segment {
            src: segment.dst,
            dst: segment.src,
            src_port: segment.dst_port,
            dst_port: segment.src_port,
            seq,
            ack,
            flags,
            ..Segment::default()
        });
    }

    /// A segment of this connection arrives (RFC 9293 section 3.10.7). Afterwards its state may be closed.
    #[inline(always)]
    pub fn arrive(&mut self, tcb: &mut Tcb, segment: &Segment) {
        if tcb.state == State::SynSent {
            return self.arrive_in_syn_sent(tcb, segment);
        }
        let end = segment.seq.wrapping_add(segment.span());
        let acceptable = if segment.span() == 0 {
            segment.seq.wrapping_sub(tcb.rcv) < u32::from(Tcb::WINDOW)
        } else {
            before(tcb.rcv, end) && before(segment.seq, tcb.rcv.wrapping_add(u32::from(Tcb::WINDOW)))
        };
        if segment.flags & (RST | SYN) != 0 {
            return self.arrive_unusual(tcb, segment, acceptable);
        }
        if !segment.has(TcpFlags::ACK) {
            return;
        }
        if !acceptable {
            self.counts.stray += u64::from(tcb.state != State::TimeWait);
            if tcb.state == State::TimeWait {
                tcb.deadline = self.now.tick.wrapping_add(self.rules.time_wait);
            }
            return self.out.push(acknowledgment(tcb));
        }
        // What acknowledges something never sent.
        if before(tcb.max, segment.ack) {
            if tcb.state == State::SynReceived {
                return self.reject(segment);
            }
            return self.out.push(acknowledgment(tcb));
        }
        let progress = (tcb.una, tcb.rcv, tcb.max);
        if before(tcb.una, segment.ack) {
            tcb.una = segment.ack;
            tcb.retries = 0;
            if before(tcb.nxt, tcb.una) {
                tcb.nxt = tcb.una;
            }
            if tcb.state == State::SynReceived {
                tcb.state = State::Established;
                self.counts.established += 1;
            }
        } else if tcb.state == State::SynReceived {
            return self.reject(segment);
        }
        tcb.window = segment.window;
        if !tcb.in_flight() && tcb.state > State::Established && self.fin_acknowledged(tcb) {
            return;
        }
        if segment.span() > 0 {
            self.take(tcb, segment, end);
        }
        // What came too early is acknowledged, too.
        self.go_on(tcb, segment.span() > 0);
        if progress != (tcb.una, tcb.rcv, tcb.max) {
            self.wait(tcb);
        }
    }

    /// The other end has acknowledged our FIN. Whether that was all.
    fn fin_acknowledged(&mut self, tcb: &mut Tcb) -> bool {
        match tcb.state {
            State::FinWait1 => tcb.state = State::FinWait2,
            State::Closing => {
                self.end(tcb);
                return true;
            }
            State::LastAck => {
                self.count_end(tcb);
                tcb.state = State::Closed;
                return true;
            }
            _ => {}
        }
        false
    }

    #[cold]
    fn arrive_unusual(&mut self, tcb: &mut Tcb, segment: &Segment, acceptable: bool) {
        if segment.has(TcpFlags::RST) {
            let exact = segment.seq == tcb.rcv;
            if exact && tcb.state == State::TimeWait {
                tcb.state = State::Closed;
            } else if exact {
                let intended = self.rules.close == Close::Reset && self.rules.role == Role::Server;
                if intended && tcb.state != State::SynReceived {
                    self.counts.closed += 1;
                } else {
                    self.counts.fail(Cause::Reset);
                }
                tcb.state = State::Closed;
            } else if acceptable {
                // A challenge (RFC 5961): whoever has the right number may repeat it.
                self.out.push(acknowledgment(tcb));
            }
        } else if tcb.state == State::SynReceived && segment.seq == tcb.irs {
            self.counts.retransmitted += 1;
            self.send_syn(tcb, SYN | ACK);
        } else {
            self.counts.stray += 1;
            self.out.push(acknowledgment(tcb));
        }
    }

    fn arrive_in_syn_sent(&mut self, tcb: &mut Tcb, segment: &Segment) {
        let acknowledges = segment.has(TcpFlags::ACK);
        if acknowledges && segment.ack != tcb.max {
            return self.reject(segment);
        }
        if segment.has(TcpFlags::RST) {
            if acknowledges {
                tcb.state = State::Closed;
                self.counts.fail(Cause::Refused);
            }
            return;
        }
        if !segment.has(TcpFlags::SYN) {
            return;
        }
        self.synchronize(tcb, segment);
        if acknowledges {
            tcb.una = segment.ack;
            tcb.retries = 0;
            tcb.state = State::Established;
            self.counts.established += 1;
            self.go_on(tcb, true);
        } else {
            // Both ends have opened at the same time.
            tcb.state = State::SynReceived;
            self.send_syn(tcb, SYN | ACK);
        }
        self.wait(tcb);
    }

    /// Takes the other end's numbers from its SYN.
    #[inline(always)]
    fn synchronize(&mut self, tcb: &mut Tcb, syn: &Segment) {
        tcb.irs = syn.seq;
        tcb.rcv = syn.seq.wrapping_add(1);
        tcb.window = syn.window;
        tcb.mss = if syn.mss == 0 { DEFAULT_MSS } else { syn.mss }.min(self.rules.mss);
    }

    /// Takes what a segment carries: in order, or as an island behind a gap.
    #[inline(always)]
    fn take(&mut self, tcb: &mut Tcb, segment: &Segment, end: u32) {
        let had = tcb.received();
        if before(tcb.rcv, segment.seq) {
            self.counts.out_of_order += 1;
            return store(tcb, segment, end);
        }
        tcb.rcv = end;
        let mut fin = segment.has(TcpFlags::FIN);
        if tcb.island != tcb.island_end && !before(tcb.rcv, tcb.island) {
            if before(tcb.rcv, tcb.island_end) {
                tcb.rcv = tcb.island_end;
                fin |= tcb.flags & Tcb::FIN_ON_ISLAND != 0;
            }
            tcb.island = tcb.island_end;
            tcb.flags &= !Tcb::FIN_ON_ISLAND;
        }
        if fin && tcb.flags & Tcb::FIN_IN == 0 {
            tcb.flags |= Tcb::FIN_IN;
            match tcb.state {
                State::Established => tcb.state = State::CloseWait,
                State::FinWait1 => tcb.state = State::Closing,
                State::FinWait2 => self.end(tcb),
                _ => {}
            }
        }
        let now = tcb.received();
        self.counts.bytes += u64::from(now.wrapping_sub(had));
        let message = self.rules.exchange.message(self.rules.role);
        if let (Some(a), Some(b)) = (had.checked_div(message), now.checked_div(message)) {
            self.counts.messages += u64::from(b.wrapping_sub(a));
        }
    }

    /// Sends what may be sent, closes when it is time, acknowledges if nothing else did.
    #[inline(always)]
    fn go_on(&mut self, tcb: &mut Tcb, acknowledge: bool) {
        let received = tcb.received();
        let role = self.rules.role;
        let end = tcb.iss.wrapping_add(1).wrapping_add(self.rules.exchange.may_send(role, received));
        let mut silent = true;
        if before(tcb.nxt, end) {
            silent = !self.send(tcb, end, u32::MAX);
        }
        let all_sent = tcb.nxt == end;
        let closes = match role {
            Role::Client => {
                let complete = received >= self.rules.exchange.to_receive(role);
                let over = complete && (self.rules.hold == 0 || tcb.flags & Tcb::CLOSE != 0);
                all_sent && (tcb.state == State::CloseWait || tcb.state == State::Established && over)
            }
            Role::Server => tcb.state == State::CloseWait && all_sent,
        };
        if !closes {
            let again = all_sent && matches!(tcb.state, State::FinWait1 | State::Closing | State::LastAck);
            if again && tcb.nxt != tcb.max {
                self.send_fin(tcb);
            } else if acknowledge && silent {
                self.out.push(acknowledgment(tcb));
            }
            return;
        }
        // The ACK that completes the handshake and the server's of a FIN are packets of their own, as they are where an
        // application closes.
        if acknowledge && silent && (received == 0 || role == Role::Server) {
            self.out.push(acknowledgment(tcb));
        }
        if role == Role::Client && self.rules.close == Close::Reset && tcb.state == State::Established {
            self.out.push(tcb.segment(RST | ACK, 0));
            tcb.state = State::Closed;
            self.counts.closed += 1;
            return;
        }
        tcb.state = if tcb.state == State::CloseWait { State::LastAck } else { State::FinWait1 };
        self.send_fin(tcb);
    }

    /// Sends up to `most` segments of what lies before `end`, as far as the window allows. Whether there were any.
    fn send(&mut self, tcb: &mut Tcb, end: u32, most: u32) -> bool {
        let limit = tcb.una.wrapping_add(u32::from(tcb.window));
        let limit = if before(limit, end) { limit } else { end };
        let mut sent = 0;
        while before(tcb.nxt, limit) && sent < most {
            let left = limit.wrapping_sub(tcb.nxt);
            let len = left.min(u32::from(tcb.mss)) as u16;
            let last = tcb.nxt.wrapping_add(u32::from(len)) == end;
            self.out.push(tcb.segment(if last { PSH_ACK } else { ACK }, len));
            self.sent(tcb, u32::from(len));
            sent += 1;
        }
        sent > 0
    }

    fn send_fin(&mut self, tcb: &mut Tcb) {
        self.out.push(tcb.segment(FIN_ACK, 0));
        self.sent(tcb, 1);
    }

    /// The SYN, or SYN and ACK, for the first time or again.
    fn send_syn(&mut self, tcb: &mut Tcb, flags: u8) {
        let ack = if flags & ACK == 0 { 0 } else { tcb.rcv };
        self.out.push(Segment { seq: tcb.iss, ack, mss: self.rules.mss, ..tcb.segment(flags, 0) });
        tcb.nxt = tcb.iss.wrapping_add(1);
        tcb.max = tcb.nxt;
    }

    #[inline(always)]
    fn sent(&mut self, tcb: &mut Tcb, span: u32) {
        if before(tcb.nxt, tcb.max) {
            self.counts.retransmitted += 1;
        }
        tcb.nxt = tcb.nxt.wrapping_add(span);
        if before(tcb.max, tcb.nxt) {
            tcb.max = tcb.nxt;
        }
    }

    /// Sets the deadline that fits the state.
    #[inline(always)]
    fn wait(&mut self, tcb: &mut Tcb) {
        let rules = self.rules;
        let delay = if tcb.in_flight() {
            rules.rto.saturating_mul(1 << tcb.retries.min(16)).min(LONGEST)
        } else if tcb.state == State::TimeWait {
            rules.time_wait
        } else if rules.role == Role::Client && tcb.state == State::Established && self.complete(tcb) {
            rules.hold
        } else {
            rules.timeout
        };
        tcb.deadline = self.now.tick.wrapping_add(delay);
    }

    fn complete(&self, tcb: &Tcb) -> bool {
        tcb.received() >= self.rules.exchange.to_receive(self.rules.role)
    }

    /// The deadline is there.
    pub fn due(&mut self, tcb: &mut Tcb) {
        match tcb.state {
            State::Closed | State::Removed => return,
            State::TimeWait => {
                tcb.state = State::Closed;
                return;
            }
            State::SynSent | State::SynReceived => {
                if tcb.retries >= self.rules.retries {
                    return self.give_up(tcb, Cause::ConnectTimeout);
                }
                tcb.retries += 1;
                self.counts.retransmitted += 1;
                self.send_syn(tcb, if tcb.state == State::SynSent { SYN } else { SYN | ACK });
            }
            _ if tcb.in_flight() => {
                if tcb.retries >= self.rules.retries {
                    return self.give_up(tcb, Cause::Timeout);
                }
                tcb.retries += 1;
                // From the first number that isn't acknowledged; the rest follows when this is.
                tcb.nxt = tcb.una;
                let may = self.rules.exchange.may_send(self.rules.role, tcb.received());
                let end = tcb.iss.wrapping_add(1).wrapping_add(may);
                // A closed window is tried with one segment, too.
                tcb.window = tcb.window.max(tcb.mss);
                if !before(tcb.nxt, end) || !self.send(tcb, end, 1) {
                    self.send_fin(tcb);
                }
            }
            State::Established if self.rules.role == Role::Client && self.complete(tcb) => {
                tcb.flags |= Tcb::CLOSE;
                self.go_on(tcb, false);
            }
            State::Established | State::CloseWait if self.closed_window(tcb) => {
                tcb.window = 1;
                self.go_on(tcb, false);
            }
            _ => return self.give_up(tcb, Cause::Timeout),
        }
        if tcb.state.is_used() {
            self.wait(tcb);
        }
    }

    /// Whether there is something to send that the other end's window doesn't allow.
    fn closed_window(&self, tcb: &Tcb) -> bool {
        let may = self.rules.exchange.may_send(self.rules.role, tcb.received());
        tcb.window == 0 && before(tcb.nxt, tcb.iss.wrapping_add(1).wrapping_add(may))
    }

    fn give_up(&mut self, tcb: &mut Tcb, cause: Cause) {
        if tcb.state != State::SynSent {
            tcb.nxt = tcb.max;
            self.out.push(tcb.segment(RST | ACK, 0));
        }
        self.counts.fail(cause);
        tcb.state = State::Closed;
    }

    /// Both FINs are through, and we were first to close.
    fn end(&mut self, tcb: &mut Tcb) {
        self.count_end(tcb);
        tcb.state = State::TimeWait;
        tcb.deadline = self.now.tick.wrapping_add(self.rules.time_wait);
    }

    fn count_end(&mut self, tcb: &Tcb) {
        if self.rules.role == Role::Client && !self.complete(tcb) {
            self.counts.fail(Cause::ClosedEarly);
        } else {
            self.counts.closed += 1;
        }
    }
}

#[inline(always)]
fn acknowledgment(tcb: &Tcb) -> Segment {
    Segment { seq: tcb.max, ..tcb.segment(ACK, 0) }
}

/// Keeps what came behind a gap, if it touches what is kept already.
#[cold]
fn store(tcb: &mut Tcb, segment: &Segment, end: u32) {
    let fin = segment.has(TcpFlags::FIN);
    if tcb.island == tcb.island_end {
        (tcb.island, tcb.island_end) = (segment.seq, end);
        tcb.flags = tcb.flags & !Tcb::FIN_ON_ISLAND | if fin { Tcb::FIN_ON_ISLAND } else { 0 };
        return;
    }
    if before(tcb.island_end, segment.seq) || before(end, tcb.island) {
        return;
    }
    if before(segment.seq, tcb.island) {
        tcb.island = segment.seq;
    }
    if before(tcb.island_end, end) {
        tcb.island_end = end;
        if fin {
            tcb.flags |= Tcb::FIN_ON_ISLAND;
        }
    }
}
