//! What is known of a connection.
//!
//! Which segments can be a side's follows from what the other side has said it takes (van Rooij, "Real stateful TCP packet filtering
//! in IP Filter", 2001): nothing beyond the highest window that was offered, nothing older than one window, no acknowledgment of what
//! was never sent. Numbers are compared as RFC 9293 section 3.4 says, so that they may wrap.

use super::segment::{ACK, FIN, MAX_SCALE, RST, SYN, Segment};
use super::side::{LATEST, Reach, Side, Stage, UNSCALED, WIDE, after, later};
use crate::session::entry::{Direction, State};

/// What becomes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It can be the connection's.
    Fits,
    /// It passes, and changes nothing: only the receiver can tell.
    Doubtful(Doubt),
    /// It begins a new connection where one is over; its sender is the initiator.
    Reopens,
    /// It is the first one, and none that a connection begins with.
    Midstream,
    /// The receiver couldn't take it.
    Refused(Refusal),
}

/// What is let pass without being believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    Rst,
    Syn,
    Ack,
}

/// What isn't let pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Flags,
    Window,
    Acknowledgment,
    Rst,
}

/// Where a side stands (RFC 9293 section 3.3.2), as far as can be seen on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// It was asked and hasn't answered.
    Listen,
    /// It has asked.
    SynSent,
    /// It has asked and was asked, and its SYN isn't acknowledged.
    SynReceived,
    /// Open.
    Established,
    /// It has closed; that isn't acknowledged.
    FinWait1,
    /// It has closed, the other side hasn't.
    FinWait2,
    /// The other side has closed.
    CloseWait,
    /// Both have closed at the same time.
    Closing,
    /// It has closed after the other side; that isn't acknowledged.
    LastAck,
    /// Both have closed, and know of it.
    TimeWait,
    /// A RST has ended the connection.
    Closed,
}

impl TcpState {
    /// The RFC's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Listen => "LISTEN",
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
            Self::Closed => "CLOSED",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Over {
    #[default]
    No,
    /// It isn't; but its initiator has asked again, and whether the responder knows of it still isn't seen.
    Asked,
    /// Both sides have closed.
    Closed,
    Reset,
}

/// What is known of a connection: of the side that is the session's initiator, and of the other one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Track {
    sides: [Side; 2],
    over: Over,
    /// Both SYNs had timestamps.
    timestamps: bool,
    /// The responder's segments go past us: that they aren't seen says nothing.
    direct: bool,
}

impl Track {
    /// Takes a segment into account.
    #[inline(always)]
    pub(super) fn segment(&mut self, from: Direction, segment: &Segment) -> Outcome {
        if !segment.makes_sense() {
            return Outcome::Refused(Refusal::Flags);
        }
        if self.over == Over::No && segment.flags & (SYN | RST) == 0 && !self.is_new() {
            return self.data(from, segment);
        }
        // A copy, so that the segment itself needn't be in memory for the usual ones.
        self.mark(from, &{ *segment })
    }

    /// Where its session stands.
    #[inline(always)]
    pub(super) fn phase(&self) -> State {
        let [a, b] = &self.sides;
        if self.is_over() {
            State::TimeWait
        } else if a.stage < Stage::Open || b.stage < Stage::Open || a.unseen || b.unseen && !self.direct {
            State::Embryonic
        } else if a.stage > Stage::Open || b.stage > Stage::Open {
            State::Closing
        } else {
            State::Established
        }
    }

    #[inline(always)]
    fn is_over(&self) -> bool {
        self.over >= Over::Closed
    }

    /// Whether the responder's segments go past us: then, the connection is open by what its initiator says.
    pub(in super::super) fn answers_elsewhere(&mut self, direct: bool) {
        self.direct = direct;
    }

    /// Whether a RST has ended it.
    pub(super) fn is_reset(&self) -> bool {
        self.over == Over::Reset
    }

