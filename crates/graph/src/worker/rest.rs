//! Queues that rest: those that had no packets for some rounds.
//!
//! To ask a hundred takes as long as some hundred packets, in every round: by a system call each, or by some lines of memory. So a queue that has had
//! nothing isn't asked in each round any more. One that takes a system call ([`RxQueue::rests`](crate::port::RxQueue::rests)) isn't before the kernel says that it has
//! something: about all of them by one call, in rounds that brought nothing and, while others keep the worker busy, now and then. One that lies in memory is asked now and
//! then, and after each round that brought little.

use crate::engine::Graph;
use crate::port::RxPort;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Nanoseconds between two looks of a busy worker: what a packet that ends a silence waits for at most, and three rounds of full vectors.
const APART: u64 = 20_000;
/// Packets of a round that has brought little: such rounds are short, and whoever sends that little may be waiting for an answer.
const LITTLE: usize = 64;
/// How many of those that have something the kernel names at a time. The others come next time.
const NAMED: usize = 64;
/// A look doesn't wait.
const NOT_AT_ALL: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A worker's set of queues that may rest.
#[derive(Default)]
pub(super) struct Watch {
    set: Option<OwnedFd>,
    /// What there was when the set was made.
    version: u64,
    named: Vec<epoll::Event>,
    /// When a busy worker looks again.
    due: u64,
}

impl Watch {
    /// Of the queues of `graph`, which may rest from now on.
    pub(super) fn of(graph: &mut Graph) -> Self {
        graph.all_queues().for_each(|queues| queues.watched = true);
        Self::default()
    }

    /// A round that began at `now` has brought so many packets.
    #[inline]
    pub(super) fn round(&mut self, graph: &mut Graph, now: u64, received: usize) {
        let due = now >= self.due;
        if due || received < LITTLE {
            rouse(graph);
        }
        if due || received == 0 {
            self.due = now + APART;
            self.look(graph);
        }
    }

    fn look(&mut self, graph: &mut Graph) {
        let (mut version, mut any) = (1, false);
        for queues in graph.all_queues() {
            version += queues.version;
            any |= queues.list.iter().any(|port| port.resting && port.rests);
        }
        if !any {
            return;
        }
        if version != self.version {
            self.set = listen(graph).ok();
            // Else it is tried again next time.
            self.version = if self.set.is_some() { version } else { 0 };
            self.named.reserve(NAMED);
        }
        self.named.clear();
        let room = rustix::buffer::spare_capacity(&mut self.named);
        match self.set.as_ref().map(|set| epoll::wait(set, room, Some(&NOT_AT_ALL))) {
            Some(Ok(0) | Err(Errno::INTR)) => {}
            Some(Ok(_)) => {
                self.named.sort_unstable_by_key(|event| event.data.u64());
                let mut numbers = self.named.iter().map(|event| event.data.u64()).peekable();
                for (number, port) in numbered(graph) {
                    if numbers.next_if_eq(&number).is_some() {
                        port.resting = false;
                    }
                }
            }
            // There are no descriptors left for a set: all are asked, as if nobody rested.
            Some(Err(_)) | None => wake_all(graph),
        }
    }
}

/// All queues, each with its number in sets.
fn numbered(graph: &mut Graph) -> impl Iterator<Item = (u64, &mut RxPort)> {
    (0..).zip(graph.all_queues().flat_map(|queues| &mut queues.list))
}

/// Those that lie in memory are asked in the next round.
fn rouse(graph: &mut Graph) {
    numbered(graph).for_each(|(_, port)| port.resting &= port.rests);
}

/// From now on, none rests.
pub(super) fn wake_all(graph: &mut Graph) {
    numbered(graph).for_each(|(_, port)| port.resting = false);
}

fn listen(graph: &mut Graph) -> Result<OwnedFd, Errno> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (number, port) in numbered(graph) {
        if let Some(fd) = port.rx.event_fd().filter(|_| port.rests) {
            match epoll::add(&set, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests;
