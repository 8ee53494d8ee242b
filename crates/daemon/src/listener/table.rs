//! The connections of a listener, and which of them has to go where there is no room.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::admission::{Busy, Limits};
use super::client::{Client, Group};
use super::connection::Closer;

/// The connections of a listener, oldest first.
#[derive(Debug, Default)]
pub(super) struct Table {
    next: u64,
    entries: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    client: Client,
    opened: Instant,
    closer: Arc<Closer>,
    /// Whether it has sent its first request, or enough of it.
    spoke: bool,
    /// Calls under way, oldest first.
    calls: Vec<CallEntry>,
    turn: Arc<Mutex<()>>,
}

#[derive(Debug)]
struct CallEntry {
    id: u64,
    /// Which of [`Limits::scarce`] it is of.
    scarce: Option<usize>,
}

/// A connection that has been removed: its client, and what closes it.
pub(super) type Removed = (Client, Arc<Closer>);

/// What is scarce.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Resource {
    Connections,
    Calls,
}

impl Entry {
    fn uses(&self, resource: Resource) -> usize {
        match resource {
            Resource::Connections => 1,
            Resource::Calls => self.calls.len(),
        }
    }

    /// Which goes first of one client's: silent, idle, busy.
    fn rank(&self) -> u8 {
        match (self.spoke, self.calls.is_empty()) {
            (false, true) => 0,
            (true, true) => 1,
            (_, false) => 2,
        }
    }
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn calls(&self) -> usize {
        self.entries.values().map(|entry| entry.calls.len()).sum()
    }

    /// Adds a connection, and removes another where there is no room: of the client itself where it has as many as a
    /// client may, else of the client with the most in the group with the most.
    pub(super) fn open(
        &mut self,
        limits: &Limits,
        client: Client,
        closer: Arc<Closer>,
    ) -> (u64, Option<Removed>) {
        let own = self.entries.values().filter(|entry| entry.client == client).count();
        let victim = if own >= limits.connections_per_client.max(1) {
            self.first(|entry| entry.client == client)
        } else if self.entries.len() >= limits.connections.max(1) {
            let hogs = self.hogs(Resource::Connections, client);
            self.first(|entry| hogs.contains(&entry.client))
        } else {
            None
        };
        let removed =
            victim.and_then(|id| self.entries.remove(&id)).map(|entry| (entry.client, entry.closer));
        let own = self.entries.values().find(|entry| entry.client == client);
        let turn = own.map_or_else(Arc::default, |entry| Arc::clone(&entry.turn));
        let id = self.next;
        self.next += 1;
        self.entries.insert(
            id,
            Entry { client, opened: Instant::now(), closer, spoke: false, calls: Vec::new(), turn },
        );
        (id, removed)
    }

    /// What a client's connections share, for calls of which it may have one at a time.
    pub(super) fn turn(&self, id: u64) -> Option<Arc<Mutex<()>>> {
        self.entries.get(&id).map(|entry| Arc::clone(&entry.turn))
    }

    /// Removes the connections that have been silent for so long.
    pub(super) fn expire(&mut self, greeting: Duration) -> Vec<Removed> {
        let is_silent = |entry: &Entry| entry.rank() == 0 && entry.opened.elapsed() >= greeting;
        let expired = self.entries.extract_if(.., |_, entry| is_silent(entry));
        expired.map(|(_, entry)| (entry.client, entry.closer)).collect()
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.entries.remove(&id);
    }

