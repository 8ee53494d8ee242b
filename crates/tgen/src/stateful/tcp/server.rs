//! The side that accepts TCP connections.

use super::initial::{following, initial};
use super::machine::Context;
use super::table::Found;
use super::tcb::before;
use super::{Rules, State, Table, Tcb};
use crate::stateful::address::Address;
use crate::stateful::clock::Now;
use crate::stateful::counts::Counts;
use crate::stateful::endpoint::Endpoint;
use crate::stateful::outbox::Outbox;
use crate::stateful::packet::Segment;
use crate::stateful::timers::Timers;
use memory::region::prefetch_write;
use wire::TcpFlags;

/// Timers that are dealt with in one go.
const DUE: usize = 256;

/// Servers: they answer to whatever address and port is asked for, and know a connection by what they see, which need
/// not be what the client has sent.
#[derive(Debug)]
pub struct Server<A: Address> {
    table: Table<A>,
    rules: Rules,
    timers: Timers,
    due: Vec<u32>,
    counts: Counts,
}

impl<A: Address> Server<A> {
    /// Servers with room for `connections` at a time.
    #[must_use]
    pub fn new(rules: Rules, connections: u64) -> Self {
        Self {
            table: Table::new(connections, rules.seed),
            timers: Timers::new(rules.rto),
            due: Vec::with_capacity(DUE),
            rules,
            counts: Counts::default(),
        }
    }

    /// Connections there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    #[inline(always)]
    fn with(
        &mut self,
        place: u32,
        now: Now,
        out: &mut Outbox<Segment<A>>,
        work: impl FnOnce(&mut Context<'_, A>, &mut Tcb<A>),
    ) {
        let Some(tcb) = self.table.get_mut(place) else { return };
        let mut context = Context { rules: &self.rules, now, out, counts: &mut self.counts };
        work(&mut context, tcb);
        if !tcb.state.is_used() {
            // Timers of places without a connection fire, too.
            if tcb.state == State::Closed {
                self.table.remove(place);
            }
        } else if tcb.timer_at == 0 || tcb.deadline < tcb.timer_at {
            tcb.timer_at = tcb.deadline;
            self.timers.set(place, tcb.deadline, now.tick);
        }
    }

    /// A connection as its first segment makes it, in the place of another; of one between the same ends where `again`.
    fn fresh(&self, syn: &Segment<A>, old: &Tcb<A>, again: bool, now: Now) -> Tcb<A> {
        let (local, remote) = ((syn.dst, syn.dst_port), (syn.src, syn.src_port));
        let iss = if again {
            following(old.max, local, remote, &self.rules, now)
        } else {
            initial(local, remote, &self.rules, now)
        };
        Tcb {
            local: syn.dst,
            remote: syn.src,
            local_port: syn.dst_port,
            remote_port: syn.src_port,
            iss,
            una: iss,
            stamp: now.stamp,
            timer_at: old.timer_at,
            ..Tcb::default()
        }
    }
}

impl<A: Address> Endpoint for Server<A> {
    type Packet = Segment<A>;

    #[inline(always)]
    fn place(&self, segment: &Segment<A>) -> u32 {
        let place = self.table.first(segment);
        if let Some(tcb) = self.table.get(place) {
            prefetch_write(core::ptr::from_ref(tcb).cast());
        }
        place
    }

    #[inline(always)]
    fn arrive(&mut self, place: u32, segment: &Segment<A>, now: Now, out: &mut Outbox<Segment<A>>) {
        let syn =
            segment.flags & (TcpFlags::SYN | TcpFlags::ACK | TcpFlags::RST).bits() == TcpFlags::SYN.bits();
        match self.table.find(place, segment) {
            Found::Connection(place) => {
                let over = |tcb: &Tcb<A>| {
                    matches!(tcb.state, State::LastAck | State::TimeWait) && before(tcb.rcv, segment.seq)
                };
                if syn && self.table.get(place).is_some_and(over) {
                    // A new connection from the same place: the other end is through with the old one.
                    self.counts.closed +=
                        u64::from(self.table.get(place).is_some_and(|tcb| tcb.state == State::LastAck));
                    let fresh = self.table.get(place).map(|old| self.fresh(segment, old, true, now));
                    return self.with(place, now, out, |context, tcb| {
                        *tcb = fresh.unwrap_or_default();
                        context.accept(tcb, segment);
                    });
                }
                self.with(place, now, out, |context, tcb| context.arrive(tcb, segment));
            }
            Found::Room(place) if syn => {
                let Some(fresh) = self.table.get(place).map(|old| self.fresh(segment, old, false, now))
                else {
                    return;
                };
                self.table.insert(place, fresh);
                self.with(place, now, out, |context, tcb| context.accept(tcb, segment));
            }
            Found::Full if syn => self.counts.no_place += 1,
            Found::Room(_) | Found::Full => {
                Context { rules: &self.rules, now, out, counts: &mut self.counts }.reject(segment);
            }
        }
    }

    #[inline]
    fn expire(&mut self, now: Now, out: &mut Outbox<Segment<A>>) {
        let mut due = core::mem::take(&mut self.due);
        self.timers.due(now.tick, &mut due);
        for place in &due {
            if let Some(tcb) = self.table.get(*place) {
                prefetch_write(core::ptr::from_ref(tcb).cast());
            }
        }
        for place in &due {
            let Some(tcb) = self.table.get_mut(*place) else { continue };
            let fired = tcb.timer_fired(now.tick);
            if tcb.state.is_used() {
                self.with(*place, now, out, |context, tcb| {
                    if fired {
                        context.due(tcb);
                    }
                });
            }
        }
        self.due = due;
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }
}
