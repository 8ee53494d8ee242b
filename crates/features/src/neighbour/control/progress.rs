//! How neighbours go from state to state, and what becomes of the packets that wait for them.

use super::action::Action;
use super::entry::{Entry, NeighbourKey, State, Waiting};
use super::machine::Neighbours;
use super::table::Id;
use crate::icmp;
use crate::neighbour::frames;
use crate::neighbour::neighbor_drop::{self, Drop};
use graph::IfIndex;
use std::collections::VecDeque;
use wire::{Icmpv4Error, Icmpv6Error, MacAddr};

impl Neighbours {
    /// Time has passed. At most about `budget` timers are dealt with; the rest the next time.
    pub fn tick(&mut self, now: u64, budget: usize) {
        let mut left = budget;
        while left > 0 && self.announcements.first().is_some_and(|(at, ..)| *at <= now) {
            if let Some((_, interface, address, more)) = self.announcements.pop_first() {
                self.announce(now, interface, address, more);
            }
            left -= 1;
        }
        for id in self.table.due(now, left) {
            self.expired(id, now);
        }
    }

    /// A neighbour's time in its state is over.
    fn expired(&mut self, id: Id, now: u64) {
        let Some(entry) = self.table.get(id) else { return };
        let given_up = entry.sent >= self.config.attempts;
        match entry.state {
            State::Incomplete if given_up => self.fail(id, now),
            // A broadcast is the next thing to try, as soon as a packet needs it.
            State::Probe if given_up => {
                self.take_out(id, Drop::NeighbourGone);
            }
            State::Incomplete | State::Probe => self.solicit(id, now),
            State::Reachable | State::Stale => {
                self.table.set_state(id, State::Probe, now, None);
                self.solicit(id, now);
            }
            State::Failed => self.take_out(id, Drop::NeighbourGone),
            State::Static => {}
        }
    }

    /// Asks for a neighbour: all stations while its link-layer address isn't known, else itself.
    pub(super) fn solicit(&mut self, id: Id, now: u64) {
        let Some(entry) = self.table.get_mut(id) else { return };
        let (NeighbourKey { interface, address }, state) = (entry.key, entry.state);
        let quiet_until = self.links.0.get(&interface).map_or(0, |link| link.quiet_until);
        if now < quiet_until {
            self.table.set_state(id, state, now, Some(quiet_until));
            return;
        }
        entry.sent += 1;
        let to = state.is_usable().then_some(entry.mac);
        if let Some(link) = self.links.0.get(&interface) {
            let source = self.links.source(interface, address);
            let frame = frames::solicitation(link.mac, source, address, to);
            self.actions.push(Action::Send { tx_if: interface, frame });
        }
        self.table.set_state(id, state, now, Some(now + self.config.retransmit));
    }

    /// A neighbour's link-layer address was heard, as the answer to a question or not.
    pub(super) fn heard(&mut self, id: Id, now: u64, mac: MacAddr, answer: bool) {
        let (state, time) = match answer {
            true => (State::Reachable, spread(self.config.reachable, id)),
            false => (State::Stale, self.config.stale),
        };
        self.table.set_state(id, state, now, Some(now + time));
        self.reached(id, now, mac);
    }

    /// What was heard is in doubt: ask soon.
    pub(super) fn become_stale(&mut self, id: Id, now: u64) {
        self.table.set_state(id, State::Stale, now, Some(now + self.config.stale));
    }

    /// The neighbour is at `mac`: the forwarding tables are told, and packets that waited go on.
    pub(super) fn reached(&mut self, id: Id, now: u64, mac: MacAddr) {
        let Some(entry) = self.table.get_mut(id) else { return };
        entry.mac = mac;
        if entry.programmed != Some(mac) {
            entry.programmed = Some(mac);
            (entry.told, entry.late) = (now, 0);
            let NeighbourKey { interface, address } = entry.key;
            self.actions.push(Action::Program { interface, address, mac });
        }
        for waiting in core::mem::take(&mut entry.waiting) {
            self.ends_waiting(&waiting);
            self.release(waiting);
        }
    }

