//! eventfds, by which a producer wakes a sleeping consumer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, write};

/// A non-blocking eventfd.
#[derive(Debug)]
pub struct Event {
    fd: OwnedFd,
}

impl Event {
    /// A new one, not signalled.
    ///
    /// # Errors
    /// If the system or the process is out of descriptors.
    pub fn new() -> Result<Self, Errno> {
        Ok(Self { fd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)? })
    }

    /// One that came from a peer: made non-blocking, refused if it is not an eventfd (a pipe, say, would let the peer
    /// decide how long our write takes).
    ///
    /// # Errors
    /// [`Errno::INVAL`] if it is not an eventfd.
    pub fn from_peer(fd: OwnedFd) -> Result<Self, Errno> {
        // The kernel tells what a descriptor is by its link name only.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        let name = rustix::fs::readlink(path, Vec::new())?;
        if name.as_bytes() != b"anon_inode:[eventfd]" {
            return Err(Errno::INVAL);
        }
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        Ok(Self { fd })
    }

    /// Wakes whoever waits. A full counter means that it has been woken often enough.
    #[inline]
    pub fn signal(&self) {
        let _ = write(&self.fd, &1_u64.to_ne_bytes());
    }

    /// Takes the signal back; gives whether there was one.
    #[inline]
    pub fn clear(&self) -> bool {
        read(&self.fd, &mut [0; 8]).is_ok()
    }

    /// Its descriptor, readable while signalled.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_and_clears() {
        let event = Event::new().unwrap();
        assert!(!event.clear());
        event.signal();
        event.signal();
        assert!(event.clear());
        assert!(!event.clear());
    }

    #[test]
    fn a_full_counter_does_not_block() {
        let theirs = eventfd(0, EventfdFlags::empty()).unwrap();
        let event = Event::from_peer(theirs).unwrap();
        write(event.fd(), &(u64::MAX - 1).to_ne_bytes()).unwrap();
        event.signal();
        assert!(event.clear());
    }

    #[test]
    fn what_is_not_an_eventfd_is_refused() {
        let (read_end, write_end) = rustix::pipe::pipe().unwrap();
        assert!(Event::from_peer(read_end).is_err());
        assert!(Event::from_peer(write_end).is_err());
    }
}
