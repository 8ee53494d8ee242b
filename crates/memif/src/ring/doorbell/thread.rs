//! The thread of a link.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::super::counters::Tally;
use super::super::signals_by_kernel;
use super::costs::{Costs, FREE, Overrun};
use super::meter::Meter;
use super::pace::{Flood, Pace};
use super::protocol::News;
use super::schedule::run_soon;
use super::{DoorbellSettings, NOTHING, Shared, Tell, held};
use crate::ring::{Endpoint, Event, RingView};

/// Bytes of its stack: it makes a few system calls.
const STACK: usize = 64 << 10;
/// Signals of the peer taken note of at a time.
const BATCH: usize = 64;
/// In the set: what wakes the thread. Queues to receive from count from 0.
const BELL: u64 = u64::MAX;
/// Where the kernel has no room to watch the peer's eventfds (`fs.epoll.max_user_watches`, which others of our user may have used up), rings
/// are looked at so often.
const LOOK: Duration = Duration::from_millis(1);

/// What the peer waits for.
#[derive(Debug)]
pub(in crate::ring) struct Outgoing {
    pub(super) event: Event,
    tally: Tally,
}

impl Outgoing {
    pub(in crate::ring) const fn new(event: Event, tally: Tally) -> Self {
        Self { event, tally }
    }
}

/// What the peer signals, and the ring that this is about.
#[derive(Debug)]
pub(in crate::ring) struct Incoming {
    pub(in crate::ring) event: Event,
    pub(in crate::ring) ring: RingView,
    pub(in crate::ring) endpoint: Endpoint,
}

/// The eventfds of a link, with what its thread needs.
pub(super) struct Link {
    shared: Arc<Shared>,
    // Closed before the eventfds: that takes their locks, which the peer may hold.
    sets: Sets,
    outgoing: Arc<[Outgoing]>,
    incoming: Vec<Incoming>,
    /// Not all eventfds of the peer are watched.
    blind: bool,
    pace: Pace,
    costs: Costs,
    /// Told, once, that the peer costs too much.
    tell: Option<Tell>,
}

/// What it waits for.
#[derive(Debug)]
pub(super) struct Sets {
    /// All.
    all: OwnedFd,
    /// What wakes it alone.
    own: OwnedFd,
}

impl Sets {
    pub(super) fn new(shared: &Shared) -> Result<Self, Errno> {
        let set = || {
            let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&set, shared.bell.as_fd(), epoll::EventData::new_u64(BELL), edge)?;
            Ok::<_, Errno>(set)
        };
        Ok(Self { all: set()?, own: set()? })
    }
}

/// Starts the thread of a link.
///
/// # Errors
/// If there can be none; with the link then.
pub(super) fn start(settings: &DoorbellSettings, link: Link) -> Result<(), (Errno, Option<Box<Link>>)> {
    let cpus = settings.cpus.clone();
    // A thread that can't be started drops what it was given.
    let ours = Arc::new(Mutex::new(Some(link)));
    let theirs = Arc::clone(&ours);
    let run = move || {
        run_soon(&cpus);
        held::let_go();
        if let Some(link) = theirs.lock().unwrap_or_else(PoisonError::into_inner).take() {
            link.run();
        }
    };
    let thread = Builder::new().name("memif-doorbell".into()).stack_size(STACK);
    match thread.spawn(run) {
        Ok(_) => Ok(()),
        Err(error) => {
            let link = ours.lock().unwrap_or_else(PoisonError::into_inner).take();
            Err((Errno::from_io_error(&error).unwrap_or(Errno::AGAIN), link.map(Box::new)))
        }
    }
}

impl Link {
    pub(super) fn new(
        shared: &Arc<Shared>,
        sets: Sets,
        outgoing: &Arc<[Outgoing]>,
        incoming: Vec<Incoming>,
        (costs, tell): (Costs, Tell),
    ) -> Self {
        let (shared, outgoing) = (Arc::clone(shared), Arc::clone(outgoing));
        let (blind, pace, tell) = (false, Pace::new(Instant::now()), Some(tell));
        Self { shared, sets, outgoing, incoming, blind, pace, costs, tell }
    }

    fn run(mut self) {
        let mut meter = Meter::new();
        self.watch(&mut meter);
        self.serve(&mut meter);
        // What comes next is the peer's work as well: to close what it waits for.
        let (Self { costs, tell, sets, outgoing, incoming, .. }, before) = (self, Instant::now());
        drop((sets, outgoing, incoming));
        let now = Instant::now();
        let overrun = meter.call(before, now).and_then(|cost| costs.charge(now, cost));
        tell.into_iter().zip(overrun).for_each(|(tell, overrun)| tell(overrun));
    }

