//! Threads that a peer keeps in the middle of a signal, where the kernel doesn't signal: see `signal`.
//!
//! A peer that clears `O_NONBLOCK` and keeps its counter full holds up the thread of its link, and no other. One that is held up as its
//! link ends is let go by taking the counter back, with each link that begins later; a peer that fills it again every time keeps the
//! thread. There are [`MOST`] such threads at most: then no links can begin until some are let go.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::{NOTHING, Outgoing, Shared};

/// Most threads that peers hold up without having a connection any more.
const MOST: usize = 64;

type Held = (Arc<Shared>, Arc<[Outgoing]>);

static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

/// A link ends whose thread may be held up.
pub(super) fn keep(shared: &Arc<Shared>, outgoing: Arc<[Outgoing]>) {
    if shared.writing.load(Ordering::SeqCst) != NOTHING {
        HELD.lock().unwrap_or_else(PoisonError::into_inner).push((Arc::clone(shared), outgoing));
    }
}

/// Whether there may be one more thread. If not, another one lets those go that can be.
pub(super) fn is_full() -> bool {
    let full = HELD.lock().unwrap_or_else(PoisonError::into_inner).len() >= MOST;
    if full {
        let _ = std::thread::Builder::new().name("memif-doorbell".into()).spawn(let_go);
    }
    full
}

/// Lets those go that are held up for nothing. Not for a thread that others wait for: it takes their counters back.
pub(super) fn let_go() {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.retain(|(shared, outgoing)| {
        let writing = shared.writing.load(Ordering::SeqCst);
        if let Some(one) = outgoing.get(writing) {
            one.event.clear();
        }
        writing != NOTHING
    });
}

/// How many there are.
#[cfg(test)]
pub(super) fn count() -> usize {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).len()
}
