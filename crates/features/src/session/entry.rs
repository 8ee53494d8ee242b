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
    /// Where it stands.
    pub state: State,
    /// Whether the initiator is the higher endpoint.
    pub initiator_is_high: bool,
    /// TCP flags that have been seen, by direction.
    pub tcp_flags: [u8; 2],
    /// It is on its tenant's list of sessions that make room for others.
    pub(super) listed: bool,
    /// Packets from the initiator and to it.
    pub packets: [u64; 2],
    /// Their bytes, from the IP header on.
    pub bytes: [u64; 2],
    /// Services of packets from the initiator and to it.
    pub chain: [Chain; 2],
    pub(super) timer: TimerId,
    /// Its neighbours on that list.
    pub(super) links: [u32; 2],
}

impl Session {
    /// The direction of a packet, by whether its source is the higher endpoint.
    #[inline(always)]
    #[must_use]
    pub const fn direction(&self, from_high: bool) -> Direction {
        if from_high == self.initiator_is_high { Direction::Forward } else { Direction::Reverse }
    }

    /// What its timeout depends on.
    #[inline]
    #[must_use]
    pub const fn timer(&self, protocol: IpProtocol) -> Timer {
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
