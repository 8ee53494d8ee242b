//! Sees to it that a worker that stands still is noticed, and that it ends.
//!
//! A worker that never comes to the end of its round (a loop in a service that was written elsewhere, a system call that doesn't return) forwards nothing, and keeps
//! what is published from being freed. The others go on: they share nothing with it that it could hold, but transmit queues of ports that have fewer than
//! there are workers.
//!
//! Its thread can't be ended: Rust has no way to, and there is none. A thread that is taken away leaves its locks held, those of the allocator among them. Nor can its queues be given
//! to others: it has them, with memory of peers and cursors into it, and may go on at any moment and use them beside whoever has them then. What is sound is to end
//! the process, as after a [panic](crate::crash): taps stay, memif peers reconnect, the desired state comes back from disk. The log says what the kernel knows of where
//! the thread was; a core dump, which the unit for systemd allows none of, would say the rest.
//! That costs all workers a second and all of their sessions; so it is only done where it helps: not while the kernel gives the thread no time, nor while a debugger holds it,
//! nor where it waits so that the process couldn't end either, nor where a memif peer may keep it waiting, who could then have the process end as often as it likes. And not for what
//! was seen once: a thread that has no time is seen asleep now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use graph::counters::PortCall;
use graph::port::IfIndex;
use graph::worker::{EventSender, Worker};

use super::start::Shared;
use super::thread_state::{ThreadState, in_the_kernel, thread_state};

mod outputs;
mod owner;

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
    /// It waits in the kernel, where a signal would wake it.
    Sleeps,
    /// It waits in the kernel, where none would.
    Uninterruptible,
    /// It would run, and the kernel lets others.
    Starved,
    /// A debugger, or whoever has stopped the process, holds it.
    Held,
    /// There is no such thread any more.
    Gone,
    /// The kernel doesn't say.
    Unread,
}

impl Standstill {
    const ALL: [Self; 8] = [
        Self::None,
        Self::Loops,
        Self::Sleeps,
        Self::Uninterruptible,
        Self::Starved,
        Self::Held,
        Self::Gone,
        Self::Unread,
    ];

    /// In words, after "worker 1 stands still".
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::None => "it goes on",
            Self::Loops => "it runs, and its round has no end",
            Self::Sleeps => "it waits in the kernel",
            Self::Uninterruptible => "it waits in the kernel, uninterruptibly",
            Self::Starved => "its core is given to others",
            Self::Held => "it is held, as a debugger does",
            Self::Gone => "its thread is gone",
            Self::Unread => "what its thread does can't be read",
        }
    }

    /// Whether another process might fare better. Whose process can't end, and who may be there all the same, is let be.
    const fn ends(self) -> bool {
        matches!(self, Self::Loops | Self::Sleeps | Self::Gone)
    }

    /// `None`: that can't be read.
    fn of(state: Option<ThreadState>, own: Duration, patience: Duration) -> Self {
        match state {
            None => Self::Unread,
            Some(ThreadState::Gone) => Self::Gone,
            Some(ThreadState::Held) => Self::Held,
            Some(ThreadState::Sleeps) => Self::Sleeps,
            Some(ThreadState::Uninterruptible) => Self::Uninterruptible,
            // On a core that it shares, a long round is to have had its time.
            Some(ThreadState::Runs) if own >= patience / 2 => Self::Loops,
            Some(ThreadState::Runs) => Self::Starved,
        }
    }
}

/// How often as long as it takes to be noticed a call may last once its port was taken away. Then only the end of the process frees the worker.
const OUTLIVES: u32 = 5;

/// What is known of one worker; read by whoever asks.
#[derive(Debug, Default)]
pub(super) struct Post {
    standstill: AtomicU8,
    /// For how long, in milliseconds; 0: it goes on.
    still: AtomicU64,
    /// How often it was noticed.
    times: AtomicU64,
    /// The end of the process would help.
    helps: AtomicBool,
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

    /// Whether it stands still in a way that the end of the process helps against, and has been seen to do so for long enough.
    pub(super) fn helps(&self) -> bool {
        self.helps.load(Ordering::Relaxed)
    }

    fn tell(&self, standstill: Standstill, still: Duration, helps: bool) {
        self.helps.store(helps, Ordering::Relaxed);
        self.standstill.store(standstill as u8, Ordering::Relaxed);
        self.still.store(still.as_millis() as u64, Ordering::Relaxed);
    }
}