    /// Where initiator and responder stand; `None` before the first segment.
    #[must_use]
    pub fn states(&self) -> Option<[TcpState; 2]> {
        let [a, b] = &self.sides;
        (!self.is_new()).then(|| [self.state(a.stage, b.stage), self.state(b.stage, a.stage)])
    }

    fn state(&self, own: Stage, other: Stage) -> TcpState {
        match (self.over, own) {
            (Over::Closed, _) => TcpState::TimeWait,
            (Over::Reset, _) => TcpState::Closed,
            (_, Stage::Silent) => TcpState::Listen,
            (_, Stage::SynSent) if other == Stage::Silent => TcpState::SynSent,
            (_, Stage::SynSent) => TcpState::SynReceived,
            (_, Stage::Open) if other >= Stage::FinSent => TcpState::CloseWait,
            (_, Stage::Open) => TcpState::Established,
            (_, Stage::FinSent) if other == Stage::FinAcked => TcpState::LastAck,
            (_, Stage::FinSent) if other == Stage::FinSent => TcpState::Closing,
            (_, Stage::FinSent) => TcpState::FinWait1,
            (_, Stage::FinAcked) => TcpState::FinWait2,
        }
    }

    #[inline(always)]
    fn is_new(&self) -> bool {
        self.sides[0].stage == Stage::Silent && self.sides[1].stage == Stage::Silent
    }

    /// Sender and receiver.
    #[inline(always)]
    fn both(&mut self, from: Direction) -> (&mut Side, &mut Side) {
        let [initiator, responder] = &mut self.sides;
        match from {
            Direction::Forward => (initiator, responder),
            Direction::Reverse => (responder, initiator),
        }
    }

    /// A SYN, a RST, the first segment, or one that comes after the end.
    #[inline(never)]
    fn mark(&mut self, from: Direction, segment: &Segment) -> Outcome {
        if self.is_over() {
            return self.late(from, segment);
        }
        if self.is_new() {
            if segment.flags != SYN {
                return Outcome::Midstream;
            }
            self.begin(segment);
            // A session that was there before: its initiator may be the other one.
            return if from == Direction::Forward { Outcome::Fits } else { Outcome::Reopens };
        }
        if segment.has(RST) {
            self.rst(from, segment)
        } else if segment.has(SYN) {
            self.syn(from, segment)
        } else {
            self.asked(from, segment)
        }
    }

    /// A segment behind a SYN in a connection whose answers aren't seen. The responder may not know of it any more, and have answered that SYN: the initiator goes on
    /// behind it then, and else behind what it has sent before.
    fn asked(&mut self, from: Direction, segment: &Segment) -> Outcome {
        let syn = self.sides[1].fin;
        let begun = from == Direction::Forward && segment.sequence == syn.wrapping_add(1);
        if begun && self.sides[1].unseen {
            self.begin(&Segment { flags: SYN, sequence: syn, scale: Some(MAX_SCALE), ..Segment::default() });
            return self.data(from, segment);
        }
        let outcome = self.data(from, segment);
        if outcome == Outcome::Fits && self.over == Over::Asked {
            self.over = Over::No;
        }
        outcome
    }

    /// The initiator asks.
    fn begin(&mut self, segment: &Segment) {
        *self = Self { timestamps: segment.timestamps, direct: self.direct, ..Self::default() };
        self.sides[0] = Side::asks(segment);
        self.sides[1].acked = segment.sequence;
    }

