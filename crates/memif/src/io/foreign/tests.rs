use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::super::errands::THREADS;
use super::*;
use crate::io::testing::eventually;

const MOST: usize = Bounds::USUAL.most;
const SHARE: usize = Bounds::USUAL.share;

fn origin(pid: u32) -> Origin {
    Origin::Process(pid)
}

/// Whatever this process may have, and whatever other tests do.
fn usual() -> Closing {
    bounded(Bounds::USUAL, Box::leak(Box::default()))
}

fn bounded(bounds: Bounds, total: &'static AtomicUsize) -> Closing {
    let leaving = Leaving { total: Total(total), ..Leaving::default() };
    Closing { all: Arc::new(Mutex::new(leaving)), bounds, ..Closing::default() }
}

/// A quarter of what the process may have, of all sockets together; the clients' regions and rings have another, the application half.
#[test]
fn bounds_are_in_proportion_to_the_limit() {
    let all = [
        (0, 1, 1, 1),
        (256, 64, 32, 4),
        (1024, 256, 128, 16),
        (20_000, 5000, 2500, 64),
        (usize::MAX, usize::MAX / 4, 8192, 64),
    ];
    for (limit, of_process, most, share) in all {
        let bounds = Bounds::within(limit);
        assert_eq!((bounds.of_process, bounds.most, bounds.share), (of_process, most, share), "{limit}");
    }
}

/// What hangs at two sockets stops a third as well, before it could use up the process's descriptors.
#[test]
fn hostile_closes_at_all_sockets_have_one_bound() {
    static TOTAL: AtomicUsize = AtomicUsize::new(0);
    let bounds = Bounds { of_process: 100, most: 50, share: 100 };
    let socket = || bounded(bounds, &TOTAL);
    let (one, other, third) = (socket(), socket(), socket());
    // What one of them has beyond its own bound doesn't count: it alone stops nobody else.
    let ends = (one.hang_with(253), other.hang_with(49));
    assert!(one.is_full() && !other.is_full() && !third.is_full());
    let last = other.hang_with(1);
    assert!(third.is_full());
    drop((ends, last));
    eventually("all are closed", || one.done() && other.done());
    assert!(!third.is_full());
    assert_eq!(TOTAL.load(Ordering::Relaxed), 0);
}

