//! Descriptors from peers that are neither memory nor eventfds.
//!
//! Merely closing one can take as long as its owner likes: the last close of a TCP socket waits for its linger
//! time, every close of a file in user space for its server. A socket is told not to linger. And what isn't known to be
//! harmless is never touched by the thread that serves the sockets: another thread closes it, and something of ours takes its
//! place, that is refused for the same reason.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::fcntl_get_seals;
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// Most threads that wait for a close at a time. What comes then stays open: a leak, but one that its sender has
/// to hold this many hanging descriptors for.
const MAX_CLOSERS: usize = 32;

static CLOSERS: AtomicUsize = AtomicUsize::new(0);

/// The descriptor if it is memory (a file that has seals) or an eventfd, otherwise a duplicate of `stand_in`.
///
/// # Errors
/// If there is no descriptor left for the duplicate.
pub(super) fn harmless(fd: OwnedFd, stand_in: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    if is_eventfd(fd.as_fd()) || fcntl_get_seals(&fd).is_ok() {
        return Ok(fd);
    }
    close_elsewhere(fd);
    fcntl_dupfd_cloexec(stand_in, 0)
}

/// Whether it is an eventfd. The kernel tells what a descriptor is by its link's name only.
fn is_eventfd(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())
        .is_ok_and(|name| name.as_bytes() == b"anon_inode:[eventfd]")
}

fn close_elsewhere(fd: OwnedFd) {
    // Fails where it is no socket. Whoever still has the socket can ask for it again, but then our close isn't the last.
    let _ = rustix::net::sockopt::set_socket_linger(&fd, None);
    if CLOSERS.fetch_add(1, Ordering::Relaxed) >= MAX_CLOSERS {
        CLOSERS.fetch_sub(1, Ordering::Relaxed);
        std::mem::forget(fd);
        return;
    }
    // Where there can be no thread, the closure and the descriptor with it are dropped here.
    let spawned = std::thread::Builder::new().name("memif-close".into()).spawn(move || {
        drop(fd);
        CLOSERS.fetch_sub(1, Ordering::Relaxed);
    });
    if spawned.is_err() {
        CLOSERS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn memory_and_eventfds_are_let_through() {
        let (stand_in, _) = rustix::pipe::pipe().unwrap();
        let memory = rustix::fs::memfd_create("m", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        for fd in [memory, event] {
            let number = fd.as_raw_fd();
            assert_eq!(harmless(fd, stand_in.as_fd()).unwrap().as_raw_fd(), number);
        }
    }

    /// One with unread data, that would linger for a day, and its other end.
    fn lingering() -> (TcpStream, TcpStream) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let (never_read, _) = server.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        while socket.write(&[0; 1 << 16]).is_ok() {}
        socket.set_nonblocking(false).unwrap();
        rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::from_secs(86_400))).unwrap();
        (socket, never_read)
    }

    #[test]
    fn sockets_that_would_linger_are_closed_however_many_they_are() {
        let (stand_in, _) = rustix::pipe::pipe().unwrap();
        let started = Instant::now();
        let mut ends = Vec::new();
        for _ in 0..2 * MAX_CLOSERS {
            let (socket, end) = lingering();
            let instead = harmless(socket.into(), stand_in.as_fd()).unwrap();
            assert!(!is_eventfd(instead.as_fd()) && fcntl_get_seals(&instead).is_err());
            ends.push(end);
            while CLOSERS.load(Ordering::Relaxed) > 0 {
                assert!(started.elapsed() < Duration::from_secs(60), "it lingers");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
