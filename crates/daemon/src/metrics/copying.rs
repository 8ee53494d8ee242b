//! What copy engines do.

use api::v1::CopyQueue;

use super::exposition::{Exposition, Kind};
use crate::dataplane::Inspect;

/// A counter of work queues: name, help, where it stands.
type QueueCounter = (&'static str, &'static str, fn(&CopyQueue) -> u64);

const COUNTERS: &[QueueCounter] = &[
    ("quiver_copy_transfers_total", "Pieces of bodies handed to a copy engine.", |queue| queue.transfers),
    ("quiver_copy_submitted_total", "Descriptors that a copy engine took.", |queue| queue.submitted),
    ("quiver_copy_completed_total", "Pieces of bodies that a copy engine copied.", |queue| queue.completed),
    ("quiver_copy_bytes_total", "Bytes that a copy engine copied.", |queue| queue.bytes),
    (
        "quiver_copy_fallbacks_total",
        "Pieces of bodies that the CPU copied, or the rest of them, in place of a copy engine.",
        |queue| queue.fallbacks,
    ),
    ("quiver_copy_faults_total", "Transfers that ended at a page that wasn't there.", |queue| queue.faults),
    ("quiver_copy_errors_total", "Transfers that ended with an error.", |queue| queue.errors),
    (
        "quiver_copy_retries_total",
        "Times that a copy engine's queue was full and was tried again.",
        |queue| queue.retries,
    ),
    ("quiver_copy_full_total", "Transfers for which there was no room in spite of that.", |queue| queue.full),
    (
        "quiver_copy_given_up_total",
        "Times that a copy engine's queue was given up for a while: no answer, or nothing but errors.",
        |queue| queue.times_given_up,
    ),
];

/// Counters of each queue; nothing where the workers copy.
pub(super) fn collect(inspect: &dyn Inspect, out: &mut Exposition) {
    let copy = inspect.copy();
    if copy.queues.is_empty() {
        return;
    }
    let labels = |queue: &CopyQueue| [("engine", copy.engine.clone()), ("queue", queue.name.clone())];
    for (name, help, read) in COUNTERS {
        let mut metric = out.metric(name, Kind::Counter, help);
        for queue in &copy.queues {
            let [engine, name] = labels(queue);
            metric.sample(&[(engine.0, &engine.1), (name.0, &name.1)], read(queue));
        }
    }
    let help = "Whether a copy engine's queue is in use; 0 while it is given up.";
    let mut metric = out.metric("quiver_copy_up", Kind::Gauge, help);
    for queue in &copy.queues {
        let [engine, name] = labels(queue);
        metric.sample(&[(engine.0, &engine.1), (name.0, &name.1)], u8::from(queue.given_up.is_empty()));
    }
}
