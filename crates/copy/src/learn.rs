//! From how many bytes on a device is worth its trouble.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::cpu::Cpu;
use crate::engine::{Engine, Transfer};

/// Sizes that are tried.
pub const SIZES: [usize; 6] = [256, 512, 1024, 2048, 4096, 8192];
/// Transfers at a time: a vector's worth of bodies.
const VECTOR: usize = 64;
/// Name of the thread that writes bodies.
const PEER: &str = "copy-peer";
/// Times that each size is tried; the quickest counts.
const TIMES: usize = 9;

/// How long a vector of bodies takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Bytes of each.
    pub size: usize,
    /// The CPU alone.
    pub cpu: Duration,
    /// The engine, from the first push until all are there.
    pub engine: Duration,
}

/// Finishes whatever happens: a panic on the way to the end of a measurement must not free what an engine still copies.
struct Finishing<'e>(&'e mut dyn Engine);

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// Has the calling thread run on one core, until this is dropped.
struct Pinned(Option<CpuSet>);

impl Pinned {
    /// Where the process may not use that core, the worker that is to be there can't be started either, which says it better.
    fn to(core: Option<usize>) -> Self {
        let Some(core) = core.filter(|core| *core < CpuSet::MAX_CPU) else { return Self(None) };
        let (before, mut only) = (sched_getaffinity(None), CpuSet::new());
        only.set(core);
        Self(before.ok().filter(|_| sched_setaffinity(None, &only).is_ok()))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // What it was allowed before, it is.
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// Has the calling thread keep away from a core, where there are others.
fn avoid(core: Option<usize>) {
    if let (Some(core), Ok(mut set)) = (core.filter(|core| *core < CpuSet::MAX_CPU), sched_getaffinity(None))
    {
        set.unset(core);
        if set.count() > 0 {
            let _ = sched_setaffinity(None, &set);
        }
    }
}

/// Measures an engine against the CPU, as a worker on `core` would find both.
///
/// Before each try another thread writes what is to be copied: bodies come from a peer, whose core has them in its caches. Out of our own a CPU
/// copies several times faster than it ever will.
pub fn measure(core: Option<usize>, cpu: &mut Cpu, engine: &mut impl Engine) -> Vec<Timing> {
    let (to_peer, asked) = channel::<Vec<u8>>();
    let (answer, from_peer) = channel();
    let peer = std::thread::Builder::new().name(PEER.into()).spawn(move || {
        avoid(core);
        for mut bodies in asked {
            bodies.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
            if answer.send(bodies).is_err() {
                return;
            }
        }
    });
    // Behind the peer, which isn't to be here, and before the memory, which is to be near.
    let _pinned = Pinned::to(core);
    let mut from = vec![0x5a_u8; VECTOR * SIZES[SIZES.len() - 1]];
    let mut to = vec![0_u8; from.len()];
    let mut quickest = |engine: &mut dyn Engine, size: usize| {
        let once = |_| {
            // Without another thread, or with one that shares the only core, it is our own cache.
            if peer.is_ok() && to_peer.send(std::mem::take(&mut from)).is_ok() {
                from = from_peer.recv().unwrap_or_default();
            }
            let begin = Instant::now();
            let finishing = Finishing(&mut *engine);
            for (from, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(size)).take(VECTOR) {
                let transfer = Transfer { to: to.as_mut_ptr(), from: from.as_ptr(), len: size as u32 };
                // SAFETY: both vectors outlive `finishing`, and nothing else uses the destination until it is dropped.
                #[allow(unsafe_code)]
                unsafe {
                    finishing.0.push(transfer);
                }
            }
            drop(finishing);
            begin.elapsed()
        };
        (0..TIMES).map(once).min().unwrap_or_default()
    };
    let measure = |size| Timing { size, cpu: quickest(cpu, size), engine: quickest(engine, size) };
    let timings = SIZES.into_iter().map(measure).collect();
    drop(to_peer);
    if let Ok(peer) = peer {
        // It does nothing that could panic.
        let _ = peer.join();
    }
    timings
}

/// The least size from which on the engine is never slower than the CPU; `None`: it doesn't pay.
#[must_use]
pub fn threshold(timings: &[Timing]) -> Option<usize> {
    let paying = timings.iter().rev().take_while(|timing| timing.engine <= timing.cpu);
    paying.last().map(|timing| timing.size)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rustix::thread::{Pid, sched_getcpu};

    use super::*;

    fn timings(engine: [u64; 4]) -> Vec<Timing> {
        let sizes = [512, 1024, 2048, 4096].into_iter().zip([10, 20, 40, 80]).zip(engine);
        let micros = Duration::from_micros;
        sizes.map(|((size, cpu), engine)| Timing { size, cpu: micros(cpu), engine: micros(engine) }).collect()
    }

    #[test]
    fn it_pays_where_it_pays_for_all_that_is_longer() {
        for (engine, pays) in [
            ([30, 30, 30, 40], Some(2048)),
            ([1, 1, 1, 1], Some(512)),
            ([1, 30, 30, 40], Some(2048)),
            ([30, 30, 41, 80], Some(4096)),
            ([1, 1, 1, 81], None),
        ] {
            assert_eq!(threshold(&timings(engine)), pays, "{engine:?}");
        }
    }

    #[test]
    fn the_engine_is_idle_after_it_was_measured() {
        let mut engine = Cpu::default();
        assert_eq!(measure(None, &mut Cpu::default(), &mut engine).len(), SIZES.len());
        assert_eq!(engine.pending(), 0);
    }

    /// Looks around where it is used.
    #[derive(Default)]
    struct Scout {
        cores: BTreeSet<usize>,
        peers: BTreeSet<Vec<usize>>,
    }

    fn allowed(thread: Option<Pid>) -> Vec<usize> {
        let set = sched_getaffinity(thread).unwrap();
        (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
    }

    impl Engine for Scout {
        #[allow(unsafe_code)]
        unsafe fn push(&mut self, _: Transfer) {
            self.cores.insert(sched_getcpu());
        }

        fn submit(&mut self) {}

        fn poll(&mut self) -> usize {
            0
        }

        fn finish(&mut self) {
            for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
                let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
                if name.trim() == PEER {
                    let id = task.file_name().into_string().unwrap().parse().unwrap();
                    self.peers.insert(allowed(Pid::from_raw(id)));
                }
            }
        }

        fn pending(&self) -> usize {
            0
        }
    }

    #[test]
    fn it_is_measured_on_the_core_that_is_to_use_it_and_the_peer_is_elsewhere() {
        let before = allowed(None);
        for core in before.clone() {
            let mut scout = Scout::default();
            measure(Some(core), &mut Cpu::default(), &mut scout);
            assert_eq!(scout.cores, BTreeSet::from([core]));
            let others: Vec<usize> = before.iter().copied().filter(|other| *other != core).collect();
            let wanted = if others.is_empty() { before.clone() } else { others };
            assert!(scout.peers.contains(&wanted), "{:?}", scout.peers);
            assert_eq!(allowed(None), before, "and afterwards all is as it was");
        }
        // One that there isn't.
        measure(Some(CpuSet::MAX_CPU), &mut Cpu::default(), &mut Scout::default());
    }
}
