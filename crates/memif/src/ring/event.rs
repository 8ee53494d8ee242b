//! eventfds, by which a producer wakes a sleeping consumer.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags, preadv2, write};

use crate::control::Lease;
use crate::{Error, InterfaceError};

use super::signal::{signal, signal_by_process};

/// An eventfd. Neither signalling nor clearing waits for the peer, if it has one.
///
/// It costs what the peer makes it cost, though: the kernel calls everything that waits for an eventfd, one after the other, and whoever
/// holds the eventfd can have a million of these. See `Doorbell`.
#[derive(Debug)]
pub struct Event {
    // Closed first.
    fd: OwnedFd,
    /// What the descriptor has of its socket's quota.
    _lease: Option<Lease>,
    /// Nobody else holds it.
    private: bool,
}

impl Event {
    /// A new one, not signalled, for this interface (or whatever else errors are to name).
    ///
    /// # Errors
    /// [`Error::System`] if the system or the process is out of descriptors; with [`Errno::NOSYS`] before Linux 5.8.
    pub fn new(interface: &str) -> Result<Self, InterfaceError> {
        let failed = |errno| Error::System { call: "eventfd", errno };
        Self::own().map_err(failed).map_err(|cause| InterfaceError { interface: interface.into(), cause })
    }

    /// The same, for who names the interface.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn own() -> Result<Self, Errno> {
        Self::of(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?, None)
    }

    /// One that no peer ever gets.
    ///
    /// # Errors
    /// If the system or the process is out of descriptors.
    pub(super) fn private() -> Result<Self, Errno> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { fd, _lease: None, private: true })
    }

    /// One that came from a peer, which counts in its socket's quota as long as it is open.
    ///
    /// # Errors
    /// [`Errno::INVAL`] if it is not an eventfd; if it is to be `read`, [`Errno::NOTSUP`] if it is a semaphore: signalled once with a large
    /// number, such a one wakes whoever waits for as long. To find that out takes a lock that the peer can hold. [`Errno::NOSYS`] before Linux 5.8.
    pub(crate) fn from_peer(fd: OwnedFd, lease: Option<Lease>, read: bool) -> Result<Self, Errno> {
        // The kernel tells what a descriptor is by its link's name only.
        let name = rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
        if name.as_bytes() != b"anon_inode:[eventfd]" {
            return Err(Errno::INVAL);
        }
        if read && is_semaphore(&fd) {
            return Err(Errno::NOTSUP);
        }
        Self::of(fd, lease)
    }

    fn of(fd: OwnedFd, lease: Option<Lease>) -> Result<Self, Errno> {
        // A byte has no room for the counter: whether a read may be told not to wait comes first, and nothing is taken.
        // Before Linux 5.8 it may not, and the peer's flag says whether it waits.
        let told = || read_without_waiting(fd.as_fd(), &mut [0]);
        if !cfg!(miri) && matches!(told(), Err(Errno::OPNOTSUPP | Errno::NOSYS)) {
            return Err(Errno::NOSYS);
        }
        Ok(Self { fd, _lease: lease, private: false })
    }

    /// Wakes whoever waits.
    ///
    /// Where the kernel [can't signal](super::signals_by_kernel), a peer that clears `O_NONBLOCK` at the wrong moment and keeps the counter
    /// full has the call wait.
    #[inline]
    pub fn signal(&self) {
        if self.private {
            // A full counter means that it has been signalled often enough.
            let _ = write(&self.fd, &1_u64.to_ne_bytes());
        } else if !signal(self.fd.as_fd()) {
            write_without_waiting(self.fd.as_fd());
        }
    }

    /// The same, for a thread of which there are as many as there are peers: without an AIO context of its own.
    pub(super) fn signal_by_process(&self) {
        if !signal_by_process(self.fd.as_fd()) {
            write_without_waiting(self.fd.as_fd());
        }
    }

    /// Takes the signal back; gives whether there was one.
    #[inline]
    pub fn clear(&self) -> bool {
        self.take() > 0
    }

    /// Takes all signals back; gives how many there were.
    pub(super) fn take(&self) -> u64 {
        let mut count = [0; 8];
        read_without_waiting(self.fd.as_fd(), &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    /// Its descriptor, readable while signalled.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Not to wait is said with the call: O_NONBLOCK belongs to the peer as well.
fn read_without_waiting(event: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
    // An offset of -1 is none.
    preadv2(event, &mut [IoSliceMut::new(into)], u64::MAX, ReadWriteFlags::NOWAIT)
}

/// Waits only if the peer clears the flag in between.
fn write_without_waiting(event: BorrowedFd<'_>) {
    if let Ok(flags) = fcntl_getfl(event) {
        if !flags.contains(OFlags::NONBLOCK) {
            let _ = fcntl_setfl(event, flags | OFlags::NONBLOCK);
        }
        // As above.
        let _ = write(event, &1_u64.to_ne_bytes());
    }
}

/// Whether taking a signal back leaves all but one of those that were given. Not told before Linux 6.7.
fn is_semaphore(fd: &OwnedFd) -> bool {
    let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()));
    let says = |line: &str| line.split_once(':').is_some_and(|(key, value)| (key, value.trim()) == SEMAPHORE);
    facts.is_ok_and(|facts| facts.lines().any(says))
}