/// A worker as the watchdog has last seen it.
#[derive(Debug, Default)]
struct Seen {
    progress: [u64; 3],
    still: Duration,
    /// Processor time that the thread had had when it was first read since it goes on no more.
    own: Option<Duration>,
    /// What its thread does; `None`: that couldn't be read.
    state: Option<ThreadState>,
    /// For how long it has been seen to do that, at each look.
    alike: Duration,
    /// After how long it was noticed.
    noticed: Option<Duration>,
    /// Since then, some memif peer might have kept it waiting.
    peers: bool,
    /// The call into a port's queue that it has been in at each look; `None`: none, or several.
    call: Option<PortCall>,
    /// The interface whose port was taken away for it.
    taken_away: Option<IfIndex>,
    /// What was told of it, by bit: each once, as one that comes and goes from the kernel is now this and now that.
    told: u8,
}

impl Seen {
    /// It goes on: nothing that was seen counts any more.
    fn goes_on(&mut self, progress: [u64; 3]) {
        *self = Self { progress, ..Self::default() };
    }

    /// It doesn't: what its thread does now, after `passed` since it was last looked at, and in which call.
    fn stands_still(
        &mut self,
        state: Option<(ThreadState, Duration)>,
        call: Option<PortCall>,
        passed: Duration,
    ) {
        self.call = if self.still.is_zero() { call } else { self.call.filter(|known| call == Some(*known)) };
        self.still += passed;
        let now = state.map(|(state, _)| state);
        if now == self.state {
            self.alike += passed;
        } else {
            (self.state, self.alike) = (now, Duration::ZERO);
        }
        if let Some((_, own)) = state {
            self.own.get_or_insert(own);
        }
    }

    /// Whether the process may be ended for it. One look doesn't decide; and one that sleeps has been asleep at each since it was noticed, and by nobody's will.
    fn may_end(&self, standstill: Standstill, patience: Patience) -> bool {
        // A call that outlives its port for that long won't return.
        if self.taken_away.is_some() && self.still < patience.notice * OUTLIVES {
            return false;
        }
        let since_noticed = self.still.saturating_sub(self.noticed.unwrap_or(self.still));
        let sleeps_by_itself = !self.peers && self.alike >= since_noticed;
        standstill.ends()
            && self.alike >= patience.notice
            && (standstill != Standstill::Sleeps || sleeps_by_itself)
    }
}

/// Looks at the workers until the engine ends.
pub(super) fn run(shared: &Arc<Shared>, events: &EventSender, patience: Patience) {
    let pause = (patience.notice / 8).clamp(Duration::from_millis(5), Duration::from_secs(1));
    let mut seen: Vec<Seen> = shared.pool.workers().iter().map(|_| Seen::default()).collect();
    let (mut last, mut outputs) = (Instant::now(), outputs::Outputs::default());
    while !shared.stop.load(Ordering::Acquire) {
        std::thread::park_timeout(pause);
        let now = Instant::now();
        // Where the machine, or the process, has stood still, so has this.
        let passed = now.duration_since(last).min(2 * pause);
        last = now;
        for (worker, seen) in shared.pool.workers().iter().zip(&mut seen) {
            look(shared, events, worker, seen, passed, patience);
        }
        outputs.look(shared, events, patience.notice);
    }
}

