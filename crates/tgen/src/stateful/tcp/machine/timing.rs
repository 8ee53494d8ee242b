//! What is due, and how connections end.

use super::{ACK, Context, RST, SYN};
use crate::stateful::address::Address;
use crate::stateful::counts::Cause;
use crate::stateful::tcp::tcb::{CLOSE, before};
use crate::stateful::tcp::{Role, State, Tcb};

/// Longest time between two retransmissions, in milliseconds: an hour.
const LONGEST: u32 = 3_600_000;

impl<A: Address> Context<'_, A> {
    /// Sets the deadline that fits the state.
    #[inline(always)]
    pub(super) fn wait(&mut self, tcb: &mut Tcb<A>) {
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

    fn complete(&self, tcb: &Tcb<A>) -> bool {
        tcb.received() >= self.rules.exchange.to_receive(self.rules.role)
    }

    /// The deadline is there.
    pub fn due(&mut self, tcb: &mut Tcb<A>) {
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
                tcb.flags |= CLOSE;
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
    fn closed_window(&self, tcb: &Tcb<A>) -> bool {
        let may = self.rules.exchange.may_send(self.rules.role, tcb.received());
        tcb.window == 0 && before(tcb.nxt, tcb.iss.wrapping_add(1).wrapping_add(may))
    }

    fn give_up(&mut self, tcb: &mut Tcb<A>, cause: Cause) {
        if tcb.state != State::SynSent {
            tcb.nxt = tcb.max;
            self.out.push(tcb.segment(RST | ACK, 0));
        }
        self.counts.fail(cause);
        tcb.state = State::Closed;
    }

    /// Both FINs are through, and we were first to close.
    pub(super) fn end(&mut self, tcb: &mut Tcb<A>) {
        self.count_end(tcb);
        tcb.state = State::TimeWait;
        tcb.deadline = self.now.tick.wrapping_add(self.rules.time_wait);
    }

    pub(super) fn count_end(&mut self, tcb: &Tcb<A>) {
        if self.rules.role == Role::Client && !self.complete(tcb) {
            self.counts.fail(Cause::ClosedEarly);
        } else {
            self.counts.closed += 1;
        }
    }
}
