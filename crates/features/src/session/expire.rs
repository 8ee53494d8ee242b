//! `session-expire`: ends sessions whose time is over, looks through all of them after tenants have changed, and for what they have sent.
//!
//! An input node that brings no packets: so it has its turn in every round, and does a bounded amount of work in it. A worker
//! that sleeps wakes up once a second; it doesn't sleep while there is more to do.

use super::sessions::Sessions;
use super::tenants::{TICK_BITS, Tenants};
use super::traffic;
use graph::locals::LocalKey;
use graph::publish::Key;
use graph::{Ctx, Frame, Node, NodeKind, NodeSpec};

graph::edges! {
    /// Where packets go: there are none.
    enum Next {
        Drop => "drop",
    }
}

graph::counters! {
    /// What is counted.
    enum Counter {
        /// Sessions that ended because nothing was heard of them for their timeout.
        Expired => "expired",
        /// Sessions that ended with their tenant.
        Orphaned => "orphaned",
        /// Sessions that ended because their tenant has as many as it may, and others begin at another worker.
        EvictedForQuota => "evicted-for-quota",
        /// Times that all sessions were looked through, because tenants, rules or VIPs had changed.
        Revisits => "revisits",
        /// Microseconds from the first to the last of them, of all these times together.
        RevisitTime => "revisit-microseconds",
    }
}

/// Steps of the timer wheel in a round: a timer that fires, or moves down a level.
const STEPS: usize = 256;
/// Places of the table that are looked through before it is asked whether to go on.
const SPAN: u32 = 512;
/// How many times that in a round, as long as no session ends: one that ends takes as long as ten that don't. With packets a round is longer, so
/// that a million sessions would take half a second by one part a round; four are some 80 µs.
const PARTS: u32 = 4;

/// Parts of the look for what was sent that a round makes up for at most, where it comes after several ticks.
const SURVEYS: u64 = 4;

struct Expire {
    tenants: Key<Tenants>,
    sessions: LocalKey<Sessions>,
    /// Up to when everything is done.
    tick: u64,
    /// The tenants as sessions know them.
    generation: u64,
    /// Where the look through the sessions goes on.
    revisit: Option<u32>,
    /// When it began, in nanoseconds of the worker's clock.
    began: u64,
    /// Tenants have changed since it began: another one follows.
    again: bool,
    busy: bool,
    /// How often a place was owed to another worker, as far as it was looked into.
    owed: u64,
    /// Some may be left to give back.
    owes: bool,
    /// They are more than a round's.
    pays: bool,
}

impl Expire {
    fn begin_revisit(&mut self, now: u64) {
        (self.revisit, self.began) = (Some(0), now);
    }

    /// Gives places of quotas back that other workers have begun sessions on.
    #[cold]
    fn settle(&mut self, ctx: &mut Ctx<'_>, tenants: &Tenants, tick: u64) {
        let owed = tenants.owed.count();
        let anew = core::mem::replace(&mut self.owed, owed) != owed;
        let sessions = ctx.locals.get(self.sessions);
        let given = sessions.settle(tenants, tick, anew);
        (self.owes, self.pays) = (given.owes, given.more);
        ctx.count(Counter::EvictedForQuota, given.sessions);
    }
}

impl Node for Expire {
    fn process(&mut self, ctx: &mut Ctx<'_>, _: &mut Frame<'_>) {
        let tenants = ctx.tables.get(self.tenants);
        if tenants.generation != self.generation {
            self.generation = tenants.generation;
            // One that is under way goes on, so that those at the end have their turn however often something changes.
            self.again = self.revisit.is_some();
            if !self.again {
                self.begin_revisit(ctx.now);
            }
        }
        let tick = ctx.now >> TICK_BITS;
        if tenants.owed.count() != self.owed || self.owes {
            self.settle(ctx, tenants, tick);
        }
        if tick == self.tick && !self.busy && self.revisit.is_none() {
            return;
        }
        let ticks = tick.saturating_sub(core::mem::replace(&mut self.tick, tick));
        let sessions = ctx.locals.get(self.sessions);
        if sessions.waits() {
            sessions.take_up(tenants, ctx.worker as u32, ctx.now);
        }
        sessions.now_is(tick);
        if ticks > 0 {
            // A worker that sleeps has few rounds, and time for more in each.
            (0..ticks.min(SURVEYS)).for_each(|_| sessions.survey(tick, traffic::SPAN));
            sessions.publish_fill(tick);
        }
        let (mut orphaned, mut took) = (0, None);
        let looks = self.revisit.is_some();
        for _ in 0..PARTS {
            let Some(from) = self.revisit.filter(|_| orphaned == 0) else { break };
            (orphaned, self.revisit) = sessions.revisit(tenants, tick, from, SPAN);
        }
        if looks && self.revisit.is_none() {
            took = Some(ctx.now.saturating_sub(self.began));
            if core::mem::take(&mut self.again) {
                self.begin_revisit(ctx.now);
            }
        }
        let (expired, done) = sessions.expire(tenants, ctx.now, STEPS);
        self.busy = !done || self.revisit.is_some();
        ctx.count(Counter::Expired, expired);
        ctx.count(Counter::Orphaned, orphaned);
        if let Some(nanoseconds) = took {
            ctx.count(Counter::Revisits, 1);
            ctx.count(Counter::RevisitTime, nanoseconds / 1000);
        }
    }

    fn busy(&self) -> bool {
        self.busy || self.pays
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "session-expire",
    help: "Ends sessions whose time is over or whose tenant is gone.",
    kind: NodeKind::Input,
    edges: Next::NAMES,
    counters: Counter::SPECS,
    make: |cx| {
        Box::new(Expire {
            tenants: cx.table(),
            sessions: cx.local(),
            tick: 0,
            generation: 0,
            revisit: None,
            began: 0,
            again: false,
            busy: false,
            owed: 0,
            owes: false,
            pays: false,
        })
    },
    ..NodeSpec::EMPTY
};
