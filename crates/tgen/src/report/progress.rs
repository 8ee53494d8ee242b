//! A line each second while it runs.

use super::out::say;
use super::text::scaled;
use crate::stateless::Progress;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Prints what was sent and received in the last second to standard error, until it is dropped. On a thread of its own: the
/// sending loop never waits for a terminal.
#[derive(Debug)]
pub struct Ticker {
    /// Closed to end the thread.
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Begins to print.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub fn start(progress: Arc<Progress>) -> std::io::Result<Self> {
        let (done, ended) = channel::<()>();
        let thread = std::thread::Builder::new().name("progress".into()).spawn(move || {
            let (mut last, begun) = ((0, 0), Instant::now());
            let mut at = begun;
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let now = (progress.sent.load(Ordering::Relaxed), progress.received.load(Ordering::Relaxed));
                let rate = |now: u64, last: u64| now.saturating_sub(last) as f64 / at.elapsed().as_secs_f64();
                let pps = |now: u64, last: u64| scaled(rate(now, last), 3) + "pps";
                let (seconds, sent, received) =
                    (begun.elapsed().as_secs_f64(), pps(now.0, last.0), pps(now.1, last.1));
                let open = now.0.saturating_sub(now.1);
                say(&format!(
                    "{seconds:5.0} s  sent {sent:>12}  received {received:>12}  lost or under way {open}"
                ));
                (last, at) = (now, Instant::now());
            }
        })?;
        Ok(Self { done: Some(done), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            // It can't have panicked, and if it had, the result would still be worth having.
            let _ = thread.join();
        }
    }
}
