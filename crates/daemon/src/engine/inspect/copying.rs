//! Who copies bodies.

use api::v1::{CopyQueue, CopyResponse, CopyTiming};
use copy::Engines;
use copy::dsa::{Counts, Device, Limits};

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
    CopyQueue {
        name: device.name().into(),
        mode: mode.name().into(),
        size,
        max_batch,
        max_transfer,
        block_on_fault,
        given_up: device.given_up().unwrap_or_default(),
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
