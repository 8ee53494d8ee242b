//! Connections by the addresses and ports that are seen.
//!
//! Open addressing with linear search: a connection is its own entry, so that a packet whose connection lies in its
//! first place costs one cache line. Entries never move, which lets timers know them by their place; a removed one is
//! marked so that searches go on behind it, and the mark goes when nothing stands behind it any more.

use super::{State, Tcb};
use crate::stateful::address::Address;
use crate::stateful::mix::mix;
use crate::stateful::packet::Segment;

/// Where a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// At the connection.
    Connection(u32),
    /// There is no such connection; it would go here.
    Room(u32),
    /// There is none, and no room for it.
    Full,
}

/// The table.
#[derive(Debug)]
pub struct Table<A: Address> {
    entries: Vec<Tcb<A>>,
    seed: u64,
    used: usize,
    limit: usize,
}

impl<A: Address> Table<A> {
    /// A table for up to `connections`, which take up at most three quarters of its places.
    #[must_use]
    pub fn new(connections: u64, seed: u64) -> Self {
        let limit = connections.clamp(1, 1 << 30) as usize;
        let places = limit + limit.div_ceil(3) + 1;
        Self { entries: vec![Tcb::default(); places], seed, used: 0, limit }
    }

    /// Connections in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The place where the search for a segment's connection begins.
    #[inline(always)]
    #[must_use]
    pub fn first(&self, segment: &Segment<A>) -> u32 {
        let addresses = segment.src.bits().rotate_left(32) ^ segment.dst.bits();
        let ports = u64::from(segment.src_port) << 16 | u64::from(segment.dst_port);
        let hash = u64::from(mix(addresses, self.seed ^ ports) as u32);
        // Spreads 32 bits evenly over any number of places (below 2^32).
        ((hash * self.entries.len() as u64) >> 32) as u32
    }

    /// The place behind one, in a ring.
    #[inline(always)]
    fn next(&self, place: u32) -> u32 {
        if place as usize + 1 >= self.entries.len() { 0 } else { place + 1 }
    }

    /// Searches a segment's connection from its first place on.
    #[inline(always)]
    #[must_use]
    pub fn find(&self, first: u32, segment: &Segment<A>) -> Found {
        let mut place = first;
        let mut room = None;
        for _ in 0..self.entries.len() {
            let Some(tcb) = self.entries.get(place as usize) else { break };
            match tcb.state {
                State::Closed => {
                    room = room.or(Some(place));
                    break;
                }
                State::Removed => room = room.or(Some(place)),
                _ => {
                    let same = tcb.remote == segment.src
                        && tcb.local == segment.dst
                        && tcb.remote_port == segment.src_port
                        && tcb.local_port == segment.dst_port;
                    if same {
                        return Found::Connection(place);
                    }
                }
            }
            place = self.next(place);
        }
        match room {
            Some(place) if self.used < self.limit => Found::Room(place),
            _ => Found::Full,
        }
    }

    /// A place.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, place: u32) -> Option<&Tcb<A>> {
        self.entries.get(place as usize)
    }

    /// A place, to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, place: u32) -> Option<&mut Tcb<A>> {
        self.entries.get_mut(place as usize)
    }

    /// Puts a connection into a place that [`find`](Self::find) gave as room.
    #[inline(always)]
    pub fn insert(&mut self, place: u32, connection: Tcb<A>) {
        if let Some(entry) = self.entries.get_mut(place as usize) {
            *entry = connection;
            self.used += 1;
        }
    }

    /// The connection at `place` has ended.
    #[inline(always)]
    pub fn remove(&mut self, place: u32) {
        self.used -= 1;
        let next = self.next(place);
        let last = self.entries.get(next as usize).is_some_and(|tcb| tcb.state == State::Closed);
        let Some(entry) = self.entries.get_mut(place as usize) else { return };
        if !last {
            entry.state = State::Removed;
            return;
        }
        entry.state = State::Closed;
        // Marks before it have nothing behind them either.
        let end = self.entries.len() as u32 - 1;
        let mut before = place.checked_sub(1).unwrap_or(end);
        while let Some(entry) = self.entries.get_mut(before as usize)
            && entry.state == State::Removed
        {
            entry.state = State::Closed;
            before = before.checked_sub(1).unwrap_or(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn segment(n: u32) -> Segment {
        Segment { src: n, dst: 9, src_port: 1, dst_port: 2, ..Segment::default() }
    }

    /// A map says what the table must say, through many additions and removals.
    #[test]
    fn follows_a_map() {
        let mut table = Table::new(64, 5);
        let mut model = HashMap::new();
        let mut random = 1u64;
        for _ in 0..100_000 {
            random = mix(random, 3);
            let key = segment((random % 200) as u32);
            let found = table.find(table.first(&key), &key);
            match (found, model.get(&key.src).copied()) {
                (Found::Connection(place), Some(expected)) => {
                    assert_eq!(place, expected);
                    table.get_mut(place).unwrap().state = State::Closed;
                    table.remove(place);
                    model.remove(&key.src);
                }
                (Found::Room(place), None) => {
                    assert!(model.len() < 64);
                    let connection = Tcb {
                        state: State::Established,
                        remote: key.src,
                        local: key.dst,
                        remote_port: key.src_port,
                        local_port: key.dst_port,
                        ..Tcb::default()
                    };
                    table.insert(place, connection);
                    model.insert(key.src, place);
                }
                (Found::Full, None) => assert_eq!(model.len(), 64),
                other => panic!("{other:?}"),
            }
            assert_eq!(table.len(), model.len());
        }
        for key in model.keys().copied().collect::<Vec<_>>() {
            let key = segment(key);
            let Found::Connection(place) = table.find(table.first(&key), &key) else {
                panic!("{key:?} is lost")
            };
            table.remove(place);
        }
        assert!(table.is_empty());
    }
}
