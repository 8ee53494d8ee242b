//! The state machine: what it holds, and what is configured.

use super::action::Action;
use super::config::Config;
use super::entry::{Entry, NeighbourKey, NeighbourView, State, Waiting};
use super::links::{Link, Links, can_be_neighbour};
use super::table::{Id, Table};
use crate::interface::Interface;
use crate::neighbour::frames;
use crate::neighbour::neighbor_drop::Drop;
use core::net::IpAddr;
use graph::IfIndex;
use std::collections::{BTreeMap, BTreeSet};
use wire::MacAddr;

/// All neighbours. `now` is always monotonic nanoseconds, by one clock.
#[derive(Debug)]
pub struct Neighbours {
    pub(super) config: Config,
    pub(super) links: Links,
    pub(super) table: Table,
    /// Announcements still to be made: when, and by which interface of which address; how many after this one.
    pub(super) announcements: BTreeSet<(u64, IfIndex, IpAddr, u8)>,
    /// Bytes of all waiting packets.
    pub(super) waiting_bytes: usize,
    /// The same by origin.
    pub(super) waiting_bytes_of: BTreeMap<IfIndex, usize>,
    pub(super) actions: Vec<Action>,
}

impl Neighbours {
    /// None yet.
    #[must_use]
    pub fn new(config: Config, now: u64) -> Self {
        Self {
            config,
            links: Links::default(),
            table: Table::new(now),
            announcements: BTreeSet::new(),
            waiting_bytes: 0,
            waiting_bytes_of: BTreeMap::new(),
            actions: Vec::new(),
        }
    }

    /// What is to be done, in order; to be asked for after every event and every tick.
    #[must_use]
    pub fn take_actions(&mut self) -> Vec<Action> {
        core::mem::take(&mut self.actions)
    }

    /// All neighbours, by interface and address.
    pub fn iter(&self) -> impl Iterator<Item = NeighbourView> {
        self.table.iter().map(Entry::view)
    }