const SEMAPHORE: (&str, &str) = ("eventfd-semaphore", "1");

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn signals_and_clears() {
        let event = Event::new("test").unwrap();
        assert!(!event.clear());
        event.signal();
        event.signal();
        assert!(event.clear());
        assert!(!event.clear());
    }

    /// Before Linux 5.8 it was read as the peer's flag says: an empty one for ever.
    #[cfg(not(any(miri, loom)))]
    #[test]
    fn hostile_clearing_is_refused_where_reads_would_wait() {
        let test = "event::tests::hostile_clearing_is_refused_where_reads_would_wait";
        if !super::super::sandbox::without(libc::SYS_preadv2, Errno::OPNOTSUPP, test) {
            return;
        }
        let theirs = eventfd(0, EventfdFlags::empty()).unwrap();
        let (done, finished) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _ = done.send(Event::from_peer(theirs, None, true).map(|event| event.clear()));
        });
        let told = finished.recv_timeout(Duration::from_secs(60)).expect("it waits for its peer");
        assert_eq!(told, Err(Errno::NOSYS));
        let error = Event::new("@app id 7").unwrap_err();
        assert_eq!(error.cause, Error::System { call: "eventfd", errno: Errno::NOSYS });
        assert_eq!(error.interface, "@app id 7");
    }

    /// The peer made it blocking: neither a full counter nor an empty one stops us.
    #[test]
    fn a_peer_cannot_make_us_wait() {
        let event = Event::from_peer(eventfd(0, EventfdFlags::empty()).unwrap(), None, true).unwrap();
        assert!(!event.clear());
        write(event.fd(), &(u64::MAX - 1).to_ne_bytes()).unwrap();
        event.signal();
        assert!(event.clear());
        assert!(!event.clear());
    }

    #[test]
    fn what_is_not_an_eventfd_is_refused() {
        let (read_end, write_end) = rustix::pipe::pipe().unwrap();
        assert!(Event::from_peer(read_end, None, true).is_err());
        assert!(Event::from_peer(write_end, None, true).is_err());
    }

    /// A number of signals that are taken back one by one would keep us awake for years.
    #[test]
    fn hostile_semaphore_is_refused() {
        let semaphore = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE).unwrap();
        let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", semaphore.as_raw_fd())).unwrap();
        if facts.contains("eventfd-semaphore") {
            assert_eq!(Event::from_peer(semaphore, None, true).unwrap_err(), Errno::NOTSUP);
        }
    }
}
