//! What may take as long as a peer likes, done by threads other than the one that serves the sockets.
//!
//! Each line, of an [origin](Origin) as a rule, has one thread at a time, so that only its own errands wait for one that hangs; of all there are
//! no more than [`THREADS`], and of all sockets of the process no more than [`OF_PROCESS`], besides one for each that has none.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::credentials::Origin;

/// Most threads, each for another line: so many lines' errands may hang before others' wait as well.
pub(super) const THREADS: usize = 256;
/// The same of all sockets of the process together.
const OF_PROCESS: usize = 512;
/// How long until a thread is asked for again where there could be none.
const PAUSE: Duration = Duration::from_millis(100);
/// All that an errand needs: sockets are looked for in sockets to a depth of ten.
const STACK: usize = 256 << 10;

type Errand = Box<dyn FnOnce() + Send>;

/// Errands of all lines.
#[derive(Clone)]
pub(super) struct Errands<L = Origin> {
    /// What its threads are called.
    name: &'static str,
    state: Arc<Mutex<State<L>>>,
}

/// What its threads may be.
#[derive(Clone, Copy)]
struct Bounds {
    threads: usize,
    of_process: usize,
    /// Threads of all sockets.
    running: &'static AtomicUsize,
    stack: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        Self { threads: THREADS, of_process: OF_PROCESS, running: &RUNNING, stack: STACK }
    }
}

struct State<L> {
    bounds: Bounds,
    lines: HashMap<L, Line>,
    /// Those of them that have something to do and that no thread is at; the first is next.
    queue: VecDeque<L>,
    threads: usize,
    /// When there should have been one more, and there could be none.
    short: Option<Instant>,
    /// Why one could not be started when this was tried last.
    failed: Option<Errno>,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Errand>,
    /// Whether a thread is at one of it.
    served: bool,
}

impl<L> std::fmt::Debug for Errands<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = lock(&self.state);
        let (lines, threads) = (state.lines.len(), state.threads);
        f.debug_struct(self.name).field("lines", &lines).field("threads", &threads).finish()
    }
}

impl<L: Copy + Eq + Hash + Send + 'static> Errands<L> {
    pub(super) fn new(name: &'static str) -> Self {
        Self::within(name, Bounds::default())
    }

    fn within(name: &'static str, bounds: Bounds) -> Self {
        let (lines, queue) = Default::default();
        let state = State { bounds, lines, queue, threads: 0, short: None, failed: None };
        Self { name, state: Arc::new(Mutex::new(state)) }
    }

    /// Has it done, after what this line has to be done already.
    pub(super) fn run(&self, of: L, errand: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        let line = state.lines.entry(of).or_default();
        line.waiting.push_back(Box::new(errand));
        if !line.served && line.waiting.len() == 1 {
            state.queue.push_back(of);
        }
        self.employ(&mut state);
    }

    /// Looks for a thread where there could be none before.
    pub(super) fn go_on(&self) {
        self.employ(&mut self.lock());
    }

    /// When [`go_on`](Self::go_on) is due, whatever happens: where there should be one thread more.
    pub(super) fn due(&self) -> Option<Instant> {
        self.lock().short.map(|since| since + PAUSE)
    }

    /// Why no thread can be started that there should be.
    pub(super) fn failed(&self) -> Option<Errno> {
        self.lock().failed
    }

    /// One more thread, if there are fewer than lines. Where there can be none it is asked for again.
    fn employ(&self, state: &mut State<L>) {
        let Bounds { threads, of_process, running, stack } = state.bounds;
        // Not at each call: two threads that look at one socket would wake each other over it.
        let is_early = state.short.is_some_and(|since| since.elapsed() < PAUSE);
        if is_early && (state.threads > 0 || state.failed.is_some()) {
            return;
        }
        (state.short, state.failed) = (None, None);
        if state.queue.is_empty() || state.threads >= state.lines.len().min(threads) {
            return;
        }
        let others = running.fetch_add(1, Ordering::Relaxed);
        let all = self.clone();
        let work = move || {
            let mut done = None;
            while let Some((of, errand)) = all.next(done) {
                // The hook has said what was wrong; the others are still to be done.
                let _ = catch_unwind(AssertUnwindSafe(errand));
                done = Some(of);
            }
        };
        let started = if state.threads > 0 && others >= of_process {
            Ok(false)
        } else {
            let thread = std::thread::Builder::new().name(self.name.into()).stack_size(stack);
            thread.spawn(work).map(|_| true)
        };
        if let Ok(true) = started {
            state.threads += 1;
            return;
        }
        running.fetch_sub(1, Ordering::Relaxed);
        state.short = Some(Instant::now());
        state.failed = started.err().map(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN));
    }

    /// What to do next, of the line that has waited longest; `None` ends the thread. `done`: for which it has done something before.
    fn next(&self, done: Option<L>) -> Option<(L, Errand)> {
        let mut state = self.lock();
        let State { lines, queue, threads, .. } = &mut *state;
        if let Some(of) = done
            && let Some(line) = lines.get_mut(&of)
        {
            line.served = false;
            if line.waiting.is_empty() {
                lines.remove(&of);
            } else {
                queue.push_back(of);
            }
        }
        while let Some(of) = queue.pop_front() {
            if let Some(line) = lines.get_mut(&of)
                && let Some(errand) = line.waiting.pop_front()
            {
                line.served = true;
                return Some((of, errand));
            }
        }
        *threads -= 1;
        state.bounds.running.fetch_sub(1, Ordering::Relaxed);
        None
    }

    fn lock(&self) -> MutexGuard<'_, State<L>> {
        lock(&self.state)
    }

    /// Threads, and lines that one is at.
    #[cfg(test)]
    pub(super) fn at_work(&self) -> (usize, usize) {
        let state = self.lock();
        (state.threads, state.lines.values().filter(|line| line.served).count())
    }

    /// Whether nothing is left to do, nor being done.
    pub(super) fn done(&self) -> bool {
        self.lock().lines.is_empty()
    }
}

/// Errands for which there could be no thread, and for which nobody asks for one any more.
static LEFT: Mutex<VecDeque<Errand>> = Mutex::new(VecDeque::new());

impl<L> Drop for State<L> {
    /// Not even to drop them is for whoever drops a socket: that closes what may hang. Where there is still no thread they wait for the next socket that
    /// is dropped.
    fn drop(&mut self) {
        let left = self.lines.drain().flat_map(|(_, line)| line.waiting);
        let mut all = lock(&LEFT);
        all.extend(left);
        if all.is_empty() {
            return;
        }
        drop(all);
        let work = || {
            let next = || lock(&LEFT).pop_front();
            while let Some(errand) = next() {
                let _ = catch_unwind(AssertUnwindSafe(errand));
            }
        };
        let _ =
            std::thread::Builder::new().name("memif-left".into()).stack_size(self.bounds.stack).spawn(work);
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
