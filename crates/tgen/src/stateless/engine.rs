//! The loop on one core that sends and receives.

use super::lane::{Lane, LaneSent};
use super::late::Patience;
use super::receiver::{Check, Count, LaneCounts, LinkCounts, Observer};
use super::stall::{Stalled, Stalls, WORK_NS_PER_BYTE};
use super::standstill::Standstill;
use crate::clock::Clock;
use crate::link::{Link, LinkError, STUCK};
use crate::plan::{self, NO_LIMIT, Plan};
use memory::clock::cycles;
use memory::simd::{Simd, Tier, TierTask};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Seconds between two looks at whether to stop.
const LOOK: f64 = 0.001;
/// Looks between two at the control channels.
const CONTROL: u32 = 100;
/// Seconds after the end in which what was due before is still sent, if the link takes it at once.
const LATE: f64 = 0.01;
/// Seconds that a turn may take beside the work that its bytes make before it counts as a stall.
const STALL: f64 = 50e-6;
/// The same where a turn makes a system call for each frame.
const STALL_KERNEL: f64 = 1e-3;
/// Seconds after the last packet was sent in which packets still count as received, however many come.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);

/// Totals so far, for others to read.
#[derive(Debug, Default)]
pub struct Progress {
    /// Packets sent.
    pub sent: AtomicU64,
    /// Packets received that are ours.
    pub received: AtomicU64,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What was sent, by lane.
    pub lanes: Vec<LaneSent>,
    /// What was received, by link.
    pub links: Vec<LinkCounts>,
    /// What was received, by lane, where signatures were looked at.
    pub checks: Option<Vec<LaneCounts>>,
    /// Seconds of sending.
    pub seconds: f64,
    /// Times in which the generator itself did not run.
    pub stalled: Stalled,
    /// Clock ticks in a second.
    pub frequency: f64,
    /// Was stopped before its time.
    pub stopped: bool,
    /// A link was lost, which ended it.
    pub lost: Option<LinkError>,
}

/// Sends and receives until the time is up, all counts are reached, a link is lost or `stop` is set; then waits for what is
/// under way.
#[must_use]
pub fn run(
    links: &mut [Link],
    mut lanes: Vec<Lane>,
    plan: &Plan,
    clock: &Clock,
    stop: &AtomicBool,
    progress: &Progress,
) -> Outcome {
    let frequency = clock.frequency();
    let stall = if links.iter().any(Link::is_kernel) { STALL_KERNEL } else { STALL };
    let ends = Ends { seconds: plan.seconds, drain: plan.drain, max_late: plan.max_late, stall, frequency };
    let before: Vec<_> = links.iter_mut().map(Link::dropped).collect();
    let observed = Observed { links: &mut *links, lanes: &mut lanes, ends, stop, progress };
    let (mut counts, checks, ended) = match plan.check {
        plan::Check::Count => {
            let lens = (observed.lanes.iter())
                .fold((u32::MAX, 0), |(min, max), lane| (min.min(lane.lens.0), max.max(lane.lens.1)));
            let lens = if observed.lanes.is_empty() { (0, u32::MAX) } else { lens };
            let hidden = observed.links.iter().map(Link::hidden).max().unwrap_or(0);
            let lens = (lens.0.saturating_sub(hidden), lens.1);
            let expects = |link| plan.streams.iter().any(|stream| stream.arrival.is_at(link));
            let expected = (0..observed.links.len()).map(expects).collect();
            let mut receiver = Count::new(expected, lens, plan.full);
            let ended = observed.by(&mut receiver);
            (receiver.into_links(), None, ended)
        }
        plan::Check::Sequence => observed.checked::<false>(plan.run),
        plan::Check::Payload => observed.checked::<true>(plan.run),
    };
    for ((counts, link), before) in counts.iter_mut().zip(links).zip(before) {
        counts.dropped = link.dropped_since(before);
    }
    let Ended { seconds, stalled, stopped, lost } = ended;
    Outcome {
        lanes: lanes.iter().map(|lane| lane.sent).collect(),
        links: counts,
        checks,
        seconds,
        stalled,
        frequency,
        stopped,
        lost,
    }
}

