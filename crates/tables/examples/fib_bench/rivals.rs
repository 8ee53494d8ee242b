//! What the trie is measured against: the two classic layouts without compression, built once, not changeable.

use crate::shapes::Route;

const NODE: u32 = 1 << 31;

/// 16-8-8 with one entry for each of the 256 slots of every node.
pub struct Direct16 {
    words: Vec<u32>,
}

/// 24-8: one table for the first 24 bits, and a block of 256 for each /24 with longer prefixes.
pub struct Direct24 {
    words: Vec<u32>,
}

impl Direct16 {
    /// `None` where it would take more than 3 GB.
    pub fn build(routes: &[Route<u32>]) -> Option<Self> {
        build(routes, &[16, 8, 8]).map(|words| Self { words })
    }

    pub fn bytes(&self) -> usize {
        self.words.len() * 4
    }

    pub fn lookup_batch(&self, addrs: &[u32], out: &mut [u32]) {
        walk(&self.words, addrs, out, 16, &[8, 0]);
    }
}

impl Direct24 {
    /// `None` where it would take more than 3 GB.
    pub fn build(routes: &[Route<u32>]) -> Option<Self> {
        build(routes, &[24, 8]).map(|words| Self { words })
    }

    pub fn bytes(&self) -> usize {
        self.words.len() * 4
    }

    pub fn lookup_batch(&self, addrs: &[u32], out: &mut [u32]) {
        walk(&self.words, addrs, out, 8, &[0]);
    }
}

/// Level by level, as the table under test does it.
fn walk(words: &[u32], addrs: &[u32], out: &mut [u32], root_shift: u32, shifts: &[u32]) {
    for (addrs, out) in addrs.chunks(256).zip(out.chunks_mut(256)) {
        let mut open = 0;
        for (addr, out) in addrs.iter().zip(out.iter_mut()) {
            *out = words[(addr >> root_shift) as usize];
            open |= *out;
        }
        for shift in shifts {
            if open & NODE == 0 {
                break;
            }
            open = 0;
            for (addr, out) in addrs.iter().zip(out.iter_mut()) {
                if *out & NODE != 0 {
                    *out = words[((*out & !NODE) + (addr >> shift & 0xff)) as usize];
                }
                open |= *out;
            }
        }
    }
}

/// Shorter prefixes first, so that each simply overwrites its range.
fn build(routes: &[Route<u32>], strides: &[u32]) -> Option<Vec<u32>> {
    let mut sorted: Vec<_> = routes.to_vec();
    sorted.sort_unstable_by_key(|&(_, len, _)| len);
    let mut words = vec![0u32; 1 << strides[0]];
    for (prefix, len, id) in sorted {
        let (mut base, mut depth, mut level) = (0usize, 0, 0);
        loop {
            let stride = strides[level];
            let slot = (prefix << depth >> (32 - stride)) as usize;
            if u32::from(len) <= depth + stride {
                let slots = 1usize << (depth + stride - u32::from(len));
                words[base + slot..base + slot + slots].fill(id);
                break;
            }
            let entry = words[base + slot];
            if entry & NODE == 0 {
                words[base + slot] = NODE | words.len() as u32;
                words.resize(words.len() + 256, entry);
                if words.len() > 750_000_000 {
                    return None;
                }
            }
            base = (words[base + slot] & !NODE) as usize;
            depth += stride;
            level += 1;
        }
    }
    Some(words)
}
