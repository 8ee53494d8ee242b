//! Who waits for a port, so that no thread loses what it sleeps for to another.
//!
//! A queue has one interrupt flag and one eventfd for all threads that wait for it. So signals stay asked for as long as one of them
//! sleeps, and who takes a signal back, or has news to tell, wakes all others: each looks for itself whether there is something for it.

use std::sync::{Arc, PoisonError};

#[cfg(all(test, loom))]
use loom::sync::{Mutex, MutexGuard};
use memif::ring::Event;
#[cfg(not(all(test, loom)))]
use std::sync::{Mutex, MutexGuard};

/// What wakes a sleeper.
pub(crate) trait Wake {
    fn signal(&self);
}

impl Wake for Event {
    fn signal(&self) {
        Self::signal(self);
    }
}

/// The queues that are slept on.
pub(crate) trait Signals {
    /// Asks for signals of all queues; whether one has something already.
    fn arm(&self) -> bool;

    /// Asks for no more signals.
    fn disarm(&self);

    /// Takes back the signals that came; whether there was one.
    fn take_signals(&self) -> bool;
}

/// Those that wait: what wakes each.
#[derive(Debug)]
pub(crate) struct Sleepers<W = Event>(Mutex<Vec<Arc<W>>>);

impl<W> Default for Sleepers<W> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W: Wake> Sleepers<W> {
    /// Enters a sleeper, and asks for signals of the link that there is then; whether it has something already.
    pub(crate) fn enter<L: Signals>(
        &self,
        me: &Arc<W>,
        link: impl FnOnce() -> Option<Arc<L>>,
    ) -> (Option<Arc<L>>, bool) {
        let mut all = lock(&self.0);
        all.push(Arc::clone(me));
        // Only now: a link that comes later wakes this sleeper.
        let link = link();
        let ready = link.as_ref().is_some_and(|link| link.arm());
        (link, ready)
    }

    /// The sleeper is awake.
    pub(crate) fn leave(&self, me: &Arc<W>, link: Option<&impl Signals>) {
        let mut all = lock(&self.0);
        all.retain(|one| !Arc::ptr_eq(one, me));
        let Some(link) = link else { return };
        if link.take_signals() {
            wake(&mut all);
        }
        if all.is_empty() {
            link.disarm();
        }
    }

    /// Wakes all.
    pub(crate) fn wake(&self) {
        wake(&mut lock(&self.0));
    }

    /// Looks at a link's queues while nobody begins or ends to sleep; `look` is told whether anybody does.
    pub(crate) fn look<R>(&self, look: impl FnOnce(bool) -> R) -> R {
        let all = lock(&self.0);
        look(!all.is_empty())
    }
}

/// Wakes these once: who goes on sleeping enters again.
fn wake<W: Wake>(all: &mut Vec<Arc<W>>) {
    for one in all.drain(..) {
        one.signal();
    }
}

#[cfg(all(test, loom))]
mod model;