    /// Until the link ends, or its peer costs too much.
    fn serve(&mut self, meter: &mut Meter) {
        let mut flood = Flood::new(Instant::now());
        let mut events: Vec<epoll::Event> = Vec::with_capacity(BATCH);
        // Until when the peer isn't listened to.
        let mut deaf: Option<Instant> = None;
        while !self.shared.closed.load(Ordering::SeqCst) {
            self.answer(meter);
            if self.tell.is_none() {
                return self.wait_for_the_end();
            }
            let now = Instant::now();
            if let Some(used) = meter.sleeps(now) {
                self.pace.used(now, used);
            }
            if let Some(pause) = self.pace.pause(now) {
                std::thread::sleep(pause);
                meter.wakes();
                continue;
            }
            let rest = deaf.map(|until| until.saturating_duration_since(now)).filter(|rest| !rest.is_zero());
            let set = if rest.is_some() { &self.sets.own } else { &self.sets.all };
            let limit = rest.or(self.blind.then_some(LOOK)).and_then(|limit| Timespec::try_from(limit).ok());
            if !self.shared.thread.begin(|| self.has_work()) {
                continue;
            }
            events.clear();
            // Fails where it is interrupted.
            let _ = epoll::wait(set, spare_capacity(&mut events), limit.as_ref());
            self.shared.thread.end();
            meter.wakes();
            let (mut useless, mut useful) = (false, false);
            for queue in events.iter().map(|event| event.data.u64()).filter(|from| *from != BELL) {
                let news = self.hear(queue as usize);
                (useless, useful) = (useless | (news != News::Wake), useful | (news == News::Wake));
            }
            if useless && !useful {
                let now = Instant::now();
                deaf = flood.useless(now).map(|pause| now + pause);
            }
            if self.blind {
                for queue in 0..self.incoming.len() {
                    self.hear(queue);
                }
                self.watch(meter);
            }
        }
    }

    /// Does nothing any more.
    fn wait_for_the_end(&self) {
        let closed = || self.shared.closed.load(Ordering::SeqCst);
        let mut events: Vec<epoll::Event> = Vec::with_capacity(1);
        while !closed() {
            if self.shared.thread.begin(closed) {
                events.clear();
                let _ = epoll::wait(&self.sets.own, spare_capacity(&mut events), None);
                self.shared.thread.end();
            }
        }
    }

    /// Has the set tell of the peer's signals: each one, without ever reading the eventfd.
    fn watch(&mut self, meter: &mut Meter) {
        let before = Instant::now();
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let add = |(queue, incoming): (u64, &Incoming)| {
            let added =
                epoll::add(&self.sets.all, incoming.event.fd(), epoll::EventData::new_u64(queue), edge);
            matches!(added, Ok(()) | Err(Errno::EXIST))
        };
        self.blind = !(0..).zip(&self.incoming).all(add);
        self.charge(meter, before);
    }

    fn has_work(&self) -> bool {
        let shared = &self.shared;
        shared.closed.load(Ordering::SeqCst) || shared.requests.iter().any(|request| request.is_raised())
    }

    /// Gives the signals that workers have asked for.
    fn answer(&mut self, meter: &mut Meter) {
        for queue in 0..self.shared.requests.len() {
            if self.tell.is_some() && self.shared.requests[queue].take() {
                self.ring(queue, meter);
            }
        }
    }

    /// Signals the peer. A signal that cost something is given once more, so that what fell into the first by chance is known from what the peer makes it cost: one
    /// signal too many is nothing to a peer.
    fn ring(&mut self, queue: usize, meter: &mut Meter) {
        let mut signal = |link: &mut Self| {
            let before = Instant::now();
            link.signal(queue);
            let now = Instant::now();
            let cost = meter.call(before, now)?;
            link.pace.used(now, cost);
            Some(cost).filter(|cost| *cost > FREE)
        };
        let Some(cost) = signal(self) else { return };
        let again = signal(self).unwrap_or_default();
        let overrun = self.costs.charge_again(Instant::now(), cost, again);
        self.tell_of(overrun);
    }

    fn signal(&self, queue: usize) {
        let Some(Outgoing { event, tally }) = self.outgoing.get(queue) else { return };
        let kept = !cfg!(miri) && signals_by_kernel().is_err();
        if kept {
            self.shared.writing.store(queue, Ordering::SeqCst);
        }
        // Whoever ends the link finds it closed, or finds that this is being written.
        if !kept || !self.shared.closed.load(Ordering::SeqCst) {
            event.signal_by_process();
            tally.signal();
        }
        if kept {
            self.shared.writing.store(NOTHING, Ordering::SeqCst);
        }
    }

    /// The peer has signalled this queue.
    fn hear(&self, queue: usize) -> News {
        let (Some(incoming), Some(bed)) = (self.incoming.get(queue), self.shared.beds.get(queue)) else {
            return News::Useless;
        };
        let news = bed.arm.news(|| incoming.endpoint.reached(incoming.ring.indices()));
        if news == News::Wake {
            bed.event.signal();
        }
        news
    }

    /// A call that was begun `before` is done.
    fn charge(&mut self, meter: &mut Meter, before: Instant) {
        let now = Instant::now();
        let Some(cost) = meter.call(before, now) else { return };
        self.pace.used(now, cost);
        let overrun = self.costs.charge(now, cost);
        self.tell_of(overrun);
    }

    fn tell_of(&mut self, overrun: Option<Overrun>) {
        if let Some(overrun) = overrun
            && let Some(tell) = self.tell.take()
        {
            tell(overrun);
        }
    }
}
