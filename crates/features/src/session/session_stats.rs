//! The service `session-stats`: what can be seen of a conversation's two sides on the way between them.
//!
//! | packet | what is noted |
//! |---|---|
//! | any | the lowest and the highest TTL (hop limit) that its side has sent |
//! | the first answer of what isn't TCP | how long it took |
//! | a segment that is acknowledged | how long that took: the round trip to the other side; none where the segment came twice (Karn's rule) |
//! | a segment that begins before the end of those that came already | that it was sent again, or comes late: also the first copy seen here of one that was lost before |
//! | a segment | its flags, and whether it closes its sender's window |
//!
//! Nothing is dropped or changed. What nobody sees here (losses behind us, answers that go past us) isn't known.

use super::entry::Flow;
use super::explain::{Meeting, Meets};
use super::services::{SERVICES_ARC, Scopes, Service};
use super::serving::{Ahead, Arrival, Oncoming, RESUMES, Serve, Serving, Verdict, Visit};
use super::sessions::Sessions;
use super::tcp_check::Segment;
use super::tuple::transport_at;
use graph::packet::{Packets, SlotId};
use graph::{Feature, NodeSpec, prefetch_read};
use tables::session::{Beside, Handle};
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::{IpProtocol, TcpFlags};

graph::edges! {
    /// Where packets go besides other services and their arc.
    enum Next {
        Drop => "drop",
    }
}

graph::counters! {
    /// What is counted.
    enum Counter {
        /// Segments that begin before the end of those that came already: they were sent again, or come late.
        Repeated => "repeated",
        /// Segments by which their sender closes its window.
        ZeroWindow => "zero-window",
        /// Round trips that were measured.
        RoundTrips => "round-trips",
    }
}

/// The service's declaration.
pub(super) const SERVICE: Service = Service {
    node: NodeSpec {
        name: "session-stats",
        help: "Notes round trips, repeated segments and hop limits of sessions.",
        edges: Next::NAMES,
        counters: Counter::SPECS,
        // What can't be of the connection says nothing about it; what is refused for other reasons does.
        features: &[Feature {
            arc: SERVICES_ARC,
            runs_before: &["balance"],
            runs_after: &["tcp-check", "l4-lifecycle", "l4-one-sided"],
        }],
        resumes: RESUMES,
        make: |cx| Serving::boxed(cx, SessionStats { now: 0 }),
        ..NodeSpec::EMPTY
    },
    both_ways: true,
    errors: false,
    scopes: Scopes::All,
    any_key: true,
    asked_again: true,
    explain,
};

/// What it would do.
fn explain(meeting: &mut Meeting<'_>) -> Meets {
    meeting.passes("is noted")
}

/// What is known of one side of a session by what it has sent, and by how soon it has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideStats {
    /// Lowest TTL or hop limit of its packets.
    pub ttl_min: u8,
    /// Highest one.
    pub ttl_max: u8,
    /// TCP: all flags that its segments had.
    pub flags: u8,
    /// TCP: segments by which it closed its window.
    pub zero_windows: u16,
    /// TCP: segments that begin before the end of those that came already.
    pub repeated: u32,
    /// The round trip to it and back in microseconds, smoothed as RFC 6298 has it; 0: not measured.
    pub rtt: u32,
    /// The shortest one.
    pub rtt_min: u32,
}

/// What is known of one side, and what for.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// Sequence number behind the last byte that it has sent.
    edge: u32,
    /// What has to be acknowledged for the round trip that is being measured, since then (microseconds; their upper bits are marks).
    asked: u32,
    since: u32,
    /// Eight times the round trip, so that no difference is too small for its eighth.
    rtt: u32,
    rtt_min: u32,
    repeated: u32,
    zero_windows: u16,
    ttl_min: u8,
    ttl_max: u8,
}

/// What is known of a session's sides, by direction: 60 bytes, with its generation a cache line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    sides: [Side; 2],
    flags: [u8; 2],
    marks: [u8; 2],
}

const _: () = assert!(size_of::<Stats>() == 60);

const RST: u8 = TcpFlags::RST.bits();
const ACK: u8 = TcpFlags::ACK.bits();

/// `edge` is known; of what isn't TCP: something was sent.
const BEGUN: u8 = 1;
/// A round trip is being measured.
const ASKED: u8 = 2;
/// Bits of these; above them are six of when it was asked.
const MARKS: u32 = 2;
/// Microseconds that can be told apart: three days.
const TIMES: u64 = (1 << 38) - 1;
/// The longest round trip that is one, nine minutes: whoever answers later was asked something else, or was away.
const LONGEST: u64 = u32::MAX as u64 / 8 - 1;

