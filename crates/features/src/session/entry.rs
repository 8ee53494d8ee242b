//! One session.

use super::services::Chain;
use super::tenants::Timer;
use core::mem::offset_of;
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

    /// Whether a session in this state makes room for a new one before established ones do.
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

/// Packets and their bytes in one word, so that counting is one addition: 23 bits and 39, and above each the bit that says that there
/// were more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent(u64);

impl Sent {
    const PACKET_BITS: u32 = 23;
    const BYTE_BITS: u32 = 39;
    const MORE_PACKETS: u64 = 1 << Self::PACKET_BITS;
    const MORE_BYTES: u64 = 1 << 63;

    const fn packets(self) -> u64 {
        self.0 & (Self::MORE_PACKETS - 1)
    }

    const fn bytes(self) -> u64 {
        (self.0 & !Self::MORE_BYTES) >> (Self::PACKET_BITS + 1)
    }

    /// So many packets and bytes: in a word, and how often that has begun anew for them.
    const fn split(packets: u64, bytes: u64) -> (Self, u32, u16) {
        let word = (bytes & ((1 << Self::BYTE_BITS) - 1)) << (Self::PACKET_BITS + 1)
            | packets & (Self::MORE_PACKETS - 1);
        (Self(word), (packets >> Self::PACKET_BITS) as u32, (bytes >> Self::BYTE_BITS) as u16)
    }

    /// Counts a packet; true where it is to [carry](Self::carry) before the next one.
    #[inline(always)]
    const fn add(&mut self, bytes: u32) -> bool {
        self.0 += (bytes as u64) << (Self::PACKET_BITS + 1) | 1;
        self.0 & (Self::MORE_PACKETS | Self::MORE_BYTES) != 0
    }

    /// Whether there were more packets, more bytes than it can count; from now on there weren't.
    const fn carry(&mut self) -> (bool, bool) {
        let more = (self.0 & Self::MORE_PACKETS != 0, self.0 & Self::MORE_BYTES != 0);
        self.0 &= !(Self::MORE_PACKETS | Self::MORE_BYTES);
        more
    }
}

/// What is known of a session: 80 bytes, the first 40 on the cache line of its key, and all that most packets need. Its initiator, the side
/// that the first packet came from, is the lower endpoint of the key or the higher one.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Session {
    /// When its last packet came, in ticks of 2^24 ns (wraps after two years).
    pub last_seen: u32,
    /// Generation of the tenants that its chain is of.
    pub(super) epoch: u16,
    /// Where it stands.
    pub state: State,
    pub(super) marks: Marks,
    /// What the initiator has sent, and what was sent to it, but for [`Session::before`].
    pub(super) sent: [Sent; 2],
    /// Services that packets from the initiator and to it still pass.
    pub chain: [Chain; 2],
    /// When it began, in ticks.
    pub created: u32,
    /// When its timer is due, likewise.
    pub(super) due: u32,
    /// Number of its tenant.
    pub tenant: u16,
    /// TCP flags that `l4-lifecycle` has seen, by direction.
    pub tcp_flags: [u8; 2],
    /// How often packets and bytes of [`Session::sent`] have begun anew.
    pub(super) before: ([u32; 2], [u16; 2]),
    pub(super) timer: TimerId,
    /// Its neighbours on its tenant's list.
    pub(super) links: [u32; 2],
}

const _: () = assert!(offset_of!(Session, created) == 40 && size_of::<Session>() == 80);

/// When a session makes room for a new one where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Room {
    /// First: none of its packets passes.
    Blocked,
    /// Then: it is embryonic or over.
    Transient,
    /// Last, and only where nothing was heard of it for long.
    Settled,
}

/// Number of them.
pub(super) const ROOMS: usize = 3;

/// Small facts about a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u8);

impl Marks {
    /// The initiator is the higher endpoint.
    pub(super) const INITIATOR_IS_HIGH: Self = Self(1);
    /// The list of its tenant's that it is on, if it is on one.
    const LIST: u8 = 2 | 8;
    /// It ends in the next round.
    pub(super) const ENDING: Self = Self(4);
    /// It was there before its tenant was given `tcp-check`, or when it was without: that hasn't seen all of its packets.
    pub(super) const UNCHECKED: Self = Self(16);
    /// Its packets look otherwise outside: it has another key, and something that has to be given back.
    pub(super) const TRANSLATED: Self = Self(32);
    /// It was denied, and none of its packets has passed: one of its other side begins it anew, and where its backend takes no more, one of the initiator's.
    pub(super) const YIELDS: Self = Self(64);
    /// It was denied, likewise, and hasn't begun with a SYN: one begins it anew.
    pub(super) const YIELDS_TO_SYN: Self = Self(128);

    /// Whether all of `other`'s are there.
    #[inline(always)]
    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The list of its tenant's that it is on.
    pub(super) const fn list(self) -> Option<Room> {
        match self.0 & Self::LIST {
            0 => None,
            2 => Some(Room::Transient),
            8 => Some(Room::Settled),
            _ => Some(Room::Blocked),
        }
    }

