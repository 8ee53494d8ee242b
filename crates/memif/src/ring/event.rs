//! eventfds, by which a producer wakes a sleeping consumer.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::control::Lease;
use crate::{Error, InterfaceError};

use super::signal::{signal, signals_by_kernel};
use super::writer::Writer;

/// How long to do without a writer where there can be none.
const AGAIN: Duration = Duration::from_secs(1);

/// An eventfd that both sides hold. Neither signalling nor clearing ever waits, whatever the peer does to it.
#[derive(Debug)]
pub struct Event {
    open: Arc<Open>,
    /// Who signals it where the kernel doesn't.
    writer: Mutex<Signaller>,
}

/// Its descriptor, and what that has of its socket's quota: given back once nobody has it open any more, also not a writer that its peer
/// keeps waiting.
#[derive(Debug)]
pub(super) struct Open {
    // Closed first.
    fd: OwnedFd,
    _lease: Option<Lease>,
}

impl AsFd for Open {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
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

    /// One that came from a peer, which counts in its socket's quota as long as anybody has it open.
    ///
    /// # Errors
    /// [`Errno::INVAL`] if it is not an eventfd, [`Errno::NOTSUP`] if it is a semaphore: signalled once with a large number, such a
    /// one wakes whoever waits for as long. [`Errno::NOSYS`] before Linux 5.8.
    pub(crate) fn from_peer(fd: OwnedFd, lease: Option<Lease>) -> Result<Self, Errno> {
        // The kernel tells what a descriptor is by its link's name only.
        let name = rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
        if name.as_bytes() != b"anon_inode:[eventfd]" {
            return Err(Errno::INVAL);
        }
        if is_semaphore(&fd) {
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
        Ok(Self { open: Arc::new(Open { fd, _lease: lease }), writer: Mutex::default() })
    }

    /// Has everything there that it takes to signal, before the first packet wants it.
    pub(super) fn prepare(&self) {
        // Miri has no asynchronous I/O.
        if !cfg!(miri) && signals_by_kernel().is_err() {
            self.with_writer(|_| ());
        }
    }

    /// Wakes whoever waits.
    #[inline]
    pub fn signal(&self) {
        if !signal(self.open.as_fd()) {
            self.with_writer(Writer::signal);
        }
    }

    /// Where there can be no writer, nothing is signalled: a peer that sleeps with a time limit, as it should, is late.
    #[cold]
    fn with_writer(&self, then: impl FnOnce(&Writer)) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = writer.get(|| Writer::new(&self.open)) {
            then(writer);
        }
    }

    /// Takes the signal back; gives whether there was one.
    #[inline]
    pub fn clear(&self) -> bool {
        clear(self.open.as_fd())
    }

    /// Its descriptor, readable while signalled.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.open.as_fd()
    }
}

/// A writer, once there is one; where there can be none that is asked again from time to time, not with each signal: to ask takes a look at all
/// writers that are held up.
#[derive(Debug, Default)]
struct Signaller {
    writer: Option<Writer>,
    again: Option<Instant>,
}

impl Signaller {
    fn get(&mut self, make: impl FnOnce() -> Option<Writer>) -> Option<&Writer> {
        if self.writer.is_none() && self.again.is_none_or(|at| at <= Instant::now()) {
            self.writer = make();
            self.again = Some(Instant::now() + AGAIN);
        }
        self.writer.as_ref()
    }
}

/// Takes an eventfd's signal back; gives whether there was one.
pub(super) fn clear(event: BorrowedFd<'_>) -> bool {
    read_without_waiting(event, &mut [0; 8]).is_ok()
}

/// Not to wait is said with the call: O_NONBLOCK belongs to the peer as well.
fn read_without_waiting(event: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
    // An offset of -1 is none.
    preadv2(event, &mut [IoSliceMut::new(into)], u64::MAX, ReadWriteFlags::NOWAIT)
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

    #[test]
    fn a_writer_that_cannot_be_is_not_asked_for_with_each_signal() {
        let (mut signaller, mut asked) = (Signaller::default(), 0);
        for _ in 0..1000 {
            let writer = signaller.get(|| {
                asked += 1;
                None
            });
            assert!(writer.is_none());
        }
        // A machine that stands still for a second asks once more.
        assert!((1..100).contains(&asked), "{asked}");
        let before = asked;
        signaller.again = Some(Instant::now());
        let _ = signaller.get(|| {
            asked += 1;
            None
        });
        assert_eq!(asked, before + 1, "when it is time");
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
            let _ = done.send(Event::from_peer(theirs, None).map(|event| event.clear()));
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
        let event = Event::from_peer(eventfd(0, EventfdFlags::empty()).unwrap(), None).unwrap();
        assert!(!event.clear());
        rustix::io::write(event.fd(), &(u64::MAX - 1).to_ne_bytes()).unwrap();
        event.signal();
        assert!(event.clear());
        assert!(!event.clear());
    }

    #[test]
    fn what_is_not_an_eventfd_is_refused() {
        let (read_end, write_end) = rustix::pipe::pipe().unwrap();
        assert!(Event::from_peer(read_end, None).is_err());
        assert!(Event::from_peer(write_end, None).is_err());
    }

    /// A number of signals that are taken back one by one would keep us awake for years.
    #[test]
    fn hostile_semaphore_is_refused() {
        let semaphore = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE).unwrap();
        let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", semaphore.as_raw_fd())).unwrap();
        if facts.contains("eventfd-semaphore") {
            assert_eq!(Event::from_peer(semaphore, None).unwrap_err(), Errno::NOTSUP);
        }
    }
}
