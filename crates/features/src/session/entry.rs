//! One session.

use super::services::Chain;
use super::tenants::Timer;
use tables::timer_wheel::TimerId;
use wire::IpProtocol;

/// Where a session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The initiator has spoken, nobody has answered.
    #[default]
    Embryonic,
    /// Both sides have spoken; for TCP, the connection is open.
    Established,
    /// One side of a TCP connection has ended.
    Closing,
    /// A TCP connection is over, by two FINs or a RST.
    TimeWait,
}

impl State {
    /// Lower-case name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embryonic => "embryonic",
            Self::Established => "established",
            Self::Closing => "closing",
            Self::TimeWait => "time-wait",
        }
    }

    /// Whether a session in this state makes room for a new one where there is none.
    #[inline]
    pub(super) const fn is_transient(self) -> bool {
        matches!(self, Self::Embryonic | Self::TimeWait)
    }
}

/// The side that a packet comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// From the initiator.
    Forward,
    /// To it.
    Reverse,
}

/// What is known of a session: 80 bytes, the first 16 on the cache line of its key. Its initiator, the side that
/// the first packet came from, is the lower endpoint of the key or the higher one.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Session {
    /// When it began, in ticks of 2^24 ns (wraps after two years).
    pub created: u32,
    /// When its last packet came, likewise.
    pub last_seen: u32,
    /// Number of its tenant.
    pub tenant: u16,
    /// Generation of the tenants that its chain is of.
    pub(super) epoch: u16,
    /// Where it stands.
    pub state: State,
    pub(super) marks: Marks,
    /// TCP flags that `l4-lifecycle` has seen, by direction.
    pub tcp_flags: [u8; 2],
    /// Packets from the initiator and to it.
    pub packets: [u64; 2],
    /// Their bytes, from the IP header on.
    pub bytes: [u64; 2],
    /// Services that packets from the initiator and to it still pass.
    pub chain: [Chain; 2],
    pub(super) timer: TimerId,
    /// Its neighbours on its tenant's list.
    pub(super) links: [u32; 2],
}

/// Small facts about a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u8);

impl Marks {
    /// The initiator is the higher endpoint.
    pub(super) const INITIATOR_IS_HIGH: Self = Self(1);
    /// It is on one of its tenant's lists.
    pub(super) const LISTED: Self = Self(2);
    /// That is the one of established sessions.
    pub(super) const SETTLED: Self = Self(8);
    /// It ends in the next round.
    pub(super) const ENDING: Self = Self(4);
    /// It was there before its tenant was given `tcp-check`, or when it was without: that hasn't seen all of its packets.
    pub(super) const UNCHECKED: Self = Self(16);
    /// Its packets look otherwise outside: it has another key, and something that has to be given back.
    pub(super) const TRANSLATED: Self = Self(32);

    /// Whether all of `other`'s are there.
    #[inline(always)]
    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets or clears `other`'s.
    #[inline(always)]
    pub(super) const fn put(&mut self, other: Self, on: bool) {
        self.0 = if on { self.0 | other.0 } else { self.0 & !other.0 };
    }
}

impl Session {
    /// Whether the initiator is the higher endpoint.
    #[inline(always)]
    #[must_use]
    pub const fn initiator_is_high(&self) -> bool {
        self.marks.has(Marks::INITIATOR_IS_HIGH)
    }

    /// The side that sends in `direction` is the initiator from now on.
    pub(super) const fn initiated_by(&mut self, direction: Direction) {
        let turned = matches!(direction, Direction::Reverse);
        self.marks.put(Marks::INITIATOR_IS_HIGH, self.initiator_is_high() != turned);
    }

    /// Whether its packets are dropped, whoever sends them.
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        self.chain[0].block().is_some()
    }

    /// Whether its packets look otherwise on its far side.
    #[inline(always)]
    pub(super) const fn is_translated(&self) -> bool {
        self.marks.has(Marks::TRANSLATED)
    }

    /// Takes a service off both chains: no packet of the session comes to it any more.
    #[inline(always)]
    pub(super) fn retire(&mut self, service: u8) {
        self.chain = self.chain.map(|chain| chain.without(service));
    }

    /// A packet of it has come that nobody refuses. How long it is over isn't changed by any.
    #[inline(always)]
    pub(super) const fn heard(&mut self, tick: u64) {
        if !matches!(self.state, State::TimeWait) {
            self.last_seen = tick as u32;
        }
    }

    /// The direction of a packet, by whether its source is the higher endpoint.
    #[inline(always)]
    #[must_use]
    pub const fn direction(&self, from_high: bool) -> Direction {
        if from_high == self.initiator_is_high() { Direction::Forward } else { Direction::Reverse }
    }

    /// What its timeout depends on.
    #[inline]
    #[must_use]
    pub const fn timer(&self, protocol: IpProtocol) -> Timer {
        if self.is_blocked() {
            return Timer::Blocked;
        }
        match (self.state, protocol) {
            (State::Embryonic, _) => Timer::Embryonic,
            (State::Established, IpProtocol::TCP) => Timer::TcpEstablished,
            (State::Established, IpProtocol::ICMP | IpProtocol::ICMPV6) => Timer::IcmpEstablished,
            (State::Established, _) => Timer::Established,
            (State::Closing, _) => Timer::TcpClosing,
            (State::TimeWait, _) => Timer::TimeWait,
        }
    }
}

/// A packet's session and the side that it came from, in its metadata while it passes services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow(pub(super) u32);

impl Flow {
    /// Of a packet without a session.
    pub(super) const NONE: Self = Self(u32::MAX);
    /// Sessions that can be told apart.
    pub(super) const MAX: usize = (1 << 30) - 1;

    #[inline(always)]
    pub(super) const fn new(session: u32, is_v6: bool, from_high: bool) -> Self {
        Self(session << 2 | (is_v6 as u32) << 1 | from_high as u32)
    }

    /// The session's number.
    #[inline(always)]
    pub(super) const fn session(self) -> u32 {
        self.0 >> 2
    }

    #[inline(always)]
    pub(super) const fn is_v6(self) -> bool {
        self.0 & 2 != 0
    }

    /// Whether the higher endpoint has sent the packet.
    #[inline(always)]
    pub(super) const fn is_from_high(self) -> bool {
        self.0 & 1 != 0
    }
}