    pub(super) fn spoke(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.spoke = true;
        }
    }

    /// Adds a call. Where there are too many, the client with the most loses the connection with the oldest call. An
    /// error where the client itself has too many, or is that one and has no other connection.
    pub(super) fn begin(
        &mut self,
        limits: &Limits,
        id: u64,
        method: &str,
    ) -> Result<(u64, Option<Removed>), Busy> {
        let busy = Busy::Calls { per_client: limits.calls_per_client, all: limits.calls };
        let client = self.entries.get(&id).ok_or(busy)?.client;
        let own =
            || self.entries.values().filter(|entry| entry.client == client).flat_map(|entry| &entry.calls);
        if own().count() >= limits.calls_per_client {
            return Err(busy);
        }
        let scarce = limits.scarce.iter().position(|(name, _)| *name == method);
        if let Some((at, (method, limit))) = scarce.and_then(|at| Some((at, *limits.scarce.get(at)?)))
            && own().filter(|call| call.scarce == Some(at)).count() >= limit
        {
            return Err(Busy::Scarce { method, limit });
        }
        let mut removed = None;
        if self.calls() >= limits.calls {
            let hogs = self.hogs(Resource::Calls, client);
            let others =
                self.entries.iter().filter(|(other, entry)| **other != id && hogs.contains(&entry.client));
            let oldest = others.filter_map(|(id, entry)| Some((entry.calls.first()?.id, *id))).min();
            let (_, victim) = oldest.ok_or(busy)?;
            removed = self.entries.remove(&victim).map(|entry| (entry.client, entry.closer));
        }
        let call = self.next;
        self.next += 1;
        let entry = self.entries.get_mut(&id).ok_or(busy)?;
        entry.calls.push(CallEntry { id: call, scarce });
        Ok((call, removed))
    }

    pub(super) fn end(&mut self, id: u64, call: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.calls.retain(|other| other.id != call);
        }
    }

    /// The connection to close of those that match: by rank, then by age.
    fn first(&self, matches: impl Fn(&Entry) -> bool) -> Option<u64> {
        let all = self.entries.iter().filter(|(_, entry)| matches(entry));
        all.min_by_key(|(id, entry)| (entry.rank(), **id)).map(|(id, _)| *id)
    }

    /// Clients that use the most of a resource within the groups that use the most, where `newcomer` takes one more.
    fn hogs(&self, resource: Resource, newcomer: Client) -> Vec<Client> {
        let mut clients = HashMap::<Client, usize>::from([(newcomer, 1)]);
        for entry in self.entries.values() {
            *clients.entry(entry.client).or_default() += entry.uses(resource);
        }
        let mut groups = HashMap::<Group, usize>::new();
        for (client, uses) in &clients {
            *groups.entry(client.group()).or_default() += uses;
        }
        let most = groups.values().copied().max().unwrap_or(0);
        clients.retain(|client, _| groups.get(&client.group()) == Some(&most));
        let most = clients.values().copied().max().unwrap_or(0);
        clients.into_iter().filter_map(|(client, uses)| (uses == most).then_some(client)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        connections: 4,
        connections_per_client: 3,
        calls: 4,
        calls_per_client: 3,
        scarce: &[("Capture", 1)],
        greeting: None,
    };

    fn process(uid: u32, pid: u32) -> Client {
        Client::Process { uid, pid }
    }

    fn open(table: &mut Table, client: Client) -> (u64, Option<Client>) {
        let (id, removed) = table.open(&LIMITS, client, Arc::default());
        (id, removed.map(|(client, _)| client))
    }

    #[test]
    fn the_client_with_the_most_connections_makes_room() {
        let mut table = Table::default();
        for _ in 0..3 {
            assert_eq!(open(&mut table, process(1, 1)).1, None);
        }
        // It has as many as a client may: its own oldest goes.
        assert_eq!(open(&mut table, process(1, 1)).1, Some(process(1, 1)));
        assert_eq!(open(&mut table, process(2, 2)).1, None);
        assert_eq!(table.len(), 4);
        assert_eq!(open(&mut table, process(3, 3)).1, Some(process(1, 1)));
        assert_eq!(open(&mut table, process(4, 4)).1, Some(process(1, 1)));
        // One each: the oldest goes.
        assert_eq!(open(&mut table, process(5, 5)).1, Some(process(1, 1)));
        assert_eq!(open(&mut table, process(6, 6)).1, Some(process(2, 2)));
        assert_eq!(table.len(), 4);
    }

    #[test]
    fn processes_of_one_user_are_counted_together() {
        let mut table = Table::default();
        open(&mut table, process(0, 1));
        for pid in 10..100 {
            open(&mut table, process(1000, pid));
        }
        assert!(table.entries.values().any(|entry| entry.client == process(0, 1)), "{table:?}");
        assert_eq!(open(&mut table, process(0, 2)).1, Some(process(1000, 97)));
    }

    #[test]
    fn silent_connections_go_first_then_idle_ones() {
        let mut table = Table::default();
        let ids: Vec<u64> = (0..3).map(|_| open(&mut table, process(1, 1)).0).collect();
        table.spoke(ids[0]);
        table.spoke(ids[1]);
        assert!(table.begin(&LIMITS, ids[0], "Get").is_ok());
        let (fourth, _) = open(&mut table, process(1, 1));
        assert!(!table.entries.contains_key(&ids[2]), "the silent one");
        table.spoke(fourth);
        let (fifth, _) = open(&mut table, process(1, 1));
        assert!(!table.entries.contains_key(&ids[1]), "the idle one");
        table.spoke(fifth);
        assert!(table.begin(&LIMITS, fifth, "Get").is_ok() && table.begin(&LIMITS, fourth, "Get").is_ok());
        open(&mut table, process(1, 1));
        assert!(!table.entries.contains_key(&ids[0]), "the oldest, where all are busy");
    }

    #[test]
    fn connections_that_stay_silent_expire() {
        let mut table = Table::default();
        let (spoken, _) = open(&mut table, process(1, 1));
        open(&mut table, process(2, 2));
        table.spoke(spoken);
        assert!(table.expire(Duration::from_secs(3600)).is_empty());
        let expired = table.expire(Duration::ZERO);
        assert_eq!(expired.iter().map(|(client, _)| *client).collect::<Vec<_>>(), [process(2, 2)]);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn the_client_with_the_most_calls_makes_room() {
        let mut table = Table::default();
        let (hog, _) = open(&mut table, process(1, 1));
        for _ in 0..3 {
            assert!(table.begin(&LIMITS, hog, "Get").is_ok());
        }
        assert!(table.begin(&LIMITS, hog, "Get").is_err(), "a client's limit");
        let (second, _) = open(&mut table, process(2, 2));
        let (call, removed) = table.begin(&LIMITS, second, "Get").unwrap();
        assert!(removed.is_none());
        let (third, _) = open(&mut table, process(3, 3));
        assert_eq!(table.begin(&LIMITS, third, "Get").unwrap().1.unwrap().0, process(1, 1));
        assert_eq!(table.calls(), 2);
        table.end(second, call);
        table.end(hog, 0);
        assert_eq!(table.calls(), 1);
    }

    #[test]
    fn a_method_may_have_a_limit_of_its_own() {
        let mut table = Table::default();
        let (one, _) = open(&mut table, process(1, 1));
        let (other, _) = open(&mut table, process(1, 1));
        let (call, _) = table.begin(&LIMITS, one, "Capture").unwrap();
        let refused = table.begin(&LIMITS, other, "Capture").unwrap_err();
        assert_eq!(refused, Busy::Scarce { method: "Capture", limit: 1 });
        assert!(table.begin(&LIMITS, other, "Get").is_ok());
        table.end(one, call);
        assert!(table.begin(&LIMITS, other, "Capture").is_ok());
    }

    #[test]
    fn a_newcomer_is_served_where_all_have_one_call() {
        let mut table = Table::default();
        let first: Vec<_> = (0..4)
            .map(|pid| {
                let (id, _) =
                    table.open(&Limits { connections: 100, ..LIMITS }, process(0, pid), Arc::default());
                table.begin(&LIMITS, id, "Get").unwrap();
                id
            })
            .collect();
        let (id, _) = table.open(&Limits { connections: 100, ..LIMITS }, process(0, 9), Arc::default());
        assert_eq!(table.begin(&LIMITS, id, "Get").unwrap().1.unwrap().0, process(0, 0));
        // With a single connection there is nothing else to close.
        let mut alone = Table::default();
        let (id, _) = open(&mut alone, process(0, 0));
        let one = Limits { calls: 1, ..LIMITS };
        assert!(alone.begin(&one, id, "Get").is_ok());
        assert!(alone.begin(&one, id, "Get").is_err());
        assert_eq!(first.len(), 4);
    }
}
