//! Blocks of ports, which hosts are given as they need them: so that only who has had which block has to be told, and not each session (RFC 6888 section 4,
//! RFC 7422 section 1).
//!
//! A word for each block of each address says whose it is, how many sessions have ports of it, and whether anybody was told; the last one that goes gives the block back. Workers
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
    /// By address and block: the host, and in the lower half [`TOLD`] and the number of its sessions; 0 where it is nobody's.
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

/// In a word: somebody has been told that the host has the block.
const TOLD: u64 = 1 << 31;

const fn word(host: u32, sessions: u32) -> u64 {
    (host as u64) << 32 | sessions as u64
}

const fn host_of(word: u64) -> u32 {
    (word >> 32) as u32
}

const fn sessions_of(word: u64) -> u32 {
    (word & (TOLD - 1)) as u32
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
        self.words.get(at).map_or(0, |word| word.load(Ordering::SeqCst))
    }

    /// Those that the host has of an address.
    pub(super) fn of(&self, address: u32, host: u32) -> impl Iterator<Item = Block> {
        self.places(address, host).filter(move |at| host_of(self.load(*at)) == host).map(|at| self.block(at))
    }

    /// One more for the host, with one session more. `None` where it has as many as it may, or the address has none left. Where two workers give a host its last one at once,
    /// it is the same one.
    pub(super) fn give(&self, address: u32, host: u32) -> Option<Block> {
        self.give_one(address, host, |_| true)
    }

    /// The same, with that port.
    pub(super) fn give_with(&self, address: u32, host: u32, port: u16) -> Option<Block> {
        self.give_one(address, host, |block| block.ports.contains(&port))
    }

    /// The one that the host would be given now.
    pub(super) fn next(&self, address: u32, host: u32, fits: impl Fn(&Block) -> bool) -> Option<Block> {
        let may_have = usize::from(self.size.per_host);
        if self.of(address, host).take(may_have).count() >= may_have {
            return None;
        }
        let free = self.places(address, host).filter(|at| self.load(*at) == 0);
        free.map(|at| self.block(at)).find(fits)
    }

    fn give_one(&self, address: u32, host: u32, fits: impl Fn(&Block) -> bool) -> Option<Block> {
        // Another one may be given it between the look and the exchange: then there is one free word less.
        let block = loop {
            let block = self.next(address, host, &fits)?;
            let its = &self.words[block.at];
            if its.compare_exchange(0, word(host, 1), Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                break block;
            }
            if self.join(&block, host) {
                return Some(block);
            }
        };
        // Another worker may have given it one at the same time. Both see both, and whoever's comes later in the host's order takes the other one.
        let may_have = usize::from(self.size.per_host);
        if self.of(address, host).take(may_have).any(|other| other == block) {
            return Some(block);
        }
        self.leave_at(block.at, host);
        self.of(address, host).find(|other| fits(other) && self.join(other, host))
    }

    /// One session more has a port of the host's block; false where that is the host's no longer.
    pub(super) fn join(&self, block: &Block, host: u32) -> bool {
        let Some(its) = self.words.get(block.at) else { return false };
        let more = |now: u64| {
            let has_room = sessions_of(now) < (TOLD - 1) as u32;
            (host_of(now) == host && has_room).then_some(now + 1)
        };
        its.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    /// What is said of a session that has a port of the block from now on: the first one of which anything is said tells of the block.
    pub(super) fn tell(&self, block: &Block) -> Binding {
        let told = self.words.get(block.at).map(|its| its.fetch_or(TOLD, Ordering::SeqCst) & TOLD != 0);
        if told == Some(false) { block.binding() } else { Binding::Within }
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
    pub(super) fn leave_block(&self, block: &Block, host: u32) -> Binding {
        self.leave_at(block.at, host)
    }

    fn leave_at(&self, at: usize, host: u32) -> Binding {
        let Some(its) = self.words.get(at) else { return Binding::Port };
        let fewer = |now: u64| {
            let last = sessions_of(now) <= 1;
            (host_of(now) == host).then_some(if last { 0 } else { now - 1 })
        };
        match its.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer) {
            Ok(before) if sessions_of(before) <= 1 && before & TOLD != 0 => self.block(at).binding(),
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
        assert_eq!((blocks.tell(&first), blocks.tell(&first)), (first.binding(), Binding::Within));
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
        assert_eq!(blocks.of(20, 7).collect::<Vec<_>>(), std::slice::from_ref(&second));
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

    /// Four threads have sessions of 64 hosts come and go: no block is two hosts', none is forgotten, and of each that is told given it is told once that it is
    /// given back.
    #[test]
    fn workers_agree_on_whose_they_are() {
        let blocks = Blocks::new(&[10..=10], &(1024..=65535), BlockSize { ports: 64, per_host: 3 });
        let (given, back) = (AtomicU64::new(0), AtomicU64::new(0));
        let count = |figure: &AtomicU64, binding: Binding| {
            assert_ne!(binding, Binding::Port);
            figure.fetch_add(u64::from(binding != Binding::Within), Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            for worker in 1..=4_u32 {
                let (blocks, given, back) = (&blocks, &given, &back);
                scope.spawn(move || {
                    let mut kept = std::collections::VecDeque::new();
                    for turn in 0..20_000_u32 {
                        let host = 1 + turn.wrapping_mul(worker * 2 + 1) % 64;
                        let known = blocks.of(10, host).find(|block| blocks.join(block, host));
                        if let Some(block) = known.or_else(|| blocks.give(10, host)) {
                            count(given, blocks.tell(&block));
                            assert!(blocks.has(host, (10, *block.ports.end())));
                            kept.push_back((host, block));
                        }
                        if kept.len() > turn as usize % 7 {
                            let (host, block) = kept.pop_front().unwrap();
                            count(back, blocks.leave(host, (10, *block.ports.start())));
                        }
                    }
                    for (host, block) in kept {
                        count(back, blocks.leave_block(&block, host));
                    }
                });
            }
        });
        assert_eq!(blocks.taken(), 0);
        let [given, back] = [given, back].map(AtomicU64::into_inner);
        assert!(given == back && given > 100, "{given} given, {back} back");
    }

    /// Of two workers that give a host its only block at once, both have it.
    #[test]
    fn a_host_is_not_refused_what_it_has_just_been_given() {
        for _ in 0..200 {
            let blocks = Blocks::new(&[10..=10], &(1024..=65535), BlockSize { ports: 64, per_host: 1 });
            let start = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        start.wait();
                        let known = blocks.of(10, 7).find(|block| blocks.join(block, 7));
                        let block = known.or_else(|| blocks.give(10, 7));
                        assert!(block.is_some() || blocks.of(10, 7).any(|block| blocks.join(&block, 7)));
                    });
                }
            });
            assert_eq!(blocks.taken(), 1);
        }
    }
}
