//! Packets that are dropped at sessions, or for want of one: by tenant and reason.
//!
//! A worker counts in rows of its own, which it alone stores to and anybody may read. Packets that pass know nothing of it.

use super::tenants::{Occupancy, Tenants};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Reasons of a tenant that a worker tells apart: more than there are at sessions and their services. Others, which services from elsewhere may bring, aren't counted.
const REASONS: usize = 64;

/// What one worker has dropped of a tenant.
#[derive(Debug)]
struct Row {
    /// One more than the reason (graph-wide id); 0: free.
    reasons: [AtomicU32; REASONS],
    packets: [AtomicU64; REASONS],
    /// That of another worker.
    next: OnceLock<Arc<Row>>,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            reasons: core::array::from_fn(|_| AtomicU32::new(0)),
            packets: core::array::from_fn(|_| AtomicU64::new(0)),
            next: OnceLock::new(),
        }
    }
}

impl Row {
    /// One packet more. Nobody else stores here.
    fn count(&self, reason: u16) {
        let wanted = u32::from(reason) + 1;
        for probe in 0..REASONS {
            let at = (usize::from(reason) + probe) % REASONS;
            let there = self.reasons[at].load(Ordering::Relaxed);
            if there != wanted && there != 0 {
                continue;
            }
            let packets = self.packets[at].load(Ordering::Relaxed);
            self.packets[at].store(packets + 1, Ordering::Relaxed);
            // Whoever sees the reason sees a packet, too.
            self.reasons[at].store(wanted, Ordering::Release);
            return;
        }
    }
}

/// What all workers have dropped of a tenant.
#[derive(Debug, Default)]
pub(super) struct Rows(OnceLock<Arc<Row>>);

impl Rows {
    /// A worker counts, too.
    fn add(&self, row: &Arc<Row>) {
        let mut place = &self.0;
        while place.set(Arc::clone(row)).is_err() {
            let Some(there) = place.get() else { return };
            place = &there.next;
        }
    }

    /// Packets by reason (graph-wide id), of all workers together.
    pub(super) fn sum(&self) -> BTreeMap<u16, u64> {
        let mut sum = BTreeMap::new();
        let mut next = self.0.get();
        while let Some(row) = next {
            for (reason, packets) in row.reasons.iter().zip(&row.packets) {
                if let Some(reason) = reason.load(Ordering::Acquire).checked_sub(1) {
                    *sum.entry(reason as u16).or_default() += packets.load(Ordering::Relaxed);
                }
            }
            next = row.next.get();
        }
        sum
    }
}

/// A worker's rows, by number of the tenant.
#[derive(Debug, Default)]
pub(super) struct Dropped(Vec<Option<(Arc<Occupancy>, Arc<Row>)>>);

impl Dropped {
    /// A packet of a tenant is dropped for a reason (graph-wide id). 0 is nobody's.
    #[cold]
    #[inline(never)]
    pub(super) fn count(&mut self, tenants: &Tenants, tenant: u16, reason: u16) {
        let Some(its) = tenants.get(tenant) else { return };
        let at = usize::from(tenant);
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        // Another tenant may have had the number before.
        let its_row = self.0[at].as_ref().filter(|(of, _)| Arc::ptr_eq(of, &its.occupancy));
        if let Some((_, row)) = its_row {
            row.count(reason);
            return;
        }
        let row = Arc::new(Row::default());
        row.count(reason);
        its.occupancy.dropped.add(&row);
        self.0[at] = Some((Arc::clone(&its.occupancy), row));
    }

    /// Bytes of memory that they take.
    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Option<(Arc<Occupancy>, Arc<Row>)>>()
            + self.0.iter().flatten().count() * size_of::<Row>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_count_for_themselves_and_are_summed_up() {
        let rows = Rows::default();
        assert!(rows.sum().is_empty());
        let workers: [Arc<Row>; 3] = core::array::from_fn(|_| Arc::default());
        for (packets, row) in (1..).zip(&workers) {
            rows.add(row);
            // Two that begin at the same place.
            for reason in [7, 7 + REASONS as u16] {
                (0..packets).for_each(|_| row.count(reason));
            }
        }
        assert_eq!(rows.sum(), [(7, 6), (7 + REASONS as u16, 6)].into());
    }

    #[test]
    fn what_there_is_no_place_for_isn_t_taken_for_something_else() {
        let row = Arc::new(Row::default());
        (0..2 * REASONS as u16).for_each(|reason| row.count(reason));
        let rows = Rows::default();
        rows.add(&row);
        let sum = rows.sum();
        assert!(sum.len() == REASONS && sum.iter().all(|(reason, packets)| *reason < 64 && *packets == 1));
    }
}
