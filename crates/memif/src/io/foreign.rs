//! Descriptors from peers that are neither memory nor eventfds.
//!
//! Merely closing one can take as long as its owner likes: the last close of a TCP socket waits for its linger
//! time, every close of a file in user space for its server. What isn't known to be harmless is never touched by the thread that serves
//! the sockets: another thread [disposes](super::disposal) of it, and something of ours takes its place, that is refused for the same
//! reason. Nothing else can be done with such a file: even to ask what file system it is of (`fstatfs`) would ask its server, whereas
//! only memory has seals, and the kernel alone answers for these.
//!
//! Memory is harmless to look at; to map it is [others'](super::mapping). Its last close takes as long as its pages take to be freed, which
//! may be seconds, that of an eventfd as long as it takes to call all who wait for it: what of these is refused is closed by the other thread, too.
//!
//! What is in a message that nobody reads goes with the socket that it waits in, or in the call that has no space for it, in the
//! thread that does so; so these are closed elsewhere as well.
//!
//! Whatever is to be closed counts against the [origin](Origin) that has sent it from the moment on that it waits, by descriptors: beyond
//! its share an origin is turned away, and nothing more is taken from the connections that it has, until enough of it is closed. It has one
//! thread at a time ([errands](Errands)), so that only its own closes wait for one that hangs. What peers cost us is bounded by that,
//! however often they come back: threads by their number, of as many origins; descriptors of an origin by [`Bounds`], one message and the
//! sockets of its connections; descriptors of all by [`Bounds`] as well, of one socket and of all sockets of the process, beyond which nobody is accepted at that socket
//! (at any) and nothing is taken.
//!
//! A process that is forked meanwhile has them too, as it has all descriptors until its `execve`, which may then take as long as their last
//! close. That is its time, not ours; who starts programs and serves peers that may do this has another process start them.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::fs::fcntl_get_seals;
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::credentials::Origin;
use super::disposal::dispose;
use super::errands::Errands;
use super::line::Rest;
use super::process;

/// Descriptors on their way out of all sockets of the process.
#[derive(Debug, Clone, Copy)]
struct Total(&'static AtomicUsize);

impl Default for Total {
    fn default() -> Self {
        static OF_PROCESS: AtomicUsize = AtomicUsize::new(0);
        Self(&OF_PROCESS)
    }
}

/// How many descriptors may be on their way out, sockets in which messages were left among them.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Of all sockets, before nobody is accepted any more at any.
    of_process: usize,
    /// Of one socket, before nobody is accepted any more: what 25 origins can have that all send as much as they may. At most half of the
    /// process's, to which a socket counts with no more than this, whatever its last message brought: so that none stops the others.
    most: usize,
    /// Of one origin, before it must not send more.
    share: usize,
}

impl Bounds {
    /// Where the process may have enough of them.
    const USUAL: Self = Self { of_process: usize::MAX, most: 8192, share: 64 };

    /// By how many the process may open.
    fn within(may_open: usize) -> Self {
        let of_process = process::for_closing(may_open).max(1);
        let most = (of_process / 2).clamp(1, Self::USUAL.most);
        Self { of_process, most, share: (most / 8).clamp(1, Self::USUAL.share) }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self::within(process::may_open())
    }
}

/// What the peers of a socket have sent, on its way out, and the origin whose this is.
#[derive(Debug, Clone)]
pub(super) struct Closing {
    all: Arc<Mutex<Leaving>>,
    errands: Errands,
    origin: Origin,
    bounds: Bounds,
}

/// How many descriptors wait, or are just being closed.
#[derive(Debug, Default)]
struct Leaving {
    by_origin: HashMap<Origin, usize>,
    /// Of all.
    held: usize,
    total: Total,
}

impl Default for Closing {
    fn default() -> Self {
        let (all, origin, bounds) = Default::default();
        Self { all, errands: Errands::new("memif-close"), origin, bounds }
    }
}

impl Leaving {
    /// So many are on their way out now, of which no more than `most` count to the process's.
    fn hold(&mut self, held: usize, most: usize) {
        let (before, after) = (self.held.min(most), held.min(most));
        self.held = held;
        // Wraps to the difference where it is less.
        self.total.0.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }
}

impl Closing {
    /// For what comes from there.
    pub(super) fn of(&self, origin: Origin) -> Self {
        Self { origin, ..self.clone() }
    }

    /// Whether so much of this origin waits that it must not send more.
    pub(super) fn is_beyond_share(&self) -> bool {
        self.look().by_origin.get(&self.origin).is_some_and(|held| *held >= self.bounds.share)
    }

    /// Whether there is an origin of which so much waits.
    pub(super) fn is_anybody_beyond_share(&self) -> bool {
        self.look().by_origin.values().any(|held| *held >= self.bounds.share)
    }

