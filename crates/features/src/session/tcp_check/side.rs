//! What is known of one side of a connection.

use super::segment::{MAX_SCALE, Segment};

/// How far a side has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Stage {
    #[default]
    Silent,
    SynSent,
    /// Its SYN is acknowledged.
    Open,
    FinSent,
    FinAcked,
}

/// What is known of how far a side has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reach {
    /// Everything: it was seen from its SYN on.
    #[default]
    Known,
    /// It has sent segments in fragments, of which only the first part was seen.
    Pieces,
    /// It had sent before it was followed: what was under way then may be acknowledged yet.
    Unknown,
}

/// One side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Side {
    /// Its first sequence number.
    pub(super) first: u32,
    /// One more than the highest that it has used.
    pub(super) end: u32,
    /// What `end` may become: what the other side has said it takes.
    pub(super) limit: u32,
    /// Highest acknowledgment that it has sent.
    pub(super) acked: u32,
    /// The largest window that it has offered, in bytes.
    pub(super) window: u32,
    /// One more than its FIN's.
    pub(super) fin: u32,
    /// What its windows are shifted by; [`UNSCALED`] where its SYN didn't say.
    pub(super) scale: u8,
    pub(super) stage: Stage,
    pub(super) reach: Reach,
    /// It hasn't sent anything since it is followed.
    pub(super) unseen: bool,
}

pub(super) const UNSCALED: u8 = u8::MAX;
/// How far an acknowledgment may lie behind, where windows are small.
pub(super) const LATEST: u32 = 65_536 + 1024;
/// A window of somebody whose windows aren't known.
pub(super) const WIDE: u32 = 1 << 30;
/// What the part of a segment that wasn't seen can have at most: a datagram.
const DATAGRAM: u32 = 65_535;

/// Whether `a` comes after `b`.
#[inline(always)]
pub(super) const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// The later one.
#[inline(always)]
pub(super) const fn later(a: u32, b: u32) -> u32 {
    if after(a, b) { a } else { b }
}

impl Side {
    /// Of whoever sends that SYN.
    pub(super) fn asks(segment: &Segment) -> Self {
        let end = segment.end();
        Self {
            first: segment.sequence,
            end,
            limit: end,
            window: u32::from(segment.window),
            scale: segment.scale.unwrap_or(UNSCALED),
            stage: Stage::SynSent,
            reach: if segment.cut { Reach::Pieces } else { Reach::Known },
            ..Self::default()
        }
    }

    /// One that the other side has spoken to before it was seen itself: `end` is what that expects of it, `acked` what that sends.
    pub(super) fn unknown(end: u32, acked: u32) -> Self {
        Self {
            first: end.wrapping_sub(1),
            end,
            limit: end.wrapping_add(WIDE),
            acked,
            window: WIDE,
            fin: 0,
            scale: MAX_SCALE,
            stage: Stage::Open,
            reach: Reach::Unknown,
            unseen: true,
        }
    }

    /// Whether a SYN's acknowledgment is one of its SYN, and of no more than it has sent.
    pub(super) fn has_asked(&self, acknowledgment: u32) -> bool {
        let unseen = if self.reach == Reach::Pieces { DATAGRAM } else { 0 };
        after(acknowledgment, self.first) && !after(acknowledgment, self.end.wrapping_add(unseen))
    }

    /// The other side acknowledges more than was seen of it: it may have sent that.
    #[cold]
    pub(super) fn learn(&mut self, acknowledgment: u32) {
        let furthest = match self.reach {
            Reach::Known => return,
            Reach::Pieces if after(self.limit, self.end.wrapping_add(DATAGRAM)) => {
                self.end.wrapping_add(DATAGRAM)
            }
            Reach::Pieces => self.limit,
            Reach::Unknown => self.end.wrapping_add(WIDE),
        };
        if !after(acknowledgment, furthest) {
            self.end = acknowledgment;
        }
    }

    /// How far it has sent isn't known, and it has sent a segment: once it is further than any window reaches from where it was
    /// followed first, nothing of before is under way.
    #[cold]
    pub(super) fn has_sent(&mut self) {
        if self.reach == Reach::Unknown && after(self.end, self.first.wrapping_add(WIDE)) {
            self.reach = Reach::Known;
        }
    }

    /// Whether sequence numbers from `sequence` up to `end` are some that the other side takes.
    #[inline(always)]
    pub(super) const fn may_send(&self, sequence: u32, end: u32, other: &Self) -> bool {
        let window = if other.window == 0 { 1 } else { other.window };
        !after(end, self.limit) && !after(self.end.wrapping_sub(window), sequence)
    }
}
