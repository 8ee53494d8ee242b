//! What the opening sides of both protocols have in common: whose turn it is, and when something is due.

use super::address::Address;
use super::clock::Now;
use super::counts::Counts;
use super::endpoints::Endpoints;
use super::timers::Timers;

/// No place.
const NOWHERE: u32 = u32::MAX;
/// Timers that are dealt with in one go.
const DUE: usize = 256;
/// Places that are tried for one new connection.
const TRIES: usize = 16;

/// Clients without their connections. One place per address and port, which is found by computing and not by searching: so
/// whatever a device on the way does to addresses, what comes back is known by the address it comes to.
#[derive(Debug)]
pub struct Clients<A> {
    /// Addresses and ports of clients; the number of each is its place.
    pub own: Endpoints<A>,
    /// Addresses and ports of servers.
    pub servers: Endpoints<A>,
    /// Timers of places.
    pub timers: Timers,
    /// What was counted.
    pub counts: Counts,
    /// New connections' latencies.
    pub latencies: Vec<u64>,
    due: Vec<u32>,
    next: u32,
    concurrent: u64,
}

impl<A: Address> Clients<A> {
    /// Clients at `own` of `servers`, with up to `concurrent` connections at a time, most of whose timers are set for `delay`
    /// milliseconds.
    pub fn new(own: Endpoints<A>, servers: Endpoints<A>, delay: u32, concurrent: u64) -> Self {
        Self {
            own,
            servers,
            timers: Timers::new(delay),
            counts: Counts::default(),
            latencies: Vec::new(),
            due: Vec::with_capacity(DUE),
            next: 0,
            concurrent,
        }
    }

    /// Addresses and ports of a client and its server.
    #[inline(always)]
    pub fn ends(&self, place: u32) -> ((A, u16), (A, u16)) {
        (self.own.at(place), self.servers.at(place % self.servers.len() as u32))
    }

    /// The place of whom a packet goes to; one that isn't there where that is nobody.
    #[inline(always)]
    pub fn place(&self, address: A, port: u16) -> u32 {
        self.own.number(address, port).unwrap_or(NOWHERE)
    }

    /// Places whose timers have fired; to be [given back](Self::done).
    #[inline(always)]
    pub fn due(&mut self, now: Now) -> Vec<u32> {
        let mut due = core::mem::take(&mut self.due);
        self.timers.due(now.tick, &mut due);
        due
    }

    /// What was due is dealt with.
    #[inline(always)]
    pub fn done(&mut self, due: Vec<u32>) {
        self.due = due;
    }

    /// How many of `n` connections there is room for, and a turn in which to open them.
    #[inline(always)]
    pub fn turn(&self, n: usize) -> (usize, Turn) {
        let room = self.concurrent.saturating_sub(self.counts.active());
        let places = self.own.len() as u32;
        (n.min(usize::try_from(room).unwrap_or(usize::MAX)), Turn { next: self.next, places, tries: TRIES })
    }

    /// The turn is over.
    #[inline(always)]
    pub fn end(&mut self, turn: Turn) {
        self.next = turn.next;
        self.counts.no_place += u64::from(turn.tries == 0);
    }
}

/// Places one after the other, until too many were taken.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    next: u32,
    places: u32,
    tries: usize,
}

impl Turn {
    /// Tries places until `n` connections are open; gives how many are. `open` is told a place and one that comes soon.
    #[inline(always)]
    pub fn open(&mut self, n: usize, mut open: impl FnMut(u32, u32) -> bool) -> usize {
        let mut opened = 0;
        while opened < n && self.tries > 0 {
            let place = self.next;
            self.next = if place + 1 >= self.places { 0 } else { place + 1 };
            if open(place, self.next.wrapping_add(8)) {
                opened += 1;
            } else {
                self.tries -= 1;
            }
        }
        opened
    }
}
