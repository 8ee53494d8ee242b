//! A stream's part that goes by one queue.

use super::generator::{Generator, Recipe};
use super::layout::Layout;
use super::pace::Pace;
use super::replay::{Recording, Replay, ReplayError};
use super::schedule::Schedule;
use super::signature::Mark;
use super::stack::StackError;
use super::{BURST, modifier};
use crate::link::{Link, LinkError, Packets};
use crate::plan::{self, Arrival, Check, Content, NO_LIMIT, Plan};

/// Why a stream can't be sent: what was asked for can't be, whatever interfaces are like.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// Its headers or lengths.
    #[error("stream {stream}: {source}")]
    Stack {
        /// The stream.
        stream: String,
        /// Why.
        source: StackError,
    },
    /// Its lengths.
    #[error("stream {stream}: {reason}")]
    Size {
        /// The stream.
        stream: String,
        /// Why.
        reason: String,
    },
    /// Its capture.
    #[error("stream {stream}: {source}")]
    Replay {
        /// The stream.
        stream: String,
        /// Why.
        source: ReplayError,
    },
    /// It goes by a queue that isn't there.
    #[error(
        "stream {stream}: interface {interface} has no queue {queue}, but {queues}: give it more `queues`, or name another"
    )]
    Queue {
        /// The stream.
        stream: String,
        /// The interface.
        interface: String,
        /// The queue asked for.
        queue: usize,
        /// Queues it has.
        queues: usize,
    },
    /// More than can be told apart.
    #[error("{0} streams times queues are too many: at most 65536 can be told apart")]
    TooMany(usize),
}

/// What makes a lane's packets.
#[derive(Debug)]
pub(super) enum Maker {
    One(Box<Generator<1>>),
    Two(Box<Generator<2>>),
    Three(Box<Generator<3>>),
    Replay(Box<Replay>),
}

/// What a lane sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LaneSent {
    /// Stream it belongs to.
    pub stream: usize,
    /// Shortest and longest frame that it has.
    pub lens: (usize, usize),
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the rate asked for; `None` without a rate.
    pub intended: Option<u64>,
    /// Packets after which it is done, whatever the time; `None` where only the time ends it.
    pub count: Option<u64>,
    /// Times that not everything found room.
    pub full: u64,
    /// Packets never sent, because their time had passed by more than the plan allows.
    pub missed: u64,
    /// Those of them that the generator itself slept through.
    pub overslept: u64,
}

/// A stream's part that goes by one queue.
#[derive(Debug)]
pub struct Lane {
    pub(super) maker: Maker,
    pub(super) schedule: Schedule,
    pub(super) link: usize,
    pub(super) arrival: Arrival,
    pub(super) limit: u64,
    /// It ends when all others have, and how many packets that makes isn't known before.
    pub(super) accompanies: bool,
    pub(super) sent: LaneSent,
    queue: usize,
    /// Packets per second.
    rate: Option<f64>,
    /// Seconds that its packets take at its rate, the gap behind the last one with them; 0 without a rate.
    pub(super) span: f64,
    /// Length of all packets, if there is one.
    fixed: Option<u32>,
    /// Packets whose constant bytes have to be written, too.
    rest_until: u64,
    /// Shortest and longest packet.
    pub(super) lens: (u32, u32),
    stamped: bool,
}

impl Lane {
    /// All lanes of a plan. Nothing is due before [`start`](Self::start).
    ///
    /// # Errors
    /// [`LaneError`].
    pub fn all(plan: &Plan, links: &[Link]) -> Result<Vec<Self>, LaneError> {
        let mut lanes = Vec::new();
        for (stream, of) in plan.streams.iter().enumerate() {
            let queues = links.get(of.tx).map_or(0, Link::queues);
            let (first, count) = match of.queue {
                Some(queue) if queue < queues => (queue, 1),
                None if queues > 0 => {
                    (0, if matches!(of.content, Content::Capture { .. }) { 1 } else { queues })
                }
                queue => {
                    let interface = links.get(of.tx).map_or_else(String::new, |link| link.name().into());
                    let (stream, queue) = (of.name.clone(), queue.unwrap_or(0));
                    return Err(LaneError::Queue { stream, interface, queue, queues });
                }
            };
            for part in 0..count {
                let number = lanes.len();
                lanes.push(Self::new(plan, of, stream, number, first + part, (part, count))?);
            }
        }
        if lanes.len() > 1 << 16 {
            return Err(LaneError::TooMany(lanes.len()));
        }
        own_buffers(&mut lanes, links, plan.full);
        Ok(lanes)
    }

