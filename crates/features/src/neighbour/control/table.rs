//! The neighbours by key, by timer, and in the order in which they may be taken out.

use super::entry::{Entry, NeighbourKey, State};
use graph::IfIndex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tables::timer_wheel::TimerWheel;
use wire::MacAddr;

/// Number of an entry, good until it is removed.
pub(super) type Id = u32;

/// Nanoseconds of a tick of the timer wheel.
const TICK: u64 = 1_000_000;

/// Entries that may be taken out, those with the least to lose first: failed, incomplete, stale, ...; of equals the oldest.
type Order = BTreeSet<(State, u64, Id)>;

/// All neighbours.
#[derive(Debug)]
pub(super) struct Table {
    entries: Vec<Option<Entry>>,
    free: Vec<Id>,
    by_key: BTreeMap<NeighbourKey, Id>,
    order: Order,
    interfaces: BTreeMap<IfIndex, (usize, Order)>,
    /// By origin, entries that haven't answered.
    unanswered: BTreeMap<IfIndex, Order>,
    wheel: TimerWheel,
}

impl Table {
    pub(super) fn new(now: u64) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            by_key: BTreeMap::new(),
            order: Order::new(),
            interfaces: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            wheel: TimerWheel::new(now / TICK),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Neighbours of an interface.
    pub(super) fn count(&self, interface: IfIndex) -> usize {
        self.interfaces.get(&interface).map_or(0, |entry| entry.0)
    }

    pub(super) fn find(&self, key: NeighbourKey) -> Option<Id> {
        self.by_key.get(&key).copied()
    }

    pub(super) fn get(&self, id: Id) -> Option<&Entry> {
        self.entries.get(id as usize)?.as_ref()
    }

    /// The entry, to change what the table doesn't list it by.
    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Entry> {
        self.entries.get_mut(id as usize)?.as_mut()
    }

    /// In the order of interface and address.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.by_key.values().filter_map(|id| self.get(*id))
    }

    /// Keys of an interface's neighbours.
    pub(super) fn of_interface(&self, interface: IfIndex) -> Vec<(NeighbourKey, Id)> {
        use core::net::{IpAddr, Ipv4Addr};
        let first = NeighbourKey { interface, address: IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
        let entries = self.by_key.range(first..).take_while(|(key, _)| key.interface == interface);
        entries.map(|(key, id)| (*key, *id)).collect()
    }

    /// A new neighbour, without a timer, at the expense of `origin`. The key must not be there yet.
    pub(super) fn insert(&mut self, key: NeighbourKey, origin: IfIndex, state: State, now: u64) -> Id {
        let entry = Entry {
            key,
            state,
            origin,
            since: now,
            timer: None,
            mac: MacAddr::ZERO,
            programmed: None,
            told: now,
            late: 0,
            sent: 0,
            router: false,
            waiting: VecDeque::new(),
        };
        let id = self.free.pop().unwrap_or(self.entries.len() as Id);
        match self.entries.get_mut(id as usize) {
            Some(place) => *place = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        self.by_key.insert(key, id);
        self.interfaces.entry(key.interface).or_default().0 += 1;
        self.list(id);
        id
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<Entry> {
        self.unlist(id);
        let entry = self.entries.get_mut(id as usize)?.take()?;
        self.free.push(id);
        self.by_key.remove(&entry.key);
        if let Some(timer) = entry.timer {
            self.wheel.cancel(timer);
        }
        if let Some(of) = self.interfaces.get_mut(&entry.key.interface) {
            of.0 -= 1;
            if of.0 == 0 {
                self.interfaces.remove(&entry.key.interface);
            }
        }
        Some(entry)
    }

    /// Brings an entry into `state`, which it leaves at `until`, if ever.
    pub(super) fn set_state(&mut self, id: Id, state: State, now: u64, until: Option<u64>) {
        self.unlist(id);
        let Some(entry) = self.entries.get_mut(id as usize).and_then(Option::as_mut) else { return };
        if entry.state != state {
            (entry.state, entry.since, entry.sent) = (state, now, 0);
        }
        if let Some(timer) = entry.timer.take() {
            self.wheel.cancel(timer);
        }
        entry.timer = until.map(|until| self.wheel.schedule(until.div_ceil(TICK), id));
        self.list(id);
    }

    /// The entry to take out first among those of `interface`, or of all interfaces: one in a state of at most `up_to`.
    pub(super) fn victim(&self, interface: Option<IfIndex>, up_to: State) -> Option<Id> {
        let order = match interface {
            Some(interface) => &self.interfaces.get(&interface)?.1,
            None => &self.order,
        };
        order.first().filter(|(state, ..)| *state <= up_to).map(|(.., id)| *id)
    }

    /// How many entries that haven't answered an origin has, and the one to take out first.
    pub(super) fn unanswered(&self, origin: IfIndex) -> (usize, Option<Id>) {
        let order = self.unanswered.get(&origin);
        (order.map_or(0, Order::len), order.and_then(Order::first).map(|(.., id)| *id))
    }

    /// Charges an entry to `origin` from now on.
    pub(super) fn charge(&mut self, id: Id, origin: IfIndex) {
        self.unlist(id);
        if let Some(entry) = self.get_mut(id) {
            entry.origin = origin;
        }
        self.list(id);
    }

    /// Entries whose time is up at `now`; at most about `budget` of them, the rest next time. They have no timer then.
    pub(super) fn due(&mut self, now: u64, budget: usize) -> Vec<Id> {
        let due: Vec<Id> = self.wheel.advance(now / TICK, budget).collect();
        for id in &due {
            if let Some(entry) = self.get_mut(*id) {
                entry.timer = None;
            }
        }
        due
    }

    fn list(&mut self, id: Id) {
        let Some((interface, origin, at)) = self.place(id) else { return };
        self.order.insert(at);
        self.interfaces.entry(interface).or_default().1.insert(at);
        if at.0 <= State::Stale {
            self.unanswered.entry(origin).or_default().insert(at);
        }
    }

    fn unlist(&mut self, id: Id) {
        let Some((interface, origin, at)) = self.place(id) else { return };
        self.order.remove(&at);
        if let Some(of) = self.interfaces.get_mut(&interface) {
            of.1.remove(&at);
        }
        if let Some(of) = self.unanswered.get_mut(&origin) {
            of.remove(&at);
            if of.is_empty() {
                self.unanswered.remove(&origin);
            }
        }
    }

    /// An entry's interface, origin and place in the order; static ones have none.
    fn place(&self, id: Id) -> Option<(IfIndex, IfIndex, (State, u64, Id))> {
        let entry = self.get(id).filter(|entry| entry.state != State::Static)?;
        Some((entry.key.interface, entry.origin, (entry.state, entry.since, id)))
    }
}