    fn syn(&mut self, from: Direction, segment: &Segment) -> Outcome {
        let (side, other) = self.both(from);
        let acknowledges = segment.has(ACK);
        if other.unseen && side.stage >= Stage::FinSent && segment.sequence != side.first {
            // It has closed. Whether the other side has, too, isn't seen: it may begin anew.
            if acknowledges {
                *self = Self { direct: self.direct, ..Self::default() };
                return Outcome::Midstream;
            }
            self.begin(segment);
            return Outcome::Reopens;
        }
        let unanswered = other.unseen && side.stage == Stage::Open && segment.sequence != side.first;
        if unanswered && self.direct && from == Direction::Forward && !acknowledges {
            // In the place of the FIN of a side that isn't seen.
            self.sides[1].fin = segment.sequence;
            self.over = Over::Asked;
            return Outcome::Doubtful(Doubt::Syn);
        }
        let (side, other) = self.both(from);
        if acknowledges && !other.has_asked(segment.acknowledgment) {
            return Outcome::Refused(Refusal::Acknowledgment);
        }
        match side.stage {
            stage if stage == Stage::Silent || side.unseen && acknowledges => {
                // An answer, or both ask at the same time.
                let taken = if acknowledges { segment.acknowledgment } else { other.end };
                *side = Side { acked: side.acked, ..Side::asks(segment) };
                side.limit = later(side.end, segment.sequence.wrapping_add(1 + other.window.max(1)));
                other.limit = later(other.limit, taken.wrapping_add(u32::from(segment.window).max(1)));
                other.acked = segment.sequence;
                if side.scale == UNSCALED || other.scale == UNSCALED {
                    (side.scale, other.scale) = (0, 0);
                }
                if acknowledges {
                    (side.acked, other.stage) = (segment.acknowledgment, Stage::Open);
                }
                self.timestamps &= segment.timestamps;
                Outcome::Fits
            }
            // Once more; with an acknowledgment, it answers a SYN that has crossed it.
            _ if segment.sequence == side.first => {
                if acknowledges {
                    side.acked = later(side.acked, segment.acknowledgment);
                    other.stage = other.stage.max(Stage::Open);
                }
                Outcome::Fits
            }
            Stage::SynSent if other.stage == Stage::Silent => {
                // Nobody has answered: it asks anew.
                self.begin(segment);
                Outcome::Fits
            }
            _ => Outcome::Doubtful(Doubt::Syn),
        }
    }

    fn rst(&mut self, from: Direction, segment: &Segment) -> Outcome {
        let (side, other) = self.both(from);
        let sequence = segment.sequence;
        let outcome = match (side.stage, other.stage) {
            (Stage::Silent, _) if segment.has(ACK) && other.has_asked(segment.acknowledgment) => {
                Outcome::Fits
            }
            (Stage::Silent, _) => Outcome::Refused(Refusal::Rst),
            // What the other side expects: behind what it has acknowledged last, or behind all that was sent.
            _ if sequence == other.acked || sequence == side.end => Outcome::Fits,
            // It may answer what came from a side that knows of an earlier connection.
            (_, Stage::Silent) => Outcome::Doubtful(Doubt::Rst),
            _ if side.may_send(sequence, sequence, other) => Outcome::Doubtful(Doubt::Rst),
            _ => Outcome::Refused(Refusal::Rst),
        };
        if outcome == Outcome::Fits {
            self.over = Over::Reset;
        }
        outcome
    }

