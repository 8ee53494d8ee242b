//! One connection.

use crate::stateful::address::Address;
use crate::stateful::packet::Segment;

/// State of a connection (RFC 9293 section 3.3.2), and of a place without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// No connection, and none since the place is in the table.
    #[default]
    Closed,
    /// No connection any more. A search goes on behind it.
    Removed,
    /// SYN sent.
    SynSent,
    /// SYN received and answered.
    SynReceived,
    /// Open.
    Established,
    /// Our FIN is sent.
    FinWait1,
    /// Our FIN is acknowledged.
    FinWait2,
    /// The other end's FIN is received.
    CloseWait,
    /// Both FINs are sent, ours isn't acknowledged.
    Closing,
    /// The other end's FIN is received, ours sent.
    LastAck,
    /// Both FINs are acknowledged; what comes late is still answered.
    TimeWait,
}

impl State {
    /// Whether there is a connection, if only an ended one.
    #[inline(always)]
    #[must_use]
    pub fn is_used(self) -> bool {
        self > Self::Removed
    }
}

/// One connection: what RFC 9293 calls its transmission control block. A cache line with IPv4, two with IPv6.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Tcb<A = u32> {
    /// Our address.
    pub local: A,
    /// The other end's address.
    pub remote: A,
    /// Our port.
    pub local_port: u16,
    /// The other end's port.
    pub remote_port: u16,
    // Numbers that change with every segment are no neighbours: two that are would be read as one word, which has to wait
    // for both to have been written.
    /// Next number to send; behind `max` while something is sent again.
    pub nxt: u32,
    /// Where our sequence numbers begin.
    pub iss: u32,
    /// Oldest number of ours that isn't acknowledged.
    pub una: u32,
    /// Where the other end's sequence numbers begin.
    pub irs: u32,
    /// Next number that was never sent. Stays in a place for the next connection, which must begin behind it.
    pub max: u32,
    /// What was received behind a gap: from here…
    pub island: u32,
    /// Next number to receive.
    pub rcv: u32,
    /// … to here; nothing where both are the same.
    pub island_end: u32,
    /// Tick at which something must be done unless something happens before.
    pub deadline: u32,
    /// Tick of the place's timer that counts; 0: none is set. Outlives the connection.
    pub timer_at: u32,
    /// When the connection was begun.
    pub stamp: u32,
    /// How far behind `una` the other end allows us to send.
    pub window: u16,
    /// Largest payload of a segment to the other end.
    pub mss: u16,
    /// State.
    pub state: State,
    /// `FIN_IN` and the like.
    pub flags: u8,
    /// Retransmissions since the last acknowledgment.
    pub retries: u8,
}

const _: () = assert!(size_of::<Tcb>() == 64 && size_of::<Tcb<u128>>() == 128);

/// A flag: the other end's FIN was received in order.
pub(super) const FIN_IN: u8 = 1;
/// A flag: the island ends with a FIN.
pub(super) const FIN_ON_ISLAND: u8 = 2;
/// A flag: the client's time to close has come.
pub(super) const CLOSE: u8 = 4;
/// What we allow the other end to send: payload is counted and not kept, so it never shrinks.
pub(super) const WINDOW: u16 = u16::MAX;

impl<A: Address> Tcb<A> {
    /// Bytes of payload received in order.
    #[inline(always)]
    #[must_use]
    pub const fn received(&self) -> u32 {
        self.rcv.wrapping_sub(self.irs).wrapping_sub(1 + (self.flags & FIN_IN) as u32)
    }

    /// Whether something of ours isn't acknowledged.
    #[inline(always)]
    #[must_use]
    pub const fn in_flight(&self) -> bool {
        self.una != self.max
    }

    /// The timer of its place has fired: whether there is something to do. (It is set anew where that is not so.)
    #[inline(always)]
    pub fn timer_fired(&mut self, tick: u32) -> bool {
        if self.timer_at == 0 || tick < self.timer_at {
            // Another timer counts, which was set for an earlier tick.
            return false;
        }
        self.timer_at = 0;
        self.state.is_used() && self.deadline <= tick
    }

    /// A segment of this connection with the current numbers.
    #[inline(always)]
    #[must_use]
    pub const fn segment(&self, flags: u8, len: u16) -> Segment<A> {
        Segment {
            src: self.local,
            dst: self.remote,
            seq: self.nxt,
            ack: self.rcv,
            src_port: self.local_port,
            dst_port: self.remote_port,
            len,
            window: WINDOW,
            mss: 0,
            flags,
        }
    }
}

/// Whether sequence number `a` comes before `b` (RFC 9293 section 3.4).
#[inline(always)]
pub(super) const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
