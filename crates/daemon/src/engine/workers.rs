//! The workers, and which queues they have.

use std::any::Any;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::engine::Graph;
use graph::handover::{Station, exchange};
use graph::packet::{OwnedPacket, Packets, SlotId};
use graph::plan::Plan;
use graph::port::{Attachment, Completed, IfIndex, PortFault, RxMode, RxPort, Sent, TxQueue};
use graph::publish::Publisher;
use graph::simd::Tier;
use graph::trace::{Budget, TraceOrder};
use graph::worker::{EventSender, Worker, WorkerError, WorkerOptions};
use ports::wrap::capture::{CaptureDrops, CapturePoint, CaptureRx, CaptureTx};

use super::passage::Arrival;
use super::watchdog::Post;

/// What a worker has let go of: dropped by the engine's thread, because closing devices and unmapping memory takes longer
/// than a worker may stand still.
pub(super) type Grave = Box<dyn Any + Send>;

/// Queues on their way back. Disconnected when all workers have let go of them.
pub(super) type Returned = Receiver<Grave>;

/// All workers. They and their counters are looked at without any lock.
#[derive(Debug)]
pub(super) struct Pool {
    workers: Vec<Worker>,
    cores: Vec<Option<usize>>,
    /// What the watchdog knows of each.
    posts: Vec<Post>,
    /// Interface and input node of every receive queue, by worker.
    queues: Mutex<Vec<Vec<(IfIndex, u16)>>>,
    captures: Arc<CapturePoint>,
    bury: Sender<Grave>,
    graves: Mutex<Receiver<Grave>>,
    /// Of the traces that were asked for.
    budgets: Mutex<Vec<Budget>>,
}

impl Pool {
    /// Starts `cores.len()` workers, each on its core if it has one.
    ///
    /// # Errors
    /// [`WorkerError`] where the system gives no thread or descriptor.
    pub(super) fn start(
        plan: &Arc<Plan>,
        publisher: &mut Publisher,
        cores: &[Option<usize>],
        tier: Tier,
        events: &EventSender,
        captures: &Arc<CapturePoint>,
    ) -> Result<Self, WorkerError> {
        let stations = exchange(cores.len()).map_err(|source| WorkerError::EventFd { worker: 0, source })?;
        let start = |(station, core): (Station, &Option<usize>)| {
            let number = station.number();
            let mut graph = Graph::new(Arc::clone(plan), station, tier, events.clone())
                .map_err(|source| WorkerError::Memory { worker: number, source })?;
            graph.drop_capture = Some(Box::new(CaptureDrops::new(Arc::clone(captures), number)));
            Worker::start(number, graph, publisher.reader(), &WorkerOptions { core: *core })
        };
        let workers = stations.into_iter().zip(cores).map(start).collect::<Result<Vec<_>, _>>()?;
        let (bury, graves) = channel();
        let queues = Mutex::new(vec![Vec::new(); workers.len()]);
        let (cores, captures) = (cores.to_vec(), Arc::clone(captures));
        let posts = workers.iter().map(|_| Post::default()).collect();
        Ok(Self {
            workers,
            cores,
            posts,
            queues,
            captures,
            bury,
            graves: Mutex::new(graves),
            budgets: Mutex::default(),
        })
    }

    /// Has all workers look for packets to trace.
    pub(super) fn trace(&self, order: &TraceOrder) {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        budgets.retain(|budget| budget.left() > 0);
        budgets.push(order.budget.clone());
        for worker in &self.workers {
            let order = order.clone();
            worker.send(move |graph| graph.tracer.order(order));
        }
    }

    /// Packets that are still to be traced.
    pub(super) fn untraced(&self) -> u32 {
        let budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        budgets.iter().map(Budget::left).fold(0, u32::saturating_add)
    }

    /// Forgets what was traced and what was to be.
    pub(super) fn clear_traces(&self) {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for worker in &self.workers {
            worker.send(|graph| graph.tracer.clear());
        }
    }

    /// The workers.
    pub(super) fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// What the watchdog knows of a worker.
    pub(super) fn post(&self, worker: usize) -> &Post {
        &self.posts[worker]
    }

    /// The core a worker was asked to run on.
    pub(super) fn core(&self, worker: usize) -> Option<usize> {
        self.cores.get(worker).copied().flatten()
    }

    /// Interface and number of the receive queues of a worker.
    pub(super) fn queues(&self, worker: usize) -> Vec<(IfIndex, u16)> {
        self.placement().get(worker).cloned().unwrap_or_default()
    }

