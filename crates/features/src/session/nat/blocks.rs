//! Blocks of ports, which hosts are given as they need them: so that only who has had which block has to be told, and not each session (RFC 6888 section 4,
//! RFC 7422 section 1).
//!
//! A word for each block of each address says whose it is, how many sessions have ports of it, and whether anybody was told; the last one that goes gives the block back. Workers
//! share the words and wait for nobody. A host looks for its blocks from a place on that its own address says, so that the first word that is read is most likely its own.
//!
//! **All of a host's blocks are of one address** (RFC 4787 REQ-2). A host without any gets one of the first address of its order that has one left; the order begins with the address that its own says. Workers that give it some at the same
//! time see to it so: each has written its word before it looks for others, so that of two at least the later one sees both, and gives its own back. Until somebody is told of a block, whoever joins in looks, too.

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
    /// The pool's, ascending, with the number of addresses before each.
    addresses: Vec<(usize, RangeInclusive<u32>)>,
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
    pub(super) address: u32,
    pub(super) ports: RangeInclusive<u16>,
}

/// What comes of giving a host one block more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// This one, with one session more.
    Block(Block),
    /// None: it has as many as it may, or there is none left for it.
    Nothing,
    /// None, since another worker was quicker: whoever begins anew finds what that has given.
    Lost,
}

impl Block {
    /// What is said of the session with which the host is given it, or gives it back.
    pub(super) fn binding(&self) -> Binding {
        Binding::Block(*self.ports.start(), *self.ports.end())
    }
}

