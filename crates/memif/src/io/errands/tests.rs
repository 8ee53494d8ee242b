use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::*;
use crate::io::testing::eventually;

/// Whatever other tests do.
fn errands(bounds: Bounds) -> Errands<u32> {
    Errands::within("test", Bounds { running: Box::leak(Box::default()), ..bounds })
}

/// Something that hangs until the other end is dropped.
fn hang(errands: &Errands<u32>, of: u32) -> Sender<()> {
    let (end, hangs): (_, Receiver<()>) = channel();
    errands.run(of, move || {
        let _ = hangs.recv();
    });
    end
}

/// Whoever panics has not done what he should, and everybody else's errands are done, also those of the same line.
#[test]
fn a_panic_keeps_nobody_from_being_served() {
    let errands = errands(Bounds::default());
    let (done, is_done) = channel();
    for of in [1, 1, 2] {
        let done = done.clone();
        errands.run(of, || panic!("as it should in this test"));
        errands.run(of, move || done.send(of).unwrap());
    }
    let mut served: Vec<_> = (0..3).map(|_| is_done.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
    served.sort_unstable();
    assert_eq!(served, [1, 1, 2]);
    eventually("threads end", || errands.at_work() == (0, 0) && errands.done());
    assert_eq!(errands.lock().bounds.running.load(Ordering::Relaxed), 0);
}

/// Who has waited longest is next, and who has had its turn goes to the end.
#[test]
fn lines_are_served_in_turn() {
    let errands = errands(Bounds { threads: 1, ..Bounds::default() });
    let hangs = hang(&errands, 0);
    let (done, is_done) = channel();
    for of in [9, 7, 7, 8, 9, 7, 3] {
        let done = done.clone();
        errands.run(of, move || done.send(of).unwrap());
    }
    drop(hangs);
    let order: Vec<_> = (0..7).map(|_| is_done.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
    assert_eq!(order, [9, 7, 8, 3, 9, 7, 7]);
}

/// It is told, and done once there can be a thread.
#[test]
fn a_thread_that_cannot_be_started_is_asked_for_again() {
    let errands = errands(Bounds { stack: 1 << 60, ..Bounds::default() });
    let (done, is_done) = channel();
    errands.run(1, move || done.send(()).unwrap());
    let due = errands.due().unwrap();
    assert!(due > Instant::now() && errands.failed().is_some());
    // Who looks more often changes nothing: it would keep others who look awake.
    errands.go_on();
    assert_eq!((errands.due(), errands.failed().is_some()), (Some(due), true));
    assert_eq!(errands.lock().bounds.running.load(Ordering::Relaxed), 0);
    errands.lock().bounds.stack = STACK;
    eventually("there is one once it is due", || {
        errands.go_on();
        errands.due().is_none()
    });
    assert!(Instant::now() >= due && errands.failed().is_none());
    is_done.recv_timeout(Duration::from_secs(60)).unwrap();
}

/// Nor is it dropped by whoever drops the socket: what it closes may hang.
#[test]
fn what_found_no_thread_is_done_by_another_when_its_socket_is_gone() {
    let errands = errands(Bounds { stack: 1 << 60, ..Bounds::default() });
    let (done, is_done) = channel();
    errands.run(1, move || done.send(std::thread::current().id()).unwrap());
    assert!(errands.failed().is_some());
    errands.lock().bounds.stack = STACK;
    drop(errands);
    let by = is_done.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_ne!(by, std::thread::current().id());
}

/// What hangs at some sockets leaves one thread to each of the others.
#[test]
fn hostile_errands_of_all_sockets_have_one_bound() {
    let bounds = Bounds { of_process: 3, running: Box::leak(Box::default()), ..Bounds::default() };
    let socket = || Errands::<u32>::within("test", bounds);
    let (one, other) = (socket(), socket());
    let ends: Vec<_> = (0..5).map(|of| hang(&one, of)).collect();
    assert_eq!(one.at_work().0, 3);
    assert!(one.due().is_some() && one.failed().is_none(), "nothing is wrong");
    let (done, is_done) = channel();
    let hangs = hang(&other, 0);
    other.run(1, move || done.send(()).unwrap());
    assert_eq!(other.at_work().0, 1);
    assert!(other.due().is_some());
    drop((ends, hangs));
    is_done.recv_timeout(Duration::from_secs(60)).unwrap();
    eventually("all end", || one.done() && other.done() && bounds.running.load(Ordering::Relaxed) == 0);
}