    fn new(
        plan: &Plan,
        of: &plan::Stream,
        stream: usize,
        number: usize,
        queue: usize,
        (part, parts): (usize, usize),
    ) -> Result<Self, LaneError> {
        let seed = modifier::seed(plan.seed, number as u64);
        let parts = parts as u64;
        // What doesn't divide goes to the first lanes.
        let share = |all: u64| all / parts + u64::from((part as u64) < all % parts);
        let mut limit = if of.count == 0 { u64::MAX } else { share(of.count) };
        let stamped = of.latency;
        let (maker, lens, mean, times) = match &of.content {
            Content::Made { stack, size } => {
                let failed = |source| LaneError::Stack { stream: of.name.clone(), source };
                let layout = Layout::new(stack).map_err(failed)?;
                let pattern = size.pattern(if plan.fcs { 4 } else { 0 }, seed);
                let (lens, order) =
                    pattern.map_err(|reason| LaneError::Size { stream: of.name.clone(), reason })?;
                let lane = (plan.check > Check::Count).then_some(number as u16);
                let templates = lens.iter().map(|len| layout.template(*len, lane, stamped));
                let templates = templates.collect::<Result<Vec<_>, _>>().map_err(failed)?;
                let total: usize =
                    order.iter().map(|at| lens.get(usize::from(*at)).copied().unwrap_or(0)).sum();
                let mean = total as f64 / order.len().max(1) as f64;
                let range = (lens.first().copied().unwrap_or(0), lens.last().copied().unwrap_or(0));
                let headers = layout.headers;
                let signature = lane.map(|lane| Mark { run: plan.run, lane, stamped });
                (make(headers, Recipe { layout, templates, order, signature, seed }), range, mean, None)
            }
            Content::Capture { path, original_timing, repeat } => {
                let ip = plan.ip(of.tx);
                let recording = Recording::read(path, ip)
                    .map_err(|source| LaneError::Replay { stream: of.name.clone(), source })?;
                if *repeat > 0 {
                    limit = limit.min(repeat.saturating_mul(recording.count() as u64));
                }
                let (lens, mean) = (recording.lens(), recording.mean_len());
                let times = original_timing.then(|| recording.times.clone());
                (Maker::Replay(Box::new(Replay::new(recording))), lens, mean, times)
            }
        };
        let count = (limit != u64::MAX).then_some(limit);
        let rate = of.rate.packets(mean).map(|rate| rate / parts as f64);
        let (mut intended, mut span) = (None, 0.0);
        let accompanies = of.accompanies() && plan.seconds >= NO_LIMIT;
        if let Some(rate) = rate.filter(|_| times.is_none() && !accompanies) {
            // A count is reached at the rate, too.
            limit = limit.min((rate * plan.seconds).ceil() as u64);
            intended = Some(limit);
            span = (limit as f64 / rate).min(plan.seconds);
        }
        let schedule = match times {
            // In nanoseconds until the start is known.
            Some(ticks) => {
                let count = ticks.len() as u64;
                let last = ticks.last().copied().unwrap_or(0);
                // One mean gap between two passes.
                let period = last + (last / count.saturating_sub(1).max(1)).max(1);
                Schedule::Times { start: 0, ticks, period, pass: 0, at: 0, limit }
            }
            None => Schedule::Pace(Pace::new(None, 1e9, 0, 0)),
        };
        Ok(Self {
            maker,
            rate,
            span,
            schedule,
            link: of.tx,
            arrival: of.arrival,
            limit,
            accompanies,
            sent: LaneSent { stream, lens, intended, count, ..LaneSent::default() },
            queue,
            fixed: (lens.0 == lens.1).then_some(lens.0 as u32),
            rest_until: u64::MAX,
            lens: (lens.0 as u32, lens.1 as u32),
            stamped,
        })
    }

