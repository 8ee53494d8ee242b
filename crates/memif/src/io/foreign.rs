//! Descriptors from peers that are neither memory nor eventfds.
//!
//! Merely closing one can take as long as its owner likes: the last close of a TCP socket waits for its linger
//! time, every close of a file in user space for its server. A socket is told not to linger. And what isn't known to be
//! harmless is never touched by the thread that serves the sockets: another thread closes it, and something of ours takes its
//! place, that is refused for the same reason. Nothing else can be done with such a file: even to ask what file system it is of
//! (`fstatfs`) would ask its server, whereas only memory has seals, and the kernel alone answers for these.
//!
//! What is in a message that nobody reads goes with the socket that it waits in, or in the call that has no space for it, in the
//! thread that does so; so these are closed elsewhere as well.
//!
//! Closes that hang are the business of the socket whose peers have sent the descriptors: while too many of them are waited for, nobody
//! is accepted there. So peers cost us a number of threads at most, however often they come back, and other sockets nothing.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::fcntl_get_seals;
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::channel::Rest;

/// Most threads that close for one socket.
const CLOSERS: usize = 8;
/// What may wait for them before nobody is accepted any more.
const WAITING: usize = 24;

/// What the peers of a socket have sent, on its way out.
#[derive(Debug, Clone, Default)]
pub(super) struct Closing(Arc<Mutex<Leaving>>);

/// Dropped by a closer, whatever it is.
type Held = Box<dyn Send>;

#[derive(Default)]
struct Leaving {
    waiting: VecDeque<Held>,
    closers: usize,
}

impl std::fmt::Debug for Leaving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaving")
            .field("waiting", &self.waiting.len())
            .field("closers", &self.closers)
            .finish()
    }
}

impl Closing {
    /// Whether so much waits that its senders must not send more: closes hang, or peers are faster than we are.
    pub(super) fn hangs(&self) -> bool {
        let mut leaving = lock(&self.0);
        if leaving.closers == 0 && !leaving.waiting.is_empty() {
            self.employ(&mut leaving);
        }
        leaving.waiting.len() >= WAITING
    }

    /// Closes it on another thread.
    fn close(&self, held: impl Send + 'static) {
        let mut leaving = lock(&self.0);
        leaving.waiting.push_back(Box::new(held));
        if leaving.closers < CLOSERS {
            self.employ(&mut leaving);
        }
    }

    /// One more closer. Where there can be no thread it waits for the next that can, which is asked for again.
    fn employ(&self, leaving: &mut Leaving) {
        let all = Arc::clone(&self.0);
        let closer = move || {
            while let Some(one) = next(&all) {
                drop(one);
            }
        };
        if std::thread::Builder::new().name("memif-close".into()).spawn(closer).is_ok() {
            leaving.closers += 1;
        }
    }

    #[cfg(test)]
    fn done(&self) -> bool {
        lock(&self.0).closers == 0
    }
}

/// What to close next; `None` ends the closer.
fn next(all: &Mutex<Leaving>) -> Option<Held> {
    let mut leaving = lock(all);
    let one = leaving.waiting.pop_front();
    leaving.closers -= usize::from(one.is_none());
    one
}

fn lock(leaving: &Mutex<Leaving>) -> MutexGuard<'_, Leaving> {
    leaving.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last hold on a socket in which something may be left, to be closed elsewhere.
#[derive(Debug)]
pub(super) struct Departing {
    closing: Closing,
    socket: Option<Rest>,
}

impl Departing {
    pub(super) fn new(closing: &Closing) -> Self {
        Self { closing: closing.clone(), socket: None }
    }

    /// Whose other holds are dropped before this.
    pub(super) fn last(&mut self, socket: Rest) {
        self.socket = Some(socket);
    }
}

impl Drop for Departing {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take() {
            self.closing.close(socket);
        }
    }
}

/// The descriptor if it is memory (a file that has seals) or an eventfd, otherwise a duplicate of `stand_in`.
///
/// # Errors
/// If there is no descriptor left for the duplicate.
pub(super) fn harmless(fd: OwnedFd, stand_in: BorrowedFd<'_>, closing: &Closing) -> Result<OwnedFd, Errno> {
    if is_eventfd(fd.as_fd()) || fcntl_get_seals(&fd).is_ok() {
        return Ok(fd);
    }
    // Fails where it is no socket. Whoever still has the socket can ask for it again, but then our close isn't the last.
    let _ = rustix::net::sockopt::set_socket_linger(&fd, None);
    closing.close(fd);
    fcntl_dupfd_cloexec(stand_in, 0)
}

/// Whether it is an eventfd. The kernel tells what a descriptor is by its link's name only.
fn is_eventfd(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())
        .is_ok_and(|name| name.as_bytes() == b"anon_inode:[eventfd]")
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
            assert_eq!(harmless(fd, stand_in.as_fd(), &Closing::default()).unwrap().as_raw_fd(), number);
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
        let (started, closing) = (Instant::now(), Closing::default());
        let mut ends = Vec::new();
        for _ in 0..64 {
            let (socket, end) = lingering();
            let instead = harmless(socket.into(), stand_in.as_fd(), &closing).unwrap();
            assert!(!is_eventfd(instead.as_fd()) && fcntl_get_seals(&instead).is_err());
            ends.push(end);
            while !closing.done() {
                assert!(started.elapsed() < Duration::from_secs(60), "it lingers");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
