//! Sleeping until a packet or a command arrives.

use crate::engine::Graph;
use crate::port::RxMode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;

/// Nanoseconds without a packet after which an adaptive worker goes to sleep: as much as a few wake-ups cost. Not a number of rounds: a
/// round of a hundred interfaces takes as long as a hundred of one.
const QUIET: u64 = 100_000;

/// Longest sleep of a worker that has queues: some peers look at the interrupt flag of memif without a fence, and so may fail to wake
/// us. A lost event costs delay then, not traffic.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Longest sleep of one that has none.
const IDLE_NAP: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Whether the worker may sleep now, having found nothing for `quiet` nanoseconds.
pub(super) fn may_sleep(graph: &mut Graph, quiet: u64) -> bool {
    if graph.busy() {
        return false;
    }
    let mut adaptive = false;
    for queues in graph.all_queues() {
        for port in &queues.list {
            match port.mode {
                RxMode::Polling => return false,
                RxMode::Adaptive => adaptive = true,
                RxMode::Interrupt => {}
            }
            if port.rx.event_fd().is_none() {
                return false;
            }
        }
    }
    !adaptive || quiet >= QUIET
}

/// Asks all queues for events. False where one has packets already: then nothing stays armed.
pub(super) fn arm(graph: &mut Graph) -> bool {
    let armed = graph.station.arm()
        && graph.all_queues().flat_map(|queues| queues.list.iter_mut()).all(|port| port.rx.arm());
    if !armed {
        disarm(graph);
    }
    armed
}

/// Tells all queues that the worker is awake.
pub(super) fn disarm(graph: &mut Graph) {
    graph.station.disarm();
    graph.all_queues().flat_map(|queues| queues.list.iter_mut()).for_each(|port| port.rx.disarm());
}

/// Waits for the descriptors, `wake` (the mailbox) first; whether one of them woke us, and not the time. Then queues that didn't are silent
/// for one round.
pub(super) fn wait(graph: &mut Graph, wake: &OwnedFd) -> bool {
    use std::os::fd::AsFd;
    let listen = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut list: Vec<PollFd<'_>> = vec![listen(wake.as_fd())];
    let (station, queues) = graph.sources();
    list.extend(station.descriptor().map(listen));
    let ours = list.len();
    list.extend(queues.flat_map(|queues| &queues.list).filter_map(|port| port.rx.event_fd()).map(listen));
    let nap = if list.len() > ours { NAP } else { IDLE_NAP };
    let woken = match poll(&mut list, Some(&nap)) {
        // Only the time: events may have been lost, so all are looked at.
        Ok(0) => return false,
        Ok(_) => list[ours..].iter().map(|descriptor| !descriptor.revents().is_empty()).collect::<Vec<_>>(),
        Err(rustix::io::Errno::INTR) => return true,
        Err(_) => {
            // Nothing to wait for is left to do but yield; the loop will find out what is wrong with the queue.
            std::thread::yield_now();
            return true;
        }
    };
    let listened = graph.all_queues().flat_map(|queues| &mut queues.list);
    let listened = listened.filter(|port| port.rx.event_fd().is_some());
    listened.zip(woken).for_each(|(port, woken)| port.silent = !woken);
    true
}
