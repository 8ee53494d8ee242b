//! Binary search on prefix lengths (Waldvogel, Varghese, Turner, Plattner: "Scalable high speed IP routing lookups", 1997): a hash table per length, with markers that say
//! "something longer may be there" and what the best is if it isn't.

use super::{Rival, by_length};
use crate::shapes::Route;
use quiver_tables::fib::Address;
use std::collections::{HashMap, HashSet};

/// A slot: the prefix, and the id of the best route at a prefix or marker; free where the length doesn't match.
#[derive(Clone, Copy)]
struct Slot<A> {
    prefix: A,
    id: u32,
    used: bool,
}

struct Table<A> {
    len: u8,
    slots: Vec<Slot<A>>,
}

/// One table for each length in use, in ascending order.
pub struct Lengths<A> {
    tables: Vec<Table<A>>,
}

impl<A: Address> Table<A> {
    fn place(&self, prefix: A) -> usize {
        let wide = prefix.widen();
        let mixed = ((wide >> 64) as u64 ^ (wide as u64).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.slots.len() - 1)
    }

    fn find(&self, prefix: A) -> Option<u32> {
        let mut at = self.place(prefix);
        loop {
            let slot = &self.slots[at];
            if !slot.used || slot.prefix == prefix {
                return slot.used.then_some(slot.id);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }
}

impl<A: Address> Rival<A> for Lengths<A> {
    const NAME: &'static str = "by lengths";

    fn build(routes: &[Route<A>]) -> Option<Self> {
        let mut lens: Vec<u8> = routes.iter().map(|&(_, len, _)| len).collect();
        lens.sort_unstable();
        lens.dedup();
        let known: HashMap<(A, u8), u32> =
            routes.iter().map(|&(prefix, len, id)| ((prefix, len), id)).collect();
        let mut entries: Vec<HashSet<A>> = vec![HashSet::new(); lens.len()];
        for (prefix, len, _) in by_length(routes) {
            let (mut low, mut high) = (0, lens.len());
            while low < high {
                let middle = (low + high) / 2;
                if lens[middle] <= len {
                    entries[middle].insert(prefix.masked(lens[middle]));
                }
                match lens[middle].cmp(&len) {
                    std::cmp::Ordering::Less => low = middle + 1,
                    std::cmp::Ordering::Equal => break,
                    std::cmp::Ordering::Greater => high = middle,
                }
            }
        }
        let best = |prefix: A, at: usize| {
            lens[..=at].iter().rev().find_map(|len| known.get(&(prefix.masked(*len), *len)).copied())
        };
        let tables = lens.iter().zip(entries).enumerate().map(|(at, (len, entries))| {
            let size = (entries.len() * 2).next_power_of_two();
            let free = Slot { prefix: A::narrow(0), id: 0, used: false };
            let mut table = Table { len: *len, slots: vec![free; size] };
            for prefix in entries {
                let mut place = table.place(prefix);
                while table.slots[place].used {
                    place = (place + 1) & (size - 1);
                }
                table.slots[place] = Slot { prefix, id: best(prefix, at).unwrap_or(0), used: true };
            }
            table
        });
        Some(Self { tables: tables.collect() })
    }

    fn bytes(&self) -> usize {
        self.tables.iter().map(|table| table.slots.len() * size_of::<Slot<A>>()).sum()
    }

    fn lookup_batch(&self, addrs: &[A], out: &mut [u32]) {
        let mut ranges = [(0u8, self.tables.len() as u8); 256];
        out.fill(0);
        // All addresses take a step of the search before the first takes its next.
        for _ in 0..=self.tables.len().ilog2() {
            for ((addr, out), (low, high)) in addrs.iter().zip(out.iter_mut()).zip(&mut ranges) {
                if low < high {
                    let middle = (*low + *high) / 2;
                    let table = &self.tables[usize::from(middle)];
                    match table.find(addr.masked(table.len)) {
                        Some(id) => (*out, *low) = (id, middle + 1),
                        None => *high = middle,
                    }
                }
            }
        }
    }
}
