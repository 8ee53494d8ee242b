//! What sessions of a vector will most likely be seen as: worked out for all of them together, so that nobody waits for the places in the table, and kept
//! until it is tried.

use super::super::entry::Marks;
use super::super::sessions::Sessions;
use super::super::tenants::Tenants;
use super::super::translate::End;
use super::bind::candidates;
use graph::engine::MAX_VECTOR;
use graph::prefetch_read;
use tables::session::{Handle, NONE};

/// Ports that are worked out: most sessions get one of them, unless the pool is nearly used up.
const KEPT: usize = 2;

/// What one session will most likely be seen as.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Likely {
    session: Handle,
    address: u32,
    /// Ports in the order in which they are tried, and hashes of the keys of answers to them.
    ports: [(u16, u32); KEPT],
    /// How many of these there are.
    count: usize,
}

impl Likely {
    const NOTHING: Self =
        Self { session: Handle { index: NONE, generation: 0 }, address: 0, ports: [(0, 0); KEPT], count: 0 };

    /// Addresses and ports that the session could be seen with, if it is that one, and the hashes of the keys of answers to them.
    #[inline(always)]
    pub(super) fn of(&self, session: Handle) -> impl Iterator<Item = (End<u32>, u32)> {
        let (address, count) = (self.address, if self.session == session { self.count } else { 0 });
        self.ports.into_iter().take(count).map(move |(port, hash)| ((address, port), hash))
    }
}

/// The same of all sessions of a vector, by the places of their packets.
#[derive(Debug)]
pub(super) struct AllLikely {
    all: Box<[Likely; MAX_VECTOR]>,
    /// It is of this vector: pools may have changed since another one.
    is_known: bool,
}

impl Default for AllLikely {
    fn default() -> Self {
        Self { all: Box::new([Likely::NOTHING; MAX_VECTOR]), is_known: false }
    }
}

impl AllLikely {
    /// What is known of the packet at that place.
    #[inline(always)]
    pub(super) fn at(&self, place: usize) -> Option<&Likely> {
        self.all.get(place).filter(|_| self.is_known)
    }

    /// Another vector comes, of which nothing is known.
    #[inline(always)]
    pub(super) fn forget(&mut self) {
        self.is_known = false;
    }

    /// Works it out for sessions in the order of their packets, and has their places in the table fetched.
    #[inline(never)]
    pub(super) fn work_out(
        &mut self,
        sessions: &mut Sessions,
        (tenants, worker): (&Tenants, u32),
        indices: impl Iterator<Item = u32>,
    ) {
        self.is_known = true;
        for (likely, index) in self.all.iter_mut().zip(indices) {
            likely.session = Likely::NOTHING.session;
            let Some((handle, key, session)) = sessions.table.visit(index) else { continue };
            if session.marks.has(Marks::TRANSLATED) || !key.is_v4() {
                continue;
            }
            let pool = tenants.get(session.tenant).and_then(|tenant| tenant.nat.as_ref());
            // Whose block has a port to spare is looked up when it is needed.
            let Some(pool) = pool.filter(|pool| pool.blocks.is_none()) else { continue };
            let (low, high) = key.v4_endpoints();
            let ends = if session.initiator_is_high() { (high, low, true) } else { (low, high, false) };
            let Some(share) = pool.share(ends.0.0, &tenants.shares) else { continue };
            (likely.session, likely.address, likely.count) = (handle, share.address, 0);
            let start = sessions.start(&key);
            let places = likely.ports.iter_mut();
            for (place, seen) in places.zip(candidates(tenants, worker, (&key, start), ends, &share)) {
                let hash = sessions.table.hash(&seen.key);
                sessions.table.bucket_soon(hash, prefetch_read);
                *place = (seen.beyond[0].1, hash);
                likely.count += 1;
            }
        }
    }
}
