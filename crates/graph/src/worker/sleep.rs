//! Sleeping until a packet or a command arrives.

use super::rest;
use crate::engine::Graph;
use crate::port::{RxMode, RxPort};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Nanoseconds without a packet after which an adaptive worker goes to sleep: as much as a few wake-ups cost. Not a number of rounds: a
/// round of a hundred interfaces takes as long as a hundred of one.
const QUIET: u64 = 100_000;

/// Sleep while packets are on their way by themselves ([`TxQueue::outstanding`](crate::port::TxQueue::outstanding)): what became of them is counted then.
const LANDING: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Such sleeps, one after the other. What takes longer is counted later.
const LANDINGS: u8 = 8;

/// Longest sleep of a worker that has queues: some peers look at the interrupt flag of memif without a fence, and so may fail to wake
/// us. A lost event costs delay then, not traffic.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Longest sleep of one that has none.
const IDLE_NAP: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Sleep of one for which the kernel can't even look.
const DEAF_NAP: Duration = Duration::from_millis(1);

/// How many of those that woke us the kernel names at a time. What more there are wait for a round.
const NAMED: usize = 64;

/// Numbers in the set, before those of the queues: these follow in the order of [`Graph::all_queues`].
const MAILBOX: u64 = 0;
const STATION: u64 = 1;
const QUEUES: u64 = 2;

/// What wakes a worker: a set of descriptors that the kernel keeps. Falling asleep and waking up cost the same for one queue and for
/// hundreds; asked about each time (`poll`), every queue costs a look before and another one after. So it is done only where there can be no
/// set: the process may have no descriptor more, or its user no more watches (`fs.epoll.max_user_watches`), which others may have used up.
#[derive(Default)]
pub(super) struct Alarm {
    set: Option<OwnedFd>,
    /// There is none, and it isn't worth trying again yet.
    without: bool,
    queues: usize,
    woken: Vec<epoll::Event>,
    /// Sleeps of [`LANDING`], one after the other.
    landings: u8,
}

/// What a sleep ended by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Woken {
    /// Not only the time was up.
    pub(super) event: bool,
    /// The mailbox has something.
    pub(super) mail: bool,
}

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
    let counters = Arc::clone(graph.counters());
    let at = &counters.rounds.at;
    let arm = |port: &mut RxPort| {
        at.receives(port.interface);
        port.rx.arm()
    };
    let armed = graph.station.arm() && graph.all_queues().flat_map(|queues| queues.list.iter_mut()).all(arm);
    at.returned();
    if !armed {
        disarm(graph);
    }
    armed
}

/// Tells all queues that the worker is awake.
pub(super) fn disarm(graph: &mut Graph) {
    graph.station.disarm();
    let counters = Arc::clone(graph.counters());
    for port in graph.all_queues().flat_map(|queues| queues.list.iter_mut()) {
        counters.rounds.at.receives(port.interface);
        port.rx.disarm();
    }
    counters.rounds.at.returned();
}

impl Alarm {
    /// Waits for `mailbox` and everything that packets come by. Queues that didn't wake us are silent for one round.
    pub(super) fn wait(&mut self, graph: &mut Graph, mailbox: &OwnedFd) -> Woken {
        graph.ports.rest();
        let changed =
            graph.all_queues().fold(false, |changed, queues| changed | core::mem::take(&mut queues.changed));
        if changed || (self.set.is_none() && !self.without) {
            // The old one goes, with whatever it still listened to.
            self.set = self.listen(graph, mailbox.as_fd()).ok();
            self.without = self.set.is_none();
        }
        let Some(set) = &self.set else {
            let woken = look(graph, mailbox.as_fd());
            // Nothing else to do: time to try again.
            self.without = woken.event;
            return woken;
        };
        let landing = graph.ports.outstanding() && self.landings < LANDINGS;
        self.landings = if landing { self.landings + 1 } else { 0 };
        let nap = match self.queues {
            _ if landing => LANDING,
            0 => IDLE_NAP,
            _ => NAP,
        };
        self.woken.clear();
        match epoll::wait(set, rustix::buffer::spare_capacity(&mut self.woken), Some(&nap)) {
            Ok(0) if landing => Woken { event: false, mail: false },
            // Only the time: events may have been lost, so all are looked at.
            Ok(0) => {
                rest::wake_all(graph);
                Woken { event: false, mail: false }
            }
            Ok(_) => {
                self.landings = 0;
                self.told(graph)
            }
            // A signal; there is nothing else that it can say of a set of its own.
            Err(_) => Woken { event: true, mail: true },
        }
    }

    fn listen(&mut self, graph: &mut Graph, mailbox: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let add = |fd: BorrowedFd<'_>, number| {
            epoll::add(&set, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
        };
        add(mailbox, MAILBOX)?;
        let (station, queues) = graph.sources();
        station.descriptor().map_or(Ok(()), |bell| add(bell, STATION))?;
        self.queues = 0;
        for (number, port) in (QUEUES..).zip(queues.flat_map(|queues| &queues.list)) {
            match port.rx.event_fd().map_or(Ok(()), |fd| add(fd, number)) {
                // Two queues of one descriptor, which no port has: it wakes us for both, and the second one is read a round later.
                Ok(()) | Err(Errno::EXIST) => self.queues += 1,
                Err(error) => return Err(error),
            }
        }
        self.woken.clear();
        self.woken.reserve_exact(NAMED);
        Ok(set)
    }

    /// Takes in who has woken us.
    fn told(&mut self, graph: &mut Graph) -> Woken {
        self.woken.sort_unstable_by_key(|event| event.data.u64());
        let mut numbers = self.woken.iter().map(|event| event.data.u64()).peekable();
        let mail = numbers.next_if_eq(&MAILBOX).is_some();
        let _ = numbers.next_if_eq(&STATION);
        for (number, port) in (QUEUES..).zip(graph.all_queues().flat_map(|queues| &mut queues.list)) {
            port.silent = numbers.next_if_eq(&number).is_none();
            port.resting &= port.silent;
        }
        Woken { event: true, mail }
    }
}

/// Waits without a set. All queues are looked at afterwards.
fn look(graph: &mut Graph, mailbox: BorrowedFd<'_>) -> Woken {
    let listen = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut list = vec![listen(mailbox)];
    let (station, queues) = graph.sources();
    list.extend(station.descriptor().map(listen));
    let ours = list.len();
    list.extend(queues.flat_map(|queues| &queues.list).filter_map(|port| port.rx.event_fd()).map(listen));
    let nap = if list.len() > ours { NAP } else { IDLE_NAP };
    let polled = poll(&mut list, Some(&nap));
    drop(list);
    rest::wake_all(graph);
    match polled {
        Ok(0) => return Woken { event: false, mail: false },
        Ok(_) | Err(Errno::INTR) => {}
        // No memory for the list, or it is longer than the process may have descriptors.
        Err(_) => std::thread::sleep(DEAF_NAP),
    }
    Woken { event: true, mail: true }
}

#[cfg(test)]
mod tests;
