//! The end of links: to free what one has mapped takes as long as it has pages, which no call waits for.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use crate::port::lock;

/// What waits to be dropped, and the process whose thread is at it, if one is: one for the process, as long as there is something.
struct Leaving {
    waiting: VecDeque<Box<dyn Any + Send>>,
    served_by: Option<u32>,
}

static LEAVING: Mutex<Leaving> = Mutex::new(Leaving { waiting: VecDeque::new(), served_by: None });

/// Drops it on another thread. Where none can be had, whoever asks waits.
pub(crate) fn close(what: impl Any + Send) {
    let mut leaving = lock(&LEAVING);
    leaving.waiting.push_back(Box::new(what));
    // A fork takes no threads along.
    let process = Some(std::process::id());
    if leaving.served_by == process {
        return;
    }
    leaving.served_by = process;
    drop(leaving);
    if std::thread::Builder::new().name("memif-unmap".into()).spawn(serve).is_err() {
        serve();
    }
}

fn serve() {
    loop {
        let mut leaving = lock(&LEAVING);
        let Some(next) = leaving.waiting.pop_front() else {
            leaving.served_by = None;
            return;
        };
        drop(leaving);
        // The hook has said what was wrong; the others are still to be dropped.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(next)));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::fd::AsRawFd;
    use std::path::Path;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use memif::region::HugePages;
    use memif::{QueueConfig, in_process};

    use super::*;
    use crate::link::Link;

    /// Takes as long as it is told to, and tells that it is gone.
    struct Slow(Receiver<()>, Sender<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.recv();
            let _ = self.1.send(());
        }
    }

    /// A test that doesn't end has failed.
    #[test]
    fn a_links_end_keeps_nobody_waiting() {
        let queues = QueueConfig { huge_pages: HugePages::Never, ..QueueConfig::default() };
        let (_client, server) = in_process(&queues).unwrap();
        let link = Link::new(server).unwrap();
        let event = format!("/proc/self/fd/{}", link.events[0].as_raw_fd());
        let ((go_on, waits), (tells, told)) = (channel(), channel());
        close(Slow(waits, tells));
        drop(link);
        assert!(Path::new(&event).exists(), "it was closed by who dropped it");
        go_on.send(()).unwrap();
        told.recv().unwrap();
        // Behind it in the queue.
        let ((go_on, waits), (tells, told)) = (channel(), channel());
        close(Slow(waits, tells));
        go_on.send(()).unwrap();
        told.recv().unwrap();
        assert!(!lock(&LEAVING).waiting.iter().any(|what| what.is::<crate::link::Parts>()));
    }
}