    /// Whether so much of all waits that nobody must send more.
    pub(super) fn is_full(&self) -> bool {
        let leaving = self.look();
        leaving.held >= self.bounds.most || leaving.total.0.load(Ordering::Relaxed) >= self.bounds.of_process
    }

    fn look(&self) -> MutexGuard<'_, Leaving> {
        self.go_on();
        lock(&self.all)
    }

    /// Closes it, which holds so many descriptors, on another thread.
    pub(super) fn close(&self, what: impl Send + 'static, descriptors: usize) {
        let share = self.hold(descriptors);
        self.errands.run(self.origin, move || {
            // After it, also where that panics.
            let _share = share;
            drop(what);
        });
    }

    /// A socket is on its way out. Its origin may have many of these: it counts with those of all only.
    pub(super) fn hold_socket(&self) -> Share {
        self.hold_for(None, 1)
    }

    /// So many descriptors are on their way out from now on.
    pub(super) fn hold(&self, descriptors: usize) -> Share {
        self.hold_for(Some(self.origin), descriptors)
    }

    fn hold_for(&self, origin: Option<Origin>, descriptors: usize) -> Share {
        let (all, most) = (Arc::clone(&self.all), self.bounds.most);
        let mut leaving = lock(&all);
        let held = leaving.held + descriptors;
        leaving.hold(held, most);
        if let Some(origin) = origin {
            *leaving.by_origin.entry(origin).or_default() += descriptors;
        }
        drop(leaving);
        Share { all, origin, most, descriptors }
    }

    /// Why no thread can be started that there should be.
    pub(super) fn failed(&self) -> Option<Errno> {
        self.errands.failed()
    }

    /// Looks for a thread where there could be none before.
    pub(super) fn go_on(&self) {
        self.errands.go_on();
    }

    /// When [`go_on`](Self::go_on) is due, as there should be one thread more.
    pub(super) fn due(&self) -> Option<Instant> {
        self.errands.due()
    }

    #[cfg(test)]
    fn done(&self) -> bool {
        self.errands.done()
    }
}

/// Descriptors that are on their way out, until this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    all: Arc<Mutex<Leaving>>,
    /// In whose share they count.
    origin: Option<Origin>,
    most: usize,
    descriptors: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut leaving = lock(&self.all);
        let held = leaving.held - self.descriptors;
        leaving.hold(held, self.most);
        let Some(origin) = self.origin else { return };
        if let Some(held) = leaving.by_origin.get_mut(&origin) {
            *held -= self.descriptors;
            if *held == 0 {
                leaving.by_origin.remove(&origin);
            }
        }
    }
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
            self.closing.close(socket, 1);
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
) -> Result<Taken, Errno> {
    let (mut taken, mut foreign) = (Vec::new(), Vec::new());
    for fd in fds {
        if is_eventfd(fd.as_fd()) || is_memory(&fd) {
            taken.push(Ok((fd, true)));
        } else {
            foreign.push(fd);
            taken.push(fcntl_dupfd_cloexec(stand_in, 0).map(|fd| (fd, false)));
        }
    }
    if !foreign.is_empty() {
        let descriptors = foreign.len();
        closing.close(Foreign(foreign), descriptors);
    }
    let mut failed = None;
    let fds = taken.into_iter().filter_map(|fd| fd.map_err(|errno| failed = Some(errno)).ok()).collect();
    let taken = Taken { fds, closing: closing.clone() };
    failed.map_or(Ok(taken), Err)
}

/// The descriptors of a message, until it is known what becomes of them: what is refused is closed elsewhere.
#[derive(Debug)]
pub(super) struct Taken {
    /// Each with whether it is the peer's, and not in the place of one.
    fds: Vec<(OwnedFd, bool)>,
    closing: Closing,
}

impl Taken {
    pub(super) fn len(&self) -> usize {
        self.fds.len()
    }

    /// Others for the same, whose close is not the last.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub(super) fn lend(&self) -> Result<Vec<OwnedFd>, Errno> {
        self.fds.iter().map(|(fd, _)| fcntl_dupfd_cloexec(fd, 0)).collect()
    }

    /// Whoever they were lent to has kept them.
    pub(super) fn accepted(mut self) {
        self.fds.clear();
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let refused: Vec<_> = self.fds.extract_if(.., |(_, theirs)| *theirs).collect();
        if !refused.is_empty() {
            let descriptors = refused.len();
            self.closing.close(refused, descriptors);
        }
    }
}

/// Only memory has seals.
fn is_memory(fd: &OwnedFd) -> bool {
    fcntl_get_seals(fd).is_ok()
}

/// Whether it is an eventfd. The kernel tells what a descriptor is by its link's name only.
fn is_eventfd(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())
        .is_ok_and(|name| name.as_bytes() == b"anon_inode:[eventfd]")
}

#[cfg(test)]
mod tests;
