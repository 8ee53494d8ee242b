//! The state machine (RFC 9293 section 3.10), the same for both ends.
//!
//! * [`arrival`]: what a segment that arrives changes.
//! * [`sending`]: what may be sent now, and when to close.
//! * [`timing`]: deadlines and what happens at them, and how connections end.

mod arrival;
mod sending;
mod timing;

use super::{Rules, State, Tcb};
use crate::stateful::address::Address;
use crate::stateful::clock::Now;
use crate::stateful::counts::Counts;
use crate::stateful::outbox::Outbox;
use crate::stateful::packet::Segment;
use wire::TcpFlags;

const SYN: u8 = TcpFlags::SYN.bits();
const ACK: u8 = TcpFlags::ACK.bits();
const FIN_ACK: u8 = TcpFlags::FIN.bits() | ACK;
const PSH_ACK: u8 = TcpFlags::PSH.bits() | ACK;
const RST: u8 = TcpFlags::RST.bits();

/// What a state machine works with.
#[derive(Debug)]
pub struct Context<'a, A> {
    /// What all connections have in common.
    pub rules: &'a Rules,
    /// The time.
    pub now: Now,
    /// Where segments go.
    pub out: &'a mut Outbox<Segment<A>>,
    /// What is counted.
    pub counts: &'a mut Counts,
}

impl<A: Address> Context<'_, A> {
    /// Begins a connection of the client.
    pub fn open(&mut self, tcb: &mut Tcb<A>) {
        tcb.state = State::SynSent;
        self.counts.attempted += 1;
        self.send_syn(tcb, SYN);
        self.wait(tcb);
    }

    /// Answers a SYN, which `tcb` was made from.
    pub fn accept(&mut self, tcb: &mut Tcb<A>, syn: &Segment<A>) {
        tcb.state = State::SynReceived;
        self.counts.attempted += 1;
        self.synchronize(tcb, syn);
        self.send_syn(tcb, SYN | ACK);
        self.wait(tcb);
    }

    /// A segment for no connection: answered by RST, unless it is one.
    pub fn reject(&mut self, segment: &Segment<A>) {
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
}

#[inline(always)]
fn acknowledgment<A: Address>(tcb: &Tcb<A>) -> Segment<A> {
    Segment { seq: tcb.max, ..tcb.segment(ACK, 0) }
}