    /// It is on that list now.
    pub(super) const fn put_list(&mut self, list: Option<Room>) {
        let bits = match list {
            None => 0,
            Some(Room::Transient) => 2,
            Some(Room::Settled) => 8,
            Some(Room::Blocked) => Self::LIST,
        };
        self.0 = self.0 & !Self::LIST | bits;
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

    /// When it makes room for a new one.
    pub(super) const fn room(&self) -> Room {
        match (self.is_blocked(), self.state.is_transient()) {
            (true, _) => Room::Blocked,
            (false, true) => Room::Transient,
            (false, false) => Room::Settled,
        }
    }

    /// Whether its packets look otherwise on its far side.
    #[inline(always)]
    pub(super) const fn is_translated(&self) -> bool {
        self.marks.has(Marks::TRANSLATED)
    }

    /// Packets from the initiator and to it.
    #[must_use]
    pub fn packets(&self) -> [u64; 2] {
        [0, 1].map(|way| u64::from(self.before.0[way]) << Sent::PACKET_BITS | self.sent[way].packets())
    }

    /// Their bytes, from the IP header on.
    #[must_use]
    pub fn bytes(&self) -> [u64; 2] {
        [0, 1].map(|way| u64::from(self.before.1[way]) << Sent::BYTE_BITS | self.sent[way].bytes())
    }

    /// Counts a packet.
    #[inline(always)]
    pub(super) fn count(&mut self, direction: Direction, bytes: u32) {
        let way = direction as usize;
        if self.sent[way].add(bytes) {
            self.carry(way);
        }
    }

    #[cold]
    fn carry(&mut self, way: usize) {
        let (packets, bytes) = self.sent[way].carry();
        self.before.0[way] = self.before.0[way].wrapping_add(packets.into());
        self.before.1[way] = self.before.1[way].wrapping_add(bytes.into());
    }

    /// It begins anew with a packet of `bytes`.
    pub(super) fn count_anew(&mut self, bytes: u32) {
        (self.sent, self.before) = Default::default();
        self.count(Direction::Forward, bytes);
    }

    /// The packet that was counted last is none of its own.
    pub(super) fn uncount(&mut self, direction: Direction, bytes: u32) {
        let way = direction as usize;
        let packets = self.packets()[way].saturating_sub(1);
        let bytes = self.bytes()[way].saturating_sub(bytes.into());
        (self.sent[way], self.before.0[way], self.before.1[way]) = Sent::split(packets, bytes);
    }

    /// Whether its initiator has had no answer.
    #[inline(always)]
    pub(super) const fn is_unanswered(&self) -> bool {
        let way = Direction::Reverse as usize;
        self.sent[way].packets() == 0 && self.before.0[way] == 0
    }

    /// Whether its initiator has sent at most that many packets, and had no answer.
    #[inline(always)]
    pub(super) const fn is_within(&self, packets: u64) -> bool {
        let way = Direction::Forward as usize;
        self.sent[way].packets() <= packets && self.before.0[way] == 0 && self.is_unanswered()
    }

    /// Takes a service off both chains: no packet of the session comes to it any more.
    #[inline(always)]
    pub(super) fn retire(&mut self, service: u8) {
        self.chain = self.chain.map(|chain| chain.without(service));
    }

    /// Takes services off both chains, likewise.
    #[inline(always)]
    pub(super) fn retire_all(&mut self, services: Chain) {
        self.chain = self.chain.map(|chain| chain.without_all(services));
    }

    /// Takes a service off the chain of one direction.
    #[inline(always)]
    pub(super) fn retire_from(&mut self, direction: Direction, service: u8) {
        let chain = &mut self.chain[direction as usize];
        *chain = chain.without(service);
    }

    /// A packet of it has come that nobody refuses. How long it is over isn't changed by any.
    #[inline(always)]
    pub(super) const fn heard(&mut self, tick: u64) {
        self.heard_if(true, tick);
    }

    /// The same if it `is_so`: with a store in either case, which takes fewer instructions than a branch around it.
    #[inline(always)]
    pub(super) const fn heard_if(&mut self, is_so: bool, tick: u64) {
        let counts = is_so & !matches!(self.state, State::TimeWait);
        self.last_seen = if counts { tick as u32 } else { self.last_seen };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_and_bytes_are_counted_beyond_what_a_word_has_room_for() {
        let mut session = Session::default();
        let (mut packets, mut bytes) = ([0; 2], [0; 2]);
        let mut random = 7_u32;
        for at in 0..40_000_000_u64 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let direction = if random >> 31 == 0 { Direction::Forward } else { Direction::Reverse };
            // Super-frames, and some that are longer than any, so that bytes begin anew before packets do, too.
            let size = if at < 1000 { u32::MAX - (random >> 8) } else { random >> 15 & 0xffff };
            session.count(direction, size);
            packets[direction as usize] += 1;
            bytes[direction as usize] += u64::from(size);
        }
        assert_eq!((session.packets(), session.bytes()), (packets, bytes));
        assert!(packets.iter().all(|count| count >> Sent::PACKET_BITS > 1));
        assert!(bytes.iter().all(|count| count >> Sent::BYTE_BITS > 1), "{bytes:?}");
        session.count_anew(64);
        assert_eq!((session.packets(), session.bytes()), ([1, 0], [64, 0]));
        assert!(session.is_unanswered() && session.is_within(1) && !session.is_within(0));
        session.count(Direction::Reverse, 64);
        assert!(!session.is_unanswered() && !session.is_within(1));
    }
}
