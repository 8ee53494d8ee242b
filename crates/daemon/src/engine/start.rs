//! Starting the engine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ::memif::region::HugePages;
use copy::{CopyOptions, Engines, SetupError};
use features::ip::control::Adjacencies;
use features::neighbour::control::Neighbours;
use features::session::acl::control::Filters;
use features::session::balance::control::Balancer;
use features::session::{Fill, Sessions};
use graph::plan::{Plan, PlanError};
use graph::port::IfIndex;
use graph::publish::Publisher;
use graph::simd::Tier;
use graph::worker::WorkerError;
use ports::PortControl;
use ports::wrap::capture::CapturePoint;
use tables::mac::{MacError, MacTable};

use super::copying;
use super::core::{Core, Keys};
use super::devices::Devices;
use super::directory::Directory;
use super::events::{Bell, Events};
use super::export::{self, Exporter};
use super::held_macs::HeldMacs;
use super::inspect::{Baseline, clock_hz};
use super::memif::{self, Memifs};
use super::passage::Attachments;
use super::penalty::Penalties;
use super::routing::Routing;
use super::service;
use super::watchdog::{self, Patience};
use super::watching::Watching;
use super::workers::Pool;
use crate::settings::Ipfix;

/// Addresses that all bridges together can know.
const MAC_ADDRESSES: usize = 1 << 20;

/// How to run the engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The core of each worker; `None`: any. One worker per entry, at least one.
    pub cores: Vec<Option<usize>>,
    /// Instruction set; `None`: the best there is.
    pub tier: Option<Tier>,
    /// Huge pages for the memory of memif clients.
    pub huge_pages: HugePages,
    /// Who copies the bodies of packets.
    pub copy: CopyOptions,
    /// Who is told of sessions.
    pub ipfix: Vec<Ipfix>,
    /// Bytes that the forwarding table of a VRF and IP version may take; `None`: 256 MiB.
    pub fib_bytes: Option<usize>,
    /// Sessions that each worker may have. Memory is taken as they come.
    pub sessions: usize,
    /// Bytes of memory that all captures may have.
    pub captures: usize,
    /// With workers that stand still.
    pub patience: Patience,
}