/// Its pages are freed by whoever closes it last.
#[test]
fn hostile_memory_that_is_refused_is_closed_elsewhere() {
    let closing = usual();
    let end = closing.hang();
    let memory = rustix::fs::memfd_create("quiver-refused", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let (stand_in, _end) = rustix::pipe::pipe().unwrap();
    let is_open = || {
        let fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        fds.filter_map(|fd| std::fs::read_link(fd.path()).ok())
            .any(|name| name.to_string_lossy().contains("quiver-refused"))
    };
    let taken = harmless([memory], stand_in.as_fd(), &closing).unwrap();
    drop(taken.lend().unwrap());
    drop(taken);
    assert!(is_open(), "nobody has closed it but the one who hangs");
    drop(end);
    eventually("it is closed", || closing.done());
    assert!(!is_open());
}

/// Hangs when it is dropped, until the other end is.
struct Hangs(Receiver<()>);

impl Drop for Hangs {
    fn drop(&mut self) {
        let _ = self.0.recv();
    }
}

impl Closing {
    /// Something of one descriptor whose close hangs until what this gives is dropped.
    pub(in crate::io) fn hang(&self) -> Sender<()> {
        self.hang_with(1)
    }

    /// The same, of so many.
    pub(in crate::io) fn hang_with(&self, descriptors: usize) -> Sender<()> {
        let (end, hangs) = channel();
        self.close(Hangs(hangs), descriptors);
        end
    }
}

#[test]
fn memory_and_eventfds_are_let_through() {
    let (stand_in, write_end) = rustix::pipe::pipe().unwrap();
    let memory = rustix::fs::memfd_create("m", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let numbers = [&memory, &event].map(AsRawFd::as_raw_fd);
    let closing = usual();
    let all = harmless([memory, write_end, event], stand_in.as_fd(), &closing).unwrap();
    let taken = &all.fds;
    assert_eq!([&taken[0].0, &taken[2].0].map(AsRawFd::as_raw_fd), numbers);
    assert!(!is_eventfd(taken[1].0.as_fd()) && fcntl_get_seals(&taken[1].0).is_err());
    eventually("the other is closed", || closing.done());
    assert_eq!(rustix::io::read(&stand_in, &mut [0; 1]), Ok(0), "nobody writes to the pipe any more");
}

/// One origin whose closes hang for ever: it is turned away, at once, and what others send is closed as ever.
#[test]
fn hostile_origin_uses_up_its_own_share_only() {
    let all = usual();
    let (bad, good) = (all.of(origin(1)), all.of(origin(2)));
    let mut ends = Vec::new();
    ends.extend((1..SHARE).map(|_| bad.hang()));
    assert!(!bad.is_beyond_share(), "it may have so many");
    ends.push(bad.hang());
    assert!(bad.is_beyond_share() && !good.is_beyond_share());
    assert_eq!(all.errands.at_work().0, 1);
    ends.extend((SHARE..MOST - 1).map(|_| bad.hang()));
    assert!(!all.is_full());
    for _ in 0..100 {
        drop(good.hang());
        eventually("others are served", || !lock(&all.all).by_origin.contains_key(&origin(2)));
    }
    // The last resort.
    ends.push(bad.hang());
    assert!(all.is_full());
    drop(ends);
    eventually("all are closed", || all.done());
    assert!(!bad.is_beyond_share() && !all.is_full());
    assert_eq!(lock(&all.all).held, 0);
}

/// Not messages: one can have more than the share.
#[test]
fn hostile_descriptors_are_counted_each() {
    let all = usual();
    let one = all.of(origin(1));
    let first = one.hang_with(SHARE - 1);
    assert!(!one.is_beyond_share());
    let second = one.hang_with(2);
    assert!(one.is_beyond_share());
    assert_eq!(lock(&all.all).held, SHARE + 1);
    drop(first);
    eventually("the first is closed", || !one.is_beyond_share());
    drop(second);
    eventually("all are closed", || all.done());
}

/// As many origins as there were closers once, and far more: each has its own, so that nobody waits for others, up to a number.
#[test]
fn hostile_origins_by_the_hundred_have_one_thread_each() {
    let all = usual();
    let mut ends = Vec::new();
    let mut number = 0;
    let mut more = |count: usize| {
        for _ in 0..count {
            number += 1;
            ends.extend((0..3).map(|_| all.of(origin(number)).hang()));
        }
        std::mem::take(&mut ends)
    };
    let served = || all.errands.at_work().1;
    let mut hang = more(THREADS - 1);
    eventually("each is at work", || served() == THREADS - 1);
    for _ in 0..100 {
        drop(all.hang());
        eventually("there is one left", || lock(&all.all).by_origin.len() == THREADS - 1);
    }
    hang.extend(more(THREADS));
    eventually("as many are closed as may be", || served() == THREADS);
    assert_eq!(all.errands.at_work().0, THREADS);
    assert!(!all.is_full());
    drop(hang);
    eventually("the others come to their turn", || all.done());
}

/// In a process of its own, whose limit is its own.
#[test]
fn a_closer_that_cannot_be_had_is_asked_for_again() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    if std::env::var_os("QUIVER_TEST_CLOSERS").is_none() {
        let name = "io::foreign::tests::a_closer_that_cannot_be_had_is_asked_for_again";
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env("QUIVER_TEST_CLOSERS", "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let closing = usual();
    let usual = getrlimit(Resource::As);
    // No memory for another thread's stack.
    setrlimit(Resource::As, Rlimit { current: Some(1), ..usual }).unwrap();
    drop(closing.hang());
    let closers = closing.errands.at_work().0;
    setrlimit(Resource::As, usual).unwrap();
    assert_eq!((closers, closing.done()), (0, false));
    let due = closing.due().unwrap();
    assert!(!closing.is_full());
    assert_eq!(closing.due(), Some(due), "not at each look");
    eventually("it is closed once that is due", || {
        closing.go_on();
        closing.done()
    });
    assert!(Instant::now() >= due);
}
