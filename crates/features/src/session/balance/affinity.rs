//! Which backend a client had last: a table that all workers share, without locks.
//!
//! An entry is one word: who (20 bits of a hash of client and VIP), the backend's account (24 bits), and when its last session began (20 bits of
//! seconds). Eight of them are a cache line, which the hash says. Two clients of the same line and the same 20 bits have one entry: each then
//! has a backend of that VIP all the same.

use core::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lines: 4 MiB, for half a million clients.
const LINES: usize = 1 << 16;
/// Entries of a line.
const WAYS: usize = 8;
const ACCOUNT_BITS: u32 = 24;
const TIME_BITS: u32 = 20;
/// Accounts that an entry can name.
pub(super) const MAX_ACCOUNT: u32 = (1 << ACCOUNT_BITS) - 1;
/// Seconds that it can tell apart, at most: twelve days.
const MAX_SECONDS: u32 = (1 << TIME_BITS) - 1;
/// Seconds by which one worker's clock may be ahead of another's: each has that of its round.
const AHEAD: u32 = 16;

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; WAYS]);

/// Clients and their backends.
pub struct Affinity(Box<[Line]>);

impl fmt::Debug for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Affinity")
    }
}

impl Default for Affinity {
    fn default() -> Self {
        Self((0..LINES).map(|_| Line::default()).collect())
    }
}

/// A client of a VIP: a hash of 64 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client(pub(super) u64);

#[derive(Clone, Copy)]
struct Entry {
    tag: u64,
    account: u32,
    seconds: u32,
}

impl Entry {
    /// 0 is an empty one: a tag is never 0.
    const fn pack(self) -> u64 {
        self.tag << (ACCOUNT_BITS + TIME_BITS)
            | (self.account as u64) << TIME_BITS
            | (self.seconds & MAX_SECONDS) as u64
    }

    const fn unpack(word: u64) -> Self {
        Self {
            tag: word >> (ACCOUNT_BITS + TIME_BITS),
            account: (word >> TIME_BITS) as u32 & MAX_ACCOUNT,
            seconds: word as u32 & MAX_SECONDS,
        }
    }

    /// Seconds since, whatever has wrapped. None where another worker, whose clock is a little ahead, has written it just now.
    const fn age(self, now: u32) -> u32 {
        let age = now.wrapping_sub(self.seconds) & MAX_SECONDS;
        if age > MAX_SECONDS - AHEAD { 0 } else { age }
    }
}

impl Client {
    const fn tag(self) -> u64 {
        self.0 >> 44 | 1
    }
}

impl Affinity {
    fn line(&self, client: Client) -> &[AtomicU64; WAYS] {
        &self.0[client.0 as usize % LINES].0
    }

    /// The account that the client had last, and how many seconds ago.
    pub(super) fn last(&self, client: Client, now: u32) -> Option<(u32, u32)> {
        let entries = self.line(client).iter().map(|word| Entry::unpack(word.load(Ordering::Relaxed)));
        let its = entries.filter(|entry| entry.tag == client.tag()).min_by_key(|entry| entry.age(now));
        its.map(|entry| (entry.account, entry.age(now)))
    }

    /// The client has that account now. What it had before makes room, or an empty entry, or the oldest one.
    pub(super) fn put(&self, client: Client, account: u32, now: u32) {
        let rank = |word: &&AtomicU64| {
            let word = word.load(Ordering::Relaxed);
            let entry = Entry::unpack(word);
            match word {
                0 => u64::from(u32::MAX),
                _ if entry.tag == client.tag() => u64::MAX,
                _ => u64::from(entry.age(now)),
            }
        };
        if let Some(word) = self.line(client).iter().max_by_key(rank) {
            // Of two workers that do this at once, one is forgotten: its client is given a backend again next time.
            word.store(Entry { tag: client.tag(), account, seconds: now }.pack(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_when_a_client_came_last() {
        let table = Affinity::default();
        let (one, other) = (Client(0x1234_5678_9abc_def0), Client(0xfedc_5678_9abc_def0));
        assert_eq!(table.last(one, 100), None);
        table.put(one, MAX_ACCOUNT, 100);
        table.put(other, 7, 100);
        assert_eq!(table.last(one, 159), Some((MAX_ACCOUNT, 59)));
        assert_eq!(table.last(one, 99), Some((MAX_ACCOUNT, 0)), "by a clock that is behind");
        table.put(one, 3, 160);
        assert_eq!((table.last(one, 160), table.last(other, 100)), (Some((3, 0)), Some((7, 0))));
        let used = table.line(one).iter().filter(|word| word.load(Ordering::Relaxed) != 0);
        assert_eq!(used.count(), 2, "it has one entry");
    }

    #[test]
    fn the_oldest_makes_room_and_clocks_wrap() {
        let table = Affinity::default();
        let client = |number: u64| Client(number << 45 | 5);
        let start = MAX_SECONDS - 3;
        (0..9).for_each(|number| table.put(client(number), number as u32, start + number as u32));
        let known: Vec<_> = (0..9).filter_map(|number| table.last(client(number), start + 9)).collect();
        assert_eq!(known, [1, 2, 3, 4, 5, 6, 7, 8].map(|number| (number, 9 - number)));
    }
}
