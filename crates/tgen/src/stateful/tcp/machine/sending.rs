//! What is sent.

use super::{ACK, Context, FIN_ACK, PSH_ACK, RST, acknowledgment};
use crate::stateful::address::Address;
use crate::stateful::packet::Segment;
use crate::stateful::tcp::tcb::{CLOSE, before};
use crate::stateful::tcp::{Close, Role, State, Tcb};

impl<A: Address> Context<'_, A> {
    /// Sends what may be sent, closes when it is time, acknowledges if nothing else did.
    #[inline(always)]
    pub(super) fn go_on(&mut self, tcb: &mut Tcb<A>, acknowledge: bool) {
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
                let over = complete && (self.rules.hold == 0 || tcb.flags & CLOSE != 0);
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
    pub(super) fn send(&mut self, tcb: &mut Tcb<A>, end: u32, most: u32) -> bool {
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

    pub(super) fn send_fin(&mut self, tcb: &mut Tcb<A>) {
        self.out.push(tcb.segment(FIN_ACK, 0));
        self.sent(tcb, 1);
    }

    /// The SYN, or SYN and ACK, for the first time or again.
    pub(super) fn send_syn(&mut self, tcb: &mut Tcb<A>, flags: u8) {
        let ack = if flags & ACK == 0 { 0 } else { tcb.rcv };
        self.out.push(Segment { seq: tcb.iss, ack, mss: self.rules.mss, ..tcb.segment(flags, 0) });
        tcb.nxt = tcb.iss.wrapping_add(1);
        tcb.max = tcb.nxt;
    }

    #[inline(always)]
    fn sent(&mut self, tcb: &mut Tcb<A>, span: u32) {
        if before(tcb.nxt, tcb.max) {
            self.counts.retransmitted += 1;
        }
        tcb.nxt = tcb.nxt.wrapping_add(span);
        if before(tcb.max, tcb.nxt) {
            tcb.max = tcb.nxt;
        }
    }
}