    /// Packets that wait, and their bytes.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        (self.table.iter().map(|entry| entry.waiting.len()).sum(), self.waiting_bytes)
    }

    /// An interface has come, changed, or (`None`) gone. Addresses that are new on it, and all of them when it comes up or
    /// gets another MAC address, are announced.
    pub fn set_interface(&mut self, now: u64, index: IfIndex, interface: Option<&Interface>) {
        let new = interface.and_then(Link::of);
        let old = self.links.0.remove(&index);
        let Some(mut new) = new else {
            self.announcements.retain(|(_, of, ..)| *of != index);
            self.forget(index, interface.is_some_and(|interface| interface.exists));
            return;
        };
        if let Some(old) = &old {
            new.defended = old.defended.clone();
            new.quiet_until = old.quiet_until;
        }
        let same_mac = old.as_ref().is_some_and(|old| old.mac == new.mac);
        let before: Vec<IpAddr> = old.iter().flat_map(Link::own).collect();
        self.announcements.retain(|(_, of, address, _)| *of != index || new.is_own(*address));
        let fresh: Vec<IpAddr> = new.own().filter(|own| !same_mac || !before.contains(own)).collect();
        self.leave(index, old.as_ref(), &new);
        self.links.0.insert(index, new);
        for address in fresh {
            self.announce(now, index, address, self.config.announcements);
        }
    }

    /// An interface's link has come up, a peer has connected: a moment later own addresses are announced to whoever is there.
    pub fn link_up(&mut self, now: u64, index: IfIndex) {
        let own: Vec<IpAddr> = self.links.0.get(&index).into_iter().flat_map(Link::own).collect();
        self.announcements.retain(|(_, of, ..)| *of != index);
        let at = now + self.config.settle;
        if let Some(link) = self.links.0.get_mut(&index) {
            link.quiet_until = at;
        }
        if self.config.announcements > 0 {
            self.announcements.extend(own.into_iter().map(|own| (at, index, own, self.config.announcements)));
        }
        // What was asked before may have found nobody: those that are being asked are asked again, and those that failed may be.
        for (_, id) in self.table.of_interface(index) {
            match self.table.get_mut(id) {
                Some(entry) if matches!(entry.state, State::Incomplete | State::Probe) => {
                    entry.sent = 0;
                    self.solicit(id, now);
                }
                Some(entry) if entry.state == State::Failed => self.take_out(id, Drop::NeighbourGone),
                _ => {}
            }
        }
    }

    /// Gives a neighbour its link-layer address for good: it is neither asked nor believed.
    pub fn set_static(&mut self, now: u64, interface: IfIndex, address: IpAddr, mac: MacAddr) {
        let key = NeighbourKey { interface, address };
        let found = self.table.find(key);
        let id = found.unwrap_or_else(|| self.table.insert(key, interface, State::Static, now));
        self.table.set_state(id, State::Static, now, None);
        self.reached(id, now, mac);
    }

    /// Takes a static neighbour's link-layer address back; what it has now is found out when it is needed.
    pub fn remove_static(&mut self, interface: IfIndex, address: IpAddr) {
        let found = self.table.find(NeighbourKey { interface, address });
        let is_static = |id: &Id| self.table.get(*id).is_some_and(|entry| entry.state == State::Static);
        if let Some(id) = found.filter(is_static) {
            self.take_out(id, Drop::NeighbourGone);
        }
    }

    /// Forgets an address that was learned, on the operator's request; a static one stays.
    pub fn flush(&mut self, interface: IfIndex, address: IpAddr) {
        let found = self.table.find(NeighbourKey { interface, address });
        let learned = |id: &Id| self.table.get(*id).is_some_and(|entry| entry.state != State::Static);
        if let Some(id) = found.filter(learned) {
            self.take_out(id, Drop::NeighbourGone);
        }
    }

    /// Sends an announcement now and has `left - 1` more follow.
    pub(super) fn announce(&mut self, now: u64, index: IfIndex, address: IpAddr, left: u8) {
        let Some(link) = self.links.0.get(&index) else { return };
        if left == 0 {
            return;
        }
        self.actions.push(Action::Send { tx_if: index, frame: frames::announcement(link.mac, address) });
        if left > 1 {
            self.announcements.insert((now + self.config.announce, index, address, left - 1));
        }
    }

    /// An interface is down or gone: so are its neighbours, the static ones only with the interface.
    fn forget(&mut self, index: IfIndex, keep_static: bool) {
        for (_, id) in self.table.of_interface(index) {
            let is_static = self.table.get(id).is_some_and(|entry| entry.state == State::Static);
            if !(is_static && keep_static) {
                self.take_out(id, Drop::NeighbourGone);
            }
        }
    }

    /// Takes out the neighbours that a changed interface can't have any more: those whose address is now its own, and
    /// those of networks that it has left.
    fn leave(&mut self, index: IfIndex, old: Option<&Link>, new: &Link) {
        for (key, id) in self.table.of_interface(index) {
            let is_static = self.table.get(id).is_some_and(|entry| entry.state == State::Static);
            let left = old.is_some_and(|old| old.covers(key.address)) && !new.covers(key.address);
            if !is_static && (left || !can_be_neighbour(new, key.address)) {
                self.take_out(id, Drop::NeighbourGone);
            }
        }
    }

    /// Removes an entry with everything that hangs on it. Packets that wait for it are lost for `reason`.
    pub(super) fn take_out(&mut self, id: Id, reason: Drop) {
        let Some(entry) = self.table.remove(id) else { return };
        for waiting in entry.waiting {
            self.ends_waiting(&waiting);
            self.lose(waiting, reason);
        }
        if entry.programmed.is_some() {
            let NeighbourKey { interface, address } = entry.key;
            self.actions.push(Action::Unprogram { interface, address });
        }
    }

    /// Subtracts a packet that waits no longer.
    pub(super) fn ends_waiting(&mut self, waiting: &Waiting) {
        self.waiting_bytes -= waiting.len();
        if let Some(bytes) = self.waiting_bytes_of.get_mut(&waiting.origin) {
            *bytes -= waiting.len();
            if *bytes == 0 {
                self.waiting_bytes_of.remove(&waiting.origin);
            }
        }
    }

    /// Makes room for one more neighbour on `interface`, at the cost of one in a state of at most `up_to`. False where
    /// there is none. An `origin` that has its share of neighbors without an answer loses its own oldest.
    pub(super) fn make_room(&mut self, interface: IfIndex, origin: IfIndex, up_to: State) -> bool {
        let (unanswered, oldest) = self.table.unanswered(origin);
        if unanswered >= self.config.unanswered_per_origin {
            let Some(oldest) = oldest else { return false };
            self.take_out(oldest, Drop::Evicted);
        }
        let full = self.table.count(interface) >= self.config.per_interface;
        let of = full.then_some(interface);
        if full || self.table.len() >= self.config.total {
            let Some(victim) = self.table.victim(of, up_to) else { return false };
            self.take_out(victim, Drop::Evicted);
        }
        true
    }
}
