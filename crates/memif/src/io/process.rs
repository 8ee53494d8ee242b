//! What peers may have of this process, whatever socket they come to: half of the descriptors that it may open. The other half is the
//! application's, with the sockets of connections.

use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use rustix::process::{Resource, getrlimit};

use super::server::ListenerSettings;
use crate::control::{Amount, Quota, Scope};

/// Most descriptors that the process may open at present (`RLIMIT_NOFILE`).
pub(super) fn may_open() -> usize {
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// For regions and rings of all clients, of so many that may be opened.
const fn for_clients(may_open: usize) -> usize {
    may_open / 4
}

/// For what peers have sent and is on its way out.
pub(super) const fn for_closing(may_open: usize) -> usize {
    may_open / 4
}

/// The quota of one more socket, and how many descriptors the clients of all could have.
pub(super) fn quota_of_socket(settings: &ListenerSettings) -> (Arc<Quota>, usize) {
    static PROCESS: LazyLock<Arc<Quota>> =
        LazyLock::new(|| Arc::new(Quota::new(Scope::Process, Amount::MAX)));
    static SOCKETS: Mutex<Vec<Weak<Quota>>> = Mutex::new(Vec::new());
    let for_clients = for_clients(may_open());
    PROCESS.set_max(Amount { descriptors: for_clients, ..Amount::MAX });
    let max = Amount { descriptors: settings.max_descriptors, memory: settings.max_memory };
    let socket = Arc::new(Quota::new(Scope::Socket, max).within(Arc::clone(&PROCESS)));
    let mut sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    sockets.retain(|socket| socket.strong_count() > 0);
    sockets.push(Arc::downgrade(&socket));
    let could_be = sockets.iter().filter_map(Weak::upgrade).map(|socket| socket.max().descriptors);
    (socket, could_be.fold(0, usize::saturating_add).min(for_clients))
}
