//! Looking after copy engines.

use std::sync::atomic::Ordering;
use std::time::Duration;

use copy::Engines;
use copy::dsa::{GivenUp, News};

use super::start::Shared;

/// How often.
const TICK: Duration = Duration::from_millis(250);

/// Says in the log what isn't as it was asked for.
pub(super) fn tell_start(engines: &Engines) {
    for reason in engines.left_alone() {
        tracing::warn!(%reason, "a work queue that may be one for copies is left alone");
    }
    match (engines.threshold(), engines.unmeasured()) {
        (None, Some(reason)) => tracing::warn!(
            reason,
            remedy = "say from where on with copy.threshold, or restart quiverd when the queue answers",
            "work queues for copies were given up while it was being measured from how many bytes on they pay: the CPU copies all"
        ),
        (None, None) => tracing::warn!(
            "no body was worth its trouble to the copy engine: the CPU copies all, unless copy.threshold says from where on"
        ),
        _ => {}
    }
}

/// Tries queues again that were given up, and says so in the log, until the engine is dropped. A thread of its own: it waits for devices, which
/// may take for ever.
pub(super) fn run(shared: &Shared, engines: &Engines) {
    while !shared.stop.load(Ordering::Acquire) {
        engines.tend().for_each(|(queue, news)| tell(queue, &news));
        std::thread::park_timeout(TICK);
    }
}

fn tell(queue: &str, news: &News) {
    match news {
        News::GivenUp(GivenUp { reason, again_in, .. }) => tracing::warn!(
            queue,
            %reason,
            remedy = reason.remedy(),
            again_in = ?again_in.unwrap_or_default(),
            "a work queue for copies is given up, and tried again after a pause: the CPU copies meanwhile. Further times aren't told one by one: see \
             `quiver show copy`"
        ),
        News::Back => tracing::info!(queue, "a work queue for copies that was given up is in use again"),
    }
}
