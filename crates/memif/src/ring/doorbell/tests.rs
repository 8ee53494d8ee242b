//! A link whose server has a doorbell, in one process with its peer.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, dup, write};

use super::super::sandbox::without;
use super::super::{Armed, Event, RingSize, signals_by_kernel};
use super::{Costs, Doorbell, DoorbellSettings, Overrun, Signals, held};
use crate::app::Batch;
use crate::region::HugePages;
use crate::{Connection, QueueConfig, RxQueue, TxQueue, in_process};

/// Only what is broken takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

struct Link {
    client: Connection,
    server: Connection,
    doorbell: Doorbell,
    told: Receiver<Overrun>,
}

fn link() -> Link {
    let (ring_size, huge_pages) = (RingSize::MIN, HugePages::Never);
    let (client, mut server) =
        in_process(&QueueConfig { ring_size, huge_pages, ..QueueConfig::default() }).unwrap();
    let (tell, told) = channel();
    let signals = Signals::Doorbell(DoorbellSettings::default());
    let started = server.with_doorbell(&signals, &Costs::default(), move |overrun| {
        let _ = tell.send(overrun);
    });
    let doorbell = started.map_err(|(errno, _)| errno).unwrap().unwrap();
    Link { client, server, doorbell, told }
}

fn readable(event: &Event, limit: Duration) -> bool {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    poll(&mut [PollFd::from_borrowed_fd(event.fd(), PollFlags::IN)], Some(&limit)).unwrap() == 1
}

/// A packet to one who sleeps.
fn wakes(tx: &mut TxQueue, rx: &mut RxQueue) {
    assert_eq!(rx.arm(), Ok(Armed::Sleep));
    assert_eq!(tx.send_batch(&[[7; 60]]), Ok(1));
    assert!(readable(rx.event(), PATIENCE), "the wake-up is lost");
    rx.disarm();
    assert!(rx.take_signal());
    let mut batch = Batch::new(4);
    rx.recv_batch(&mut batch).unwrap();
    assert_eq!(batch.len(), 1);
}

#[test]
fn both_ends_are_woken() {
    let Link { mut client, mut server, doorbell, .. } = link();
    for _ in 0..1000 {
        wakes(&mut server.tx[0], &mut client.rx[0]);
        wakes(&mut client.tx[0], &mut server.rx[0]);
    }
    let signals = [server.tx[0].counters().signals, server.rx[0].counters().signals];
    assert!(signals[0] >= 1000 && signals[1] == 1000, "{signals:?}");
    assert!(!readable(server.rx[0].event(), Duration::ZERO), "nothing is left");
    assert!(!server.rx[0].take_signal());
    drop(doorbell);
}

/// The peer signals all the time, without sending anything. The worker sleeps on.
#[test]
fn hostile_signals_without_packets_wake_nobody() {
    let Link { mut client, mut server, doorbell: _doorbell, .. } = link();
    assert_eq!(server.rx[0].arm(), Ok(Armed::Sleep));
    let flood = |client: &Connection| {
        for _ in 0..10_000 {
            client.tx[0].event().unwrap().signal();
        }
    };
    flood(&client);
    assert_eq!(client.tx[0].send_batch(&[[7; 60]]), Ok(1));
    assert!(readable(server.rx[0].event(), PATIENCE));
    flood(&client);
    // Once, for the packet.
    assert_eq!(server.rx[0].event().take(), 1);
    flood(&client);
    server.rx[0].disarm();
    flood(&client);
    assert!(!readable(server.rx[0].event(), Duration::from_millis(20)), "it is awake");
}

/// What came while the queue was awake is seen by it, and what comes later wakes it.
#[test]
fn a_signal_is_not_needed_for_what_is_seen() {
    let Link { mut client, mut server, doorbell: _doorbell, .. } = link();
    let mut batch = Batch::new(64);
    for _ in 0..300 {
        assert_eq!(client.tx[0].send_batch(&[[7; 60]]), Ok(1));
        assert_eq!(server.rx[0].arm(), Ok(Armed::AlreadyReady));
        server.rx[0].disarm();
        server.rx[0].take_signal();
        server.rx[0].recv_batch(&mut batch).unwrap();
        assert_eq!(batch.len(), 1);
        batch.clear();
        wakes(&mut client.tx[0], &mut server.rx[0]);
    }
}

