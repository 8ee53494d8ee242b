//! Descriptors from peers that are neither memory nor eventfds.
//!
//! Merely closing one can take as long as its owner likes: the last close of a TCP socket waits for its linger
//! time, every close of a file in user space for its server. What isn't known to be harmless is never touched by the thread that serves
//! the sockets: another thread [disposes](super::disposal) of it, and something of ours takes its place, that is refused for the same
//! reason. Nothing else can be done with such a file: even to ask what file system it is of (`fstatfs`) would ask its server, whereas
//! only memory has seals, and the kernel alone answers for these.
//!
//! What is in a message that nobody reads goes with the socket that it waits in, or in the call that has no space for it, in the
//! thread that does so; so these are closed elsewhere as well.
//!
//! Closes that hang are the business of the [origin](Origin) that has sent the descriptors: it has a thread to itself, and where too many
//! of its closes wait it is turned away. Only where all of them together are too many is nobody accepted at that socket. So peers cost us
//! a number of threads and descriptors at most, however often they come back, and each other nothing.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::fcntl_get_seals;
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::channel::Rest;
use super::credentials::Origin;
use super::disposal::dispose;

/// Most threads that close for one socket; each for another origin.
const CLOSERS: usize = 16;
/// What of one origin may be on its way out, messages and sockets in which some were left, while closing it hangs.
const SHARE: usize = 8;
/// A close that takes longer hangs.
const HANGS: Duration = Duration::from_secs(1);
/// What of all may be on its way out before nobody is accepted any more.
const MOST: usize = 1024;

/// What the peers of a socket have sent, on its way out, and the origin whose this is.
#[derive(Debug, Clone, Default)]
pub(super) struct Closing {
    all: Arc<Mutex<Leaving>>,
    origin: Origin,
}

/// Dropped by a closer, whatever it is.
type Held = Box<dyn Send>;

#[derive(Default)]
struct Leaving {
    by_origin: HashMap<Origin, Account>,
    closers: usize,
}

#[derive(Default)]
struct Account {
    waiting: VecDeque<Held>,
    /// Since when a closer is at one of it.
    served: Option<Instant>,
}

impl Account {
    fn held(&self) -> usize {
        self.waiting.len() + usize::from(self.served.is_some())
    }

    fn hangs(&self) -> bool {
        self.held() >= SHARE && self.served.is_some_and(|since| since.elapsed() >= HANGS)
    }

    fn wants_closer(&self) -> bool {
        self.served.is_none() && !self.waiting.is_empty()
    }
}

impl std::fmt::Debug for Leaving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaving").field("held", &self.held()).field("closers", &self.closers).finish()
    }
}

impl Leaving {
    fn held(&self) -> usize {
        self.by_origin.values().map(Account::held).sum()
    }
}

impl Closing {
    /// For what comes from there.
    pub(super) fn of(&self, origin: Origin) -> Self {
        Self { all: Arc::clone(&self.all), origin }
    }

    /// Whether so much of this origin waits for a close that hangs that it must not send more.
    pub(super) fn hangs(&self) -> bool {
        self.look().by_origin.get(&self.origin).is_some_and(Account::hangs)
    }

    /// Whether so much of all waits that nobody must send more.
    pub(super) fn is_full(&self) -> bool {
        self.look().held() >= MOST
    }

    /// Looks for closers where there could be none before.
    fn look(&self) -> MutexGuard<'_, Leaving> {
        let mut leaving = lock(&self.all);
        if leaving.by_origin.values().any(Account::wants_closer) {
            self.employ(&mut leaving);
        }
        leaving
    }

    /// Closes it on another thread.
    fn close(&self, held: impl Send + 'static) {
        let mut leaving = lock(&self.all);
        let account = leaving.by_origin.entry(self.origin).or_default();
        account.waiting.push_back(Box::new(held));
        if account.wants_closer() {
            self.employ(&mut leaving);
        }
    }

    /// One more closer. Where there can be no thread it waits for the next that can, which is asked for again.
    fn employ(&self, leaving: &mut Leaving) {
        if leaving.closers == CLOSERS {
            return;
        }
        let all = Arc::clone(&self.all);
        let closer = move || {
            let mut done = None;
            while let Some((origin, one)) = next(&all, done) {
                drop(one);
                done = Some(origin);
            }
        };
        if std::thread::Builder::new().name("memif-close".into()).spawn(closer).is_ok() {
            leaving.closers += 1;
        }
    }

    #[cfg(test)]
    fn done(&self) -> bool {
        lock(&self.all).by_origin.is_empty()
    }
}

/// What to close next, of an origin that no other closer is at; `None` ends the closer. `done`: whose it has closed before.
fn next(all: &Mutex<Leaving>, done: Option<Origin>) -> Option<(Origin, Held)> {
    let mut leaving = lock(all);
    if let Some(done) = done
        && let Some(account) = leaving.by_origin.get_mut(&done)
    {
        account.served = None;
        if account.waiting.is_empty() {
            leaving.by_origin.remove(&done);
        }
    }
    let one = leaving.by_origin.iter_mut().find(|(_, account)| account.wants_closer());
    let one = one.and_then(|(origin, account)| {
        account.served = Some(Instant::now());
        Some((*origin, account.waiting.pop_front()?))
    });
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

/// Descriptors that nobody asked for.
#[derive(Debug)]
struct Foreign(Vec<OwnedFd>);

impl Drop for Foreign {
    fn drop(&mut self) {
        self.0.drain(..).for_each(dispose);
    }
}

/// The descriptors of a message; instead of each that is neither memory (a file that has seals) nor an eventfd a duplicate of `stand_in`.
///
/// # Errors
/// If there is no descriptor left for a duplicate.
pub(super) fn harmless(
    fds: impl IntoIterator<Item = OwnedFd>,
    stand_in: BorrowedFd<'_>,
    closing: &Closing,
) -> Result<Vec<OwnedFd>, Errno> {
    let (mut taken, mut foreign) = (Vec::new(), Vec::new());
    for fd in fds {
        if is_eventfd(fd.as_fd()) || fcntl_get_seals(&fd).is_ok() {
            taken.push(Ok(fd));
        } else {
            foreign.push(fd);
            taken.push(fcntl_dupfd_cloexec(stand_in, 0));
        }
    }
    if !foreign.is_empty() {
        closing.close(Foreign(foreign));
    }
    taken.into_iter().collect()
}

/// Whether it is an eventfd. The kernel tells what a descriptor is by its link's name only.
fn is_eventfd(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())
        .is_ok_and(|name| name.as_bytes() == b"anon_inode:[eventfd]")
}

#[cfg(test)]
mod tests;
