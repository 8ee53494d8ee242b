//! How many sessions each source of a tenant's has, and a limit to that: so one host that keeps a quota full with what was answered keeps nobody else out.
//!
//! A source is an initiator's address, with IPv6 the prefix of it that is one host's. What is over, or blocked, counts at none: that makes room for whoever comes. What nobody has answered yet does, since an answer may
//! come at any time, and nobody is asked again then.
//!
//! A source's sessions are shared out among workers by hash, and the count is of all of them together: words that workers share and never wait for. One is found by a keyed hash of the source, of which 40 bits and more have to agree, and goes with
//! the last of its sessions. Nothing of this is done for a packet, nor where a tenant has no such limit, nor where sessions begin of which [no source has any](Tenant::uncounted).

use super::entry::{Room, Session, State};
use super::parser;
use super::room::Evicted;
use super::sessions::{NoRoom, Sessions};
use super::tenants::{Tenant, Tenants};
use core::net::{IpAddr, Ipv6Addr};
use core::num::NonZeroU64;
use graph::IfIndex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tables::session::{Key, Seed};

/// What a tenant says of its sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLimit {
    /// Sessions of one at most, of all workers together: 1 to [`MOST`].
    pub sessions: u32,
    /// Bits of an IPv6 address by which sources differ, 1 to 128.
    pub ipv6_prefix_length: u8,
}

/// What can be counted of one source.
pub const MOST: u32 = (1 << COUNT_BITS) - 1;

/// Bits of a word that count; those above are of the hash, and 0 is nobody's.
const COUNT_BITS: u32 = 24;
/// Bits of the hash that choose a bucket, at each level others.
const BUCKET_BITS: u32 = 6;
const BUCKETS: usize = 1 << BUCKET_BITS;
/// Levels: as many as those bits of the hash are enough for that aren't in words. They have places for more sources than there may be sessions.
const LEVELS: u32 = COUNT_BITS / BUCKET_BITS;
/// Words of a bucket: a cache line.
const WORDS: usize = 8;

/// A source as it is counted: its keyed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source(NonZeroU64);

impl Source {
    const fn bucket(self, level: u32) -> usize {
        (self.0.get() >> (level * BUCKET_BITS)) as usize % BUCKETS
    }

    /// That many sessions of it, in a word.
    const fn word(self, sessions: u32) -> u64 {
        self.0.get() >> COUNT_BITS << COUNT_BITS | sessions as u64
    }

    const fn has(self, word: u64) -> bool {
        word != 0 && word >> COUNT_BITS == self.0.get() >> COUNT_BITS
    }
}

