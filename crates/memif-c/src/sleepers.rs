//! Who waits for a port, so that no thread loses what it sleeps for to another.
//!
//! A queue has one interrupt flag and one eventfd for all threads that wait for it. So signals stay asked for as long as one of them
//! sleeps, and who takes a signal back, or has news to tell, wakes all others: each looks for itself whether there is something for it.

use std::sync::{Arc, Mutex};

use memif::ring::Event;

use crate::link::Link;
use crate::port::lock;

/// Those that wait: what wakes each.
#[derive(Debug, Default)]
pub(crate) struct Sleepers(Mutex<Vec<Arc<Event>>>);

impl Sleepers {
    /// Enters a sleeper, and asks for signals of the link that there is then; whether it has something already.
    pub(crate) fn enter(
        &self,
        me: &Arc<Event>,
        link: impl FnOnce() -> Option<Arc<Link>>,
    ) -> (Option<Arc<Link>>, bool) {
        let mut all = lock(&self.0);
        all.push(Arc::clone(me));
        // Only now: a link that comes later wakes this sleeper.
        let link = link();
        let ready = link.as_ref().is_some_and(|link| link.arm());
        (link, ready)
    }

    /// The sleeper is awake.
    pub(crate) fn leave(&self, me: &Arc<Event>, link: Option<&Link>) {
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
fn wake(all: &mut Vec<Arc<Event>>) {
    for one in all.drain(..) {
        one.signal();
    }
}