impl Stats {
    /// Of the initiator and of the other side.
    pub(super) fn sides(&self) -> [SideStats; 2] {
        [0, 1].map(|way| {
            let Side { rtt, rtt_min, repeated, zero_windows, ttl_min, ttl_max, .. } = self.sides[way];
            let rtt = if rtt == 0 { 0 } else { (rtt / 8).max(1) };
            SideStats { ttl_min, ttl_max, flags: self.flags[way], zero_windows, repeated, rtt, rtt_min }
        })
    }

    fn hops(&mut self, way: usize, ttl: u8) {
        let side = &mut self.sides[way];
        if side.ttl_max == 0 {
            side.ttl_min = ttl;
        }
        side.ttl_min = side.ttl_min.min(ttl);
        side.ttl_max = side.ttl_max.max(ttl);
    }

    fn ask(&mut self, way: usize, until: u32, now: u64) {
        (self.sides[way].asked, self.sides[way].since) = (until, now as u32);
        self.marks[way] = self.marks[way] & BEGUN | ASKED | ((now >> 32) as u8) << MARKS;
    }

    /// What `way` has sent is answered by the other side: whether that is a measure.
    fn answered(&mut self, way: usize, now: u64) -> bool {
        self.marks[way] &= !ASKED;
        let since = u64::from(self.marks[way] >> MARKS) << 32 | u64::from(self.sides[way].since);
        let took = (now.wrapping_sub(since) & TIMES).max(1);
        if took > LONGEST {
            return false;
        }
        let took = took as u32;
        let other = &mut self.sides[1 - way];
        (other.rtt, other.rtt_min) = match other.rtt {
            0 => (took * 8, took),
            // An eighth of what is new.
            rtt => (rtt - rtt / 8 + took, other.rtt_min.min(took)),
        };
        true
    }

    /// A packet of what isn't TCP: the first one, and its first answer.
    fn datagram(&mut self, way: usize, now: u64) -> Noted {
        let is_first = self.marks[way] & BEGUN == 0;
        self.marks[way] |= BEGUN;
        if way == 0 && is_first && self.marks[1] & BEGUN == 0 {
            self.ask(0, 0, now);
        }
        let is_answer = way == 1 && is_first && self.marks[0] & ASKED != 0;
        let round_trip = is_answer && self.answered(0, now);
        Noted { round_trip, ..Noted::default() }
    }

    fn segment(&mut self, way: usize, segment: &Segment, now: u64) -> Noted {
        let mut noted = Noted::default();
        let is_reset = segment.has(RST);
        self.flags[way] |= segment.flag_bits;
        let side = &mut self.sides[way];
        if segment.window == 0 && !is_reset {
            side.zero_windows = side.zero_windows.saturating_add(1);
            noted.zero_window = true;
        }
        let end = segment.end();
        if end != segment.sequence && !is_reset {
            let is_known = self.marks[way] & BEGUN != 0;
            if is_known && before(segment.sequence, side.edge) {
                side.repeated = side.repeated.saturating_add(1);
                noted.repeated = true;
                // Whichever of the two is answered, nobody can say.
                self.marks[way] &= !ASKED;
            }
            if !is_known || before(side.edge, end) {
                side.edge = end;
                self.marks[way] |= BEGUN;
                if !noted.repeated && self.marks[way] & ASKED == 0 {
                    self.ask(way, end, now);
                }
            }
        }
        let other = 1 - way;
        if segment.has(ACK)
            && !is_reset
            && self.marks[other] & ASKED != 0
            && !before(segment.acknowledgment, self.sides[other].asked)
        {
            noted.round_trip = self.answered(other, now);
        }
        noted
    }
}

/// What a packet has told besides.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    repeated: bool,
    zero_window: bool,
    round_trip: bool,
}

/// Whether one sequence number is before another.
const fn before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

struct SessionStats {
    /// Microseconds.
    now: u64,
}

/// A packet that is noted.
struct Packet<'a> {
    packets: &'a Packets,
    slot: SlotId,
    way: usize,
    is_v6: bool,
    is_tcp: bool,
    /// Its transport header is there.
    is_whole: bool,
    /// Microseconds.
    now: u64,
}

