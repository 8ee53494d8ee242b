//! Regions that threads map, or seal, at this moment, of all sockets of the process. One whose file is held keeps its
//! [thread](super::mapping), and the process from ending.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A region that is being mapped or sealed, which takes as long as somebody holds its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRegion {
    /// Socket and id of the interface, as errors name it.
    pub interface: String,
    /// What its [configuration](crate::ServerConfig::name) calls the interface.
    pub name: String,
    /// Process of the peer, as it was when it connected (of a server: when it began to listen), which needn't be the one that holds the file;
    /// `None` where it isn't known.
    pub peer: Option<u32>,
    /// When a thread began, by the clock as it was set then.
    pub since: SystemTime,
}

/// Whose region it is: what is told of it as a [`HeldRegion`].
#[derive(Debug)]
pub(super) struct Whose {
    pub(super) interface: String,
    pub(super) name: String,
    pub(super) peer: Option<u32>,
}

/// All of them, each with when it was begun by a clock that nobody sets, by number; and the last number.
type All = (BTreeMap<u64, (Instant, HeldRegion)>, u64);

fn all() -> MutexGuard<'static, All> {
    static ALL: Mutex<All> = Mutex::new((BTreeMap::new(), 0));
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The regions, of all listeners and clients of the process, that a thread has been mapping or sealing for so long at least, the oldest first.
/// Those that wait behind one of the same container or process keep no thread, and aren't among these.
///
/// What hangs is there for longer than a second; what is there as the process is to end keeps it from ending.
#[must_use]
pub fn held_regions(at_least: Duration) -> Vec<HeldRegion> {
    let all = all();
    let old = all.0.values().filter(|(begun, _)| begun.elapsed() >= at_least);
    old.map(|(_, region)| region.clone()).collect()
}

/// A region is one of them until this is dropped.
#[derive(Debug)]
pub(super) struct Held(u64);

impl Held {
    /// From now on.
    pub(super) fn begin(Whose { interface, name, peer }: Whose) -> Self {
        let (regions, last) = &mut *all();
        *last += 1;
        regions
            .insert(*last, (Instant::now(), HeldRegion { interface, name, peer, since: SystemTime::now() }));
        Self(*last)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        all().0.remove(&self.0);
    }
}
