//! Who signals the peer of a link: the queues themselves, or a doorbell thread.
//!
//! An eventfd that a peer holds costs what the peer makes it cost: the kernel calls everything that waits for it, with interrupts off, in the
//! thread that writes to it, reads it, or closes it last; and it does so under a lock that the peer can have held all the time by writing
//! itself, which adding it to an epoll set takes as well. A million waiters are 0.2 s, waiters of waiters several times that.
//!
//! So a [`Doorbell`] is a thread that has all eventfds of a link for itself, and does nothing else. Workers tell it by words in memory
//! ([`protocol`]) and by eventfds that no peer ever gets; and it tells workers by such ones. What it costs is the peer's loss alone:
//!
//! | | |
//! |---|---|
//! | to the peer | requests that come while it signals are one; beyond [`SHARE`](pace::SHARE) of a processor it waits in between |
//! | from the peer | a signal is heard without reading the eventfd (an edge-triggered set), and wakes the worker only if that sleeps and the ring has moved; who signals in vain is heard less often |
//!
//! A program of its own pod may have its queues signal directly: what that costs is its own time.

mod costs;
mod held;
mod link;
mod meter;
mod pace;
mod protocol;
mod schedule;
mod thread;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, write};

use super::{Event, RxQueue, TxQueue};
use protocol::{Arm, Request, Sleeper};
use thread::{Link, Sets};

/// Told, by the thread, that the peer costs too much.
pub(crate) type Tell = Box<dyn FnOnce(Overrun) + Send>;

pub(crate) use costs::{BURST, Costs, FREE, Overrun, PERCENT};
pub(super) use link::{RxBell, RxSignal, TxSignal};
pub(crate) use meter::used;
pub(super) use thread::{Incoming, Outgoing};

/// What is left of a link whose thread couldn't be started: to be dropped where others don't wait for that.
pub(crate) type Remains = Option<Box<dyn std::any::Any + Send>>;

/// Who signals the peers of an interface, and hears their signals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Signals {
    /// Its queues, in the thread that has them, where [the kernel signals](super::signals_by_kernel); otherwise as
    /// [`Doorbell`](Self::Doorbell). For a program whose peer may cost it time, as of a pod its dataplane.
    #[default]
    Direct,
    /// A thread of the link. For a program that has other peers to look after.
    Doorbell(DoorbellSettings),
}

/// How doorbell threads run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoorbellSettings {
    /// Processors that they may run on, those that no worker needs; empty: any.
    pub cpus: Vec<usize>,
}

impl Signals {
    /// The settings of doorbells, if there are to be any.
    pub(crate) fn doorbell(&self) -> Option<DoorbellSettings> {
        match self {
            Self::Doorbell(settings) => Some(settings.clone()),
            // Miri has no asynchronous I/O.
            Self::Direct if !cfg!(miri) && super::signals_by_kernel().is_err() => {
                Some(DoorbellSettings::default())
            }
            Self::Direct => None,
        }
    }
}

/// A link's doorbell thread, from outside. Ends when this is dropped, soon and without anybody waiting for it: to close the eventfds takes as
/// long as to signal them.
#[derive(Debug)]
pub(crate) struct Doorbell {
    shared: Arc<Shared>,
    /// Dropped before the thread is told to end: so the thread is the last to have them.
    outgoing: Option<Arc<[Outgoing]>>,
}

/// What the thread shares with the queues of its link.
#[derive(Debug)]
pub(super) struct Shared {
    thread: Sleeper,
    /// Wakes the thread.
    bell: OwnedFd,
    closed: AtomicBool,
    /// By queue to send by.
    requests: Box<[Request]>,
    /// By queue to receive from.
    beds: Box<[Bed]>,
    /// Which eventfd is being written to, where the kernel doesn't signal and a peer can keep the thread.
    writing: AtomicUsize,
}

/// Where the worker of a queue sleeps.
#[derive(Debug)]
struct Bed {
    arm: Arm,
    /// Wakes the worker.
    event: Event,
}

/// None of them.
const NOTHING: usize = usize::MAX;

impl Shared {
    fn new(requests: usize, beds: usize) -> Result<Self, Errno> {
        let bed = |_| Ok::<_, Errno>(Bed { arm: Arm::new(), event: Event::private()? });
        Ok(Self {
            thread: Sleeper::new(),
            bell: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            closed: AtomicBool::new(false),
            requests: (0..requests).map(|_| Request::new()).collect(),
            beds: (0..beds).map(bed).collect::<Result<_, _>>()?,
            writing: AtomicUsize::new(NOTHING),
        })
    }

    /// Wakes the thread, which has work.
    #[cold]
    fn ring(&self) {
        // Never full: it would have to be woken for centuries.
        let _ = write(self.bell.as_fd(), &1_u64.to_ne_bytes());
    }
}

impl Doorbell {
    /// Starts the thread, which takes the eventfds of these queues. `told`: to whose account goes what they cost, and who is told if that is
    /// too much.
    ///
    /// # Errors
    /// If there is no descriptor or no thread for it; with what is to be closed elsewhere then.
    pub(crate) fn start(
        settings: &DoorbellSettings,
        told: (Costs, Tell),
        rx: &mut [RxQueue],
        tx: &mut [TxQueue],
    ) -> Result<Self, (Errno, Remains)> {
        if held::is_full() {
            return Err((Errno::AGAIN, None));
        }
        let shared = Arc::new(Shared::new(tx.len(), rx.len()).map_err(|errno| (errno, None))?);
        let sets = Sets::new(&shared).map_err(|errno| (errno, None))?;
        let of_tx = |(number, queue): (usize, &mut TxQueue)| {
            queue.signalled_by(TxSignal::Doorbell(Arc::clone(&shared), number))
        };
        let outgoing: Arc<[_]> = tx.iter_mut().enumerate().filter_map(of_tx).collect();
        let of_rx = |(number, queue): (usize, &mut RxQueue)| {
            queue.woken_by(RxSignal::Doorbell(RxBell::new(Arc::clone(&shared), number)))
        };
        let incoming = rx.iter_mut().enumerate().filter_map(of_rx).collect();
        let link = Link::new(&shared, sets, &outgoing, incoming, told);
        match thread::start(settings, link) {
            Ok(()) => Ok(Self { shared, outgoing: Some(outgoing) }),
            Err((errno, link)) => Err((errno, link.map(|link| Box::new((link, outgoing)) as _))),
        }
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        if let Some(outgoing) = self.outgoing.take() {
            held::keep(&self.shared, outgoing);
        }
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.ring();
    }
}

#[cfg(all(test, not(miri), not(loom)))]
mod tests;
