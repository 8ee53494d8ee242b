//! The side that opens TCP connections.

use super::machine::Context;
use super::{Rules, State, Tcb};
use crate::stateful::address::Address;
use crate::stateful::clock::Now;
use crate::stateful::counts::Counts;
use crate::stateful::endpoint::{Endpoint, Opener};
use crate::stateful::endpoints::Endpoints;
use crate::stateful::mix::mix;
use crate::stateful::outbox::Outbox;
use crate::stateful::packet::Segment;
use crate::stateful::timers::Timers;
use memory::region::prefetch_write;

/// No place.
const NOWHERE: u32 = u32::MAX;
/// Timers that are dealt with in one go.
const DUE: usize = 256;
/// Places that are tried for one new connection.
const TRIES: usize = 16;

/// Clients: one place per address and port, which is found by computing and not by searching. So whatever a device on
/// the way does to addresses, a segment that comes back to a client is known by the address it comes to, and told from
/// those of an earlier connection by its sequence numbers.
#[derive(Debug)]
pub struct Client<A: Address> {
    places: Vec<Tcb<A>>,
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
    /// Clients at `own`, each of which connects to one of `servers`, with up to `concurrent` connections at a time.
    #[must_use]
    pub fn new(own: Endpoints<A>, servers: Endpoints<A>, rules: Rules, concurrent: u64) -> Self {
        Self {
            places: vec![Tcb::default(); own.len() as usize],
            own,
            servers,
            timers: Timers::new(rules.rto),
            due: Vec::with_capacity(DUE),
            rules,
            next: 0,
            concurrent,
            counts: Counts::default(),
            latencies: Vec::new(),
        }
    }

    /// Whether no connection holds anything: for tests.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.places.iter().all(|tcb| matches!(tcb.state, State::Closed | State::TimeWait))
    }

    #[inline(always)]
    fn with<R>(
        &mut self,
        place: u32,
        now: Now,
        out: &mut Outbox<Segment<A>>,
        work: impl FnOnce(&mut Context<'_, A>, &mut Tcb<A>) -> R,
    ) -> Option<R> {
        let tcb = self.places.get_mut(place as usize)?;
        let mut context = Context { rules: &self.rules, now, out, counts: &mut self.counts };
        let result = work(&mut context, tcb);
        // An address in TIME-WAIT is looked at when it is its turn again.
        if tcb.state.is_used()
            && tcb.state != State::TimeWait
            && (tcb.timer_at == 0 || tcb.deadline < tcb.timer_at)
        {
            tcb.timer_at = tcb.deadline;
            self.timers.set(place, tcb.deadline, now.tick);
        }
        Some(result)
    }

    /// A fresh connection of place `n`, if there is none.
    #[inline(always)]
    fn fresh(&self, n: u32, now: Now) -> Option<Tcb<A>> {
        let old = self.places.get(n as usize)?;
        let free = match old.state {
            State::Closed => true,
            State::TimeWait => old.deadline <= now.tick,
            _ => false,
        };
        if !free {
            return None;
        }
        let (local, local_port) = self.own.at(n);
        let (remote, remote_port) = self.servers.at(n % self.servers.len() as u32);
        // The first number follows from the seed, each further one from the connection before (RFC 9293 section 3.4.1).
        let iss = if old.local == A::default() {
            mix(u64::from(n), self.rules.seed) as u32
        } else {
            old.max.wrapping_add(0x1_0000)
        };
        Some(Tcb {
            local,
            remote,
            local_port,
            remote_port,
            iss,
            una: iss,
            stamp: now.stamp,
            timer_at: old.timer_at,
            mss: self.rules.mss,
            ..Tcb::default()
        })
    }
}

impl<A: Address> Endpoint for Client<A> {
    type Packet = Segment<A>;

    #[inline(always)]
    fn place(&self, segment: &Segment<A>) -> u32 {
        let Some(place) = self.own.number(segment.dst, segment.dst_port) else { return NOWHERE };
        if let Some(tcb) = self.places.get(place as usize) {
            prefetch_write(core::ptr::from_ref(tcb).cast());
        }
        place
    }

    #[inline(always)]
    fn arrive(&mut self, place: u32, segment: &Segment<A>, now: Now, out: &mut Outbox<Segment<A>>) {
        let latency = self.with(place, now, out, |context, tcb| {
            if !tcb.state.is_used() {
                context.reject(segment);
                return None;
            }
            let opening = tcb.state == State::SynSent;
            context.arrive(tcb, segment);
            // Whatever it has become by now, it has been established if it was not given up.
            let established = opening && tcb.una != tcb.iss;
            established.then(|| now.since(tcb.stamp))
        });
        match latency {
            Some(Some(latency)) => self.latencies.push(latency),
            Some(None) => {}
            None => self.counts.stray += 1,
        }
    }

    #[inline]
    fn expire(&mut self, now: Now, out: &mut Outbox<Segment<A>>) {
        let mut due = core::mem::take(&mut self.due);
        self.timers.due(now.tick, &mut due);
        for place in &due {
            if let Some(tcb) = self.places.get(*place as usize) {
                prefetch_write(core::ptr::from_ref(tcb).cast());
            }
        }
        for place in &due {
            self.with(*place, now, out, |context, tcb| {
                if tcb.timer_fired(now.tick) {
                    context.due(tcb);
                }
            });
        }
        self.due = due;
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl<A: Address> Opener for Client<A> {
    #[inline]
    fn open(&mut self, n: usize, now: Now, out: &mut Outbox<Segment<A>>) -> usize {
        let places = self.places.len() as u32;
        let room = self.concurrent.saturating_sub(self.counts.active());
        let n = n.min(usize::try_from(room).unwrap_or(usize::MAX));
        let mut opened = 0;
        let mut tries = TRIES;
        while opened < n {
            let place = self.next;
            self.next = if place + 1 >= places { 0 } else { place + 1 };
            if let Some(ahead) = self.places.get(self.next as usize + 8) {
                prefetch_write(core::ptr::from_ref(ahead).cast());
            }
            let Some(fresh) = self.fresh(place, now) else {
                tries -= 1;
                if tries == 0 {
                    self.counts.no_place += 1;
                    break;
                }
                continue;
            };
            self.with(place, now, out, |context, tcb| {
                *tcb = fresh;
                context.open(tcb);
            });
            opened += 1;
        }
        opened
    }

    fn latencies(&mut self) -> &mut Vec<u64> {
        &mut self.latencies
    }
}
