//! One control connection, as the thread that serves the sockets has it.
//!
//! Whatever is done with a [`Line`] costs what its peer makes it cost. A program that serves several peers has threads do it
//! ([`Threaded`]), one for each origin at a time: messages go out and come in by lists, and nothing of a peer is ever waited for. Any other
//! does it itself.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventFlags};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::credentials::{self, Credentials};
use super::foreign::Closing;
use super::line::{Heard, Line};
use super::outcomes::Outcomes;
use super::watch::Watch;
use crate::control::Message;
use crate::ring::{Costs, FREE, used};
use crate::{Error, Reason};

/// How long a thread rests, as a multiple of what its origin's last call cost beyond what is usual: no origin has more than a tenth of a
/// processor.
const REST: u32 = 9;
/// The longest of these rests.
const LONGEST: Duration = Duration::from_secs(300);

/// A control connection. Never waits.
#[derive(Debug)]
pub(super) enum Channel {
    /// The owner of the channel makes its system calls.
    Inline(Line),
    /// Served by threads.
    Threaded(Box<Threaded>),
}

/// A result from a control thread.
#[derive(Debug)]
pub(super) enum Delivered {
    /// A message, or that there was none after all.
    Heard(Option<Heard>),
    /// The connection is at its end.
    Failed(Reason),
    /// What came of connecting.
    Connected(Result<OwnedFd, Error>),
}

/// Results from control threads, each with the token of its connection.
pub(super) type Deliveries = Outcomes<(u64, Delivered)>;

/// Has something done, after all that the same origin has to be done.
pub(super) type Run = Arc<dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync>;

/// How work of a connection is done.
#[derive(Clone)]
pub(super) struct Courier {
    pub(super) run: Run,
    /// The account that calls are charged to, once the interface is known.
    pub(super) costs: Option<Costs>,
    pub(super) deliveries: Deliveries,
    pub(super) token: u64,
}

/// A connection that is served by threads.
pub(super) struct Threaded {
    /// `None` only as it is dropped.
    line: Option<Arc<Line>>,
    closing: Closing,
    courier: Arc<Mutex<Courier>>,
    watch: Watch,
    /// What is to be done when the socket is ready.
    next: Arc<AtomicU8>,
    armed: bool,
    inbox: VecDeque<Result<Heard, Reason>>,
}

/// Values of [`Threaded::next`]: to receive a message that has no descriptors, or may have some; or nothing but to tell of the end.
const RECEIVE: u8 = 0;
const RECEIVE_DUE: u8 = 1;
const END: u8 = 2;

/// Work that isn't done yet, of all connections of the process.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);

/// Counted as work until this is dropped.
struct AtWork;

