//! Sleeping until packets or news come.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::link::Link;
use crate::port::{Port, lock};
use crate::status::{Failure, Status};

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
/// [`Failure`] if the system can't tell.
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
        let links: Vec<_> = ports.iter().filter_map(|port| port.link()).collect();
        let armed = links.iter().fold(false, |ready, link| ready | link.arm());
        let ready = armed || ports.iter().any(|port| port.has_news());
        let now = Instant::now();
        let slept = if ready || now >= until {
            Ok(())
        } else {
            let deadline = if links.is_empty() { deadline } else { deadline.min(now + NAP) };
            sleep(ports, &links, deadline.saturating_duration_since(now))
        };
        for link in &links {
            link.disarm();
        }
        slept?;
        if ready {
            return Ok(Woken::Ready);
        }
        if now >= until {
            return Ok(Woken::Timeout);
        }
    }
}

fn sleep(ports: &[&Port], links: &[Arc<Link>], limit: Duration) -> Result<(), Failure> {
    let name = ports.first().map_or("", |port| port.name());
    let failed =
        |errno: &dyn std::fmt::Display| Failure::new(Status::System, name, format_args!("poll: {errno}"));
    // Duplicates, so that no lock is held meanwhile.
    let controls = ports.iter().map(|port| lock(&port.control).fd().try_clone_to_owned());
    let controls: Vec<OwnedFd> = controls.collect::<Result<_, _>>().map_err(|error| failed(&error))?;
    let events = links.iter().flat_map(|link| &link.events);
    let mut fds: Vec<_> = controls.iter().chain(events).map(AsFd::as_fd).collect();
    fds.extend(ports.iter().map(|port| port.wake.fd()));
    let mut fds: Vec<_> = fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    match poll(&mut fds, Timespec::try_from(limit).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(failed(&errno)),
    }
}