    fn placement(&self) -> MutexGuard<'_, Vec<Vec<(IfIndex, u16)>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deals receive queues out: each to the worker that is named for it, or else to the one that has the fewest.
    pub(super) fn attach_rx(&self, arrival: Arrival) {
        let Arrival { input, interface, attachment, mode, queues, workers } = arrival;
        let mut placement = self.placement();
        for (number, rx) in queues.into_iter().enumerate() {
            let number = number as u16;
            let named = workers.get(usize::from(number)).map(|worker| *worker as usize);
            let fewest =
                placement.iter().enumerate().min_by_key(|(_, queues)| queues.len()).map(|(at, _)| at);
            let Some(at) = named.filter(|at| *at < placement.len()).or(fewest) else { return };
            placement[at].push((interface, number));
            let rx = Box::new(CaptureRx::new(rx, Arc::clone(&self.captures), at));
            let mut port = RxPort::new(interface, number, mode, rx);
            port.attachment = attachment;
            self.workers[at].send(move |graph| {
                if let Some(queues) = graph.queues(input) {
                    queues.add(port);
                }
            });
        }
    }

    /// Gives every worker a way to send by `interface`: a queue of its own where there are enough, else one that several
    /// share under a lock.
    pub(super) fn attach_tx(
        &self,
        interface: IfIndex,
        attachment: Attachment,
        queues: Vec<Box<dyn TxQueue>>,
    ) {
        let workers = self.workers.len();
        if queues.is_empty() {
            return;
        }
        if queues.len() >= workers {
            for (worker, queue) in self.workers.iter().zip(queues) {
                self.set_tx(worker, interface, attachment, queue);
            }
            return;
        }
        let shared: Vec<Shared> = queues.into_iter().map(Shared::new).collect();
        for (at, worker) in self.workers.iter().enumerate() {
            self.set_tx(worker, interface, attachment, Box::new(shared[at % shared.len()].clone()));
        }
    }

    fn set_tx(&self, worker: &Worker, interface: IfIndex, attachment: Attachment, queue: Box<dyn TxQueue>) {
        let queue = Box::new(CaptureTx::new(queue, Arc::clone(&self.captures), worker.number()));
        let bury = self.bury.clone();
        worker.send(move |graph| {
            if let Some(old) = graph.ports.attach(interface, attachment, queue) {
                // An error means that the engine is gone: the queue is dropped here.
                let _ = bury.send(Box::new(Mutex::new(old)));
            }
        });
    }

    /// Takes all queues of an interface away from the workers. They are dropped by [`Pool::bury`].
    pub(super) fn detach(&self, interface: IfIndex) {
        let bury = self.bury.clone();
        self.detach_to(interface, &bury);
    }

    /// Takes all queues of an interface away from the workers, to be dropped by the caller.
    pub(super) fn take_back(&self, interface: IfIndex) -> Returned {
        let (sender, returned) = channel();
        self.detach_to(interface, &sender);
        returned
    }

    fn detach_to(&self, interface: IfIndex, bury: &Sender<Grave>) {
        for (worker, queues) in self.workers.iter().zip(&mut *self.placement()) {
            let had = queues.len();
            queues.retain(|queue| queue.0 != interface);
            if queues.len() < had {
                let bury = bury.clone();
                worker.send(move |graph| {
                    for queues in graph.all_queues() {
                        let gone = queues.take(|port| port.interface == interface);
                        let _ = bury.send(Box::new(Mutex::new(gone)));
                    }
                });
            }
            let bury = bury.clone();
            worker.send(move |graph| {
                if let Some(old) = graph.ports.detach(interface) {
                    let _ = bury.send(Box::new(Mutex::new(old)));
                }
            });
        }
    }

    /// Changes how the workers wait for an interface.
    pub(super) fn set_rx_mode(&self, interface: IfIndex, mode: RxMode) {
        for worker in &self.workers {
            worker.send(move |graph| {
                let queues = graph.all_queues().flat_map(|queues| queues.iter_mut());
                queues.filter(|port| port.interface == interface).for_each(|port| port.mode = mode);
            });
        }
    }

    /// Sends a packet into the graph of a worker.
    pub(super) fn inject(&self, worker: usize, target: u32, packet: OwnedPacket) {
        if let Some(worker) = self.workers.get(worker) {
            worker.inject(target, packet);
        }
    }

    /// Drops what workers have let go of.
    pub(super) fn bury(&self) {
        let graves = self.graves.lock().unwrap_or_else(PoisonError::into_inner);
        while graves.try_recv().is_ok() {}
    }
}

/// A transmit queue that several workers use.
#[derive(Clone)]
struct Shared(Arc<Mutex<Box<dyn TxQueue>>>);

impl Shared {
    fn new(queue: Box<dyn TxQueue>) -> Self {
        Self(Arc::new(Mutex::new(queue)))
    }

    fn queue(&self) -> MutexGuard<'_, Box<dyn TxQueue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TxQueue for Shared {
    fn send(&mut self, tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        self.queue().send(tier, packets, slots)
    }

    fn completes(&self) -> bool {
        self.queue().completes()
    }

    fn outstanding(&self) -> bool {
        self.queue().outstanding()
    }

    fn completed(&mut self) -> Result<Completed, PortFault> {
        self.queue().completed()
    }

    fn flush(&mut self) {
        self.queue().flush();
    }

    fn rest(&mut self) {
        self.queue().rest();
    }
}
