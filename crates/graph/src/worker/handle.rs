//! The control thread's side of a worker.

use super::run::{self, Mailbox};
use crate::counters::WorkerCounters;
use crate::engine::Graph;
use crate::nodes::Injection;
use crate::publish::Reader;
use crate::trace::Traces;
use core::fmt;
use memory::packet::{NoMemory, OwnedPacket};
use std::sync::Arc;
use std::sync::mpsc::{Sender, sync_channel};
use std::thread::JoinHandle;

/// Something to do between two rounds. It runs on the worker's thread and must not block.
pub type Command = Box<dyn FnOnce(&mut Graph) + Send>;

/// How to run a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerOptions {
    /// CPU to run on, or any.
    pub core: Option<usize>,
}

/// Why a worker can't be started.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The event descriptor for the mailbox can't be made.
    #[error("worker {worker}: no event descriptor: {source} (raise the limit on open files)")]
    EventFd {
        /// The worker.
        worker: usize,
        /// What the system said.
        source: rustix::io::Errno,
    },
    /// The thread can't be made.
    #[error("worker {worker}: no thread: {source}")]
    Thread {
        /// The worker.
        worker: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no memory for its packets.
    #[error("worker {worker}: {source}")]
    Memory {
        /// The worker.
        worker: usize,
        /// What is missing.
        source: NoMemory,
    },
    /// It may not run on the core it was given.
    #[error("worker {worker}: can't run on core {core}: {source} (name another in workers.cores)")]
    Core {
        /// The worker.
        worker: usize,
        /// The core.
        core: usize,
        /// What the system said.
        source: rustix::io::Errno,
    },
}

/// A running worker. Dropping it stops the thread.
pub struct Worker {
    number: usize,
    mailbox: Arc<Mailbox>,
    counters: Arc<WorkerCounters>,
    traces: Traces,
    injector: Option<Sender<Injection>>,
    thread_id: i32,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts a worker that runs `graph` with the tables of `reader`.
    ///
    /// # Errors
    /// [`WorkerError`] when the system gives no thread, no descriptor, or not the core asked for.
    pub fn start(
        number: usize,
        graph: Graph,
        reader: Reader,
        options: &WorkerOptions,
    ) -> Result<Self, WorkerError> {
        let mailbox = Mailbox::new().map_err(|source| WorkerError::EventFd { worker: number, source })?;
        let mailbox = Arc::new(mailbox);
        let (counters, traces) = (Arc::clone(graph.counters()), graph.tracer.finished());
        let injector = graph.injector();
        let (theirs, core) = (Arc::clone(&mailbox), options.core);
        let (tell, told) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                let pinned = core.map_or(Ok(()), run::pin).map(|()| rustix::thread::gettid());
                let run = pinned.is_ok();
                // Whoever starts us is waiting for this.
                let _ = tell.send(pinned);
                if run {
                    run::run(graph, reader, &theirs);
                }
            })
            .map_err(|source| WorkerError::Thread { worker: number, source })?;
        let thread = Some(thread);
        let mut worker = Self { number, mailbox, counters, traces, injector, thread_id: 0, thread };
        match (told.recv(), core) {
            (Ok(Err(source)), Some(core)) => return Err(WorkerError::Core { worker: number, core, source }),
            (Ok(Ok(id)), _) => worker.thread_id = id.as_raw_nonzero().get(),
            _ => {}
        }
        Ok(worker)
    }

    /// Its number, from 0.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// The kernel's number of its thread, as below `/proc/self/task`.
    #[must_use]
    pub fn thread_id(&self) -> i32 {
        self.thread_id
    }

    /// Its counters.
    #[must_use]
    pub fn counters(&self) -> &WorkerCounters {
        &self.counters
    }

    /// Its finished packet traces.
    #[must_use]
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Has `command` done between two rounds, soon, without waiting for it.
    pub fn send(&self, command: impl FnOnce(&mut Graph) + Send + 'static) {
        self.mailbox.post(Box::new(command));
    }

    /// Tells it to stop after its round, without waiting for that.
    pub fn stop(&self) {
        self.mailbox.stop();
    }

    /// Whether its last round has ended. It may still be letting go of what it has.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.mailbox.has_stopped() || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Sends a packet into the graph, to the node that has attached itself to `inject` under `target`.
    pub fn inject(&self, target: u32, packet: OwnedPacket) {
        if let Some(injector) = &self.injector {
            // An error means that the worker has stopped: the packet goes with it.
            let _ = injector.send(Injection { target, packet });
            self.mailbox.wake();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.mailbox.stop();
        if let Some(thread) = self.thread.take() {
            // A worker that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}