/// Descriptors that wait for an event, as many as their product.
fn watches(event: BorrowedFd<'_>, sets: usize, copies: usize) -> Vec<OwnedFd> {
    let copies: Vec<_> = (0..copies).map(|_| dup(event).unwrap()).collect();
    let set = |_| {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        for copy in &copies {
            epoll::add(&set, copy, epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
        }
        set
    };
    let sets: Vec<_> = (0..sets).map(set).collect();
    sets.into_iter().chain(copies).collect()
}

/// Who waits 40 000 times for a signal, and so makes it cost milliseconds, is told of, once, and signalled no more.
#[test]
fn hostile_waiters_end_the_link() {
    let Link { mut client, mut server, doorbell, told } = link();
    assert_eq!(client.rx[0].arm(), Ok(Armed::Sleep));
    let kept = watches(client.rx[0].event().fd(), 200, 200);
    let (started, mut batch) = (Instant::now(), Batch::new(64));
    let overrun = loop {
        assert!(started.elapsed() < PATIENCE, "nobody is told");
        server.tx[0].send_batch(&[[7; 60]]).unwrap();
        client.rx[0].recv_batch(&mut batch).unwrap();
        batch.clear();
        if let Ok(overrun) = told.recv_timeout(Duration::from_millis(1)) {
            break overrun;
        }
    };
    assert_eq!(overrun.excluded, Duration::from_secs(1));
    let given = server.tx[0].counters().signals;
    for _ in 0..100 {
        server.tx[0].notify();
    }
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(server.tx[0].counters().signals, given);
    assert!(told.try_recv().is_err());
    drop((doorbell, kept));
}

/// A thread of a link that has ended goes, and with it all that the peer has sent.
#[test]
fn a_link_that_ends_leaves_nothing() {
    let Link { client, server, doorbell, .. } = link();
    let shared = std::sync::Arc::downgrade(&doorbell.shared);
    drop((client, server));
    assert!(shared.strong_count() > 1, "the thread is there");
    drop(doorbell);
    let started = Instant::now();
    while shared.strong_count() > 0 {
        assert!(started.elapsed() < PATIENCE, "the thread stays");
        std::thread::yield_now();
    }
}

/// See [`without`].
fn without_io_setup(test: &str) -> bool {
    let here = without(libc::SYS_io_setup, Errno::PERM, &format!("doorbell::tests::{test}"));
    if here {
        assert_eq!(signals_by_kernel(), Err(Errno::PERM));
    }
    here
}

#[test]
fn both_ends_are_woken_without_asynchronous_io() {
    if without_io_setup("both_ends_are_woken_without_asynchronous_io") {
        // Also where queues would signal themselves.
        assert_eq!(Signals::Direct.doorbell(), Some(DoorbellSettings::default()));
        both_ends_are_woken();
    }
}

/// The peer keeps its counter full and clears the flag all the time.
#[test]
fn hostile_clearing_holds_up_no_worker() {
    if !without_io_setup("hostile_clearing_holds_up_no_worker") {
        return;
    }
    let Link { mut client, server, doorbell, .. } = link();
    assert_eq!(client.rx[0].arm(), Ok(Armed::Sleep));
    let theirs = dup(client.rx[0].event().fd()).unwrap();
    let fill = || write(&theirs, &(u64::MAX - 1).to_ne_bytes());
    let stop = AtomicBool::new(false);
    let _ = fill();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fcntl_setfl(&theirs, OFlags::empty()).unwrap();
            }
        });
        // Not in the scope: it would be waited for.
        let (done, finished) = channel();
        std::thread::spawn(move || {
            for _ in 0..200_000 {
                server.tx[0].notify();
            }
            let _ = done.send(server);
        });
        let server = finished.recv_timeout(PATIENCE);
        stop.store(true, Ordering::Relaxed);
        let server = server.expect("the worker waits for its peer");
        // It may come back to its senses: what was to be written is.
        client.rx[0].event().clear();
        server.tx[0].notify();
        assert!(readable(client.rx[0].event(), PATIENCE));
        // Once more: held up for good, and it goes.
        client.rx[0].event().clear();
        fcntl_setfl(&theirs, OFlags::NONBLOCK).unwrap();
        let _ = fill();
        drop(doorbell);
    });
    let started = Instant::now();
    while held::count() > 0 {
        assert!(started.elapsed() < PATIENCE, "the thread is held up for nothing");
        held::let_go();
        std::thread::yield_now();
    }
}