fn look(
    shared: &Shared,
    events: &EventSender,
    worker: &Worker,
    seen: &mut Seen,
    passed: Duration,
    patience: Patience,
) {
    let (number, post) = (worker.number(), shared.pool.post(worker.number()));
    let rounds = &worker.counters().rounds;
    let progress = rounds.progress();
    let read = thread_state(worker.thread_id());
    let state = read.as_ref().ok().copied();
    // One that sleeps doesn't: the kernel ends that in a second at most.
    let sleeps = rounds.asleep() && matches!(state, Some((ThreadState::Sleeps, _)));
    if progress != seen.progress || sleeps {
        if seen.told != 0 {
            tracing::warn!("worker {number} goes on, after {:.1} s", seen.still.as_secs_f64());
            post.tell(Standstill::None, Duration::ZERO, false);
        }
        seen.goes_on(progress);
        return;
    }
    seen.stands_still(state, rounds.at.port(), passed);
    if seen.still < patience.notice {
        return;
    }
    seen.noticed.get_or_insert(seen.still);
    seen.peers |= peers_may_keep_waiting(shared);
    let own = state.map_or(Duration::ZERO, |(_, own)| own.saturating_sub(seen.own.unwrap_or(own)));
    let limit = patience.restart.filter(|limit| seen.still >= *limit);
    let standstill = Standstill::of(seen.state, own, limit.unwrap_or(patience.notice));
    let (place, still) = (place(shared, worker), seen.still.as_secs_f64());
    // A worker may wait for a copy engine for as long as it takes to be noticed: that isn't its port's doing.
    if seen.taken_away.is_none()
        && seen.still >= patience.notice * 3 / 2
        && let Some(interface) = owner::owner(shared, seen.call, standstill)
    {
        let reason = format!("worker {number} has not returned from its queue for {still:.1} s ({place})");
        seen.taken_away = owner::take_away(shared, events, interface, &reason).then_some(interface);
    }
    let may_end = seen.may_end(standstill, patience);
    post.tell(standstill, seen.still, may_end);
    if seen.told & 1 << standstill as u8 == 0 {
        if seen.told == 0 {
            post.times.fetch_add(1, Ordering::Relaxed);
        }
        seen.told |= 1 << standstill as u8;
        let owner = seen.taken_away.and_then(|interface| owner::name(shared, interface));
        let next = match patience.restart {
            _ if let Some(owner) = &owner => format!("the port of {owner} is taken away"),
            Some(_) if standstill == Standstill::Sleeps && seen.peers => {
                "quiverd goes on: a memif peer may keep it waiting (peer_memory)".into()
            }
            Some(limit) if standstill.ends() => {
                format!("after {} s quiverd ends, to be started anew", limit.as_secs_f64())
            }
            Some(_) => "another quiverd would fare no better".into(),
            None => "restart quiverd: workers.restart_seconds is 0".into(),
        };
        let why = read.err().map(|error| format!(" ({error})")).unwrap_or_default();
        tracing::error!(
            "worker {number} has stood still for {still:.1} s, {place}: {}{why}; the other workers go on; {next}",
            standstill.words()
        );
    }
    if limit.is_some() && may_end {
        crate::crash::end(&format!(
            "worker {number} has stood still for {still:.1} s, {place}: {}; {}",
            standstill.words(),
            in_the_kernel(worker.thread_id())
        ));
    }
}

/// Whether there is an interface whose memif peer may free pages that a worker touches: that one sleeps until they are there again.
fn peers_may_keep_waiting(shared: &Shared) -> bool {
    let inventory = shared.directory.get();
    inventory.registry.iter().any(|(_, entry)| owner::can_free_pages(&entry.spec.port))
}

/// How long a worker that is known to stand still is waited for when the engine ends, and any other: one that is given no time has its round to finish.
const FAREWELL: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Stops all workers. Where one doesn't come to the end of its round, the process ends as it would for that one otherwise: joined, it would keep the others,
/// which have stopped, from being started anew.
pub(super) fn stop_workers(shared: &Shared) {
    const PAUSE: Duration = Duration::from_millis(5);
    let workers = shared.pool.workers();
    workers.iter().for_each(Worker::stop);
    let (mut waited, mut last) = (Duration::ZERO, Instant::now());
    loop {
        let limit = |worker: &Worker| {
            let standstill = shared.pool.post(worker.number()).standstill();
            FAREWELL[usize::from(matches!(standstill, Standstill::None | Standstill::Starved))]
        };
        let mut late = workers.iter().filter(|worker| !worker.has_stopped()).peekable();
        if late.peek().is_none() {
            return;
        }
        if let Some(worker) = late.find(|worker| waited >= limit(worker)) {
            crate::crash::end(&format!(
                "worker {} doesn't stop, {}: {}",
                worker.number(),
                place(shared, worker),
                in_the_kernel(worker.thread_id())
            ));
        }
        std::thread::sleep(PAUSE);
        let now = Instant::now();
        // Where the machine, or the process, has stood still, so has this.
        waited += now.duration_since(last).min(4 * PAUSE);
        last = now;
    }
}

