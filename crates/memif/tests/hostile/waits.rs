//! Time that the machine takes from us: what excuses a delay, and all that does.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::arena::Shared;

/// What the machine has taken. When all of it stands still, three tell of that, and not at once: it is taken once.
pub struct Waits {
    pulse: Pulse,
    server: Arc<Shared>,
    /// What the kernel says of how long a thread of the server and ours could have run and didn't (`schedstat`), and said before.
    threads: Vec<(File, Duration)>,
    taken: Taken,
}

impl Waits {
    /// From this server, and from the thread that sends to it.
    pub fn new(server: Arc<Shared>) -> Self {
        Self { pulse: Pulse::new(), server, threads: Vec::new(), taken: Taken::default() }
    }

    /// All of it up to now. To be asked by the thread that sends.
    pub fn until_now(&mut self) -> Duration {
        let Self { pulse, server, threads, taken } = self;
        let server = server.thread();
        if threads.is_empty() && server > 0 {
            let ours = rustix::thread::gettid().as_raw_nonzero().get();
            let open = |thread| File::open(format!("/proc/self/task/{thread}/schedstat")).unwrap();
            threads.extend([server, ours].map(open).map(|schedstat| {
                let before = run_delay(&schedstat);
                (schedstat, before)
            }));
        }
        let now = Instant::now();
        for (schedstat, before) in threads {
            // Told as the thread runs again, and without saying when it was: just now, then.
            let all = run_delay(schedstat).max(*before);
            taken.add(now - (all - std::mem::replace(before, all)), now);
        }
        pulse.missed(now).for_each(|(from, to)| taken.add(from, to));
        taken.all
    }
}

/// The second figure: nanoseconds in which the thread was ready to run.
fn run_delay(schedstat: &File) -> Duration {
    let mut text = [0; 128];
    // A thread that has ended waits for nothing.
    let read = schedstat.read_at(&mut text, 0).unwrap_or(0);
    let text = std::str::from_utf8(&text[..read]).unwrap();
    Duration::from_nanos(text.split(' ').nth(1).map_or(0, |figure| figure.parse().unwrap()))
}

/// Intervals, united.
#[derive(Default)]
struct Taken {
    /// Apart from each other.
    last: VecDeque<(Instant, Instant)>,
    /// Of all that there have been.
    all: Duration,
}

impl Taken {
    /// More than can come before somebody else tells of the same.
    const KEPT: usize = 1000;

    fn add(&mut self, from: Instant, to: Instant) {
        if from == to {
            return;
        }
        let (mut first, mut last, mut known) = (from, to, Duration::ZERO);
        self.last.retain(|&(begin, end)| {
            let apart = end < from || to < begin;
            if !apart {
                (first, last, known) = (first.min(begin), last.max(end), known + (end - begin));
            }
            apart
        });
        self.all += last - first - known;
        self.last.push_back((first, last));
        if self.last.len() > Self::KEPT {
            self.last.pop_front();
        }
    }
}

/// A thread that does nothing but sleep for a moment again and again, and so shows for how long none of this process gets to
/// run, and the kernel doesn't know: it was stopped, or the whole machine was.
struct Pulse {
    stop: Arc<AtomicBool>,
    /// From one of its moments to the next.
    beats: Receiver<(Instant, Instant)>,
    /// The last that was heard of.
    heard: Instant,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    const REST: Duration = Duration::from_millis(1);
    const TURN: Duration = Duration::from_millis(10);

    fn new() -> Self {
        let (stop, (tell, beats)) = (Arc::<AtomicBool>::default(), channel());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut last = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Self::REST);
                let now = Instant::now();
                // Who heard of it may be gone.
                let _ = tell.send((last, now));
                last = now;
            }
        });
        Self { stop, beats, heard: Instant::now(), thread: Some(thread) }
    }

    /// What was missing between two moments, of those that nobody has asked for; only what is more than others' turns take.
    ///
    /// Who runs again before the pulse does, waits for it: it would learn too late that the process was stopped.
    fn missed(&mut self, now: Instant) -> impl Iterator<Item = (Instant, Instant)> {
        let mut beats: Vec<_> = self.beats.try_iter().collect();
        self.heard = beats.last().map_or(self.heard, |(_, to)| *to);
        while now.saturating_duration_since(self.heard) > Self::TURN {
            let beat = self.beats.recv().unwrap();
            self.heard = beat.1;
            beats.push(beat);
        }
        beats.into_iter().filter(|(from, to)| *to - *from > Self::TURN)
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn what_several_tell_of_is_taken_once() {
    let (mut taken, start) = (Taken::default(), Instant::now());
    let at = |ms| start + Duration::from_millis(ms);
    // Each adds so much to what is known.
    for (from, to, more) in [
        (100, 200, 100),
        (100, 200, 0),
        (120, 180, 0),
        (150, 210, 10),
        (300, 310, 10),
        (305, 305, 0),
        (90, 320, 110),
        (400, 400, 0),
        (0, 1000, 770),
    ] {
        let before = taken.all;
        taken.add(at(from), at(to));
        assert_eq!(taken.all - before, Duration::from_millis(more), "{from} to {to}");
    }
    assert_eq!(taken.last, [(at(0), at(1000))]);
}
