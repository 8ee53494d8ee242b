//! What peers may have of this process, whatever socket they come to: half of the descriptors that it may open, of the mappings and of the
//! addresses. The other half is the application's, with the sockets of connections.

use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use rustix::process::{Resource, getrlimit};

use super::server::ListenerSettings;
use crate::control::{Amount, Quota, Scope};

/// Most descriptors that the process may open at present (`RLIMIT_NOFILE`).
pub(super) fn may_open() -> usize {
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Most mappings that the process may have (`vm.max_map_count`), of which each region is one.
fn may_map() -> usize {
    let setting = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    setting.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(usize::MAX)
}

/// For regions and rings of all clients, where so many may be opened and mapped. Of addresses half of the 47 bits that a process has on
/// x86-64.
fn for_clients(may_open: usize, may_map: usize) -> Amount {
    Amount { descriptors: (may_open / 4).min(may_map / 2), memory: 1 << 46 }
}

/// For what peers have sent and is on its way out.
pub(super) const fn for_closing(may_open: usize) -> usize {
    may_open / 4
}

static PROCESS: LazyLock<Arc<Quota>> = LazyLock::new(|| Arc::new(Quota::new(Scope::Process, Amount::MAX)));
static SOCKETS: Mutex<Vec<Weak<Quota>>> = Mutex::new(Vec::new());

/// The quota of one more socket.
pub(super) fn quota_of_socket(settings: &ListenerSettings) -> Arc<Quota> {
    PROCESS.set_max(for_clients(may_open(), may_map()));
    let max = Amount { descriptors: settings.max_descriptors, memory: settings.max_memory };
    let socket = Arc::new(Quota::new(Scope::Socket, max).within(Arc::clone(&PROCESS)));
    SOCKETS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&socket));
    socket
}

/// How many descriptors the clients of all sockets could have.
pub(super) fn of_all_sockets() -> usize {
    let mut sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    sockets.retain(|socket| socket.strong_count() > 0);
    let could_be = sockets.iter().filter_map(Weak::upgrade).map(|socket| socket.max().descriptors);
    could_be.fold(0, usize::saturating_add).min(PROCESS.max().descriptors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_a_quarter_of_the_descriptors_and_half_of_the_mappings() {
        assert_eq!(for_clients(1024, 65530).descriptors, 256);
        assert_eq!(for_clients(1 << 20, 65530).descriptors, 32765);
    }

    #[test]
    fn the_kernel_tells_how_many_mappings_there_may_be() {
        assert!((1..usize::MAX).contains(&may_map()), "{}", may_map());
    }
}
