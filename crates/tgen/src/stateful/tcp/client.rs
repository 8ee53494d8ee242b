//! The side that opens TCP connections.

use super::initial::{following, initial};
use super::machine::Context;
use super::{Rules, State, Tcb};
use crate::stateful::address::Address;
use crate::stateful::clients::Clients;
use crate::stateful::clock::Now;
use crate::stateful::counts::Counts;
use crate::stateful::endpoint::{Endpoint, Opener};
use crate::stateful::endpoints::Endpoints;
use crate::stateful::outbox::Outbox;
use crate::stateful::packet::Segment;
use memory::region::prefetch_write;

/// The clients' connections, each in its client's place. Segments of an earlier connection are told by their sequence numbers.
#[derive(Debug)]
pub struct Client<A: Address> {
    places: Vec<Tcb<A>>,
    clients: Clients<A>,
    rules: Rules,
}

impl<A: Address> Client<A> {
    /// Clients at `own`, each of which connects to one of `servers`, with up to `concurrent` connections at a time.
    #[must_use]
    pub fn new(own: Endpoints<A>, servers: Endpoints<A>, rules: Rules, concurrent: u64) -> Self {
        let places = vec![Tcb::default(); own.len() as usize];
        Self { places, clients: Clients::new(own, servers, rules.rto, concurrent), rules }
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
        let mut context = Context { rules: &self.rules, now, out, counts: &mut self.clients.counts };
        let result = work(&mut context, tcb);
        // An address in TIME-WAIT is looked at when it is its turn again.
        if tcb.state.is_used()
            && tcb.state != State::TimeWait
            && (tcb.timer_at == 0 || tcb.deadline < tcb.timer_at)
        {
            tcb.timer_at = tcb.deadline;
            self.clients.timers.set(place, tcb.deadline, now.tick);
        }
        Some(result)
    }

    #[inline(always)]
    fn prefetch(&self, place: u32) {
        if let Some(tcb) = self.places.get(place as usize) {
            prefetch_write(core::ptr::from_ref(tcb).cast());
        }
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
        // A place always has the same ends.
        let (local, remote, iss) = if old.local == A::default() {
            let (local, remote) = self.clients.ends(n);
            (local, remote, initial(local, remote, &self.rules, now))
        } else {
            let (local, remote) = ((old.local, old.local_port), (old.remote, old.remote_port));
            (local, remote, following(old.max, local, remote, &self.rules, now))
        };
        let ((local, local_port), (remote, remote_port)) = (local, remote);
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
        let place = self.clients.place(segment.dst, segment.dst_port);
        self.prefetch(place);
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
            Some(Some(latency)) => self.clients.latencies.push(latency),
            Some(None) => {}
            None => self.clients.counts.stray += 1,
        }
    }

    #[inline]
    fn expire(&mut self, now: Now, out: &mut Outbox<Segment<A>>) {
        let due = self.clients.due(now);
        due.iter().for_each(|place| self.prefetch(*place));
        for place in &due {
            self.with(*place, now, out, |context, tcb| {
                if tcb.timer_fired(now.tick) {
                    context.due(tcb);
                }
            });
        }
        self.clients.done(due);
    }

    fn counts(&self) -> &Counts {
        &self.clients.counts
    }
}

impl<A: Address> Opener for Client<A> {
    #[inline]
    fn open(&mut self, n: usize, now: Now, out: &mut Outbox<Segment<A>>) -> usize {
        let (n, mut turn) = self.clients.turn(n);
        let opened = turn.open(n, |place, soon| {
            self.prefetch(soon);
            let Some(fresh) = self.fresh(place, now) else { return false };
            self.with(place, now, out, |context, tcb| {
                *tcb = fresh;
                context.open(tcb);
            });
            true
        });
        self.clients.end(turn);
        opened
    }

    fn latencies(&mut self) -> &mut Vec<u64> {
        &mut self.clients.latencies
    }
}
