//! Packets and bytes of a tenant's sessions, summed up for everybody who looks: no packet pays for it.
//!
//! What a session has sent is added when it ends. So that those that last are in the sum before, a worker looks through all of its sessions, a part in each tick, and adds what they have
//! sent so far. Nothing is noted at a session: whether it is in such a sum is told by when it began. So a sum never has anything twice, and never becomes less.

use super::entry::{Direction, Session};
use super::owed::Line;
use super::room::Part;
use super::sessions::Sessions;
use super::tenants::Occupancy;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks from the beginning of one look through all sessions to that of the next, at least: a second.
const PERIOD: u32 = 60;
/// Places of the table, or tenants, that are looked at in a tick: some 80 µs. A million sessions take eight seconds.
pub(super) const SPAN: u32 = 2048;

/// Packets and their bytes, from the IP header on, from initiators and to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets by direction.
    pub packets: [u64; 2],
    /// Bytes by direction.
    pub bytes: [u64; 2],
}

impl Traffic {
    #[inline(always)]
    pub(super) fn of(session: &Session) -> Self {
        Self { packets: session.packets(), bytes: session.bytes() }
    }

    /// But for a packet of `bytes` in that direction.
    #[inline(always)]
    pub(super) fn without(mut self, direction: Direction, bytes: u32) -> Self {
        let way = direction as usize;
        self.packets[way] = self.packets[way].saturating_sub(1);
        self.bytes[way] = self.bytes[way].saturating_sub(bytes.into());
        self
    }

    /// Sums are those of differences that may be below zero for a while: they wrap.
    fn with(self, other: Self, one: impl Fn(u64, u64) -> u64) -> Self {
        let each = |these: [u64; 2], others: [u64; 2]| [one(these[0], others[0]), one(these[1], others[1])];
        Self { packets: each(self.packets, other.packets), bytes: each(self.bytes, other.bytes) }
    }

    fn plus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    fn minus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_sub)
    }
}

/// What a worker has told of a tenant's sessions. It alone stores here, and anybody may read.
#[derive(Debug, Default)]
pub(super) struct Told([AtomicU64; 4]);

impl Told {
    /// So much more.
    #[inline]
    fn add(&self, more: Traffic) {
        let ([there, back], [bytes_there, bytes_back]) = (more.packets, more.bytes);
        for (sum, more) in self.0.iter().zip([there, back, bytes_there, bytes_back]) {
            sum.store(sum.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }

    fn get(&self) -> Traffic {
        let [there, back, bytes_there, bytes_back] = self.0.each_ref().map(|sum| sum.load(Ordering::Relaxed));
        Traffic { packets: [there, back], bytes: [bytes_there, bytes_back] }
    }
}

impl Occupancy {
    /// What its sessions have sent, of all workers together: those that are over, and those that last as they were when their worker looked at them.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.lines.all().map(|line: &Line| line.told.get()).fold(Traffic::default(), Traffic::plus)
    }
}

/// What is known of a tenant's sessions at a worker that go on, and is told.
#[derive(Debug, Default)]
pub(super) struct Lasting {
    /// When the look began that has found it, in ticks: of sessions that had begun before. `None`: there was none.
    at: Option<u32>,
    /// What they had sent. Of one that ended since, it is taken away as it was then, which may be more: what is told has both together, and isn't less for it.
    seen: Traffic,
    /// The same of the look that is under way, as far as it has come.
    next: Traffic,
}

/// A worker's look through all of its sessions.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// When it began, in ticks. `None`: there was none.
    began: Option<u32>,
    /// The place where it goes on; none: all have been looked at.
    place: Option<u32>,
    /// The tenant whose sums are taken over next, once that is so; none: it is over.
    tenant: Option<usize>,
}

/// Whether a session that began in a tick had begun before that one. What has begun in the same may have come before a look that began in it, or after.
const fn is_before(began: u32, tick: u32) -> bool {
    tick.wrapping_sub(began) as i32 > 0
}

impl Survey {
    /// Of a tenant that comes: whatever began before the look that is under way, or the last one, was another's that had its number.
    pub(super) fn beginning(&self) -> Lasting {
        Lasting { at: self.began, ..Lasting::default() }
    }

    /// Whether a session that began in that tick is among those that were looked at, of a tenant that hasn't taken their sums over yet.
    fn has(&self, index: u32, created: u32, lasting: &Lasting) -> bool {
        self.began.is_some_and(|began| is_before(created, began))
            && self.began != lasting.at
            && self.place.is_none_or(|place| index < place)
    }
}

impl Part {
    /// A session of that number is over that began in that tick and has sent so much.
    #[inline]
    fn add_up(&mut self, survey: &Survey, (index, created): (u32, u32), sent: Traffic) {
        let lasting = &mut self.lasting;
        let is_next = survey.has(index, created, lasting);
        if is_next {
            lasting.next = lasting.next.minus(sent);
        }
        if is_next || lasting.at.is_some_and(|at| is_before(created, at)) {
            lasting.seen = lasting.seen.minus(sent);
        } else {
            self.line.told.add(sent);
        }
    }

    /// What the look has found is told from now on.
    fn take_over(&mut self, began: Option<u32>) {
        let lasting = &mut self.lasting;
        lasting.at = began;
        let next = core::mem::take(&mut lasting.next);
        let before = core::mem::replace(&mut lasting.seen, next);
        if next != before {
            self.line.told.add(next.minus(before));
        }
    }
}

impl Sessions {
    /// A session of that number is over that was a tenant's, began in that tick and has sent so much.
    #[inline]
    pub(super) fn add_up(&mut self, index: u32, (tenant, created): (u16, u32), sent: Traffic) {
        if let Some(part) = self.parts.get_mut(usize::from(tenant)) {
            part.add_up(&self.survey, (index, created), sent);
        }
    }

    /// Looks through the next `span` sessions, or tenants, for what was sent.
    pub(super) fn survey(&mut self, tick: u64, span: u32) {
        let tick = tick as u32;
        if let Some(from) = self.survey.place {
            let (part, next) = self.table.walk(from, span);
            for index in part {
                let Some(session) = self.table.get(index) else { continue };
                if self.survey.began.is_some_and(|began| is_before(session.created, began))
                    && let Some(part) = self.parts.get_mut(usize::from(session.tenant))
                {
                    part.lasting.next = part.lasting.next.plus(Traffic::of(session));
                }
            }
            self.survey.place = next;
        } else if let Some(from) = self.survey.tenant {
            let began = self.survey.began;
            self.parts.iter_mut().skip(from).take(span as usize).for_each(|part| part.take_over(began));
            let next = from + span as usize;
            self.survey.tenant = (next < self.parts.len()).then_some(next);
        } else if self.survey.began.is_none_or(|began| tick.wrapping_sub(began) >= PERIOD) {
            self.survey = Survey { began: Some(tick), place: Some(0), tenant: Some(0) };
        }
    }
}
