//! Blocks of ports, which hosts are given as they need them: so that only who has had which block has to be told, and not each session (RFC 6888 section 4,
//! RFC 7422 section 1).
//!
//! A word for each block of each address says whose it is and how many sessions have ports of it; the last one that goes gives the block back. Workers
//! share the words and wait for nobody. A host looks for its blocks from a place on that its own address says, so that the first word that is read is most likely its own.

use super::super::translate::End;
use super::pool::len;
use core::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ports that a pool's hosts are given together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize {
    /// Ports of a block.
    pub ports: u16,
    /// Blocks of a host at most.
    pub per_host: u16,
}

/// What is said of the port of a session that `nat` translates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// It is the session's alone.
    #[default]
    Port,
    /// It is one of a block that its host has already, or has still.
    Within,
    /// It is one of a block, with these first and last ports, that its host is given with this session, or gives back.
    Block(u16, u16),
}

/// All blocks of a pool.
#[derive(Debug)]
pub struct Blocks {
    size: BlockSize,
    /// The pool's, in its order.
    addresses: Vec<RangeInclusive<u32>>,
    /// The first port of each address.
    first: u16,
    /// Blocks of each address.
    each: u32,
    /// By address and block: the host, and in the lower half the number of its sessions; 0 where it is nobody's.
    words: Box<[AtomicU64]>,
}

/// One of a host's blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    at: usize,
    pub(super) ports: RangeInclusive<u16>,
}

impl Block {
    /// What is said of the session with which the host is given it, or gives it back.
    pub(super) fn binding(&self) -> Binding {
        Binding::Block(*self.ports.start(), *self.ports.end())
    }
}

const fn word(host: u32, sessions: u32) -> u64 {
    (host as u64) << 32 | sessions as u64
}

const fn host_of(word: u64) -> u32 {
    (word >> 32) as u32
}

const fn sessions_of(word: u64) -> u32 {
    word as u32
}

impl Blocks {
    /// All of them free, for a pool of these addresses (ascending, host byte order) with these ports each. Ports behind the last whole block are nobody's.
    #[must_use]
    pub fn new(addresses: &[RangeInclusive<u32>], ports: &RangeInclusive<u16>, size: BlockSize) -> Self {
        let each = (ports.len() / usize::from(size.ports.max(1))) as u32;
        let count: u64 = addresses.iter().map(len).sum();
        let words = (0..count * u64::from(each)).map(|_| AtomicU64::new(0)).collect();
        Self { size, addresses: addresses.to_vec(), first: *ports.start(), each, words }
    }

    /// What they were made for.
    #[must_use]
    pub const fn size(&self) -> BlockSize {
        self.size
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.words.len() as u64
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many hosts have.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.words.iter().filter(|word| word.load(Ordering::Relaxed) != 0).count() as u64
    }

    fn block(&self, at: usize) -> Block {
        let first = u32::from(self.first) + (at as u32 % self.each) * u32::from(self.size.ports);
        Block { at, ports: first as u16..=(first + u32::from(self.size.ports) - 1) as u16 }
    }

    /// The place of an address' first block.
    fn base(&self, address: u32) -> Option<usize> {
        let mut before = 0;
        for range in &self.addresses {
            if range.contains(&address) {
                return Some((before + (address - range.start()) as usize) * self.each as usize);
            }
            before += len(range) as usize;
        }
        None
    }

    /// Those of an address, in the order in which the host looks at them.
    fn places(&self, address: u32, host: u32) -> impl Iterator<Item = usize> {
        let each = self.each;
        // Knuth's multiplicative hash: neighbours begin far from one another.
        let start = (u64::from(host.wrapping_mul(0x9e37_79b9)) * u64::from(each)) >> 32;
        let place =
            move |base: usize| (0..each).map(move |step| base + ((start as u32 + step) % each) as usize);
        self.base(address).into_iter().flat_map(place)
    }