    /// The neighbour doesn't answer.
    fn fail(&mut self, id: Id, now: u64) {
        self.table.set_state(id, State::Failed, now, Some(now + self.config.failed));
        let waiting = self.table.get_mut(id).map(|entry| core::mem::take(&mut entry.waiting));
        for waiting in waiting.unwrap_or_default() {
            self.ends_waiting(&waiting);
            self.unreachable(waiting);
        }
    }

    /// Keeps a packet until the neighbour has answered. In a full queue the origin with most packets loses its oldest.
    pub(super) fn wait(&mut self, id: Id, waiting: Waiting) {
        let limit = self.config.waiting;
        let full = |entry: &Entry| entry.waiting.len() >= limit;
        let overflow = self.table.get_mut(id).filter(|entry| full(entry)).and_then(|entry| {
            let place = largest_share(&entry.waiting, waiting.origin)?;
            entry.waiting.remove(place)
        });
        if let Some(overflow) = overflow {
            self.ends_waiting(&overflow);
            self.lose(overflow, Drop::QueueOverflow);
        }
        let len = waiting.len();
        let of_origin = self.waiting_bytes_of.get(&waiting.origin).copied().unwrap_or(0) + len;
        let too_much = of_origin > self.config.waiting_bytes_per_origin
            || self.waiting_bytes + len > self.config.waiting_bytes;
        if too_much || limit == 0 {
            return self.lose(waiting, Drop::MemoryFull);
        }
        let Some(entry) = self.table.get_mut(id) else { return self.lose(waiting, Drop::NeighbourGone) };
        self.waiting_bytes += len;
        self.waiting_bytes_of.insert(waiting.origin, of_origin);
        entry.waiting.push_back(waiting);
    }

    /// Lets a packet go on: through the lookup again, which finds the neighbour now. The note is still before it.
    pub(super) fn release(&mut self, waiting: Waiting) {
        let target = match (version(&waiting), waiting.direct) {
            (6, false) => crate::neighbour::IP6_LOOKUP,
            (6, true) => crate::neighbour::IP6_DIRECT,
            (_, false) => crate::neighbour::IP4_LOOKUP,
            (_, true) => crate::neighbour::IP4_DIRECT,
        };
        let Waiting { worker, packet, .. } = waiting;
        self.actions.push(Action::Inject { worker, target, packet });
    }

    /// Has a packet's sender told that the neighbour doesn't answer. The packet ends there, for the reason that it was
    /// marked with when it was held; so does one of our own, whose sender needn't be told.
    pub(super) fn unreachable(&mut self, mut waiting: Waiting) {
        let version = version(&waiting);
        let meta = waiting.packet.meta_mut();
        let target = match version {
            6 => {
                icmp::request_v6(meta, Icmpv6Error::AddressUnreachable);
                icmp::INJECT_KEY_6
            }
            _ => {
                icmp::request_v4(meta, Icmpv4Error::HostUnreachable);
                icmp::INJECT_KEY_4
            }
        };
        let Waiting { worker, packet, .. } = waiting;
        self.actions.push(Action::Inject { worker, target, packet });
    }

    /// Gives a packet back to end in the graph, where it is counted.
    pub(super) fn lose(&mut self, waiting: Waiting, reason: Drop) {
        let Waiting { worker, mut packet, .. } = waiting;
        neighbor_drop::mark(&mut packet, reason);
        self.actions.push(Action::Inject { worker, target: neighbor_drop::INJECT_KEY, packet });
    }
}

/// The place of the oldest packet of the origin that has most of them in the queue, counting one of `newcomer`'s that is to be added.
fn largest_share(queue: &VecDeque<Waiting>, newcomer: IfIndex) -> Option<usize> {
    let share = |origin| {
        queue.iter().filter(|other| other.origin == origin).count() + usize::from(origin == newcomer)
    };
    let most = queue.iter().map(|waiting| share(waiting.origin)).max()?;
    queue.iter().position(|waiting| share(waiting.origin) == most)
}

fn version(waiting: &Waiting) -> u8 {
    waiting.packet.bytes().first().map_or(0, |byte| byte >> 4)
}

/// Three to five quarters of `time`, the same for the same neighbour: those that were found together aren't all asked
/// again at once (RFC 4861 section 6.3.2).
fn spread(time: u64, id: Id) -> u64 {
    let part = u64::from(id.wrapping_mul(0x9e37_79b9) >> 16);
    time / 4 * 3 + ((time / 2 * part) >> 16)
}