/// Why the engine can't start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The nodes' declarations contradict each other.
    #[error("the packet graph can't be built: {0}")]
    Plan(#[from] PlanError),
    /// The features don't declare a part of the tables that the engine writes.
    #[error("{0} is no part of the tables that the features declare")]
    Schema(&'static str),
    /// The system gives no descriptors.
    #[error("can't wait for events: {0} (raise the limit on open files)")]
    Descriptors(rustix::io::Errno),
    /// A worker can't be started.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// A thread can't be started.
    #[error("no thread: {0} (raise the limit on processes)")]
    Thread(std::io::Error),
    /// The address table of bridges can't be had.
    #[error("bridge address table: {0}")]
    Macs(#[from] MacError),
    /// The copy engine that is asked for isn't there.
    #[error("copy engine: {0}")]
    Copy(#[from] SetupError),
    /// The forwarding tables can't be had.
    #[error("forwarding tables: {0}")]
    Routing(#[from] features::ip::control::ForwardingError),
}

/// The running engine: the control thread's end.
pub struct Engine {
    pub(super) shared: Arc<Shared>,
    pub(super) devices: Devices,
    /// Keep the devices of open ports.
    pub(super) controls: HashMap<IfIndex, Box<dyn PortControl>>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Engine").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// The running engine, to look into.
#[derive(Debug, Clone)]
pub struct EngineHandle {
    pub(super) shared: Arc<Shared>,
}

/// What all ends share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) plan: Arc<Plan>,
    pub(super) tier: Tier,
    /// The workers and their counters.
    pub(super) pool: Arc<Pool>,
    /// What there is.
    pub(super) directory: Arc<Directory>,
    /// The address table of all bridges: the same through all versions of the tables.
    pub(super) macs: Arc<MacTable>,
    /// Whom next hops lead to.
    pub(super) adjacencies: Adjacencies,
    neighbours: Arc<Mutex<Neighbours>>,
    core: Mutex<Core>,
    baseline: Mutex<Baseline>,
    /// Where packets can be seen.
    pub(super) captures: Arc<CapturePoint>,
    /// Who looks on at sessions.
    pub(super) watching: Watching,
    /// Sessions that each worker may have.
    pub(super) sessions_per_worker: usize,
    /// How full each worker's table of sessions is.
    pub(super) fills: Vec<Arc<Fill>>,
    /// Who is told of them.
    pub(super) exporters: Vec<Arc<Exporter>>,
    /// Clocks per second of the time-stamp counter.
    pub(super) clock_hz: u64,
    /// What kind of memory is used, in words.
    pub(super) memory: String,
    /// Who copies bodies; `None`: the workers.
    pub(super) copy: Option<Arc<Engines>>,
    /// Ports that were taken away.
    pub(super) penalties: Penalties,
    pub(super) bell: Arc<Bell>,
    pub(super) memifs: Arc<Memifs>,
    pub(super) stop: std::sync::atomic::AtomicBool,
}

impl Shared {
    /// Who is behind which address. To be locked after the core.
    pub(super) fn neighbours(&self) -> MutexGuard<'_, Neighbours> {
        self.neighbours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sessions that all workers have room for.
    pub(super) fn session_room(&self) -> u64 {
        self.sessions_per_worker as u64 * self.pool.workers().len() as u64
    }

    /// What workers see, to be changed. Held for short; before the baseline, and before the links of memifs.
    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where counters stood when they were cleared. To be locked after the core.
    pub(super) fn baseline(&self) -> MutexGuard<'_, Baseline> {
        self.baseline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Builds the graph and starts the workers, with no interfaces.
    ///
    /// # Errors
    /// [`EngineError`] where the system gives too little.
    pub fn start(options: &EngineOptions) -> Result<Self, EngineError> {
        let nodes = [features::nodes(), ports::NODES.to_vec()].concat();
        let plan = Arc::new(Plan::resolve(&nodes, &features::arcs(), features::schema())?);
        let mut publisher = Publisher::new(&plan.schema);
        let tier = options.tier.unwrap_or_else(Tier::detect);
        let copy = Engines::open(&options.copy, tier)?.map(Arc::new);
        copy.iter().for_each(|engines| copying::tell_start(engines));
        let (events, sender) = Events::new().map_err(EngineError::Descriptors)?;
        let attachments = Arc::new(Attachments::default());
        let (memifs, beginning) = Memifs::new(&attachments, options.huge_pages, &options.cores)
            .map_err(EngineError::Descriptors)?;
        let memifs = Arc::new(memifs);
        let captures = Arc::new(CapturePoint::new(options.captures));
        let pool = Arc::new(Pool::start(&plan, &mut publisher, &options.cores, tier, &sender, &captures)?);
        let directory = Arc::new(Directory::new());
        let macs = Arc::new(MacTable::with_capacity(MAC_ADDRESSES)?);
        let routing = Routing::new(&plan, &mut publisher, options)?;
        let (adjacencies, neighbours) = (routing.forwarding.adjacencies(), routing.shared_neighbours());
        let core = Core {
            plan: Arc::clone(&plan),
            keys: Keys::of(&plan.schema)?,
            publisher,
            pool: Arc::clone(&pool),
            directory: Arc::clone(&directory),
            memifs: Arc::clone(&memifs),
            copy: copy.clone(),
            attachments,
            macs: Arc::clone(&macs),
            waiting: Vec::new(),
            routing,
            sessions_per_worker: options.sessions,
            tenant_changes: 0,
            tenants_changed: false,
            departed_tenants: BTreeMap::new(),
            departed_pools: BTreeMap::new(),
            departed_policers: BTreeMap::new(),
            policer_changes: 0,
            balancer: Balancer::new(pool.workers().len()),
            kept: super::kept::Waiting::default(),
            filters: Filters::default(),
            last_tenant: 0,
            held_macs: HeldMacs::default(),
            interfaces_changed: false,
            in_batch: false,
            tenants_held: false,
            published: Vec::new(),
            published_mark: 0,
            arrivals: Vec::new(),
            fresh: BTreeSet::new(),
            frames: Vec::new(),
            departure: None,
            lost: BTreeMap::new(),
            contradiction: None,
        };
        let bell = Arc::clone(events.bell());
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (clock_hz, memory) = (clock_hz(), memory_kind(options.huge_pages));
        let (core, baseline) = (Mutex::new(core), Mutex::default());
        let fills = fills(&plan, &pool);
        let shared = Arc::new(Shared {
            plan,
            tier,
            pool,
            directory,
            macs,
            adjacencies,
            neighbours,
            core,
            baseline,
            captures,
            watching: Watching::default(),
            sessions_per_worker: options.sessions,
            fills,
            exporters: options.ipfix.iter().map(|one| Arc::new(Exporter::new(one.clone()))).collect(),
            clock_hz,
            memory,
            copy,
            penalties: Penalties::default(),
            bell,
            memifs,
            stop,
        });
        // From here on, dropping it ends the threads that there are.
        let (devices, controls, threads) = Default::default();
        let mut engine = Self { shared, devices, controls, threads };
        let (digs, told) = sync_channel(1);
        engine.thread("bury", move |shared| service::bury(shared, &told))?;
        engine.thread("engine", move |shared| service::run(shared, &events, &digs))?;
        let patience = options.patience;
        engine.thread("watchdog", move |shared| watchdog::run(shared, &sender, patience))?;
        engine.thread("memif", move |shared| memif::run(shared, beginning))?;
        if let Some(engines) = engine.shared.copy.clone() {
            engine.thread("copy", move |shared| copying::run(shared, &engines))?;
        }
        for exporter in engine.shared.exporters.clone() {
            engine.thread("ipfix", move |shared| export::run(shared, &exporter))?;
        }
        Ok(engine)
    }

    fn thread(
        &mut self,
        name: &str,
        run: impl FnOnce(&Arc<Shared>) + Send + 'static,
    ) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(&shared));
        self.threads.push(thread.map_err(EngineError::Thread)?);
        Ok(())
    }

    /// A handle to look into the engine.
    #[must_use]
    pub fn handle(&self) -> EngineHandle {
        EngineHandle { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.stop.store(true, std::sync::atomic::Ordering::Release);
        self.shared.bell.ring();
        self.shared.memifs.wake();
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        watchdog::stop_workers(&self.shared);
        for thread in self.threads.drain(..) {
            // One that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

/// Where each worker says how full its table of sessions is, from now on.
fn fills(plan: &Plan, pool: &Pool) -> Vec<Arc<Fill>> {
    let Some(key) = plan.schema.local_key::<Sessions>() else { return Vec::new() };
    let fills = pool.workers().iter().map(|worker| {
        let fill = Arc::<Fill>::default();
        let its = Arc::clone(&fill);
        worker.send(move |graph| graph.local(key).tell_fill(its));
        fill
    });
    fills.collect()
}

/// What memory memif clients of ours will use.
fn memory_kind(huge_pages: HugePages) -> String {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = info
        .lines()
        .find_map(|line| line.strip_prefix("HugePages_Free:")?.trim().parse().ok())
        .unwrap_or(0_u64);
    match (huge_pages, free) {
        (HugePages::Never, _) => "ordinary pages, as configured".into(),
        (_, 0) => "ordinary pages: no huge pages are free (vm.nr_hugepages)".into(),
        (_, free) => format!("huge pages of 2 MiB, {free} free"),
    }
}