/// Where its round is, in words.
pub(super) fn place(shared: &Shared, worker: &Worker) -> String {
    let rounds = &worker.counters().rounds;
    let node = rounds.at.get().and_then(|id| shared.plan.nodes.get(id));
    let port = rounds.at.port().and_then(|call| owner::name(shared, call.interface));
    match (node, port) {
        (Some(node), Some(port)) => format!("in {} for {port}", node.spec.name),
        (Some(node), None) => format!("in {}", node.spec.name),
        (None, Some(port)) => format!("in a queue of {port}"),
        (None, None) if rounds.asleep() => "asleep".into(),
        (None, None) => "between nodes (commands)".into(),
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
            (Some(ThreadState::Sleeps), none, Standstill::Sleeps),
            (Some(ThreadState::Uninterruptible), none, Standstill::Uninterruptible),
            (Some(ThreadState::Held), Duration::from_secs(9), Standstill::Held),
            (Some(ThreadState::Gone), none, Standstill::Gone),
            (None, none, Standstill::Unread),
        ] {
            assert_eq!(Standstill::of(state, own, limit), expected);
        }
        let ends: Vec<_> = Standstill::ALL.into_iter().filter(|one| one.ends()).collect();
        assert_eq!(ends, [Standstill::Loops, Standstill::Sleeps, Standstill::Gone], "it helps no other");
    }

    /// What looks a quarter of a second apart see from the moment at which the worker goes on no more; whether the process may be ended after all of them.
    fn ends_after(looks: &[Option<ThreadState>], peers: bool) -> bool {
        let (patience, passed) = (Patience::default(), Duration::from_millis(250));
        let (mut seen, mut ends) = (Seen { peers, ..Seen::default() }, false);
        for state in looks {
            seen.stands_still(
                state.map(|state| (state, Duration::from_secs(3600) + seen.still)),
                None,
                passed,
            );
            if seen.still >= patience.notice {
                seen.noticed.get_or_insert(seen.still);
                let standstill = match *state {
                    Some(ThreadState::Runs) => Standstill::Loops,
                    other => Standstill::of(other, Duration::ZERO, patience.notice),
                };
                ends = seen.may_end(standstill, patience);
            }
        }
        ends
    }

    #[test]
    fn one_look_does_not_decide() {
        use ThreadState::{Gone, Held, Runs, Sleeps, Uninterruptible};
        let all = |state| vec![Some(state); 60];
        for (state, ends) in
            [(Runs, true), (Sleeps, true), (Gone, true), (Uninterruptible, false), (Held, false)]
        {
            assert_eq!(ends_after(&all(state), false), ends, "{state:?}");
            let mut once = all(Held);
            once.push(Some(state));
            assert!(!ends_after(&once, false), "{state:?} seen once");
        }
        assert!(!ends_after(&[None; 60], false), "what can't be read is not gone");
        // One that has no time, and is seen asleep now and then.
        let starved: Vec<_> = (0..60).map(|at| Some(if at % 7 == 6 { Sleeps } else { Runs })).collect();
        assert!(!ends_after(&starved, false));
        // One that loops and was elsewhere once: as soon as it has been seen for long enough.
        let mut loops = all(Runs);
        loops[30] = Some(Uninterruptible);
        assert!(ends_after(&loops, false) && !ends_after(&loops[..36], false));
        // One that sleeps has slept since it was noticed.
        let mut sleeps = all(Sleeps);
        sleeps[30] = Some(Runs);
        assert!(!ends_after(&sleeps, false));
    }

    #[test]
    fn who_may_be_kept_waiting_by_a_peer_ends_nothing() {
        assert!(!ends_after(&[Some(ThreadState::Sleeps); 60], true));
        assert!(ends_after(&[Some(ThreadState::Runs); 60], true));
    }

    /// The thread's whole life isn't what it has looped for.
    #[test]
    fn time_counts_from_the_first_look_that_is_told_anything() {
        let mut seen = Seen::default();
        seen.stands_still(None, None, Duration::from_millis(250));
        assert_eq!(seen.own, None);
        seen.stands_still(
            Some((ThreadState::Runs, Duration::from_secs(3600))),
            None,
            Duration::from_millis(250),
        );
        seen.stands_still(
            Some((ThreadState::Runs, Duration::from_secs(3601))),
            None,
            Duration::from_millis(250),
        );
        assert_eq!(seen.own, Some(Duration::from_secs(3600)));
    }

    #[test]
    fn what_is_told_is_read() {
        let post = Post::default();
        assert_eq!((post.still(), post.standstill()), (None, Standstill::None));
        for standstill in Standstill::ALL {
            post.tell(standstill, Duration::from_millis(1500), standstill.ends());
            assert_eq!(post.helps(), standstill.ends());
            assert_eq!((post.still(), post.standstill()), (Some(Duration::from_millis(1500)), standstill));
        }
    }
}
