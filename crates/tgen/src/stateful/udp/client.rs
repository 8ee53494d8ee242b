//! The side that asks.

use crate::stateful::address::Address;
use crate::stateful::clients::Clients;
use crate::stateful::clock::Now;
use crate::stateful::counts::{Cause, Counts};
use crate::stateful::endpoint::{Endpoint, Opener};
use crate::stateful::endpoints::Endpoints;
use crate::stateful::outbox::Outbox;
use crate::stateful::packet::{Datagram, TAG_LEN};
use memory::region::prefetch_write;

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

/// The clients' flows, each in its client's place. Datagrams of an earlier flow are told by their tags.
#[derive(Debug)]
pub struct Client<A> {
    flows: Vec<Flow>,
    clients: Clients<A>,
    rules: Rules,
}

impl<A: Address> Client<A> {
    /// Clients at `own`, each of which asks one of `servers`, with up to `concurrent` flows at a time.
    #[must_use]
    pub fn new(own: Endpoints<A>, servers: Endpoints<A>, rules: Rules, concurrent: u64) -> Self {
        let flows = vec![Flow { life: rules.seed, ..Flow::default() }; own.len() as usize];
        Self { flows, clients: Clients::new(own, servers, rules.timeout, concurrent), rules }
    }

    /// Sends the request of the current turn and sets its deadline.
    #[inline(always)]
    fn ask(&mut self, place: u32, now: Now, out: &mut Outbox<Datagram<A>>) {
        let ((src, src_port), (dst, dst_port)) = self.clients.ends(place);
        let Some(flow) = self.flows.get_mut(place as usize) else { return };
        out.push(Datagram {
            src,
            dst,
            src_port,
            dst_port,
            len: self.rules.request.max(TAG_LEN),
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
            self.clients.timers.set(place, flow.deadline, now.tick);
        }
    }

    #[inline(always)]
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
        let place = self.clients.place(response.dst, response.dst_port);
        self.prefetch(place);
        place
    }

    #[inline(always)]
    fn arrive(&mut self, place: u32, response: &Datagram<A>, now: Now, out: &mut Outbox<Datagram<A>>) {
        let awaited = |flow: &&mut Flow| {
            flow.state == State::Asked
                && (response.flow, response.life, response.turn) == (place, flow.life, flow.turn)
        };
        let Some(flow) = self.flows.get_mut(place as usize).filter(awaited) else {
            self.clients.counts.stray += 1;
            return;
        };
        self.clients.counts.messages += 1;
        self.clients.counts.bytes += u64::from(response.len);
        if flow.turn == 0 {
            self.clients.counts.established += 1;
            self.clients.latencies.push(now.since(flow.stamp));
        }
        flow.turn += 1;
        if flow.turn < self.rules.turns {
            self.ask(place, now, out);
        } else if self.rules.hold > 0 {
            flow.state = State::Held;
            flow.deadline = now.tick.wrapping_add(self.rules.hold);
            self.arm(place, now);
        } else {
            self.clients.counts.closed += 1;
            self.end(place, now);
        }
    }

    #[inline]
    fn expire(&mut self, now: Now, _: &mut Outbox<Datagram<A>>) {
        let due = self.clients.due(now);
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
                    self.clients.counts.fail(Cause::Timeout);
                    self.end(*place, now);
                }
                State::Held => {
                    self.clients.counts.closed += 1;
                    self.end(*place, now);
                }
            }
        }
        self.clients.done(due);
    }

    fn counts(&self) -> &Counts {
        &self.clients.counts
    }
}

impl<A: Address> Opener for Client<A> {
    #[inline]
    fn open(&mut self, n: usize, now: Now, out: &mut Outbox<Datagram<A>>) -> usize {
        let (n, mut turn) = self.clients.turn(n);
        let opened = turn.open(n, |place, soon| {
            self.prefetch(soon);
            let free = |flow: &&mut Flow| flow.state == State::Free && flow.deadline <= now.tick;
            let Some(flow) = self.flows.get_mut(place as usize).filter(free) else { return false };
            flow.turn = 0;
            flow.stamp = now.stamp;
            self.clients.counts.attempted += 1;
            self.ask(place, now, out);
            true
        });
        self.clients.end(turn);
        opened
    }

    fn latencies(&mut self) -> &mut Vec<u64> {
        &mut self.clients.latencies
    }
}
