//! Poptrie (Asai, Ohara: "Poptrie: a compressed trie with population count for fast and scalable software IP routing table lookup", 2015): 16 bits of direct index, then nodes that
//! decide 6 bits each, with bitmaps of which slots lead on and where leaves change.

use super::{Rival, by_length};
use crate::shapes::Route;
use quiver_tables::fib::Address;

const NODE: u32 = 1 << 31;
const ROOT: u32 = 16;
const STRIDE: u32 = 6;

struct Node {
    /// Slots that lead on.
    inner: u64,
    /// Slots at which a run of equal leaves begins; those that lead on are passed over.
    leaf: u64,
    first_node: u32,
    first_leaf: u32,
}

/// Root, nodes and leaves.
pub struct Poptrie {
    root: Vec<u32>,
    nodes: Vec<Node>,
    leaves: Vec<u32>,
}

fn bits(wide: u128, depth: u32) -> usize {
    // Behind an address there are zeros.
    (wide.checked_shl(depth).unwrap_or(0) >> (128 - STRIDE)) as usize
}

impl Poptrie {
    /// Fills the node at `at`, of routes longer than `depth` in ascending order of length, where all else has `id`.
    fn fill(&mut self, at: usize, depth: u32, routes: &[Route<u128>], id: u32) {
        let mut ids = [id; 64];
        let mut longer: Vec<Vec<Route<u128>>> = vec![Vec::new(); 64];
        for &(prefix, len, id) in routes {
            let slot = bits(prefix, depth);
            match (depth + STRIDE).checked_sub(len.into()) {
                Some(free) => ids[slot..slot + (1 << free)].fill(id),
                None => longer[slot].push((prefix, len, id)),
            }
        }
        let (first_node, first_leaf) = (self.nodes.len() as u32, self.leaves.len() as u32);
        let (mut inner, mut leaf, mut last) = (0, 0, None);
        for (slot, id) in ids.iter().enumerate() {
            if !longer[slot].is_empty() {
                inner |= 1u64 << slot;
            } else if last != Some(*id) {
                leaf |= 1u64 << slot;
                self.leaves.push(*id);
                last = Some(*id);
            }
        }
        let free = || Node { inner: 0, leaf: 0, first_node: 0, first_leaf: 0 };
        self.nodes.extend((0..inner.count_ones()).map(|_| free()));
        self.nodes[at] = Node { inner, leaf, first_node, first_leaf };
        let below = longer.iter().zip(ids).filter(|(routes, _)| !routes.is_empty());
        for (at, (routes, id)) in below.enumerate() {
            self.fill(first_node as usize + at, depth + STRIDE, routes, id);
        }
    }
}

impl<A: Address> Rival<A> for Poptrie {
    const NAME: &'static str = "Poptrie";

    fn build(routes: &[Route<A>]) -> Option<Self> {
        let mut trie = Self { root: vec![0; 1 << ROOT], nodes: Vec::new(), leaves: Vec::new() };
        let mut longer: Vec<Vec<Route<u128>>> = vec![Vec::new(); 1 << ROOT];
        for (prefix, len, id) in by_length(routes) {
            let slot = prefix.root();
            match ROOT.checked_sub(len.into()) {
                Some(free) => trie.root[slot..slot + (1 << free)].fill(id),
                None => longer[slot].push((prefix.widen(), len, id)),
            }
        }
        for (slot, routes) in longer.iter().enumerate().filter(|(_, routes)| !routes.is_empty()) {
            let (at, id) = (trie.nodes.len(), trie.root[slot]);
            trie.nodes.push(Node { inner: 0, leaf: 0, first_node: 0, first_leaf: 0 });
            trie.fill(at, ROOT, routes, id);
            trie.root[slot] = NODE | at as u32;
        }
        Some(trie)
    }

    fn bytes(&self) -> usize {
        self.root.len() * 4 + self.nodes.len() * size_of::<Node>() + self.leaves.len() * 4
    }

    fn lookup_batch(&self, addrs: &[A], out: &mut [u32]) {
        let mut open = 0;
        for (addr, out) in addrs.iter().zip(out.iter_mut()) {
            *out = self.root[addr.root()];
            open |= *out;
        }
        let mut depth = ROOT;
        while open & NODE != 0 {
            open = 0;
            for (addr, out) in addrs.iter().zip(out.iter_mut()).filter(|(_, out)| **out & NODE != 0) {
                let node = &self.nodes[(*out & !NODE) as usize];
                let slot = bits(addr.widen(), depth);
                // Up to and with the slot.
                let below = u64::MAX >> (63 - slot);
                *out = if node.inner >> slot & 1 != 0 {
                    NODE | (node.first_node + (node.inner & below).count_ones() - 1)
                } else {
                    self.leaves[(node.first_leaf + (node.leaf & below).count_ones() - 1) as usize]
                };
                open |= *out;
            }
            depth += STRIDE;
        }
    }
}
