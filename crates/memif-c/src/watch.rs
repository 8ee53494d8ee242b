//! One descriptor for all that a port waits for, for an application with an event loop of its own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memif::ring::Event;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::link::Link;
use crate::port::{Port, lock};
use crate::status::Failure;
use crate::wait::NAP;

/// An epoll set of the control channel, the queues, the port's own wake-up, and a timer for what is due.
#[derive(Debug)]
pub(crate) struct Watch {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// What wakes it as one of the port's sleepers.
    told: Arc<Event>,
}

impl Watch {
    fn new(port: &Port, told: Event) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let watch = Self { epoll, timer, told: Arc::new(told) };
        watch.add(watch.timer.as_fd())?;
        watch.add(watch.told.fd())?;
        watch.add(port.wake.fd())?;
        watch.add(lock(&port.control).fd())?;
        Ok(watch)
    }

    fn add(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
    }

    /// Another link's queues instead of those of the one there was.
    pub(crate) fn exchange(&self, old: Option<&Link>, new: Option<&Link>) {
        // The peer keeps eventfds open, so that they would stay in the set.
        for event in old.into_iter().flat_map(|link| &link.events) {
            let _ = epoll::delete(&self.epoll, event);
        }
        for event in new.into_iter().flat_map(|link| &link.events) {
            // Without it the timer wakes the application ten times a second.
            let _ = self.add(event.as_fd());
        }
    }

    fn set_timer(&self, after: Option<Duration>) -> Result<(), Errno> {
        // A time of zero would be none.
        let after = after.map_or(Duration::ZERO, |after| after.max(Duration::from_nanos(1)));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec::try_from(after).unwrap_or(zero);
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value })
            .map(drop)
    }
}

/// Asks for everything that may come to make the descriptor readable, and gives that. It is readable at once if there is something
/// already.
///
/// # Errors
/// [`Failure`] if the process is out of descriptors, or the system can't tell.
pub fn watch(port: &Port) -> Result<BorrowedFd<'_>, Failure> {
    let failed = |errno: Errno| Failure::system(port.name(), "epoll", errno);
    let watch = match port.watch.get() {
        Some(watch) => watch,
        None => {
            let told = Event::new(port.name());
            let told = told.map_err(|error| Failure::of(&error.interface, &error.cause))?;
            let new = Watch::new(port, told).map_err(failed)?;
            // Links come and go under this lock.
            let control = lock(&port.control);
            new.exchange(None, port.link().as_deref());
            // If another thread was faster, its set is as good.
            let _ = port.watch.set(new);
            drop(control);
            port.watch.get().ok_or_else(|| failed(Errno::BADF))?
        }
    };
    let deadline = port.process()?;
    port.sleepers.leave(&watch.told, port.link().as_deref());
    watch.told.clear();
    let (link, ready) = port.enter(&watch.told);
    if ready {
        watch.told.signal();
    }
    let now = Instant::now();
    let nap = link.map(|_| now + NAP);
    let next = deadline.into_iter().chain(nap).min();
    watch.set_timer(next.map(|next| next.saturating_duration_since(now))).map_err(failed)?;
    Ok(watch.epoll.as_fd())
}
