//! The thread that serves the sockets.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::start::Shared;
use super::doorbells;
use super::handle::{Beginning, Order};
use super::sockets::Sockets;

/// How often the log is told of what was kept back.
const REPORT: Duration = Duration::from_secs(1);

/// How long threads may take to tell peers that it is over.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Runs until the engine is dropped.
pub(in super::super) fn run(shared: &Shared, beginning: Beginning) {
    let Beginning { orders, bell, mut sockets } = beginning;
    doorbells::run_apart(&sockets.made().signals);
    if let Err(errno) = ::memif::region::notices_punched_holes() {
        tracing::warn!(%errno, "no userfaultfd: pages that memif peers of interfaces with peer_memory \"shared\" or \"any\" free while they are connected, and holes among huge pages, are filled, and paid for, by us");
    }
    if let Err(errno) = ::memif::ring::signals_by_kernel() {
        tracing::warn!(%errno, "no asynchronous I/O (io_setup): memif peers can keep the threads that signal them, 64 of which may stay behind; raise fs.aio-max-nr, or allow the system call");
    }
    let mut report = Instant::now() + REPORT;
    while !shared.stop.load(Ordering::Acquire) {
        let until = sockets.next_deadline().map_or(report, |deadline| deadline.min(report));
        let ready = match sockets.wait(until.saturating_duration_since(Instant::now())) {
            Ok(ready) => ready,
            Err(error) => {
                tracing::error!(%error, "waiting for memif peers failed");
                std::thread::sleep(REPORT);
                Vec::new()
            }
        };
        bell.hear();
        for order in orders.try_iter() {
            carry_out(&mut sockets, order);
        }
        let now = Instant::now();
        for token in ready.into_iter().chain(sockets.due(now)) {
            for change in sockets.serve(token, now) {
                shared.core().link_changed(change);
                // Others have their turn at workers that wait for their queues.
                shared.bell.ring();
            }
        }
        if now >= report {
            sockets.links().report(now);
            report = now + REPORT;
        }
    }
    drop(sockets);
    let _ = ::memif::io::all_said(LAST_WORDS);
}

/// Whoever has given an order may have gone since: then nobody waits for the answer.
fn carry_out(sockets: &mut Sockets, order: Order) {
    match order {
        Order::Open { index, name, spec, done } => {
            let _ = done.send(sockets.open(index, &name, &spec));
        }
        Order::Close { index, done } => {
            sockets.close(index);
            let _ = done.send(());
        }
        Order::Fault { index, attachment, fault } => sockets.fault(index, attachment, &fault),
    }
}