#[derive(Clone, Copy)]
struct Ends {
    seconds: f64,
    drain: f64,
    max_late: Option<f64>,
    stall: f64,
    frequency: f64,
}

struct Ended {
    seconds: f64,
    stalled: Stalled,
    stopped: bool,
    lost: Option<LinkError>,
}

/// What is the same whoever receives.
struct Observed<'a> {
    links: &'a mut [Link],
    lanes: &'a mut [Lane],
    ends: Ends,
    stop: &'a AtomicBool,
    progress: &'a Progress,
}

impl Observed<'_> {
    fn by<R: Observer>(self, receiver: &mut R) -> Ended {
        let Self { links, lanes, ends, stop, progress } = self;
        Tier::detect().dispatch(Loop { links, lanes, ends, stop, progress, receiver, first: 0, bytes: 0 })
    }

    /// By looking at signatures.
    fn checked<const PAYLOAD: bool>(self, run: u16) -> (Vec<LinkCounts>, Option<Vec<LaneCounts>>, Ended) {
        let counts = self.lanes.iter().map(|lane| LaneCounts::new(lane.is_stamped(), lane.arrival)).collect();
        let mut receiver = Check::<PAYLOAD>::new(self.links.len(), counts, run);
        let ended = self.by(&mut receiver);
        let (links, checks) = receiver.into_counts();
        (links, Some(checks), ended)
    }
}

struct Loop<'a, R> {
    links: &'a mut [Link],
    lanes: &'a mut [Lane],
    ends: Ends,
    stop: &'a AtomicBool,
    progress: &'a Progress,
    receiver: &'a mut R,
    /// Lane that begins a turn.
    first: usize,
    /// Bytes that the turn has sent and received.
    bytes: u64,
}

impl<R: Observer> TierTask for Loop<'_, R> {
    type Output = Ended;

    fn run<S: Simd>(mut self, simd: S) -> Ended {
        simd.run(
            #[inline(always)]
            || self.go(),
        )
    }
}

