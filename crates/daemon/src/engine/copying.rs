//! Looking after copy engines.

use std::sync::atomic::Ordering;
use std::time::Duration;

use copy::Engines;
use copy::dsa::{GivenUp, News};

use super::start::Shared;

/// How often.
const TICK: Duration = Duration::from_millis(250);

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
