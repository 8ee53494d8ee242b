//! Many timers, few of which ever fire: neighbour and session timeouts.
//!
//! A hierarchy of wheels with 64 slots each. Slots of level 0 are one tick wide, those of each further level 64
//! times wider; eleven levels span all 64-bit ticks, so there is no longest delay. A timer is put where its time
//! first differs from the current one, and moves down a level when its slot's time begins. Per level a bitmap says
//! which slots hold something, so that time passes over empty slots at no cost.
//!
//! Scheduling and cancelling are O(1). [`TimerWheel::advance`] does at most as many steps as its budget says (a
//! timer that fires, or moves down), and goes on where it stopped the next time: a worker's round stays short, even
//! if a million timers are due.

use crate::chunked::Chunked;

/// Handle of a scheduled timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId {
    index: u32,
    generation: u32,
}

impl Default for TimerId {
    /// A handle that refers to no timer.
    fn default() -> Self {
        Self { index: NIL, generation: 0 }
    }
}

const LEVEL_BITS: u32 = 6;
const SLOTS: usize = 1 << LEVEL_BITS;
const LEVELS: usize = 11;
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Timer {
    at: u64,
    token: u32,
    generation: u32,
    next: u32,
    /// Timer before it in its slot; a free or first one has none.
    prev: u32,
    /// Where it is listed: level · 64 + slot; `NIL` if it is free.
    list: u32,
}

/// Timers that each carry a token for their owner.
#[derive(Clone, Debug)]
pub struct TimerWheel {
    now: u64,
    heads: Vec<u32>,
    occupied: [u64; LEVELS],
    timers: Chunked<Timer>,
    free: u32,
    len: usize,
}

impl TimerWheel {
    /// An empty wheel whose time is tick `now`.
    #[must_use]
    pub fn new(now: u64) -> Self {
        let heads = vec![NIL; LEVELS * SLOTS];
        Self { now, heads, occupied: [0; LEVELS], timers: Chunked::default(), free: NIL, len: 0 }
    }

    /// Lets `token` expire at tick `at`; with the next [`advance`](Self::advance) if that is past.
    ///
    /// Four thousand million timers at once are more than it can hold; the handle of one too many refers to none.
    pub fn schedule(&mut self, at: u64, token: u32) -> TimerId {
        let index = self.take_free();
        let Some(timer) = self.timers.get_mut(index as usize) else {
            return TimerId::default();
        };
        (timer.at, timer.token) = (at, token);
        let id = TimerId { index, generation: timer.generation };
        self.len += 1;
        self.link(index);
        id
    }

    /// Takes a timer back; gives its token if it had not expired.
    pub fn cancel(&mut self, id: TimerId) -> Option<u32> {
        let timer = self.timers.get(id.index as usize)?;
        if timer.list == NIL || timer.generation != id.generation {
            return None;
        }
        let token = timer.token;
        self.unlink(id.index);
        self.release(id.index);
        Some(token)
    }

    /// Lets the time go on to `now` and gives the tokens of the timers that are due by then, earlier ticks first.
    /// After `budget` steps the iterator ends; what is left, also when it is dropped early, comes next time.
    pub fn advance(&mut self, now: u64, budget: usize) -> Expired<'_> {
        Expired { now, budget, wheel: self }
    }

    /// Bytes of memory it has taken.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.timers.bytes() + self.heads.len() * size_of::<u32>()
    }

    /// Number of timers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no timer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot with timers that begins first, as (level, slot, tick at which it begins or now). Of several the one
    /// on the highest level: what it holds has to move down before anything else happens at that tick.
    fn earliest(&self) -> Option<(usize, usize, u64)> {
        let occupied = self.occupied.iter().enumerate().filter(|&(_, &slots)| slots != 0);
        let begins = occupied.map(|(level, slots)| {
            // Slots behind the current one are empty: what they held has expired or moved down.
            let slot = slots.trailing_zeros();
            let shift = level as u32 * LEVEL_BITS;
            let above = self.now.checked_shr(shift + LEVEL_BITS).unwrap_or(0);
            let above = above.checked_shl(shift + LEVEL_BITS).unwrap_or(0);
            (level, slot as usize, (above | u64::from(slot) << shift).max(self.now))
        });
        begins.min_by_key(|&(level, _, begin)| (begin, std::cmp::Reverse(level)))
    }

    /// One step towards `now`: the token of a timer that is due, or a timer moved down (`Some(None)`), or nothing
    /// left to do.
    fn step(&mut self, now: u64) -> Option<Option<u32>> {
        let Some((level, slot, begin)) = self.earliest().filter(|&(_, _, begin)| begin <= now) else {
            self.now = self.now.max(now);
            return None;
        };
        self.now = begin;
        let index = self.heads[level * SLOTS + slot];
        let Timer { at, token, .. } = self.timers[index as usize];
        self.unlink(index);
        if at <= begin {
            self.release(index);
            return Some(Some(token));
        }
        self.link(index);
        Some(None)
    }

    /// Lists a timer in the slot where its time first differs from the current one.
    fn link(&mut self, index: u32) {
        let at = self.timers[index as usize].at.max(self.now);
        let differing = u64::BITS - (at ^ self.now).leading_zeros();
        let level = (differing.saturating_sub(1) / LEVEL_BITS) as usize;
        let slot = (at >> (level as u32 * LEVEL_BITS)) as usize & (SLOTS - 1);
        let list = level * SLOTS + slot;
        let next = std::mem::replace(&mut self.heads[list], index);
        if let Some(next) = self.timers.get_mut(next as usize) {
            next.prev = index;
        }
        let timer = &mut self.timers[index as usize];
        (timer.next, timer.prev, timer.list) = (next, NIL, list as u32);
        self.occupied[level] |= 1 << slot;
    }

    fn unlink(&mut self, index: u32) {
        let Timer { next, prev, list, .. } = self.timers[index as usize];
        match self.timers.get_mut(prev as usize) {
            Some(prev) => prev.next = next,
            None => self.heads[list as usize] = next,
        }
        if let Some(next) = self.timers.get_mut(next as usize) {
            next.prev = prev;
        }
        if self.heads[list as usize] == NIL {
            self.occupied[list as usize / SLOTS] &= !(1 << (list as usize % SLOTS));
        }
    }

    fn take_free(&mut self) -> u32 {
        let index = self.free;
        if let Some(timer) = self.timers.get(index as usize) {
            self.free = timer.next;
            return index;
        }
        let index = self.timers.len() as u32;
        if self.timers.len() < NIL as usize {
            self.timers.push(Timer { at: 0, token: 0, generation: 0, next: NIL, prev: NIL, list: NIL });
        }
        index
    }

    fn release(&mut self, index: u32) {
        let timer = &mut self.timers[index as usize];
        timer.generation = timer.generation.wrapping_add(1);
        (timer.next, timer.prev, timer.list) = (self.free, NIL, NIL);
        self.free = index;
        self.len -= 1;
    }
}