impl AtWork {
    fn begin() -> Self {
        AT_WORK.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits until threads have said to peers what was to be said, for `limit` at most; whether they have. For a program that ends: its threads end
/// with it.
#[must_use]
pub fn all_said(limit: Duration) -> bool {
    let begun = Instant::now();
    while AT_WORK.load(Ordering::Relaxed) > 0 {
        if begun.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

impl Courier {
    /// Has it done by a thread, which is paid for.
    pub(super) fn send(&self, work: impl FnOnce() -> Option<Delivered> + Send + 'static) {
        let (Self { costs, deliveries, token, .. }, at_work) = (self.clone(), AtWork::begin());
        (self.run)(Box::new(move || {
            let before = used();
            work().into_iter().for_each(|delivered| deliveries.add((token, delivered)));
            let cost = used().saturating_sub(before);
            let overrun = costs.and_then(|costs| costs.charge(Instant::now(), cost));
            overrun
                .into_iter()
                .for_each(|overrun| deliveries.add((token, Delivered::Failed(overrun.into()))));
            drop(at_work);
            let rest = cost.saturating_sub(FREE).saturating_mul(REST).min(LONGEST);
            if !rest.is_zero() {
                std::thread::sleep(rest);
            }
        }));
    }
}

impl Channel {
    pub(super) fn inline(fd: OwnedFd, closing: &Closing) -> Self {
        Self::Inline(Line::new(fd, closing))
    }

    /// # Errors
    /// If the kernel has no room to watch it.
    pub(super) fn threaded(fd: OwnedFd, closing: &Closing, courier: Courier) -> Result<Self, Errno> {
        let (line, next) = (Arc::new(Line::new(fd, closing)), Arc::new(AtomicU8::new(RECEIVE)));
        let courier = Arc::new(Mutex::new(courier));
        let its = (Arc::downgrade(&line), Arc::clone(&next), Arc::clone(&courier));
        let watch = Watch::new(line.fd(), move || {
            let (line, next, courier) = its.clone();
            let courier = lock(&courier).clone();
            courier.send(move || {
                let line = line.upgrade()?;
                let next = next.load(Ordering::Relaxed);
                if next == END {
                    return Some(Delivered::Failed(Reason::Closed));
                }
                Some(line.receive(next == RECEIVE_DUE).map_or_else(Delivered::Failed, Delivered::Heard))
            });
        });
        let (line, closing, armed, inbox) = (Some(line), closing.clone(), false, VecDeque::new());
        match watch {
            Ok(watch) => {
                let threaded = Threaded { line, closing, courier, watch, next, armed, inbox };
                Ok(Self::Threaded(Box::new(threaded)))
            }
            Err(errno) => {
                let courier = lock(&courier).clone();
                courier.send(move || {
                    drop(line);
                    None
                });
                Err(errno)
            }
        }
    }

    /// Its socket, to ask the kernel about.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Inline(line) => Some(line.fd()),
            Self::Threaded(threaded) => threaded.line.as_ref().map(|line| line.fd()),
        }
    }

    /// Who is at the other end.
    pub(super) fn credentials(&self) -> Option<Credentials> {
        credentials::of(self.fd()?)
    }

    /// Whether too much of what its peer's origin has sent before is still to be closed.
    pub(super) fn is_beyond_share(&self) -> bool {
        match self {
            Self::Inline(line) => line.is_beyond_share(),
            Self::Threaded(threaded) => threaded.closing.is_beyond_share(),
        }
    }

    /// Sets the account that calls are charged to, and the runner of its threads.
    pub(super) fn charge_to(&self, costs: &Costs, run: &Run) {
        if let Self::Threaded(threaded) = self {
            let mut courier = lock(&threaded.courier);
            (courier.costs, courier.run) = (Some(costs.clone()), Arc::clone(run));
        }
    }

    /// Sends a message. A threaded channel queues it; a later error is returned by the next receive.
    pub(super) fn send(&self, message: &Message, fd: Option<BorrowedFd<'_>>) -> Result<(), Reason> {
        match self {
            Self::Inline(line) => line.send(message, fd),
            Self::Threaded(threaded) => {
                let fd = fd.map(|fd| fcntl_dupfd_cloexec(fd, 0)).transpose().map_err(Reason::Socket)?;
                let message = message.clone();
                threaded.send(move |line| {
                    let fd = fd.as_ref().map(std::os::fd::AsFd::as_fd);
                    line.send(&message, fd).err().map(Delivered::Failed)
                });
                Ok(())
            }
        }
    }

    /// Receives a message, if there is one, see [`Line::receive`]. By a thread it is there later, and [delivered](Self::deliver).
    pub(super) fn receive(&mut self, due: bool) -> Result<Option<Heard>, Reason> {
        match self {
            Self::Inline(line) => line.receive(due),
            Self::Threaded(threaded) => {
                if let Some(heard) = threaded.inbox.pop_front() {
                    return heard.map(Some);
                }
                threaded.next.store(if due { RECEIVE_DUE } else { RECEIVE }, Ordering::Relaxed);
                if !std::mem::replace(&mut threaded.armed, true) {
                    threaded.arm(EventFlags::IN);
                }
                Ok(None)
            }
        }
    }

    /// Handles a result from a control thread.
    pub(super) fn deliver(&mut self, delivered: Delivered) {
        let Self::Threaded(threaded) = self else { return };
        match delivered {
            Delivered::Heard(heard) => {
                threaded.armed = false;
                threaded.inbox.extend(heard.map(Ok));
            }
            Delivered::Failed(reason) => threaded.inbox.push_back(Err(reason)),
            Delivered::Connected(_) => {}
        }
    }

    /// Sends the peer the reason for closing; see [`Line::farewell`].
    pub(super) fn farewell(&self, reason: &Reason) {
        match self {
            Self::Inline(line) => line.farewell(reason),
            Self::Threaded(threaded) => {
                let reason = reason.clone();
                threaded.send(move |line| {
                    line.farewell(&reason);
                    None
                });
            }
        }
    }

    /// Has the set tell of messages; by a thread they are delivered anyway.
    ///
    /// # Errors
    /// If the kernel has no room to watch it.
    pub(super) fn watch(&self, set: &OwnedFd, token: u64) -> Result<(), Errno> {
        match self {
            Self::Inline(line) => {
                epoll::add(set, line.fd(), epoll::EventData::new_u64(token), EventFlags::IN)
            }
            Self::Threaded(_) => Ok(()),
        }
    }

    /// Nothing is to be heard but that the peer has gone; or everything again.
    ///
    /// # Errors
    /// None, as the socket is in the set.
    pub(super) fn hear_only_the_end(&mut self, only: bool, set: &OwnedFd, token: u64) -> Result<(), Errno> {
        let flags = if only { EventFlags::RDHUP } else { EventFlags::IN };
        match self {
            Self::Inline(line) => epoll::modify(set, line.fd(), epoll::EventData::new_u64(token), flags),
            Self::Threaded(threaded) => {
                if only {
                    threaded.next.store(END, Ordering::Relaxed);
                    threaded.arm(flags);
                } else {
                    // Armed again by who asks for a message.
                    threaded.armed = false;
                }
                Ok(())
            }
        }
    }

    /// Nothing is to be heard until it is [watched](Self::watch) again. What a thread hears waits for whoever asks for it.
    pub(super) fn hush(&self, set: &OwnedFd) {
        if let Self::Inline(line) = self {
            let _ = epoll::delete(set, line.fd());
        }
    }

    /// Nothing is to be heard any more. The socket stays as long as closing it may hang, readable all that time.
    pub(super) fn unwatch(&self, set: &OwnedFd) {
        match self {
            Self::Inline(line) => drop(epoll::delete(set, line.fd())),
            Self::Threaded(threaded) => threaded.unwatch(),
        }
    }
}

impl Threaded {
    fn send(&self, work: impl FnOnce(&Line) -> Option<Delivered> + Send + 'static) {
        let Some(line) = self.line.clone() else { return };
        lock(&self.courier).send(move || work(&line));
    }

    fn arm(&self, flags: EventFlags) {
        self.line.iter().for_each(|line| self.watch.arm(line.fd(), flags));
    }

    fn unwatch(&self) {
        self.line.iter().for_each(|line| self.watch.end(line.fd()));
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.unwatch();
        let (line, share) = (self.line.take(), self.closing.hold_socket());
        // The last to have it, as all other work of it is done by then.
        lock(&self.courier).send(move || {
            drop(line);
            drop(share);
            None
        });
    }
}

impl std::fmt::Debug for Threaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threaded").field("armed", &self.armed).finish_non_exhaustive()
    }
}

fn lock(courier: &Mutex<Courier>) -> MutexGuard<'_, Courier> {
    courier.lock().unwrap_or_else(PoisonError::into_inner)
}