    /// Time begins: `start` on a clock of `frequency` ticks per second.
    pub(super) fn start(&mut self, start: u64, frequency: f64) {
        match &mut self.schedule {
            Schedule::Pace(pace) => *pace = Pace::new(self.rate, frequency, start, self.limit),
            Schedule::Times { start: begin, ticks, period, .. } => {
                let scale = |ns: u64| (ns as f64 * frequency / 1e9) as u64;
                ticks.iter_mut().for_each(|tick| *tick = scale(*tick));
                (*begin, *period) = (start, scale(*period).max(1));
            }
        }
    }

    /// The others are done at tick `end`: nothing is due any more after it.
    pub(super) fn end_with_others(&mut self, end: u64) {
        if !self.accompanies {
            return;
        }
        self.accompanies = false;
        self.limit = self.schedule.overdue(end, 0).max(self.done());
        self.schedule.limit_to(self.limit);
        self.sent.intended = self.rate.map(|_| self.limit);
    }

    /// Packets that need no more care: sent, or missed.
    #[inline(always)]
    pub(super) const fn done(&self) -> u64 {
        self.sent.packets + self.sent.missed
    }

    /// Whether its packets have timestamps.
    #[must_use]
    pub const fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// Sends what is due, as far as a burst and the link go; gives whether all of it found room.
    #[inline(always)]
    pub(super) fn send(&mut self, link: &mut Link, due: u64) -> Result<bool, LinkError> {
        match &mut self.maker {
            Maker::One(maker) => {
                send(&mut **maker, link, &mut self.sent, due, self.queue, self.fixed, self.rest_until)
            }
            Maker::Two(maker) => {
                send(&mut **maker, link, &mut self.sent, due, self.queue, self.fixed, self.rest_until)
            }
            Maker::Three(maker) => {
                send(&mut **maker, link, &mut self.sent, due, self.queue, self.fixed, self.rest_until)
            }
            Maker::Replay(maker) => {
                send(&mut **maker, link, &mut self.sent, due, self.queue, self.fixed, self.rest_until)
            }
        }
    }
}

#[inline(always)]
fn send<P: Packets>(
    packets: &mut P,
    link: &mut Link,
    sent: &mut LaneSent,
    due: u64,
    queue: usize,
    fixed: Option<u32>,
    rest_until: u64,
) -> Result<bool, LinkError> {
    let want = packets.prepare().min(due.min(BURST as u64) as usize);
    let n = link.transmit(queue, want, packets, sent.packets < rest_until)?;
    sent.bytes += match fixed {
        Some(len) => u64::from(len) * n as u64,
        None => (0..n).map(|packet| u64::from(packets.len(packet))).sum(),
    };
    sent.packets += n as u64;
    sent.full += u64::from(n < want);
    packets.sent(n);
    Ok(n == want)
}

fn make(headers: usize, recipe: Recipe) -> Maker {
    match headers {
        0..=64 => Maker::One(Box::new(Generator::new(recipe))),
        65..=128 => Maker::Two(Box::new(Generator::new(recipe))),
        _ => Maker::Three(Box::new(Generator::new(recipe))),
    }
}

/// Constant bytes need be written once per buffer only, where a lane is alone on a queue of ours and all its packets are of
/// one length.
fn own_buffers(lanes: &mut [Lane], links: &[Link], full: bool) {
    let places: Vec<_> = lanes.iter().map(|lane| (lane.link, lane.queue)).collect();
    for (lane, place) in lanes.iter_mut().zip(&places) {
        let alone = places.iter().filter(|other| *other == place).count() == 1;
        let made = !matches!(lane.maker, Maker::Replay(_));
        if let (true, Some(len), Some((buffers, size))) = (
            alone && made && !full,
            lane.fixed,
            links.get(lane.link).and_then(|link| link.own_buffers(lane.queue)),
        ) && len <= size
        {
            lane.rest_until = buffers;
        }
    }
}
