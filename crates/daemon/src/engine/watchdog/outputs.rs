//! Ports whose output threads are suspended or held up.

use std::collections::HashMap;
use std::time::Duration;

use graph::port::{Attachment, IfIndex};
use graph::worker::EventSender;
use ports::HeldUp;

use super::super::start::Shared;
use super::super::thread_state::thread_state;
use super::Standstill;
use super::owner::take_away;

/// Suspensions that were reported, by interface and attachment.
#[derive(Debug, Default)]
pub(super) struct Outputs(HashMap<IfIndex, Seen>);

#[derive(Debug)]
struct Seen {
    attachment: Option<Attachment>,
    suspensions: u64,
    held: Held,
    taken_away: bool,
}

/// A write that lasts.
#[derive(Debug, Default)]
struct Held {
    /// Which, and the processor time of its thread when it was seen first.
    first: Option<(HeldUp, Duration)>,
}

impl Held {
    fn look(&mut self, held: Option<HeldUp>) {
        self.first = held.and_then(|held| match self.first {
            Some(first) if (first.0.thread, first.0.since) == (held.thread, held.since) => Some(first),
            _ => thread_state(held.thread).ok().map(|(_, own)| (held, own)),
        });
    }

    /// Whether it is the kernel that keeps the thread, and not that the thread gets no processor.
    fn is_the_kernel(&self, patience: Duration) -> bool {
        let Some((held, before)) = self.first else { return false };
        let Ok((state, own)) = thread_state(held.thread) else { return false };
        let standstill = Standstill::of(Some(state), own.saturating_sub(before), patience);
        matches!(standstill, Standstill::Loops | Standstill::Sleeps | Standstill::Uninterruptible)
    }
}

impl Outputs {
    /// Looks at all ports. One whose thread the kernel has held up for `patience` in one write is taken away.
    pub(super) fn look(&mut self, shared: &Shared, events: &EventSender, patience: Duration) {
        let inventory = shared.directory.get();
        self.0.retain(|index, _| inventory.registry.get(*index).is_some());
        for (index, entry) in inventory.registry.iter() {
            let Some(output) = entry.port.as_ref().and_then(|port| port.output.as_ref()) else { continue };
            let state = output.state();
            let (attachment, fresh) = (entry.attachment, Seen::of(entry.attachment));
            let seen = self.0.entry(index).or_insert(fresh);
            if seen.attachment != attachment {
                *seen = Seen::of(attachment);
            }
            if let Some(last) = state.last.filter(|_| state.suspensions > seen.suspensions) {
                tracing::warn!(
                    interface = %entry.spec.name, cost_ms = last.cost.as_secs_f64() * 1e3, pause_s = last.pause.as_secs_f64(),
                    "output suspended: the receive path behind the device takes too much processor time for one packet"
                );
            }
            seen.suspensions = state.suspensions;
            seen.held.look(state.held_up);
            match state.held_up.filter(|held_up| held_up.lasts >= patience) {
                Some(held_up) if !seen.taken_away && seen.held.is_the_kernel(patience) => {
                    let lasts = held_up.lasts.as_secs_f64();
                    let reason =
                        format!("the kernel has been busy with one packet to its device for {lasts:.1} s");
                    seen.taken_away = take_away(shared, events, index, &reason);
                }
                Some(_) => {}
                None => seen.taken_away = false,
            }
        }
    }
}

impl Seen {
    const fn of(attachment: Option<Attachment>) -> Self {
        Self { attachment, suspensions: 0, held: Held { first: None }, taken_away: false }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(100);

    /// What is said of a thread that does this, once it has done it for twice the patience.
    fn seen(body: impl FnOnce(&AtomicBool) + Send + 'static) -> bool {
        let over = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let theirs = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            body(&theirs);
        });
        let held_up = HeldUp { thread: told.recv().unwrap(), since: PATIENCE, lasts: PATIENCE };
        let mut held = Held::default();
        held.look(Some(held_up));
        let (_, before) = held.first.unwrap();
        // Time of its own, not on the wall: others run beside.
        while let Ok((state, own)) = thread_state(held_up.thread) {
            if !matches!(state, super::super::ThreadState::Runs) || own.saturating_sub(before) >= PATIENCE {
                break;
            }
            std::thread::sleep(PATIENCE / 10);
        }
        held.look(Some(held_up));
        let is = held.is_the_kernel(PATIENCE);
        over.store(true, Ordering::Relaxed);
        thread.thread().unpark();
        thread.join().unwrap();
        is
    }

    #[test]
    fn a_thread_that_runs_or_waits_is_held_up() {
        assert!(seen(|over| while !over.load(Ordering::Relaxed) {}));
        assert!(seen(|over| while !over.load(Ordering::Relaxed) {
            std::thread::park();
        }));
    }

    #[test]
    fn one_that_gets_no_processor_or_is_gone_is_not() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let (_, used) = thread_state(own).unwrap();
        let held_up = HeldUp { thread: own, since: PATIENCE, lasts: 10 * PATIENCE };
        // It runs, and has had nothing like the patience.
        let held = Held { first: Some((held_up, used)) };
        assert!(!held.is_the_kernel(Duration::from_secs(100)));
        let mut held = Held::default();
        held.look(Some(HeldUp { thread: i32::MAX, ..held_up }));
        assert!(!held.is_the_kernel(PATIENCE));
    }
}
