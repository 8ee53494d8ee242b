//! Where packets claim to be from, for nodes that ask what leads back there.

use super::Fibs;
use super::family::Family;
use graph::engine::MAX_VECTOR;
use graph::packet::{Packets, SlotId};
use graph::prefetch_read;

/// Source addresses of packets that came in by one interface and are looked up in one table, and next hops of the routes back.
pub(crate) struct Sources<F: Family> {
    addresses: Box<[F::Address; MAX_VECTOR]>,
    ids: Box<[u32; MAX_VECTOR]>,
}

impl<F: Family> Sources<F> {
    /// Of no packets.
    pub(crate) fn new() -> Self {
        Self { addresses: Box::new([F::Address::default(); MAX_VECTOR]), ids: Box::new([0; MAX_VECTOR]) }
    }

    /// Reads the addresses of the first packets of `slots`, as far as their interface and table are the same. Gives how many those are.
    #[inline(always)]
    pub(crate) fn read(&mut self, packets: &Packets, slots: &[SlotId]) -> usize {
        let mut len = 0;
        let Some(first) = slots.first().map(|slot| packets.meta(*slot)) else { return len };
        let (rx_if, table) = (first.rx_if, first.table);
        for (slot, address) in slots.iter().zip(self.addresses.iter_mut()) {
            let meta = packets.meta(*slot);
            if meta.rx_if != rx_if || meta.table != table {
                break;
            }
            *address = F::source(packets, *slot);
            len += 1;
        }
        len
    }

    /// Looks the first `len` addresses up in `table`. Gives each with the next hop of its route, 0 where there is none.
    #[inline(always)]
    pub(crate) fn look_up(
        &mut self,
        fibs: &Fibs,
        table: u16,
        len: usize,
    ) -> impl Iterator<Item = (F::Address, u32)> + '_ {
        let (addresses, ids) = (&self.addresses[..len], &mut self.ids[..len]);
        match (fibs.get(table), addresses.first()) {
            // Whoever sends does so from one address, most of the time: that is looked up once.
            (Some(vrf), Some(one)) if addresses.iter().fold(true, |same, each| same & (each == one)) => {
                ids.fill(F::fib(vrf).lookup(*one).0);
            }
            (Some(vrf), _) => F::fib(vrf).lookup_batch(addresses, ids, prefetch_read),
            (None, _) => ids.fill(0),
        }
        addresses.iter().copied().zip(ids.iter().copied())
    }
}
