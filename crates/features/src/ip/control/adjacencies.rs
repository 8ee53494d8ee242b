//! Whom next hops lead to, and what has been sent there.

use crate::ip::adjacency::PAGE;
use crate::ip::{NextHop, NextHopKind, Tallies, Traffic};
use core::net::IpAddr;
use graph::IfIndex;
use graph::publish::Publisher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An interface and a neighbour behind it; without one, whoever is at the interface's other end.
type Place = (IfIndex, Option<IpAddr>);

/// All adjacencies, shared by [`super::Forwarding`], which alone makes them, with those who look and who clear them: each locks them for
/// moments. Workers don't.
#[derive(Clone, Debug)]
pub struct Adjacencies(Arc<Mutex<Book>>);

/// An adjacency as it is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdjacencyView {
    /// What is done with packets. Its `adjacency` is the number.
    pub hop: NextHop,
    /// What has been sent there since it came or was cleared.
    pub sent: Traffic,
}

#[derive(Debug)]
struct Book {
    tallies: Tallies,
    /// Numbers that there are counters for.
    room: u32,
    accounts: BTreeMap<Place, Account>,
    /// Numbers to be given out, the lowest first: so they stay dense.
    free: BTreeSet<u32>,
    /// Given up, but published next hops may still have them.
    released: Vec<u32>,
    /// Given up and out of what is published; usable when the mark has passed.
    resting: VecDeque<(u64, Vec<u32>)>,
}

#[derive(Debug)]
struct Account {
    hop: NextHop,
    /// Next hops that lead there.
    uses: u32,
    /// Where the counters stood when it began.
    zero: Traffic,
}

/// Where a next hop leads: `None` where no packet is sent by it as it is.
fn place(hop: &NextHop) -> Option<Place> {
    let leads = matches!(hop.kind, NextHopKind::Rewrite | NextHopKind::Resolve);
    leads.then(|| (hop.tx_if, hop.neighbour()))
}

impl Adjacencies {
    /// None yet, counted by that many workers.
    pub(super) fn of_workers(workers: usize) -> Self {
        Self(Arc::new(Mutex::new(Book {
            tallies: Tallies::of_workers(workers),
            room: 0,
            accounts: BTreeMap::new(),
            free: BTreeSet::new(),
            released: Vec::new(),
            resting: VecDeque::new(),
        })))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All adjacencies, ordered by interface and neighbour.
    #[must_use]
    pub fn list(&self) -> Vec<AdjacencyView> {
        let book = self.book();
        let view = |account: &Account| {
            let sent = book.tallies.sum(account.hop.adjacency).since(account.zero);
            AdjacencyView { hop: account.hop, sent }
        };
        book.accounts.values().map(view).collect()
    }

    /// All begin anew at zero.
    pub fn clear(&self) {
        let Book { tallies, accounts, .. } = &mut *self.book();
        accounts.values_mut().for_each(|account| account.zero = tallies.sum(account.hop.adjacency));
    }

    /// The counters, for the next snapshot.
    pub(super) fn tallies(&self) -> Tallies {
        self.book().tallies.clone()
    }

    /// A next hop becomes another. Gives the number that it has from now on.
    pub(super) fn turn(&self, before: &NextHop, hop: &NextHop) -> u32 {
        let mut book = self.book();
        let (from, to) = (place(before), place(hop));
        // First taken, then given up: one that stays where it is keeps its number.
        let number = to.map_or(0, |to| book.take(to, hop));
        from.into_iter().for_each(|from| book.give(from));
        number
    }

    /// A next hop is given up.
    pub(super) fn release(&self, hop: &NextHop) {
        if let Some(place) = place(hop) {
            self.book().give(place);
        }
    }

    /// No published next hop that workers can meet has a released number any more, but those of `held`: the others may be used again once
    /// every worker has passed a boundary.
    pub(super) fn rest(&self, publisher: &Publisher, held: &BTreeSet<u32>) {
        let mut book = self.book();
        let released = core::mem::take(&mut book.released);
        let (held, free): (Vec<u32>, Vec<u32>) =
            released.into_iter().partition(|number| held.contains(number));
        book.released = held;
        if !free.is_empty() {
            book.resting.push_back((publisher.mark(), free));
        }
    }

    /// Makes numbers usable that no worker counts by any more. Returns whether some still rest.
    pub(super) fn reclaim(&self, publisher: &Publisher) -> bool {
        let mut book = self.book();
        while book.resting.front().is_some_and(|(mark, _)| publisher.passed(*mark)) {
            let Some((_, numbers)) = book.resting.pop_front() else { break };
            book.free.extend(numbers);
        }
        !book.resting.is_empty()
    }
}

impl Book {
    /// The number of a place that one more next hop leads to.
    fn take(&mut self, place: Place, hop: &NextHop) -> u32 {
        if let Some(account) = self.accounts.get_mut(&place) {
            account.uses += 1;
            account.hop = NextHop { adjacency: account.hop.adjacency, ..*hop };
            return account.hop.adjacency;
        }
        let adjacency = self.number();
        // Whoever had the number before has left its counts.
        let zero = self.tallies.sum(adjacency);
        self.accounts.insert(place, Account { hop: NextHop { adjacency, ..*hop }, uses: 1, zero });
        adjacency
    }

    /// One next hop less leads to a place.
    fn give(&mut self, place: Place) {
        let Some(account) = self.accounts.get_mut(&place) else { return };
        account.uses -= 1;
        if account.uses == 0 {
            let number = account.hop.adjacency;
            self.accounts.remove(&place);
            self.released.push(number);
        }
    }

    /// A number that nobody has. It is never 0, by which next hops go that lead nowhere.
    fn number(&mut self) -> u32 {
        if let Some(number) = self.free.pop_first() {
            return number;
        }
        self.tallies.grow();
        let first = self.room.max(1);
        self.room += PAGE as u32;
        self.free.extend(first + 1..self.room);
        first
    }
}
