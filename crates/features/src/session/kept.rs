//! Sessions to VIPs that outlive the process that has begun them.
//!
//! Others are begun anew by whatever comes first, from either side. Of these, an answer doesn't say who was asked: only the session knows the VIP. The client would get
//! it with the backend's address, and end the connection.
//!
//! What is kept waits at each worker, which takes up what is its own when it has tables in which the tenants are, before it looks at a packet.

use super::entry::{Direction, Flow, Marks, Session, State};
use super::events::{End, What};
use super::look::Seen;
use super::sessions::Sessions;
use super::tenants::{TICK_BITS, Tenants};
use graph::IfIndex;
use std::sync::atomic::Ordering;
use tables::session::{Endpoint, Inserted, Key};

/// A session that has a backend, as far as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Number of its tenant.
    pub tenant: u16,
    /// The interface that its first packet came by.
    pub interface: IfIndex,
    /// Its address space.
    pub context: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Initiator and responder: client and VIP.
    pub endpoints: [Endpoint; 2],
    /// Client and backend, as they are seen beyond.
    pub beyond: [Endpoint; 2],
    /// Number of the backend's account.
    pub account: u32,
    /// Its packets go to the backend as they are.
    pub direct: bool,
    /// Where it stands.
    pub state: State,
    /// TCP flags that were seen, by direction.
    pub tcp_flags: [u8; 2],
}

impl Seen {
    /// Whether it is kept: not if it has just begun, or is over.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.balanced
            && !self.session.is_blocked()
            && matches!(self.session.state, State::Established | State::Closing)
    }
}

impl Sessions {
    /// What was kept waits from now on, too.
    pub fn keep(&mut self, kept: &[Kept]) {
        self.kept = [&*self.kept, kept].concat().into();
    }

    /// Whether something waits.
    #[inline(always)]
    pub(super) fn waits(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Begins the sessions that wait, if the tenants are there.
    #[cold]
    pub(super) fn take_up(&mut self, tenants: &Tenants, worker: u32, now: u64) {
        if self.kept.iter().all(|kept| tenants.get(kept.tenant).is_none()) {
            return;
        }
        for kept in core::mem::take(&mut self.kept).iter() {
            // Whoever isn't taken up begins anew.
            let _ = self.take_up_one(tenants, worker, now, kept);
        }
    }

    fn take_up_one(&mut self, tenants: &Tenants, worker: u32, now: u64, kept: &Kept) -> Option<()> {
        let tenant = tenants.get(kept.tenant)?;
        let [initiator, responder] = kept.endpoints;
        let (key, from_high) = Key::of(kept.context, kept.protocol, initiator, responder)?;
        // Whose packets the interface's are may have changed.
        let place = tenants.place(kept.interface)?;
        if place.context != kept.context || tenants.is_anothers(kept.interface, kept.tenant) {
            return None;
        }
        if tenants.workers > 1 && tenants.owner(&key) != worker {
            return None;
        }
        let tick = now >> TICK_BITS;
        self.now_is(tick);
        self.table.set_limit(tenants.per_worker.min(Flow::MAX));
        self.part(kept.tenant, tenant);
        if self.table.len() >= self.table.limit() || !tenant.occupancy.take(tenant.max_sessions) {
            return None;
        }
        let mut session = Session {
            created: tick as u32,
            last_seen: tick as u32,
            tenant: kept.tenant,
            epoch: tenants.generation as u16,
            chain: tenant.chain,
            state: kept.state,
            tcp_flags: kept.tcp_flags,
            ..Session::default()
        };
        session.marks.put(Marks::INITIATOR_IS_HIGH, from_high);
        // Nobody knows any more what windows and numbers were.
        session.marks.put(Marks::UNCHECKED, true);
        // It was answered: else it might be given another backend.
        for direction in [Direction::Forward, Direction::Reverse] {
            session.count(direction, 0);
        }
        let hash = self.table.hash(&key);
        let Ok(Inserted::New(index)) = self.table.insert(key, hash, session) else {
            tenant.occupancy.give();
            return None;
        };
        self.begins_at(index, kept.interface);
        self.arm(index, tenant, tick);
        self.link(index);
        self.count_source(tenants, index);
        tenant.occupancy.created.fetch_add(1, Ordering::Relaxed);
        self.tell(index, What::Began);
        let bound = self.bind_again(tenants, worker, index, kept);
        if bound.is_none() {
            self.end(index, End::Reconfigured);
        }
        bound
    }
}