/// Addresses that a host may have its blocks at.
const ADDRESSES: usize = 8;
/// Words that are looked through for that, about: where addresses have many blocks, they are fewer.
const WORDS: usize = 4096;

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
        let mut count = 0;
        let mut before = |range: &RangeInclusive<u32>| {
            let before = count;
            count += len(range) as usize;
            (before, range.clone())
        };
        let addresses = addresses.iter().map(&mut before).collect();
        let words = (0..count * each as usize).map(|_| AtomicU64::new(0)).collect();
        Self { size, addresses, first: *ports.start(), each, words }
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
        let ports = first as u16..=(first + u32::from(self.size.ports) - 1) as u16;
        Block { at, address: self.address(at / self.each as usize).unwrap_or_default(), ports }
    }

    /// Which one of the pool's an address is.
    fn number(&self, address: u32) -> Option<usize> {
        let behind = self.addresses.partition_point(|(_, range)| *range.start() <= address);
        let (before, range) = self.addresses[..behind].last()?;
        range.contains(&address).then(|| before + (address - range.start()) as usize)
    }

    /// The one with that number.
    fn address(&self, number: usize) -> Option<u32> {
        let behind = self.addresses.partition_point(|(before, _)| *before <= number);
        let (before, range) = self.addresses[..behind].last()?;
        let address = u64::from(*range.start()) + (number - before) as u64;
        u32::try_from(address).ok().filter(|address| range.contains(address))
    }

    /// The place of an address' first block.
    fn base(&self, address: u32) -> Option<usize> {
        Some(self.number(address)? * self.each as usize)
    }

    /// Addresses that a host may have its blocks at, in its order, which begins with this one.
    fn order(&self, first: u32) -> impl Iterator<Item = u32> {
        let each = (self.each as usize).max(1);
        let count = self.words.len() / each;
        let looks = (WORDS / each).clamp(2, ADDRESSES).min(count);
        let from = self.number(first).into_iter();
        from.flat_map(move |from| (0..looks).filter_map(move |step| self.address((from + step) % count)))
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

    /// The address that the host has its blocks at, of those in its order.
    pub(super) fn home(&self, first: u32, host: u32) -> Option<u32> {
        self.order(first).find(|address| self.has_any(*address, host))
    }

    fn has_any(&self, address: u32, host: u32) -> bool {
        self.of(address, host).next().is_some()
    }

    /// The one that the host would be given now, where its blocks are at that address: at that, or else at the first one in its order that has one left.
    pub(super) fn next(
        &self,
        (first, home): (u32, Option<u32>),
        host: u32,
        fits: impl Fn(&Block) -> bool,
    ) -> Option<Block> {
        let at = |address: u32| {
            let free = self.places(address, host).filter(|at| self.load(*at) == 0);
            free.map(|at| self.block(at)).find(&fits)
        };
        match home {
            Some(address) => at(address).filter(|_| !self.has_all(address, host)),
            None => self.order(first).find_map(at),
        }
    }

    /// Whether the host has as many as it may.
    fn has_all(&self, address: u32, host: u32) -> bool {
        let may_have = usize::from(self.size.per_host);
        self.of(address, host).take(may_have).count() >= may_have
    }

    /// One more for the host, whose blocks are at that address, if it has any.
    pub(super) fn give(
        &self,
        (first, home): (u32, Option<u32>),
        host: u32,
        fits: impl Fn(&Block) -> bool,
    ) -> Given {
        let Some(block) = self.next((first, home), host, fits) else { return Given::Nothing };
        let its = &self.words[block.at];
        let is_given = its.compare_exchange(0, word(host, 1), Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if is_given && self.stays(first, &block, host) { Given::Block(block) } else { Given::Lost }
    }

    /// Whether the host may have the block, in which a session more was written down for it just now; else, that is taken back. Of two blocks that don't go together, who has written later sees the other one: so one
    /// of the two stays at most.
    fn stays(&self, first: u32, block: &Block, host: u32) -> bool {
        let elsewhere = self.order(first).any(|other| other != block.address && self.has_any(other, host));
        let may_have = usize::from(self.size.per_host);
        let stays = !elsewhere && self.of(block.address, host).take(may_have + 1).count() <= may_have;
        if !stays {
            self.leave_at(block.at, host);
        }
        stays
    }

    /// One session more has a port of the host's block; false where that is the host's no longer, or doesn't stay it.
    pub(super) fn join(&self, first: u32, block: &Block, host: u32) -> bool {
        let Some(its) = self.words.get(block.at) else { return false };
        let more = |now: u64| {
            let has_room = sessions_of(now) < (TOLD - 1) as u32;
            (host_of(now) == host && has_room).then_some(now + 1)
        };
        let before = its.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        before.is_ok_and(|before| before & TOLD != 0 || self.stays(first, block, host))
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

    /// As a session does that wants a port, of those that fit; the pool's order begins with `first`.
    fn given(blocks: &Blocks, first: u32, host: u32, fits: impl Fn(&Block) -> bool) -> Option<Block> {
        match blocks.give((first, blocks.home(first, host)), host, fits) {
            Given::Block(block) => Some(block),
            Given::Nothing => None,
            Given::Lost => panic!("there is nobody else"),
        }
    }

    fn give(blocks: &Blocks, first: u32, host: u32) -> Option<Block> {
        given(blocks, first, host, |_| true)
    }

    /// The same among others: one that the host has, or one more.
    fn any(blocks: &Blocks, first: u32, host: u32) -> Option<Block> {
        for _ in 0..1000 {
            let home = blocks.home(first, host);
            let known = home.and_then(|home| blocks.of(home, host).find(|one| blocks.join(first, one, host)));
            if known.is_some() {
                return known;
            }
            match blocks.give((first, home), host, |_| true) {
                Given::Block(block) => return Some(block),
                Given::Nothing if blocks.home(first, host).is_none() => return None,
                Given::Nothing | Given::Lost => std::thread::yield_now(),
            }
        }
        panic!("no end of it");
    }

    /// Addresses of the host's blocks that somebody was told of.
    fn told(blocks: &Blocks, host: u32) -> impl Iterator<Item = u32> {
        let word = |at: &usize| blocks.words[*at].load(Ordering::SeqCst);
        let its = (0..blocks.words.len()).filter(move |at| word(at) & TOLD != 0 && host_of(word(at)) == host);
        its.map(|at| blocks.block(at).address)
    }

    #[test]
    fn a_host_has_its_blocks_until_the_last_session_has_gone() {
        let blocks = Blocks::new(&[20..=20], &(1000..=1349), SIZE);
        assert_eq!((blocks.len(), blocks.taken()), (3, 0), "the last 50 ports are no block");
        let first = give(&blocks, 20, 7).unwrap();
        assert_eq!((blocks.tell(&first), blocks.tell(&first)), (first.binding(), Binding::Within));
        assert!(blocks.join(20, &first, 7) && !blocks.join(20, &first, 8));
        let port = *first.ports.start();
        assert!(blocks.has(7, (20, port)) && !blocks.has(7, (10, port)) && !blocks.has(8, (20, port)));
        assert_eq!(blocks.of(20, 7).collect::<Vec<_>>(), std::slice::from_ref(&first));
        let second = give(&blocks, 20, 7).unwrap();
        assert_eq!((give(&blocks, 20, 7), blocks.taken()), (None, 2), "no more than two");
        assert_eq!(give(&blocks, 20, 8).map(|block| block.ports.len()), Some(100));
        assert_eq!(give(&blocks, 20, 9), None, "the address has three");
        assert_eq!(blocks.leave(7, (20, port)), Binding::Within);
        assert_eq!(blocks.leave(8, (20, port)), Binding::Port, "another one's");
        assert_eq!(blocks.leave(7, (20, port)), first.binding());
        assert_eq!((blocks.leave(7, (20, port)), blocks.has(7, (20, port))), (Binding::Port, false));
        assert!(!blocks.join(20, &first, 7));
        assert_eq!(blocks.of(20, 7).collect::<Vec<_>>(), std::slice::from_ref(&second));
        assert_eq!(give(&blocks, 20, 9), Some(first));
        assert_eq!(blocks.leave(7, (20, 1349)), Binding::Port, "in no block");
    }

    #[test]
    fn one_with_a_port_is_that_one_or_none() {
        let blocks = Blocks::new(&[10..=10], &(1000..=1299), SIZE);
        let with = |host, port: u16| given(&blocks, 10, host, |block| block.ports.contains(&port));
        assert_eq!(with(7, 1150).map(|block| block.ports), Some(1100..=1199));
        assert_eq!(with(8, 1150), None);
        assert_eq!(with(8, 1300), None);
    }

    /// Of an address that is full, the next one's are given, and whoever has one of those has all others there, too.
    #[test]
    fn a_host_has_all_of_its_blocks_at_one_address() {
        let blocks = Blocks::new(&[10..=11, 30..=30], &(1000..=1299), SIZE);
        let at = |host| give(&blocks, 11, host).map(|block| block.address);
        assert_eq!([1, 1, 2].map(at), [Some(11); 3]);
        assert_eq!([3, 4, 4].map(at), [Some(30); 3], "11 has none left");
        assert_eq!((at(2), at(5)), (None, Some(10)), "who is at home there stays, and has no other");
        // A place at the first one of its order moves nobody.
        let gone = blocks.of(11, 2).next().unwrap();
        assert_ne!(blocks.leave_block(&gone, 2), Binding::Port);
        assert_eq!((at(3), blocks.home(11, 3)), (None, Some(30)));
        assert_eq!((at(6), at(7), at(8), at(9)), (Some(11), Some(10), Some(10), None));
        for (number, address) in [(0, Some(10)), (1, Some(11)), (2, Some(30)), (3, None)] {
            assert_eq!(blocks.address(number), address);
            assert!(address.is_none_or(|address| blocks.number(address) == Some(number)));
        }
        assert!([9, 12, 29, 31].iter().all(|address| blocks.number(*address).is_none()));
    }

    /// Nobody looks through more than so many, however large the pool is.
    #[test]
    fn how_many_addresses_a_host_asks_is_bounded() {
        for (ports, looks) in [(512, 8), (64, 4), (16, 2)] {
            let blocks = Blocks::new(&[10..=99], &(1024..=65535), BlockSize { ports, per_host: 1 });
            assert_eq!(blocks.order(98).count(), looks);
            assert_eq!(blocks.order(98).take(3).collect::<Vec<_>>(), [98, 99, 10][..looks.min(3)]);
        }
        let one = Blocks::new(&[10..=10], &(1024..=65535), SIZE);
        assert_eq!(one.order(10).collect::<Vec<_>>(), [10]);
        assert_eq!(one.order(9).count(), 0);
    }

    /// Four threads have sessions of 64 hosts come and go: no block is two hosts', none is forgotten, of each that is told given it is told once that it is
    /// given back, and nobody who stays has them at two addresses, or too many.
    #[test]
    fn workers_agree_on_whose_they_are() {
        let blocks = Blocks::new(&[10..=12], &(1024..=2303), BlockSize { ports: 64, per_host: 3 });
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
                        if let Some(block) = any(blocks, 10 + host % 3, host) {
                            count(given, blocks.tell(&block));
                            assert!(blocks.has(host, (block.address, *block.ports.end())));
                            assert!(told(blocks, host).all(|address| address == block.address));
                            kept.push_back((host, block));
                        }
                        if kept.len() > turn as usize % 7 {
                            let (host, block) = kept.pop_front().unwrap();
                            count(back, blocks.leave(host, (block.address, *block.ports.start())));
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

    /// Of workers that give a host its only block at once, all have it, also where they begin with different addresses: as if that of one had been full when it looked.
    #[test]
    fn a_host_is_not_refused_what_it_has_just_been_given() {
        for firsts in [[10, 10, 10], [10, 11, 12]] {
            for _ in 0..300 {
                let blocks = Blocks::new(&[10..=12], &(1024..=65535), BlockSize { ports: 512, per_host: 1 });
                let start = std::sync::Barrier::new(firsts.len());
                std::thread::scope(|scope| {
                    for first in firsts {
                        let (blocks, start) = (&blocks, &start);
                        scope.spawn(move || {
                            start.wait();
                            assert!(any(blocks, first, 7).is_some());
                        });
                    }
                });
                assert_eq!(blocks.taken(), 1);
            }
        }
    }
}