impl Packet<'_> {
    #[inline(always)]
    fn ttl(&self) -> Option<u8> {
        let (packets, slot) = (self.packets, self.slot);
        let l3 = packets.meta(slot).l3;
        if self.is_v6 {
            packets.header::<Ipv6Header>(slot, l3).map(|header| header.hop_limit)
        } else {
            packets.header::<Ipv4Header>(slot, l3).map(|header| header.ttl)
        }
    }

    #[inline(always)]
    fn segment(&self) -> Option<Segment> {
        if self.is_tcp && self.is_whole { Segment::read(self.packets, self.slot, self.is_v6) } else { None }
    }

    /// What it tells is noted of that session.
    #[inline(always)]
    fn note(&self, all: &mut Beside<Stats>, session: Handle) -> Noted {
        let (ttl, segment) = (self.ttl(), self.segment());
        let Some((stats, _)) = all.get_mut(session) else { return Noted::default() };
        if let Some(ttl) = ttl {
            stats.hops(self.way, ttl);
        }
        match segment {
            Some(segment) => stats.segment(self.way, &segment, self.now),
            None if self.is_tcp || !self.is_whole => Noted::default(),
            None => stats.datagram(self.way, self.now),
        }
    }
}

/// A packet that was noted has its session begin anew: it is noted as the first one of that.
#[cold]
pub(super) fn note_anew(arrival: &mut Arrival<'_>) {
    let (packets, slot) = (arrival.packets, arrival.slot);
    let Sessions { table, stats, .. } = &mut *arrival.sessions;
    let Some((handle, key, session)) = table.visit(arrival.session) else { return };
    let direction = session.direction(arrival.from_high);
    let number = super::order().number(SERVICE.node.name);
    if number.is_none_or(|number| !session.chain[direction as usize].has(number)) {
        return;
    }
    let is_v6 = !key.is_v4();
    let packet = Packet {
        packets,
        slot,
        way: direction as usize,
        is_v6,
        is_tcp: IpProtocol(key.protocol()) == IpProtocol::TCP,
        is_whole: transport_at(packets, slot, is_v6).is_some(),
        now: arrival.now / 1000,
    };
    // It was counted when it came.
    packet.note(stats, handle);
}

impl SessionStats {
    /// What a packet tells whose transport header is there, or isn't.
    #[inline(always)]
    fn note(&self, visit: &mut Visit<'_>, is_whole: bool) -> Verdict {
        let packet = Packet {
            packets: visit.packets,
            slot: visit.slot,
            way: visit.direction as usize,
            is_v6: visit.is_v6,
            is_tcp: visit.protocol() == IpProtocol::TCP,
            is_whole,
            now: self.now,
        };
        let noted = packet.note(visit.stats, visit.handle);
        for (counter, _) in [
            (Counter::Repeated, noted.repeated),
            (Counter::ZeroWindow, noted.zero_window),
            (Counter::RoundTrips, noted.round_trip),
        ]
        .into_iter()
        .filter(|(_, is_so)| *is_so)
        {
            visit.count(counter);
        }
        Verdict::Next
    }
}

impl Serve for SessionStats {
    #[inline(always)]
    fn fetch(sessions: &Sessions, flow: Flow, ahead: Ahead) {
        if ahead == Ahead::First {
            sessions.stats.soon(flow.session(), prefetch_read);
        }
    }

    fn vector(&mut self, coming: Oncoming<'_>) {
        self.now = coming.now / 1000;
    }

    #[inline(always)]
    fn packet(&mut self, visit: &mut Visit<'_>) -> Verdict {
        self.note(visit, true)
    }

    fn fragment(&mut self, visit: &mut Visit<'_>) -> Verdict {
        self.note(visit, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_comes_to_what_is_measured_and_late_answers_measure_nothing() {
        let mut stats = Stats::default();
        let mut now = u64::from(u32::MAX) - 500;
        for took in [15].into_iter().chain([8; 100]) {
            stats.ask(0, 0, now);
            now += took;
            assert!(stats.answered(0, now));
        }
        assert_eq!([stats.sides()[1].rtt, stats.sides()[1].rtt_min], [8, 8]);
        // Also after the lower half of the clock has been round.
        for late in [LONGEST + 1, 1 << 32, (1 << 32) + 10, 1 << 37] {
            stats.ask(0, 0, now);
            assert!(!stats.answered(0, now + late));
        }
        assert_eq!(stats.sides()[1].rtt, 8);
        stats.ask(0, 0, now);
        assert!(stats.answered(0, now + LONGEST), "eight times that fit");
    }
}
