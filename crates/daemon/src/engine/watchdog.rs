//! Sees to it that a worker that stands still is noticed, and that it ends.
//!
//! A worker that never comes to the end of its round (a loop in a service that was written elsewhere, a system call that doesn't return) forwards nothing, and keeps
//! what is published from being freed. The others go on: they share nothing with it that it could hold, but transmit queues of ports that have fewer than
//! there are workers.
//!
//! Its thread can't be ended: Rust has no way to, and there is none. A thread that is taken away leaves its locks held, those of the allocator among them. Nor can its queues be given
//! to others: it has them, with memory of peers and cursors into it, and may go on at any moment and use them beside whoever has them then. What is sound is to end
//! the process, as after a [panic](crate::crash): taps stay, memif peers reconnect, the desired state comes back from disk, and the core dump shows where the thread was.
//! That costs all workers a second; so it is only done where it helps: not while the kernel gives the thread no time, nor while a debugger holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use graph::worker::Worker;

use super::start::Shared;
use super::thread_state::{ThreadState, thread_state};

/// When a worker is taken to stand still, and when the process is ended for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How long without the end of a round.
    pub notice: Duration,
    /// After how long the process is ended; `None`: never.
    pub restart: Option<Duration>,
}

impl Default for Patience {
    fn default() -> Self {
        Self { notice: Duration::from_secs(2), restart: Some(Duration::from_secs(10)) }
    }
}

/// How a worker stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Standstill {
    /// It does: its rounds end.
    None,
    /// It runs, and its round has no end.
    Loops,
    /// It waits in the kernel.
    Waits,
    /// It would run, and the kernel lets others.
    Starved,
    /// A debugger, or whoever has stopped the process, holds it.
    Held,
    /// There is no such thread any more.
    Gone,
}

impl Standstill {
    const ALL: [Self; 6] = [Self::None, Self::Loops, Self::Waits, Self::Starved, Self::Held, Self::Gone];

    /// In words, after "worker 1 stands still".
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::None => "it goes on",
            Self::Loops => "it runs, and its round has no end",
            Self::Waits => "it waits in the kernel",
            Self::Starved => "its core is given to others",
            Self::Held => "it is held, as a debugger does",
            Self::Gone => "its thread is gone",
        }
    }

    /// Whether the process is to be ended for it: whether another one would fare better.
    const fn ends(self) -> bool {
        matches!(self, Self::Loops | Self::Waits | Self::Gone)
    }

    fn of(state: Option<ThreadState>, own: Duration, patience: Duration) -> Self {
        match state {
            None => Self::Gone,
            Some(ThreadState::Held) => Self::Held,
            Some(ThreadState::Waits) => Self::Waits,
            // On a core that it shares, a long round is to have had its time.
            Some(ThreadState::Runs) if own >= patience / 2 => Self::Loops,
            Some(ThreadState::Runs) => Self::Starved,
        }
    }
}

/// What is known of one worker; read by whoever asks.
#[derive(Debug, Default)]
pub(super) struct Post {
    standstill: AtomicU8,
    /// For how long, in milliseconds; 0: it goes on.
    still: AtomicU64,
    /// How often it was noticed.
    times: AtomicU64,
}

impl Post {
    /// For how long it has stood still, where that was noticed.
    pub(super) fn still(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.still.load(Ordering::Relaxed))).filter(|still| !still.is_zero())
    }

    /// How.
    pub(super) fn standstill(&self) -> Standstill {
        let said = self.standstill.load(Ordering::Relaxed);
        Standstill::ALL.into_iter().find(|one| *one as u8 == said).unwrap_or(Standstill::None)
    }

    /// How often it was noticed.
    pub(super) fn times(&self) -> u64 {
        self.times.load(Ordering::Relaxed)
    }

    fn tell(&self, standstill: Standstill, still: Duration) {
        self.standstill.store(standstill as u8, Ordering::Relaxed);
        self.still.store(still.as_millis() as u64, Ordering::Relaxed);
    }
}

/// A worker as the watchdog has last seen it.
#[derive(Debug, Default)]
struct Seen {
    progress: [u64; 3],
    still: Duration,
    /// Processor time that the thread had had when it was last seen to go on.
    own: Duration,
    /// What was told of it, by bit: each once, as one that comes and goes from the kernel is now this and now that.
    told: u8,
}