const fn sessions_of(word: u64) -> u32 {
    word as u32 & MOST
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket([AtomicU64; WORDS]);

/// Buckets, and below each, where more sources have come to it than it has words, others.
#[derive(Debug)]
struct Level {
    buckets: [Bucket; BUCKETS],
    below: [OnceLock<Box<Level>>; BUCKETS],
}

impl Default for Level {
    fn default() -> Self {
        Self {
            buckets: core::array::from_fn(|_| Bucket::default()),
            below: core::array::from_fn(|_| OnceLock::new()),
        }
    }
}

/// The sources of a tenant's sessions. A level is some 5 KiB; there are as many as the most sources needed that there have been at a time.
#[derive(Debug, Default)]
pub(super) struct Sources {
    seed: Seed,
    first: OnceLock<Box<Level>>,
}

/// What there is of a source.
struct Found<'a> {
    /// Its sessions.
    sessions: u32,
    /// One of its words as it was read, or else a free one.
    word: Option<(&'a AtomicU64, u64)>,
    /// Where the next level would be.
    end: &'a OnceLock<Box<Level>>,
    /// There may be one.
    grows: bool,
}

impl Sources {
    /// The source of sessions of that key, whose initiator is the higher or the lower endpoint.
    pub(super) fn of(&self, key: &Key, is_high: bool, limit: &SourceLimit) -> Source {
        let (low, high) = parser::endpoints(key);
        let mut address = if is_high { high.0 } else { low.0 };
        if let IpAddr::V6(whole) = address {
            let rest = 128_u32.saturating_sub(limit.ipv6_prefix_length.into());
            let kept = u128::MAX.checked_shl(rest).unwrap_or(0);
            address = Ipv6Addr::from_bits(whole.to_bits() & kept).into();
        }
        let hash = self.seed.wide(&Key::of_endpoint(0, 0, (address, 0)));
        Source(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }

    /// Looks for a source, from the first level on. Two workers that began its first sessions at the same moment may have given it a word each.
    fn find(&self, source: Source) -> Found<'_> {
        let mut found = Found { sessions: 0, word: None, end: &self.first, grows: true };
        let mut depth = 0;
        while let Some(level) = found.end.get() {
            let at = source.bucket(depth);
            for place in &level.buckets[at].0 {
                let word = place.load(Ordering::Relaxed);
                if source.has(word) {
                    found.sessions += sessions_of(word);
                }
                let is_better = match found.word {
                    None => word == 0 || source.has(word),
                    Some((_, known)) => known == 0 && source.has(word),
                };
                if is_better {
                    found.word = Some((place, word));
                }
            }
            depth += 1;
            found.grows = depth < LEVELS;
            found.end = &level.below[at];
        }
        found
    }

    /// One session more of a source; false where it has as many as it may.
    pub(super) fn take(&self, source: Source, most: u32) -> bool {
        loop {
            let found = self.find(source);
            if found.sessions >= most {
                return false;
            }
            let Some((place, word)) = found.word else {
                if !found.grows {
                    // More than there is memory for: whoever comes then isn't counted.
                    return true;
                }
                // Another worker may have been quicker: then its level is the one.
                let _ = found.end.set(Box::default());
                continue;
            };
            let more = source.word(sessions_of(word) + 1);
            if place.compare_exchange(word, more, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// One session fewer of it.
    pub(super) fn give(&self, source: Source) {
        while let Some((place, word)) = self.find(source).word.filter(|(_, word)| *word != 0) {
            let left = sessions_of(word).saturating_sub(1);
            let less = if left == 0 { 0 } else { source.word(left) };
            if place.compare_exchange(word, less, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Its sessions.
    pub(super) fn sessions(&self, source: Source) -> u32 {
        self.find(source).sessions
    }
}

impl Tenants {
    /// What one source may have of the sessions of the tenant of that number, where those of that key count that begin at an interface.
    pub(super) fn source_limit(&self, number: u16, key: &Key, begun: IfIndex) -> Option<SourceLimit> {
        let tenant = self.get(number)?;
        let limit = tenant.source_limit.filter(|_| !key.is_parsed())?;
        let is_uncounted = |tenant: &Tenant| tenant.uncounted.binary_search(&begun).is_ok();
        // A class's are as the tenant says at whose interface they begin.
        let owner = self.place(begun).and_then(|place| self.get(place.tenant));
        let by_owner = owner.is_some_and(|owner| owner.has_class(number) && is_uncounted(owner));
        (!is_uncounted(tenant) && !by_owner).then_some(limit)
    }
}

/// Whether a session counts at its source.
fn counts(session: &Session) -> bool {
    session.room() != Room::Blocked && session.state != State::TimeWait
}

impl Sessions {
    /// Begins a session as [`Sessions::begin`] does, where its source may have one more.
    ///
    /// # Errors
    /// [`NoRoom`] where it may not, or nobody can make room for it.
    pub(super) fn begin_within(
        &mut self,
        tenants: &Tenants,
        at: (u16, IfIndex),
        tenant: &Tenant,
        flow: (Key, u32, bool),
        now: u64,
        evicted: &mut Evicted,
    ) -> Result<(u32, bool), NoRoom> {
        let (key, _, from_high) = flow;
        let Some(limit) = tenants.source_limit(at.0, &key, at.1) else {
            return self.begin(tenants, at, tenant, flow, now, evicted);
        };
        let sources = &tenant.occupancy.sources;
        let source = sources.of(&key, from_high, &limit);
        if !sources.take(source, limit.sessions) {
            return Err(NoRoom::Source);
        }
        let begun = self.begin(tenants, at, tenant, flow, now, evicted);
        if !matches!(begun, Ok((index, true)) if self.is_of(index, source)) {
            sources.give(source);
        }
        begun
    }

    /// The session is counted at that source from now on. False where there is no memory for that.
    fn is_of(&mut self, index: u32, source: Source) -> bool {
        let handle = self.table.handle(index);
        let place = handle.and_then(|handle| self.sources.get_mut(handle));
        place.map(|(its, _)| *its = Some(source)).is_some()
    }

    /// Whose source a session that is there is, begun at that interface or where it has begun, and what its tenant says of sources; `None` where it says nothing.
    fn source(
        &mut self,
        tenants: &Tenants,
        index: u32,
        begun: Option<IfIndex>,
    ) -> Option<(u16, Source, SourceLimit)> {
        let (handle, key, session) = self.table.visit(index)?;
        let (number, is_high) = (session.tenant, session.initiator_is_high());
        let begun = begun.or_else(|| self.begun.get(handle).copied()).unwrap_or_default();
        let limit = tenants.source_limit(number, &key, begun)?;
        let part = self.parts.get(usize::from(number))?;
        Some((number, part.occupancy.sources.of(&key, is_high, &limit), limit))
    }

    /// A session that is there counts at its initiator from now on, whether that has as many as it may or not: so do all that were there when their tenant was given a limit. Or it doesn't any
    /// more, as its tenant says now.
    pub(super) fn count_source(&mut self, tenants: &Tenants, index: u32) {
        match self.source(tenants, index, None) {
            Some((number, source, _)) if self.table.get(index).is_some_and(counts) => {
                self.put_source(index, number, source, MOST);
            }
            Some(_) => {}
            None => self.leave_source(index),
        }
    }

    /// A session that was over begins anew at an interface: false where its initiator has as many as it may.
    pub(super) fn begins_again(&mut self, tenants: &Tenants, index: u32, interface: IfIndex) -> bool {
        let source = self.source(tenants, index, Some(interface));
        source.is_none_or(|(number, source, limit)| self.put_source(index, number, source, limit.sessions))
    }

    /// The session counts at that source and at no other one. False where that has as many as it may.
    fn put_source(&mut self, index: u32, number: u16, source: Source, most: u32) -> bool {
        let handle = self.table.handle(index);
        if handle.and_then(|handle| self.sources.get(handle).copied().flatten()) == Some(source) {
            return true;
        }
        self.leave_source(index);
        let Some(part) = self.parts.get(usize::from(number)) else { return true };
        let occupancy = Arc::clone(&part.occupancy);
        if !occupancy.sources.take(source, most) {
            return false;
        }
        if !self.is_of(index, source) {
            occupancy.sources.give(source);
        }
        true
    }

    /// The session counts at its source no more: it ends, is over or blocked.
    #[inline(always)]
    pub(super) fn leave_source(&mut self, index: u32) {
        if let Some(handle) = self.table.handle(index)
            && let Some(place) = self.sources.known(handle)
            && let Some(source) = place.take()
            && let Some(session) = self.table.get(index)
            && let Some(part) = self.parts.get(usize::from(session.tenant))
        {
            part.occupancy.sources.give(source);
        }
    }

    /// A session stands elsewhere now.
    #[inline(always)]
    pub(super) fn source_moved(&mut self, index: u32) {
        if self.table.get(index).is_some_and(|session| !counts(session)) {
            self.leave_source(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const LIMIT: SourceLimit = SourceLimit { sessions: 3, ipv6_prefix_length: 64 };

    fn host(sources: &Sources, number: u32) -> Source {
        sources.of(&Key::v4(0, 17, (number, 7), (1, 9)).0, number > 1, &LIMIT)
    }

    fn levels(first: &OnceLock<Box<Level>>) -> usize {
        first.get().map_or(0, |level| 1 + level.below.iter().map(levels).sum::<usize>())
    }

    /// As a map of all of them says, of as many hosts as fill three levels.
    #[test]
    fn each_source_has_its_own_count() {
        let sources = Sources::default();
        let (mut known, mut random) = (HashMap::<u32, u32>::new(), 7_u32);
        for step in 0..400_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = 2 + (random >> 8) % 60_000;
            let (its, source) = (known.entry(number).or_default(), host(&sources, number));
            if step % 3 < 2 {
                assert_eq!(sources.take(source, 3), *its < 3);
                *its = (*its + 1).min(3);
            } else {
                sources.give(source);
                *its = its.saturating_sub(1);
            }
        }
        for (number, its) in &known {
            assert_eq!(sources.sessions(host(&sources, *number)), *its, "{number}");
        }
        let most = levels(&sources.first);
        assert!((65..=1 + 64 + 64 * 64).contains(&most), "{most}");
        for (number, its) in known {
            (0..its).for_each(|_| sources.give(host(&sources, number)));
        }
        // What others have left is used again.
        for number in 100_000..101_000 {
            assert!(sources.take(host(&sources, number), 1));
        }
        assert!(levels(&sources.first) <= most);
    }

    #[test]
    fn workers_count_together() {
        let sources = Sources::default();
        let taken: usize = std::thread::scope(|scope| {
            let worker = || {
                let all = (0..40_000_u32).map(|at| host(&sources, 2 + at % 2000));
                let had: Vec<_> = all.filter(|source| sources.take(*source, 10)).collect();
                had.iter().step_by(2).for_each(|source| sources.give(*source));
                had.len() - had.len().div_ceil(2)
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let counts: Vec<_> = (0..2000).map(|at| sources.sessions(host(&sources, 2 + at)) as usize).collect();
        assert_eq!(counts.iter().sum::<usize>(), taken, "none is lost, and none counted twice");
        assert!(counts.iter().all(|count| *count <= 10 + 3), "but for those of the same moment");
    }

    #[test]
    fn a_prefix_is_as_long_as_is_said() {
        let sources = Sources::default();
        let of = |address: &str, ipv6_prefix_length| {
            let address: Ipv6Addr = address.parse().unwrap();
            let (key, is_high) = Key::v6(0, 17, (address.to_bits(), 7), (1, 9));
            sources.of(&key, is_high, &SourceLimit { sessions: 1, ipv6_prefix_length })
        };
        let [a, b, c] = ["2001:db8::1", "2001:db8::8000:0:0:1", "2001:db8:0:1::1"];
        assert_eq!((of(a, 64), of(a, 64)), (of(b, 64), of("2001:db8::", 64)));
        assert_ne!(of(a, 64), of(c, 64));
        assert_eq!(of(a, 63), of(c, 63));
        assert_ne!(of(a, 128), of("2001:db8::2", 128));
        assert_eq!(of(a, 1), of("3fff::", 1));
    }
}