/// Tokens of expired timers; see [`TimerWheel::advance`].
#[derive(Debug)]
pub struct Expired<'a> {
    wheel: &'a mut TimerWheel,
    now: u64,
    budget: usize,
}

impl Expired<'_> {
    /// Whether nothing is left to be done at this time. False where the budget was used up.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.wheel.now >= self.now && self.wheel.earliest().is_none_or(|(_, _, begin)| begin > self.now)
    }
}

impl Iterator for Expired<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            self.budget = self.budget.checked_sub(1)?;
            if let Some(token) = self.wheel.step(self.now)? {
                return Some(token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn fires_at_its_tick_and_not_before() {
        for (begin, delay) in
            [(0, 1), (63, 1), (100, 64), (4095, 1), (7, 1 << 20), (u64::MAX - 5, 5), (3, u64::MAX - 3)]
        {
            let mut wheel = TimerWheel::new(begin);
            wheel.schedule(begin + delay, 9);
            assert_eq!(wheel.advance(begin + delay - 1, usize::MAX).count(), 0);
            assert_eq!(wheel.advance(begin + delay, usize::MAX).collect::<Vec<_>>(), [9]);
            assert!(wheel.is_empty());
        }
    }

    #[test]
    fn what_is_past_fires_next_and_a_handle_is_good_once() {
        let mut wheel = TimerWheel::new(1000);
        wheel.schedule(3, 1);
        assert_eq!(wheel.advance(1000, 10).collect::<Vec<_>>(), [1]);
        let id = wheel.schedule(2000, 2);
        assert_eq!(wheel.cancel(id), Some(2));
        assert_eq!(wheel.cancel(id), None);
        let reused = wheel.schedule(2000, 3);
        assert_eq!(wheel.cancel(id), None, "the old handle doesn't touch the new timer");
        assert_eq!(wheel.advance(2000, 10).collect::<Vec<_>>(), [3]);
        assert_eq!(wheel.cancel(reused), None);
    }

    #[test]
    fn the_budget_bounds_a_call_and_loses_nothing() {
        let mut wheel = TimerWheel::new(0);
        (0..1000).for_each(|token| {
            wheel.schedule(5000, token);
        });
        let mut fired = Vec::new();
        let mut calls = 0;
        while !wheel.is_empty() {
            let before = fired.len();
            fired.extend(wheel.advance(9000, 64));
            assert!(fired.len() - before <= 64);
            calls += 1;
        }
        assert!(calls <= 2 + 3 * 1000 / 64, "at most a step per level and timer: {calls}");
        fired.sort_unstable();
        assert_eq!(fired, (0..1000).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn follows_a_sorted_map(
            begin in prop_oneof![Just(0u64), any::<u32>().prop_map(u64::from)],
            steps in proptest::collection::vec((0..8u8, 0..40u32, any::<u16>(), 0..30usize), 1..300),
        ) {
            let (mut wheel, mut model) = (TimerWheel::new(begin), BTreeMap::<u32, (u64, TimerId)>::new());
            let (mut now, mut token) = (begin, 0);
            for (what, shift, amount, budget) in steps {
                let distance = u64::from(amount) << shift >> 8;
                match what {
                    0..=3 => {
                        let at = now + distance;
                        model.insert(token, (at, wheel.schedule(at, token)));
                        token += 1;
                    }
                    4 => {
                        let chosen = model.keys().nth(usize::from(amount) % model.len().max(1)).copied();
                        if let Some(chosen) = chosen {
                            let (_, id) = model.remove(&chosen).unwrap();
                            prop_assert_eq!(wheel.cancel(id), Some(chosen));
                        }
                    }
                    _ => {
                        now += distance;
                        let budget = if what == 7 { usize::MAX } else { budget };
                        let fired: Vec<u32> = wheel.advance(now, budget).collect();
                        prop_assert!(fired.len() <= budget);
                        let mut last = 0;
                        for token in fired {
                            let (at, _) = model.remove(&token).unwrap();
                            prop_assert!(at <= now && at >= last, "in order, none early");
                            last = at;
                        }
                        if what == 7 {
                            prop_assert!(model.values().all(|&(at, _)| at > now), "none late");
                        }
                    }
                }
                prop_assert_eq!(wheel.len(), model.len());
            }
        }
    }
}