/// Looks at the workers until the engine ends.
pub(super) fn run(shared: &Arc<Shared>, patience: Patience) {
    let pause = (patience.notice / 8).clamp(Duration::from_millis(5), Duration::from_secs(1));
    let mut seen: Vec<Seen> = shared.pool.workers().iter().map(|_| Seen::default()).collect();
    let mut last = Instant::now();
    while !shared.stop.load(Ordering::Acquire) {
        std::thread::park_timeout(pause);
        let now = Instant::now();
        // Where the machine, or the process, has stood still, so has this.
        let passed = now.duration_since(last).min(2 * pause);
        last = now;
        for (worker, seen) in shared.pool.workers().iter().zip(&mut seen) {
            look(shared, worker, seen, passed, patience);
        }
    }
}

fn look(shared: &Shared, worker: &Worker, seen: &mut Seen, passed: Duration, patience: Patience) {
    let (number, post) = (worker.number(), shared.pool.post(worker.number()));
    let rounds = &worker.counters().rounds;
    let progress = rounds.progress();
    let state = thread_state(worker.thread_id());
    // One that sleeps doesn't: the kernel ends that in a second at most.
    let sleeps = rounds.asleep() && matches!(state, Some((ThreadState::Waits, _)));
    if progress != seen.progress || sleeps {
        if core::mem::take(&mut seen.told) != 0 {
            tracing::warn!("worker {number} goes on, after {:.1} s", seen.still.as_secs_f64());
            post.tell(Standstill::None, Duration::ZERO);
        }
        (seen.progress, seen.still) = (progress, Duration::ZERO);
        return;
    }
    if seen.still.is_zero() {
        seen.own = state.map_or(Duration::ZERO, |(_, own)| own);
    }
    seen.still += passed;
    if seen.still < patience.notice {
        return;
    }
    let own = state.map_or(Duration::ZERO, |(_, own)| own.saturating_sub(seen.own));
    let limit = patience.restart.filter(|limit| seen.still >= *limit);
    let standstill = Standstill::of(state.map(|(state, _)| state), own, limit.unwrap_or(patience.notice));
    post.tell(standstill, seen.still);
    let place = place(shared, worker);
    if seen.told & 1 << standstill as u8 == 0 {
        if seen.told == 0 {
            post.times.fetch_add(1, Ordering::Relaxed);
        }
        seen.told |= 1 << standstill as u8;
        let still = seen.still.as_secs_f64();
        let next = match patience.restart {
            Some(limit) if standstill.ends() => {
                format!("after {} s quiverd ends, to be started anew", limit.as_secs_f64())
            }
            Some(_) => "another quiverd would fare no better".into(),
            None => "restart quiverd: workers.restart_seconds is 0".into(),
        };
        tracing::error!(
            "worker {number} has stood still for {still:.1} s, {place}: {}; the other workers go on; {next}",
            standstill.words()
        );
    }
    if limit.is_some() && standstill.ends() {
        let still = seen.still.as_secs_f64();
        crate::crash::end(&format!(
            "worker {number} has stood still for {still:.1} s, {place}: {}",
            standstill.words()
        ));
    }
}

/// Where its round is, in words.
pub(super) fn place(shared: &Shared, worker: &Worker) -> String {
    let rounds = &worker.counters().rounds;
    match rounds.at.get().and_then(|id| shared.plan.nodes.get(id)) {
        Some(node) => format!("in {}", node.spec.name),
        None if rounds.asleep() => "asleep".into(),
        None => "between nodes (commands, or transmit queues)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_had_no_time_is_not_taken_to_loop() {
        let (limit, none) = (Duration::from_secs(10), Duration::ZERO);
        for (state, own, expected) in [
            (Some(ThreadState::Runs), Duration::from_secs(5), Standstill::Loops),
            (Some(ThreadState::Runs), Duration::from_millis(4999), Standstill::Starved),
            (Some(ThreadState::Waits), none, Standstill::Waits),
            (Some(ThreadState::Held), Duration::from_secs(9), Standstill::Held),
            (None, none, Standstill::Gone),
        ] {
            assert_eq!(Standstill::of(state, own, limit), expected);
        }
        let ends = Standstill::ALL.into_iter().filter(|one| one.ends()).count();
        assert_eq!(ends, 3, "a restart helps neither who is starved nor who is held");
    }

    #[test]
    fn what_is_told_is_read() {
        let post = Post::default();
        assert_eq!((post.still(), post.standstill()), (None, Standstill::None));
        for standstill in Standstill::ALL {
            post.tell(standstill, Duration::from_millis(1500));
            assert_eq!((post.still(), post.standstill()), (Some(Duration::from_millis(1500)), standstill));
        }
    }
}