    fn load(&self, at: usize) -> u64 {
        self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Those that the host has of an address.
    pub(super) fn of(&self, address: u32, host: u32) -> impl Iterator<Item = Block> {
        self.places(address, host).filter(move |at| host_of(self.load(*at)) == host).map(|at| self.block(at))
    }

    /// One more for the host, with its first session. `None` where it has as many as it may, or the address has none left.
    pub(super) fn give(&self, address: u32, host: u32) -> Option<Block> {
        self.give_one(address, host, |_| true)
    }

    /// The same, with that port.
    pub(super) fn give_with(&self, address: u32, host: u32, port: u16) -> Option<Block> {
        self.give_one(address, host, |at| self.block(at).ports.contains(&port))
    }

    /// How many the host has, or one more than it may.
    fn count(&self, address: u32, host: u32) -> usize {
        self.of(address, host).take(usize::from(self.size.per_host) + 1).count()
    }

    /// Free ones in the order in which the host would be given them.
    fn free(&self, address: u32, host: u32) -> impl Iterator<Item = usize> {
        self.places(address, host).filter(|at| self.load(*at) == 0)
    }

    /// The one that the host would be given now.
    pub(super) fn next(&self, address: u32, host: u32, fits: impl Fn(&Block) -> bool) -> Option<Block> {
        let more = self.count(address, host) < usize::from(self.size.per_host);
        self.free(address, host).map(|at| self.block(at)).find(|block| more && fits(block))
    }

    fn give_one(&self, address: u32, host: u32, fits: impl Fn(usize) -> bool) -> Option<Block> {
        let may_have = usize::from(self.size.per_host);
        if self.count(address, host) >= may_have {
            return None;
        }
        let mut free = self.free(address, host).filter(|at| fits(*at)).filter(|at| {
            let word = &self.words[*at];
            word.compare_exchange(0, self::word(host, 1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        let block = self.block(free.next()?);
        // Another worker may have given it one at the same time.
        if self.count(address, host) > may_have {
            self.leave_at(block.at, host);
            return None;
        }
        Some(block)
    }

    /// One session more has a port of the host's block; false where that is the host's no longer.
    pub(super) fn join(&self, block: &Block, host: u32) -> bool {
        let Some(its) = self.words.get(block.at) else { return false };
        let more = |now: u64| (host_of(now) == host && sessions_of(now) < u32::MAX).then_some(now + 1);
        its.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// The block of an address' port, if it is in one.
    fn with_port(&self, (address, port): End<u32>) -> Option<usize> {
        let number = u32::from(port.checked_sub(self.first)?) / u32::from(self.size.ports.max(1));
        let base = self.base(address).filter(|_| number < self.each)?;
        Some(base + number as usize)
    }

    /// Whether the host has the block of an address' port.
    pub(super) fn has(&self, host: u32, seen: End<u32>) -> bool {
        self.with_port(seen).is_some_and(|at| host_of(self.load(at)) == host)
    }

    /// A session of the host gives back a port, and the last of them the block.
    pub(super) fn leave(&self, host: u32, seen: End<u32>) -> Binding {
        match self.with_port(seen) {
            Some(at) if host_of(self.load(at)) == host => self.leave_at(at, host),
            _ => Binding::Port,
        }
    }

    /// Likewise, where the block is known.
    pub(super) fn leave_block(&self, block: &Block, host: u32) {
        self.leave_at(block.at, host);
    }

    fn leave_at(&self, at: usize, host: u32) -> Binding {
        let Some(its) = self.words.get(at) else { return Binding::Port };
        let fewer = |now: u64| {
            let sessions = sessions_of(now).saturating_sub(1);
            (host_of(now) == host).then_some(if sessions == 0 { 0 } else { word(host, sessions) })
        };
        match its.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer) {
            Ok(before) if sessions_of(before) <= 1 => self.block(at).binding(),
            _ => Binding::Within,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: BlockSize = BlockSize { ports: 100, per_host: 2 };

    #[test]
    fn a_host_has_its_blocks_until_the_last_session_has_gone() {
        let blocks = Blocks::new(&[10..=10, 20..=20], &(1000..=1349), SIZE);
        assert_eq!((blocks.len(), blocks.taken()), (6, 0), "the last 50 ports of each are no block");
        let first = blocks.give(20, 7).unwrap();
        assert!(blocks.join(&first, 7) && !blocks.join(&first, 8));
        let port = *first.ports.start();
        assert!(blocks.has(7, (20, port)) && !blocks.has(7, (10, port)) && !blocks.has(8, (20, port)));
        assert_eq!(blocks.of(20, 7).collect::<Vec<_>>(), std::slice::from_ref(&first));
        let second = blocks.give(20, 7).unwrap();
        assert_eq!((blocks.give(20, 7), blocks.taken()), (None, 2), "no more than two");
        assert_eq!(blocks.give(20, 8).map(|block| block.ports.len()), Some(100));
        assert_eq!(blocks.give(20, 9), None, "the address has three");
        assert_eq!(blocks.leave(7, (20, port)), Binding::Within);
        assert_eq!(blocks.leave(8, (20, port)), Binding::Port, "another one's");
        assert_eq!(blocks.leave(7, (20, port)), first.binding());
        assert_eq!((blocks.leave(7, (20, port)), blocks.has(7, (20, port))), (Binding::Port, false));
        assert!(!blocks.join(&first, 7));
        assert_eq!(blocks.of(20, 7).collect::<Vec<_>>(), [second]);
        assert_eq!(blocks.give(20, 9), Some(first));
        assert_eq!(blocks.leave(7, (20, 1349)), Binding::Port, "in no block");
    }

    #[test]
    fn one_with_a_port_is_that_one_or_none() {
        let blocks = Blocks::new(&[10..=10], &(1000..=1299), SIZE);
        assert_eq!(blocks.give_with(10, 7, 1150).map(|block| block.ports), Some(1100..=1199));
        assert_eq!(blocks.give_with(10, 8, 1150), None);
        assert_eq!(blocks.give_with(10, 8, 1300), None);
    }

    /// Four threads give and take blocks of three hosts: no block is two hosts', none is forgotten.
    #[test]
    fn workers_agree_on_whose_they_are() {
        let blocks = Blocks::new(&[10..=10], &(1024..=65535), BlockSize { ports: 64, per_host: 40 });
        let before: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=4_u32)
                .map(|worker| {
                    let blocks = &blocks;
                    scope.spawn(move || {
                        let mut kept = 0;
                        for turn in 0..20_000_u32 {
                            let host = 1 + turn.wrapping_mul(worker * 2 + 1) % 3;
                            let Some(block) = blocks.give(10, host) else { continue };
                            assert!(blocks.join(&block, host), "it has a session");
                            assert!(blocks.has(host, (10, *block.ports.end())));
                            assert_eq!(blocks.leave(host, (10, *block.ports.start())), Binding::Within);
                            if turn % 1000 == 0 {
                                kept += 1;
                            } else {
                                assert_eq!(blocks.leave(host, (10, *block.ports.end())), block.binding());
                            }
                        }
                        kept
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(blocks.taken(), before);
        assert!((1..=3).all(|host| blocks.of(10, host).count() <= 40));
    }
}
