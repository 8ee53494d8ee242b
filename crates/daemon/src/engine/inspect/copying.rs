//! Who copies bodies.

use api::v1::{CopyQueue, CopyResponse, CopyTiming};
use copy::Engines;
use copy::dsa::{Counts, Device, GivenUp, Limits};

/// The engine with its queues; `None`: the workers copy themselves.
pub(super) fn all(engines: Option<&Engines>) -> CopyResponse {
    let Some(engines) = engines else {
        return CopyResponse { engine: "cpu".into(), ..CopyResponse::default() };
    };
    let nanoseconds = |time: std::time::Duration| time.as_nanos() as u64;
    let timings = engines.learnt().iter().map(|timing| CopyTiming {
        size: timing.size as u64,
        cpu_nanoseconds: nanoseconds(timing.cpu),
        engine_nanoseconds: nanoseconds(timing.engine),
    });
    CopyResponse {
        engine: engines.name().into(),
        threshold: engines.threshold().map_or(0, |bytes| bytes as u64),
        queues: engines.devices().iter().map(|device| queue(device)).collect(),
        timings: timings.collect(),
    }
}

fn queue(device: &Device) -> CopyQueue {
    let &Limits { mode, size, max_batch, max_transfer, block_on_fault } = device.limits();
    let Counts {
        transfers,
        submitted,
        batches,
        completed,
        bytes,
        fallbacks,
        fallback_bytes,
        faults,
        errors,
        retries,
        full,
    } = device.counts();
    let (given_up, again_in, tried) = match device.given_up() {
        Some(GivenUp { reason, again_in, tried }) => {
            (reason.to_string(), again_in, tried.unwrap_or_default())
        }
        None => Default::default(),
    };
    CopyQueue {
        name: device.name().into(),
        mode: mode.name().into(),
        size,
        max_batch,
        max_transfer,
        block_on_fault,
        given_up,
        times_given_up: device.times_given_up(),
        // Not 0 before it is time.
        again_in_seconds: again_in.map(|pause| pause.as_millis().div_ceil(1000) as u64),
        tried,
        transfers,
        submitted,
        batches,
        completed,
        bytes,
        fallbacks,
        fallback_bytes,
        faults,
        errors,
        retries,
        full,
    }
}
