//! Where and when a doorbell thread runs.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Has the calling thread run on these processors, if any are named, and without delay. Where the system doesn't allow that it runs where and when
/// others do.
pub(super) fn run_soon(cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
    if set.count() > 0 {
        let _ = sched_setaffinity(None, &set);
    }
    memory::schedule::run_soon(None);
}
