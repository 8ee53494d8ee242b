//! From how many bytes on a device is worth its trouble.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::cpu::Cpu;
use crate::engine::{Engine, Transfer};

/// Sizes that are tried.
pub const SIZES: [usize; 6] = [256, 512, 1024, 2048, 4096, 8192];
/// Transfers at a time: a vector's worth of bodies.
const VECTOR: usize = 64;
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

/// Measures an engine against the CPU.
///
/// Before each try another thread writes what is to be copied: bodies come from a peer, whose core has them in its caches. Out of our own a CPU
/// copies several times faster than it ever will.
pub fn measure(cpu: &mut Cpu, engine: &mut impl Engine) -> Vec<Timing> {
    let (to_peer, asked) = channel::<Vec<u8>>();
    let (answer, from_peer) = channel();
    let peer = std::thread::Builder::new().name("copy-peer".into()).spawn(move || {
        for mut bodies in asked {
            bodies.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
            if answer.send(bodies).is_err() {
                return;
            }
        }
    });
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
        assert_eq!(measure(&mut Cpu::default(), &mut engine).len(), SIZES.len());
        assert_eq!(engine.pending(), 0);
    }
}
