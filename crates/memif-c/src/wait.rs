//! Sleeping until packets or news come.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memif::ring::Event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::link::Link;
use crate::port::{Port, lock};
use crate::status::{Failure, errno_of};

/// Longest sleep while a link is up: some peers look at the interrupt flag without a fence, and so may fail to wake us.
pub(crate) const NAP: Duration = Duration::from_millis(100);

/// Why [`wait`] came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// A port has packets or news.
    Ready,
    /// The time is up.
    Timeout,
    /// Somebody asked for it: see [`wake`].
    Asked,
}

/// Ends the [`wait`] of another thread, now or when it comes.
pub fn wake(port: &Port) {
    port.wake.signal();
}

/// Sleeps until one of the ports has something to receive, or news, or until `timeout` has passed. Connects meanwhile.
///
/// # Errors
/// [`Failure`] if the process is out of descriptors, or the system can't tell.
pub fn wait(ports: &[&Port], timeout: Duration) -> Result<Woken, Failure> {
    let until = Instant::now() + timeout;
    loop {
        let mut deadline = until;
        for port in ports {
            deadline = port.process()?.map_or(deadline, |next| deadline.min(next));
        }
        if ports.iter().fold(false, |asked, port| asked | port.wake.clear()) {
            return Ok(Woken::Asked);
        }
        if ports.iter().any(|port| port.has_news() || port.has_packets()) {
            return Ok(Woken::Ready);
        }
        let now = Instant::now();
        if now >= until {
            return Ok(Woken::Timeout);
        }
        let sleeper = Sleeper::new(ports)?;
        if !sleeper.ready {
            sleeper.sleep(deadline, now)?;
        }
    }
}

/// This thread, entered in all ports it waits for.
struct Sleeper<'p> {
    ports: &'p [&'p Port],
    links: Vec<Option<Arc<Link>>>,
    me: Arc<Event>,
    ready: bool,
}

impl<'p> Sleeper<'p> {
    fn new(ports: &'p [&'p Port]) -> Result<Self, Failure> {
        let me = Event::new(ports.first().map_or("", |port| port.name()));
        let me = me.map_err(|error| Failure::of(&error.interface, &error.cause))?;
        let (me, links) = (Arc::new(me), Vec::with_capacity(ports.len()));
        let mut sleeper = Self { ports, links, me, ready: false };
        for port in ports {
            let (link, ready) = port.enter(&sleeper.me);
            sleeper.links.push(link);
            sleeper.ready |= ready;
        }
        Ok(sleeper)
    }

    fn sleep(&self, deadline: Instant, now: Instant) -> Result<(), Failure> {
        let links = || self.links.iter().flatten();
        let deadline = if links().next().is_some() { deadline.min(now + NAP) } else { deadline };
        let limit = Timespec::try_from(deadline.saturating_duration_since(now)).ok();
        // Duplicates, so that no lock is held meanwhile.
        let controls = self.ports.iter().map(|port| lock(&port.control).fd().try_clone_to_owned());
        let controls: Vec<OwnedFd> = controls
            .collect::<Result<_, _>>()
            .map_err(|error| failed(self.ports, "dup", errno_of(&error)))?;
        let events = links().flat_map(|link| &link.events);
        let mut fds: Vec<_> = controls.iter().chain(events).map(AsFd::as_fd).collect();
        fds.extend(self.ports.iter().map(|port| port.wake.fd()));
        fds.push(self.me.fd());
        let mut fds: Vec<_> = fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(failed(self.ports, "poll", errno)),
        }
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        for (port, link) in self.ports.iter().zip(&self.links) {
            port.sleepers.leave(&self.me, link.as_deref());
        }
    }
}

fn failed(ports: &[&Port], what: &str, errno: Errno) -> Failure {
    Failure::system(ports.first().map_or("", |port| port.name()), what, errno)
}
