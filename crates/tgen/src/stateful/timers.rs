//! Timers of one side.
//!
//! Most connections are gone before their first timer is due. So a timer is never taken back: each slot has at most
//! one that counts, which looks at the slot's deadline when it fires and is set anew if that has moved. And timers of the
//! one usual delay, of which there is one per connection, pass through a queue (in order of time by themselves); only
//! those that are set anew, or have another delay, reach the wheel.

use std::collections::VecDeque;
use tables::timer_wheel::TimerWheel;

/// Timers of slots.
#[derive(Debug)]
pub struct Timers {
    usual: u32,
    queue: VecDeque<(u32, u32)>,
    wheel: TimerWheel,
}

impl Timers {
    /// Timers most of which are set for `usual` milliseconds ahead.
    #[must_use]
    pub fn new(usual: u32) -> Self {
        Self { usual, queue: VecDeque::new(), wheel: TimerWheel::new(0) }
    }

    /// Lets `slot` be due at tick `at`.
    #[inline(always)]
    pub fn set(&mut self, slot: u32, at: u32, now: u32) {
        if at.wrapping_sub(now) == self.usual {
            self.queue.push_back((at, slot));
        } else {
            self.wheel.schedule(u64::from(at), slot);
        }
    }

    /// Puts slots that are due into `slots`, up to its capacity.
    pub fn due(&mut self, now: u32, slots: &mut Vec<u32>) {
        slots.clear();
        let room = slots.capacity();
        while slots.len() < room
            && let Some((_, slot)) = self.queue.pop_front_if(|(at, _)| *at <= now)
        {
            slots.push(slot);
        }
        if !self.wheel.is_empty() {
            slots.extend(self.wheel.advance(u64::from(now), room - slots.len()));
        }
    }

    /// Timers that are set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len() + self.wheel.len()
    }

    /// Whether none is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
