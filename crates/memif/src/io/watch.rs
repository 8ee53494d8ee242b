//! A thread that waits for control sockets, for all that are served by [threads](super::channel).
//!
//! Not the set of the listener or client: that is watched by another one as a rule, and whoever adds to a set that is watched takes a lock of
//! the whole system (`epnested_mutex`), which any process can keep busy.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;

/// Sockets told to be ready at a time.
const BATCH: usize = 64;
/// Bytes of the thread's stack.
const STACK: usize = 64 << 10;

type Ready = Arc<dyn Fn() + Send + Sync>;

/// A socket that is watched until this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    number: u64,
}

struct Watcher {
    set: OwnedFd,
    sockets: Mutex<Sockets>,
}

#[derive(Default)]
struct Sockets {
    list: HashMap<u64, Ready>,
    last: u64,
}

impl Watch {
    /// Has `ready` called, by the thread that all share, once each time that the socket is [armed](Self::arm) and something is there. It must
    /// not take long.
    ///
    /// # Errors
    /// If the thread can't be had, or the kernel has no room for one more.
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        ready: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Errno> {
        let watcher = watcher()?;
        let mut sockets = watcher.sockets();
        sockets.last += 1;
        let number = sockets.last;
        epoll::add(&watcher.set, socket, epoll::EventData::new_u64(number), EventFlags::ONESHOT)?;
        sockets.list.insert(number, Arc::new(ready));
        Ok(Self { number })
    }

    /// Tells of what is next: that there is something to receive, or only that there will never be.
    pub(super) fn arm(&self, socket: BorrowedFd<'_>, flags: EventFlags) {
        if let Ok(watcher) = watcher() {
            let data = epoll::EventData::new_u64(self.number);
            // Can't fail: the socket is in the set, and nothing is allocated.
            let _ = epoll::modify(&watcher.set, socket, data, flags | EventFlags::ONESHOT);
        }
    }

    /// Takes the socket out, before it is closed: that may take a while, and others may have it.
    pub(super) fn end(&self, socket: BorrowedFd<'_>) {
        if let Ok(watcher) = watcher() {
            let _ = epoll::delete(&watcher.set, socket);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Ok(watcher) = watcher() {
            watcher.sockets().list.remove(&self.number);
        }
    }
}

impl Watcher {
    fn sockets(&self) -> MutexGuard<'_, Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(BATCH);
        loop {
            events.clear();
            match epoll::wait(&self.set, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                // Nothing else that it can say of a set of its own.
                Err(_) => return,
            }
            for event in &events {
                let ready = self.sockets().list.get(&event.data.u64()).cloned();
                ready.iter().for_each(|ready| ready());
            }
        }
    }
}

/// The one of the process; tried again as long as there is none.
fn watcher() -> Result<&'static Watcher, Errno> {
    static WATCHER: OnceLock<Watcher> = OnceLock::new();
    static BEGINS: Mutex<()> = Mutex::new(());
    if let Some(watcher) = WATCHER.get() {
        return Ok(watcher);
    }
    let _one = BEGINS.lock().unwrap_or_else(PoisonError::into_inner);
    if WATCHER.get().is_none() {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (begin, begun) = std::sync::mpsc::channel::<&'static Watcher>();
        let thread = std::thread::Builder::new().name("memif-watch".into()).stack_size(STACK);
        let run = move || begun.recv().into_iter().for_each(Watcher::run);
        thread.spawn(run).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        let watcher = WATCHER.get_or_init(|| Watcher { set, sockets: Mutex::default() });
        let _ = begin.send(watcher);
    }
    WATCHER.get().ok_or(Errno::AGAIN)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

    use super::*;

    #[test]
    fn a_socket_is_told_of_once_each_time_that_it_is_armed() {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let (tell, told) = channel();
        let watch = Watch::new(ours.as_fd(), move || tell.send(()).unwrap()).unwrap();
        send(&theirs, &[1], SendFlags::empty()).unwrap();
        for _ in 0..3 {
            assert!(told.recv_timeout(Duration::from_millis(20)).is_err(), "not armed");
            watch.arm(ours.as_fd(), EventFlags::IN);
            told.recv_timeout(Duration::from_secs(60)).expect("there is something");
        }
        watch.arm(ours.as_fd(), EventFlags::RDHUP);
        assert!(told.recv_timeout(Duration::from_millis(20)).is_err(), "it hasn't ended");
        drop(theirs);
        told.recv_timeout(Duration::from_secs(60)).expect("it has ended");
        watch.end(ours.as_fd());
        watch.arm(ours.as_fd(), EventFlags::IN);
        assert!(told.recv_timeout(Duration::from_millis(20)).is_err(), "it is not watched any more");
    }
}
