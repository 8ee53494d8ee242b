//! The side that asks.

use crate::stateful::address::Address;
use crate::stateful::clock::Now;
use crate::stateful::counts::{Cause, Counts};
use crate::stateful::endpoint::{Endpoint, Opener};
use crate::stateful::endpoints::Endpoints;
use crate::stateful::outbox::Outbox;
use crate::stateful::packet::{Datagram, MAGIC, TAG_LEN};
use crate::stateful::timers::Timers;
use memory::region::prefetch_write;

/// No place.
const NOWHERE: u32 = u32::MAX;
const DUE: usize = 256;
const TRIES: usize = 16;

/// What all flows have in common. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Requests of a flow; at least one.
    pub turns: u32,
    /// Bytes of a request.
    pub request: u16,
    /// How long to wait for a response, after which the flow has failed.
    pub timeout: u32,
    /// How long a flow is kept after its last response.
    pub hold: u32,
    /// How long a client's address and port aren't used again.
    pub time_wait: u32,
    /// Number of a place's first life.
    pub seed: u32,
}

/// State of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
enum State {
    /// There is none; a new one may begin at the deadline.
    #[default]
    Free,
    /// A request is sent.
    Asked,
    /// All responses are there.
    Held,
}

/// One flow, half a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(32))]
pub struct Flow {
    deadline: u32,
    timer_at: u32,
    stamp: u32,
    life: u32,
    turn: u32,
    state: State,
}

const _: () = assert!(size_of::<Flow>() == 32);

/// Clients: one place per address and port. What comes back is known by the address it comes to, and by its tag.
#[derive(Debug)]
pub struct Client<A> {
    flows: Vec<Flow>,
    own: Endpoints<A>,
    servers: Endpoints<A>,
    rules: Rules,
    timers: Timers,
    due: Vec<u32>,
    next: u32,
    concurrent: u64,
    counts: Counts,
    latencies: Vec<u64>,
}

impl<A: Address> Client<A> {
    /// Clients at `own`, each of which asks one of `servers`, with up to `concurrent` flows at a time.
    #[must_use]
    pub fn new(own: Endpoints<A>, servers: Endpoints<A>, rules: Rules, concurrent: u64) -> Self {
        let flow = Flow { life: rules.seed, ..Flow::default() };
        Self {
            flows: vec![flow; own.len() as usize],
            own,
            servers,
            timers: Timers::new(rules.timeout),
            due: Vec::with_capacity(DUE),
            rules,
            next: 0,
            concurrent,
            counts: Counts::default(),
            latencies: Vec::new(),
        }
    }

    /// Sends the request of the current turn and sets its deadline.
    #[inline(always)]
    fn ask(&mut self, place: u32, now: Now, out: &mut Outbox<Datagram<A>>) {
        let (src, src_port) = self.own.at(place);
        let (dst, dst_port) = self.servers.at(place % self.servers.len() as u32);
        let Some(flow) = self.flows.get_mut(place as usize) else { return };
        out.push(Datagram {
            src,
            dst,
            src_port,
            dst_port,
            len: self.rules.request.max(TAG_LEN),
            magic: MAGIC,
            flow: place,
            life: flow.life,
            turn: flow.turn,
        });
        flow.state = State::Asked;
        flow.deadline = now.tick.wrapping_add(self.rules.timeout);
        self.arm(place, now);
    }

    #[inline(always)]
    fn arm(&mut self, place: u32, now: Now) {
        let Some(flow) = self.flows.get_mut(place as usize) else { return };
        if flow.timer_at == 0 || flow.deadline < flow.timer_at {
            flow.timer_at = flow.deadline;
            self.timers.set(place, flow.deadline, now.tick);
        }
    }

    fn prefetch(&self, place: u32) {
        if let Some(flow) = self.flows.get(place as usize) {
            prefetch_write(core::ptr::from_ref(flow).cast());
        }
    }

    /// The flow at `place` is over.
    #[inline(always)]
    fn end(&mut self, place: u32, now: Now) {
        if let Some(flow) = self.flows.get_mut(place as usize) {
            flow.state = State::Free;
            flow.life = flow.life.wrapping_add(1);
            flow.deadline = now.tick.wrapping_add(self.rules.time_wait);
        }
    }
}

impl<A: Address> Endpoint for Client<A> {
    type Packet = Datagram<A>;

    #[inline(always)]
    fn place(&self, response: &Datagram<A>) -> u32 {
        let place = self.own.number(response.dst, response.dst_port).unwrap_or(NOWHERE);
        self.prefetch(place);
        place
    }

    #[inline(always)]
    fn arrive(&mut self, place: u32, response: &Datagram<A>, now: Now, out: &mut Outbox<Datagram<A>>) {
        let awaited = |flow: &&mut Flow| {
            flow.state == State::Asked
                && response.magic == MAGIC
                && (response.flow, response.life, response.turn) == (place, flow.life, flow.turn)
        };
        let Some(flow) = self.flows.get_mut(place as usize).filter(awaited) else {
            self.counts.stray += 1;
            return;
        };
        self.counts.messages += 1;
        self.counts.bytes += u64::from(response.len);
        if flow.turn == 0 {
            self.counts.established += 1;
            self.latencies.push(now.since(flow.stamp));
        }
        flow.turn += 1;
        if flow.turn < self.rules.turns {
            self.ask(place, now, out);
        } else if self.rules.hold > 0 {
            flow.state = State::Held;
            flow.deadline = now.tick.wrapping_add(self.rules.hold);
            self.arm(place, now);
        } else {
            self.counts.closed += 1;
            self.end(place, now);
        }
    }

    #[inline]
    fn expire(&mut self, now: Now, _: &mut Outbox<Datagram<A>>) {
        let mut due = core::mem::take(&mut self.due);
        self.timers.due(now.tick, &mut due);
        due.iter().for_each(|place| self.prefetch(*place));
        for place in &due {
            let Some(flow) = self.flows.get_mut(*place as usize) else { continue };
            if flow.timer_at == 0 || now.tick < flow.timer_at {
                continue;
            }
            flow.timer_at = 0;
            match flow.state {
                State::Free => {}
                _ if flow.deadline > now.tick => self.arm(*place, now),
                State::Asked => {
                    self.counts.fail(Cause::Timeout);
                    self.end(*place, now);
                }
                State::Held => {
                    self.counts.closed += 1;
                    self.end(*place, now);
                }
            }
        }
        self.due = due;
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl<A: Address> Opener for Client<A> {
    #[inline]
    fn open(&mut self, n: usize, now: Now, out: &mut Outbox<Datagram<A>>) -> usize {
        let places = self.flows.len() as u32;
        let room = self.concurrent.saturating_sub(self.counts.active());
        let n = n.min(usize::try_from(room).unwrap_or(usize::MAX));
        let (mut opened, mut tries) = (0, TRIES);
        while opened < n {
            let place = self.next;
            self.next = if place + 1 >= places { 0 } else { place + 1 };
            self.prefetch(self.next.wrapping_add(8));
            let free = |flow: &&mut Flow| flow.state == State::Free && flow.deadline <= now.tick;
            let Some(flow) = self.flows.get_mut(place as usize).filter(free) else {
                tries -= 1;
                if tries == 0 {
                    self.counts.no_place += 1;
                    break;
                }
                continue;
            };
            flow.turn = 0;
            flow.stamp = now.stamp;
            self.counts.attempted += 1;
            self.ask(place, now, out);
            opened += 1;
        }
        opened
    }

    fn latencies(&mut self) -> &mut Vec<u64> {
        &mut self.latencies
    }
}
