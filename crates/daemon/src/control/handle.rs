//! The control thread and the way to it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use api::v1::{ApplyRequest, ApplyResponse, Event};
use tokio::sync::{broadcast, oneshot};

use super::{ApplyError, Controller, View};

/// How long to wait before what the system refused is tried again.
const RETRY: Duration = Duration::from_secs(3);

/// How often to look whether something that was in force has failed by itself.
const LOOK: Duration = Duration::from_millis(500);

/// Objects of a request that take so much memory on their way that it is given back afterwards.
const MANY: usize = 100_000;

/// When to do that: the answer has been sent by then.
const TIDY: Duration = Duration::from_secs(2);

/// The control thread doesn't answer any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the control thread has ended; quiverd is stopping")]
pub struct Gone;

/// The way to the control thread; cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    commands: Sender<Command>,
    events: broadcast::Sender<Event>,
    generation: Arc<AtomicU64>,
}

type Answer = Result<ApplyResponse, ApplyError>;

enum Command {
    Apply(Box<ApplyRequest>, oneshot::Sender<Answer>),
    View(oneshot::Sender<View>),
    Ping(oneshot::Sender<()>),
    Stop,
}

/// Runs a controller on a thread of its own, named "control". The thread ends with [`Handle::stop`], or when all
/// handles are gone; join it to be sure that the dataplane is closed.
///
/// # Errors
/// If the system has no thread left.
pub fn start(controller: Controller) -> io::Result<(Handle, JoinHandle<()>)> {
    let (commands, received) = channel();
    let events = controller.events();
    let generation = Arc::new(AtomicU64::new(controller.generation()));
    let handle = Handle { commands, events, generation: Arc::clone(&generation) };
    let thread = std::thread::Builder::new()
        .name("control".into())
        .spawn(move || run(controller, &received, &generation))?;
    Ok((handle, thread))
}

fn run(mut controller: Controller, commands: &Receiver<Command>, generation: &AtomicU64) {
    // By the clock, not by the silence between two commands: somebody always asks for something.
    let start = Instant::now();
    let (mut look, mut retry, mut tidy) = (start + LOOK, start + RETRY, None);
    let mut queue = Queue::default();
    loop {
        queue.receive(commands, &controller, look);
        if let Some((request, answer)) = queue.applies.pop_front() {
            let result = controller.apply(&request);
            generation.store(controller.generation(), Ordering::Relaxed);
            // Whoever doesn't wait for an answer any more doesn't need it.
            drop(answer.send(result));
            if objects(&request) >= MANY {
                tidy = Some(Instant::now() + TIDY);
            }
        } else if queue.ended {
            return;
        }
        if Instant::now() >= look {
            controller.tend();
            look = Instant::now() + LOOK;
        }
        if Instant::now() >= retry {
            controller.retry();
            retry = Instant::now() + RETRY;
        }
        if tidy.is_some_and(|tidy| Instant::now() >= tidy) {
            memory::heap::trim();
            tidy = None;
        }
    }
}

/// Changes that wait. All else is answered at once, so that it waits for one change at most.
#[derive(Default)]
struct Queue {
    applies: VecDeque<(Box<ApplyRequest>, oneshot::Sender<Answer>)>,
    ended: bool,
}

impl Queue {
    /// Takes all commands that are there; without a change to make, waits for the first until `until`.
    fn receive(&mut self, commands: &Receiver<Command>, controller: &Controller, until: Instant) {
        let mut next = if self.applies.is_empty() && !self.ended {
            commands.recv_timeout(until.saturating_duration_since(Instant::now())).map_err(
                |error| match error {
                    RecvTimeoutError::Timeout => TryRecvError::Empty,
                    RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
                },
            )
        } else {
            commands.try_recv()
        };
        while !self.ended {
            match next {
                Ok(Command::Apply(request, answer)) => self.applies.push_back((request, answer)),
                Ok(Command::View(answer)) => drop(answer.send(controller.view())),
                Ok(Command::Ping(answer)) => drop(answer.send(())),
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => self.ended = true,
                Err(TryRecvError::Empty) => return,
            }
            next = commands.try_recv();
        }
    }
}

/// Objects that a request names. Of the kinds that there are many of.
fn objects(request: &ApplyRequest) -> usize {
    let upserts = request.upserts.as_ref().map_or(0, |config| config.routes.len() + config.neighbors.len());
    upserts + request.deletes.len()
}

impl Handle {
    /// Changes the desired state; see [`Controller::apply`].
    ///
    /// # Errors
    /// [`Gone`] if the control thread has ended; inside, that of [`Controller::apply`].
    pub async fn apply(&self, request: ApplyRequest) -> Result<Result<ApplyResponse, ApplyError>, Gone> {
        self.ask(|answer| Command::Apply(Box::new(request), answer)).await
    }

    /// A snapshot of the desired state, taken between two changes.
    ///
    /// # Errors
    /// [`Gone`] if the control thread has ended.
    pub async fn view(&self) -> Result<View, Gone> {
        self.ask(Command::View).await
    }

    /// Returns when the control thread has answered, which it does between two changes.
    ///
    /// # Errors
    /// [`Gone`] if the control thread has ended.
    pub async fn ping(&self) -> Result<(), Gone> {
        self.ask(Command::Ping).await
    }

    /// Generation of the desired state, without waiting for changes that are under way.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Events from now on.
    pub fn watch(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Ends the control thread when it has done everything that was asked before.
    pub fn stop(&self) {
        // If it has ended already, that is what was wanted.
        let _ = self.commands.send(Command::Stop);
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Gone> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }
}