impl<R: Observer> Loop<'_, R> {
    #[inline(always)]
    fn go(&mut self) -> Ended {
        let frequency = self.ends.frequency;
        let ticks = |seconds: f64| (seconds * frequency) as u64;
        let start = cycles();
        let end = start.saturating_add(ticks(self.ends.seconds));
        for lane in &mut *self.lanes {
            lane.start(start, frequency);
        }
        // At a rate, the gap behind the last packet belongs to the time that they take.
        let span = self.lanes.iter().map(|lane| lane.span).fold(0.0, f64::max);
        let whole = start.saturating_add(ticks(span)).min(end);
        let mut done = None;
        let mut patience = Patience::new(self.ends.max_late.map(ticks), start);
        let ran = || ticks(thread_seconds());
        let per_byte = WORK_NS_PER_BYTE * 1e-9 * frequency;
        let mut stalls = Stalls::new(ticks(self.ends.stall), per_byte, (start, ran()), end);
        let (mut look, mut looks, mut stopped, mut lost) = (start, 0u32, false, None);
        let endless = self.ends.seconds >= NO_LIMIT;
        let mut standstill = Standstill::new(ticks(STUCK.as_secs_f64()), start);
        let last = loop {
            let now = cycles();
            stalls.turn(now, self.lanes, self.bytes, ran);
            if now >= look {
                stalls.awake(now, ran());
                look = now + ticks(LOOK);
                looks = looks.wrapping_add(1);
                self.publish();
                if looks.is_multiple_of(CONTROL)
                    && let Err(error) = self.links.iter_mut().try_for_each(Link::check)
                {
                    lost = Some(error);
                    break now;
                }
                if self.stop.load(Ordering::Relaxed) {
                    // Who stops us may have halted us until then.
                    let now = cycles();
                    stalls.turn(now, self.lanes, self.bytes, ran);
                    stopped = true;
                    break now;
                }
                if done.is_none()
                    && self.lanes.iter().all(|lane| lane.accompanies || lane.done() >= lane.limit)
                {
                    stalls.end = now.max(whole);
                    done = Some(stalls.end);
                    self.lanes.iter_mut().for_each(|lane| lane.end_with_others(stalls.end));
                }
                if endless && let Some(name) = standstill.found(now, self.lanes, self.links) {
                    lost = Some(LinkError::Stuck { name, seconds: STUCK.as_secs() });
                    break now;
                }
                if let Some(done) = done
                    && now >= done
                    && (now >= done + ticks(LATE) || self.lanes.iter().all(|lane| lane.done() >= lane.limit))
                {
                    break done;
                }
            }
            patience.expire(self.lanes, now.min(end));
            match self.turn(now, end) {
                Ok(true) if now < end + ticks(LATE) => {}
                Ok(_) if now < end => {}
                Ok(_) => break end,
                Err(error) => {
                    lost = Some(error);
                    break now;
                }
            }
        };
        let seconds = last.saturating_sub(start) as f64 / frequency;
        stalls.end = last;
        self.lanes.iter_mut().for_each(|lane| lane.end_with_others(last));
        if lost.is_none() {
            match self.drain(&mut stalls, ran, stopped) {
                Ok(in_that) => stopped |= in_that,
                Err(error) => lost = Some(error),
            }
        }
        self.publish();
        Ended { seconds, stalled: stalls.seen, stopped, lost }
    }

    /// Each lane sends what is due, then everything that is there is received. Another lane begins each time, so that none
    /// takes all of a ring that is nearly full. Gives whether some lane sent all that it was given room for and may have more.
    #[inline(always)]
    fn turn(&mut self, now: u64, end: u64) -> Result<bool, LinkError> {
        let late = now >= end;
        let mut more = false;
        self.bytes = 0;
        let all = self.lanes.len();
        self.first = if self.first + 1 < all { self.first + 1 } else { 0 };
        for number in (self.first..all).chain(0..self.first) {
            let Some(lane) = self.lanes.get_mut(number) else { continue };
            let due = lane.schedule.due(if late { end } else { now }).saturating_sub(lane.done());
            if due > 0
                && (!late || lane.schedule.is_limited())
                && let Some(link) = self.links.get_mut(lane.link)
            {
                let before = lane.sent.bytes;
                more |= lane.send(link, due)?;
                self.bytes += lane.sent.bytes - before;
                self.receiver.issued(number, lane.sent.packets);
            }
        }
        self.receive()?;
        Ok(more)
    }

    #[inline(always)]
    fn receive(&mut self) -> Result<usize, LinkError> {
        let mut received = 0;
        for (number, link) in self.links.iter_mut().enumerate() {
            self.receiver.account().begin(number);
            let done = link.receive(self.receiver);
            self.bytes += self.receiver.account().end();
            received += done?;
        }
        Ok(received)
    }

    /// Waits for what is under way: until all is there, or nothing has come for a while. Gives whether it was stopped in that;
    /// where sending was, this still has its time.
    fn drain(
        &mut self,
        stalls: &mut Stalls,
        ran: impl Fn() -> u64,
        already: bool,
    ) -> Result<bool, LinkError> {
        let sent: u64 = self.lanes.iter().map(|lane| lane.sent.packets).sum();
        let begun = Instant::now();
        let mut last = begun;
        while self.receiver.ours() < sent
            && last.elapsed().as_secs_f64() < self.ends.drain
            && begun.elapsed() < DRAIN_LIMIT.max(Duration::from_secs_f64(self.ends.drain))
        {
            if !already && self.stop.load(Ordering::Relaxed) {
                return Ok(true);
            }
            stalls.turn(cycles(), self.lanes, self.bytes, &ran);
            self.bytes = 0;
            if self.receive()? > 0 {
                last = Instant::now();
            }
        }
        Ok(false)
    }

    #[inline(never)]
    fn publish(&self) {
        let sent = self.lanes.iter().map(|lane| lane.sent.packets).sum();
        self.progress.sent.store(sent, Ordering::Relaxed);
        self.progress.received.store(self.receiver.ours(), Ordering::Relaxed);
    }
}

/// Seconds that this thread has run.
#[cold]
fn thread_seconds() -> f64 {
    let ran = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    ran.tv_sec as f64 + ran.tv_nsec as f64 * 1e-9
}
