//! Where the threads run that have to do with memif peers: the memif thread, those that it starts, and doorbells.

use ::memif::ring::{DoorbellSettings, Signals};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Doorbell threads on the processors that this process may use and no worker has; on all where there are no others.
pub(super) fn signals(workers: &[Option<usize>]) -> Signals {
    let all = sched_getaffinity(None).map(|set| cpus(&set)).unwrap_or_default();
    Signals::Doorbell(DoorbellSettings { cpus: apart(&all, workers) })
}

/// Runs the calling thread, and threads that it starts, on the same processors: closing a peer's descriptors and calls on its socket take
/// processor time in the calling thread.
pub(super) fn run_apart(signals: &Signals) {
    let Signals::Doorbell(settings) = signals else { return };
    let mut set = CpuSet::new();
    settings.cpus.iter().for_each(|cpu| set.set(*cpu));
    if set.count() > 0
        && let Err(errno) = sched_setaffinity(None, &set)
    {
        tracing::warn!(%errno, "the memif thread can't be kept off the workers' processors");
    }
}

fn cpus(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

fn apart(all: &[usize], workers: &[Option<usize>]) -> Vec<usize> {
    let free: Vec<_> = all.iter().copied().filter(|cpu| !workers.contains(&Some(*cpu))).collect();
    if free.is_empty() { all.to_vec() } else { free }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_given_where_no_worker_runs() {
        assert_eq!(apart(&[0, 1, 2, 5], &[Some(5), Some(2)]), [0, 1]);
        assert_eq!(apart(&[0, 1], &[None]), [0, 1], "a worker that runs anywhere has no processor");
        assert_eq!(apart(&[0, 1], &[Some(1), Some(0)]), [0, 1], "there are no others");
        let Signals::Doorbell(settings) = signals(&[]) else { panic!("by a thread") };
        assert!(!settings.cpus.is_empty());
    }
}
