//! Tries with one entry for each slot of every node: 16-8-8 (for IPv6 on in steps of 8), and 24-8.

use super::{Rival, by_length};
use crate::shapes::Route;
use quiver_tables::fib::Address;

const NODE: u32 = 1 << 31;
const MOST_WORDS: usize = 750_000_000;

/// A root of 2^16 entries, then nodes of 256.
pub struct Direct16(Vec<u32>);
/// A root of 2^24 entries, then nodes of 256.
pub struct Direct24(Vec<u32>);

impl<A: Address> Rival<A> for Direct16 {
    const NAME: &'static str = "16-8-8 direct";

    fn build(routes: &[Route<A>]) -> Option<Self> {
        build(routes, 16).map(Self)
    }

    fn bytes(&self) -> usize {
        self.0.len() * 4
    }

    fn lookup_batch(&self, addrs: &[A], out: &mut [u32]) {
        walk(&self.0, addrs, out, 16);
    }
}

impl<A: Address> Rival<A> for Direct24 {
    const NAME: &'static str = "24-8 direct";

    fn build(routes: &[Route<A>]) -> Option<Self> {
        build(routes, 24).map(Self)
    }

    fn bytes(&self) -> usize {
        self.0.len() * 4
    }

    fn lookup_batch(&self, addrs: &[A], out: &mut [u32]) {
        walk(&self.0, addrs, out, 24);
    }
}

fn root_slot<A: Address>(addr: A, root: u32) -> usize {
    (addr.widen() >> (128 - root)) as usize
}

fn walk<A: Address>(words: &[u32], addrs: &[A], out: &mut [u32], root: u32) {
    let mut open = 0;
    for (addr, out) in addrs.iter().zip(out.iter_mut()) {
        *out = words[root_slot(*addr, root)];
        open |= *out;
    }
    for depth in (root..A::BITS.into()).step_by(8) {
        if open & NODE == 0 {
            break;
        }
        open = 0;
        for (addr, out) in addrs.iter().zip(out.iter_mut()) {
            if *out & NODE != 0 {
                *out = words[(*out & !NODE) as usize + usize::from(addr.byte(depth))];
            }
            open |= *out;
        }
    }
}

fn build<A: Address>(routes: &[Route<A>], root: u32) -> Option<Vec<u32>> {
    let mut words = vec![0u32; 1 << root];
    for (prefix, len, id) in by_length(routes) {
        let (mut base, mut slot, mut depth, mut stride) = (0, root_slot(prefix, root), 0, root);
        while u32::from(len) > depth + stride {
            let entry = words[base + slot];
            if entry & NODE == 0 {
                words[base + slot] = NODE | words.len() as u32;
                words.resize(words.len() + 256, entry);
                if words.len() > MOST_WORDS {
                    return None;
                }
            }
            base = (words[base + slot] & !NODE) as usize;
            depth += stride;
            stride = 8;
            slot = prefix.byte(depth).into();
        }
        let slots = 1usize << (depth + stride - u32::from(len));
        words[base + slot..base + slot + slots].fill(id);
    }
    Some(words)
}
