//! What arrives.

use super::{ACK, Context, RST, SYN, acknowledgment};
use crate::stateful::address::Address;
use crate::stateful::counts::Cause;
use crate::stateful::packet::Segment;
use crate::stateful::tcp::tcb::{FIN_IN, FIN_ON_ISLAND, WINDOW, before};
use crate::stateful::tcp::{Close, Role, State, Tcb};
use wire::TcpFlags;

/// Segment size where the other end names none (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;

impl<A: Address> Context<'_, A> {
    /// A segment of this connection arrives (RFC 9293 section 3.10.7). Afterwards its state may be closed.
    #[inline(always)]
    pub fn arrive(&mut self, tcb: &mut Tcb<A>, segment: &Segment<A>) {
        if tcb.state == State::SynSent {
            return self.arrive_in_syn_sent(tcb, segment);
        }
        let end = segment.seq.wrapping_add(segment.span());
        let acceptable = if segment.span() == 0 {
            segment.seq.wrapping_sub(tcb.rcv) < u32::from(WINDOW)
        } else {
            before(tcb.rcv, end) && before(segment.seq, tcb.rcv.wrapping_add(u32::from(WINDOW)))
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
    fn fin_acknowledged(&mut self, tcb: &mut Tcb<A>) -> bool {
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
    fn arrive_unusual(&mut self, tcb: &mut Tcb<A>, segment: &Segment<A>, acceptable: bool) {
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

    fn arrive_in_syn_sent(&mut self, tcb: &mut Tcb<A>, segment: &Segment<A>) {
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
    pub(super) fn synchronize(&mut self, tcb: &mut Tcb<A>, syn: &Segment<A>) {
        tcb.irs = syn.seq;
        tcb.rcv = syn.seq.wrapping_add(1);
        tcb.window = syn.window;
        tcb.mss = if syn.mss == 0 { DEFAULT_MSS } else { syn.mss }.min(self.rules.mss);
    }

    /// Takes what a segment carries: in order, or as an island behind a gap.
    #[inline(always)]
    fn take(&mut self, tcb: &mut Tcb<A>, segment: &Segment<A>, end: u32) {
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
                fin |= tcb.flags & FIN_ON_ISLAND != 0;
            }
            tcb.island = tcb.island_end;
            tcb.flags &= !FIN_ON_ISLAND;
        }
        if fin && tcb.flags & FIN_IN == 0 {
            tcb.flags |= FIN_IN;
            match tcb.state {
                State::Established => tcb.state = State::CloseWait,
                State::FinWait1 => tcb.state = State::Closing,
                State::FinWait2 => self.end(tcb),
                _ => {}
            }
        }
        let now = tcb.received();
        if now == had {
            // A FIN by itself: nothing to divide.
            return;
        }
        self.counts.bytes += u64::from(now.wrapping_sub(had));
        let message = self.rules.exchange.message(self.rules.role);
        if let (Some(a), Some(b)) = (had.checked_div(message), now.checked_div(message)) {
            self.counts.messages += u64::from(b.wrapping_sub(a));
        }
    }
}

/// Keeps what came behind a gap, if it touches what is kept already.
#[cold]
fn store<A: Address>(tcb: &mut Tcb<A>, segment: &Segment<A>, end: u32) {
    let fin = segment.has(TcpFlags::FIN);
    if tcb.island == tcb.island_end {
        (tcb.island, tcb.island_end) = (segment.seq, end);
        tcb.flags = tcb.flags & !FIN_ON_ISLAND | if fin { FIN_ON_ISLAND } else { 0 };
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
            tcb.flags |= FIN_ON_ISLAND;
        }
    }
}
