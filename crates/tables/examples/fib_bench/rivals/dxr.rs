//! DXR (Zec, Rizzo, Mikuc: "DXR: towards a billion routing lookups per second in software", 2012), with 16 bits of direct index: each /16 is a sorted list of where results change,
//! searched by halves.

use super::{Rival, by_length};
use crate::shapes::Route;

/// Where a /16's list begins, and how many entries it has.
pub struct Dxr {
    chunks: Vec<(u32, u32)>,
    /// First low half of each range; its id at the same place in `ids`.
    starts: Vec<u16>,
    ids: Vec<u32>,
}

impl Rival<u32> for Dxr {
    const NAME: &'static str = "DXR 16";

    fn build(routes: &[Route<u32>]) -> Option<Self> {
        let mut whole = vec![0u32; 1 << 16];
        let mut long: Vec<Vec<Route<u32>>> = vec![Vec::new(); 1 << 16];
        for (prefix, len, id) in by_length(routes) {
            let first = (prefix >> 16) as usize;
            if len <= 16 {
                whole[first..first + (1 << (16 - len))].fill(id);
            } else {
                long[first].push((prefix, len, id));
            }
        }
        let mut dxr = Self { chunks: Vec::new(), starts: Vec::new(), ids: Vec::new() };
        let mut low = vec![0u32; 1 << 16];
        for (id, long) in whole.into_iter().zip(long) {
            let begin = dxr.starts.len();
            dxr.starts.push(0);
            if long.is_empty() {
                dxr.ids.push(id);
            } else {
                low.fill(id);
                for (prefix, len, id) in long {
                    let first = (prefix & 0xffff) as usize;
                    low[first..first + (1 << (32 - len))].fill(id);
                }
                dxr.ids.push(low[0]);
                for (at, pair) in low.windows(2).enumerate().filter(|(_, pair)| pair[0] != pair[1]) {
                    dxr.starts.push(at as u16 + 1);
                    dxr.ids.push(pair[1]);
                }
            }
            dxr.chunks.push((begin as u32, (dxr.starts.len() - begin) as u32));
        }
        Some(dxr)
    }

    fn bytes(&self) -> usize {
        self.chunks.len() * 8 + self.starts.len() * 2 + self.ids.len() * 4
    }

    fn lookup_batch(&self, addrs: &[u32], out: &mut [u32]) {
        for (addr, out) in addrs.iter().zip(out) {
            let (begin, count) = self.chunks[(addr >> 16) as usize];
            let (mut low, mut count) = (begin as usize, count as usize);
            let wanted = *addr as u16;
            // Without a branch that is foreseen half the time.
            while count > 1 {
                let half = count / 2;
                low += if self.starts[low + half] <= wanted { half } else { 0 };
                count -= half;
            }
            *out = self.ids[low];
        }
    }
}