    #[inline(always)]
    fn data(&mut self, from: Direction, segment: &Segment) -> Outcome {
        let (side, other) = self.both(from);
        let (sequence, acknowledgment, end) = (segment.sequence, segment.acknowledgment, segment.end());
        if side.stage == Stage::Silent {
            // It knows of an earlier connection: whoever asks will end that.
            return Outcome::Doubtful(Doubt::Ack);
        }
        if other.stage == Stage::Silent {
            return self.one_way(from, &{ *segment });
        }
        let beyond_fin = side.stage >= Stage::FinSent && after(end, side.fin);
        if !side.may_send(sequence, end, other) || beyond_fin {
            return Outcome::Refused(Refusal::Window);
        }
        if after(acknowledgment, other.end) {
            other.learn(acknowledgment);
        }
        let oldest = other.end.wrapping_sub(side.window.max(LATEST));
        if after(acknowledgment, other.end) || after(oldest, acknowledgment) {
            return Outcome::Refused(Refusal::Acknowledgment);
        }
        let window = u32::from(segment.window) << side.scale.min(MAX_SCALE);
        side.unseen = false;
        side.end = later(side.end, end);
        side.window = side.window.max(window);
        side.acked = later(side.acked, acknowledgment);
        other.limit = later(other.limit, acknowledgment.wrapping_add(window.max(1)));
        if other.unseen {
            // Its acknowledgments aren't seen either.
            side.limit = later(side.limit, end.wrapping_add(WIDE));
        }
        if segment.cut && side.reach == Reach::Known {
            side.reach = Reach::Pieces;
        }
        if side.reach != Reach::Known {
            side.has_sent();
        }
        // The last thing that it sends, or it is one of long ago; in a fragment, its number isn't seen.
        if segment.has(FIN) && side.stage < Stage::FinSent && end == side.end && !segment.cut {
            (side.stage, side.fin) = (Stage::FinSent, end);
        }
        if other.stage != Stage::Open {
            let (syn, fin) = (after(acknowledgment, other.first), !after(other.fin, acknowledgment));
            match other.stage {
                Stage::SynSent if syn => other.stage = Stage::Open,
                Stage::FinSent if fin => other.stage = Stage::FinAcked,
                _ => {}
            }
            if side.stage == Stage::FinAcked && other.stage == Stage::FinAcked {
                self.over = Over::Closed;
            }
        }
        Outcome::Fits
    }

    /// Who has asked goes on, and no answer was seen: it takes another way. What isn't seen can't be checked.
    #[cold]
    fn one_way(&mut self, from: Direction, segment: &Segment) -> Outcome {
        let (side, other) = self.both(from);
        if !side.has_asked(segment.sequence) {
            return Outcome::Refused(Refusal::Window);
        }
        *other = Side::unknown(segment.acknowledgment, segment.sequence);
        (side.stage, side.limit) = (Stage::Open, segment.sequence.wrapping_add(WIDE));
        if side.scale == UNSCALED {
            side.scale = 0;
        }
        self.data(from, segment)
    }

    /// A segment of a connection that is over.
    fn late(&mut self, from: Direction, segment: &Segment) -> Outcome {
        let (reset, timestamps) = (self.is_reset(), self.timestamps && segment.timestamps);
        let (side, other) = self.both(from);
        if segment.flags == SYN {
            if reset || timestamps || !after(side.end, segment.sequence) {
                self.begin(segment);
                return Outcome::Reopens;
            }
            return Outcome::Doubtful(Doubt::Syn);
        }
        if reset && !segment.has(RST) && side.stage != Stage::Silent && other.stage != Stage::Silent {
            // The receiver may have asked whether the RST is meant, and go on.
            return self.data(from, segment);
        }
        let fits = segment.has(RST) || side.may_send(segment.sequence, segment.end(), other);
        if fits { Outcome::Fits } else { Outcome::Refused(Refusal::Window) }
    }

    /// Follows a connection from this segment on. How windows are scaled was said in its SYNs: the most is assumed. With `both`,
    /// the other side has been seen, too, by whoever followed it before.
    pub(super) fn adopt(&mut self, from: Direction, segment: &Segment, both: bool) {
        let Segment { sequence, acknowledgment, .. } = *segment;
        let (side, other) = self.both(from);
        *side = Side::unknown(sequence, acknowledgment);
        *other = Side::unknown(acknowledgment, sequence);
        if segment.has(RST) {
            self.over = Over::Reset;
            return;
        }
        let syn = u32::from(segment.has(SYN));
        let rest = Segment { flags: segment.flags & !SYN, sequence: sequence.wrapping_add(syn), ..*segment };
        // It fits: these sides were made for it.
        self.data(from, &rest);
        if both {
            self.sides.iter_mut().for_each(|side| side.unseen = false);
        }
    }
}
