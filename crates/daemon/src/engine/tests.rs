//! What only shows where one can hold the engine's locks, or be late on purpose.

mod batches;
mod inspect;
mod watchdog;
mod watching;

use std::time::{Duration, Instant};

use ::memif::app::Port;
use ::memif::io::{Address, ClientTiming, Listener, ListenerSettings, ServerEvent};
use ::memif::region::HugePages;
use ::memif::{ClientConfig, QueueConfig, ServerConfig};
use api::text::{Format, read_config};
use api::v1::{ApplyRequest, ClearCountersRequest};
use graph::port::{Attachment, PortFault};
use graph::worker::Event;

use super::{Engine, EngineHandle, EngineOptions, Patience};
use crate::control::Controller;
use crate::dataplane::Inspect;
use crate::state::StateDirectory;

/// Limit of every wait: against hanging, no measurement.
const PATIENCE: Duration = Duration::from_secs(60);

struct Lab {
    // First, so that the engine ends before its files go.
    controller: Controller,
    look: EngineHandle,
    directory: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self::of(engine())
    }

    fn of(engine: Engine) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let look = engine.handle();
        let state = StateDirectory::open(&directory.path().join("state")).unwrap();
        Self { controller: Controller::new(Box::new(engine), state), look, directory }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().into()
    }

    #[track_caller]
    fn apply(&mut self, toml: &str) {
        let upserts = Some(read_config(toml, Format::Toml).unwrap());
        let response = self.controller.apply(&ApplyRequest { upserts, ..ApplyRequest::default() }).unwrap();
        assert!(response.committed && response.counts.unwrap().pending == 0, "{:#?}", response.results);
    }

    /// The queues that an interface has now.
    fn attachment(&self, name: &str) -> Option<Attachment> {
        let inventory = self.look.shared.directory.get();
        inventory.registry.get(inventory.registry.find(name)?)?.attachment
    }
}

/// One of one worker.
fn engine() -> Engine {
    engine_of(1, Patience::default())
}

fn engine_of(workers: usize, patience: Patience) -> Engine {
    Engine::start(&EngineOptions { cores: vec![None; workers], patience, ..options() }).unwrap()
}

/// One worker, and nothing else.
fn options() -> EngineOptions {
    EngineOptions {
        cores: vec![None],
        tier: None,
        huge_pages: HugePages::Never,
        copy: copy::CopyOptions::default(),
        ipfix: Vec::new(),
        captures: ports::wrap::capture::DEFAULT_LIMIT,
        fib_bytes: None,
        sessions: 1 << 24,
        patience: Patience::default(),
    }
}

#[track_caller]
fn eventually<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(it) = condition() {
            return it;
        }
        assert!(Instant::now() < end, "it never comes to that");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn memif(name: &str, socket: &str, role: &str) -> String {
    format!("[[interface]]\nname = \"{name}\"\nmemif = {{ socket = \"{socket}\", role = \"{role}\" }}\n")
}

fn connect(socket: &str) -> Port {
    let queues = QueueConfig { huge_pages: HugePages::Never, ..QueueConfig::default() };
    let config = ClientConfig { queues, ..ClientConfig::default() };
    let mut port = Port::client(Address::path(socket), config, ClientTiming::default()).unwrap();
    eventually(|| {
        port.wait(Some(Duration::from_millis(5))).unwrap();
        port.connection().is_some().then_some(())
    });
    port
}

#[test]
fn a_fault_of_a_link_that_has_ended_does_not_end_the_next_one() {
    let mut lab = Lab::new();
    let socket = lab.path("one");
    lab.apply(&memif("one", &socket, "server"));
    let first = connect(&socket);
    let old = eventually(|| lab.attachment("one"));
    drop(first);
    eventually(|| lab.attachment("one").is_none().then_some(()));
    let _second = connect(&socket);
    let new = eventually(|| lab.attachment("one"));
    assert_ne!(old, new);
    let look = lab.look.clone();
    let tell = |attachment| {
        let mut core = look.shared.core();
        let interface = look.shared.directory.get().registry.find("one").unwrap();
        let fault = PortFault { kind: "fault-range", reason: "a descriptor out of bounds".into() };
        core.event(Event::TxFault { interface, attachment, fault: fault.clone() });
        core.event(Event::RxFault { interface, queue: 0, attachment, fault });
    };
    // What a worker has told of the first link is heard only now.
    tell(old);
    // Whatever the thread of the sockets were to do about it is done before this.
    lab.apply(&memif("other", &lab.path("other"), "server"));
    let state = lab.look.memifs().remove(0);
    assert_eq!((state.connected, state.faults, state.connects), (true, 0, 2), "{state:?}");
    assert_eq!(lab.attachment("one"), Some(new));
    // The same of the link that is there ends it, once.
    tell(new);
    let state = eventually(|| Some(lab.look.memifs().remove(0)).filter(|state| state.faults > 0));
    assert_eq!((state.faults, &*state.last_disconnect), (1, "a descriptor out of bounds"));
}

#[test]
fn the_memory_of_a_link_is_made_without_the_engines_lock() {
    let mut lab = Lab::new();
    let socket = lab.path("server");
    let mut listener = Listener::bind(&Address::path(&socket), ListenerSettings::default()).unwrap();
    listener.register(0, ServerConfig::default()).unwrap();
    lab.apply(&memif("one", &socket, "client"));
    // Nobody else gets the lock from here on; the peer has all regions and rings when it is connected.
    let core = lab.look.shared.core();
    let connection = eventually(|| {
        listener.process(Instant::now()).unwrap().into_iter().find_map(|event| match event {
            ServerEvent::Connected(connection) => Some(connection),
            _ => None,
        })
    });
    assert_eq!((connection.rx.len(), connection.tx.len()), (1, 1));
    drop(core);
    eventually(|| lab.attachment("one"));
}

#[test]
fn whoever_looks_does_not_wait_for_a_change_of_the_tables() {
    let mut lab = Lab::new();
    let one = memif("one", &lab.path("one"), "server");
    lab.apply(&(one + "bridge = { name = \"br\" }\n[[bridge]]\nname = \"br\"\n"));
    // A change that takes its time.
    let core = lab.look.shared.core();
    let (done, told) = std::sync::mpsc::channel();
    let look = lab.look.clone();
    std::thread::spawn(move || {
        let collector = crate::metrics::Collector::new(std::sync::Arc::new(look.clone()));
        let metrics = collector.collect(None);
        look.clear_counters(&ClearCountersRequest::default());
        look.trace_add(Some("one"), 1).unwrap();
        let capture = look.capture(&api::v1::CaptureRequest::default()).is_ok();
        let seen = (look.trace_show(0).remaining, look.bridges().len(), look.neighbors().len(), capture);
        done.send((metrics, seen)).unwrap();
    });
    let (metrics, seen) = told.recv_timeout(PATIENCE).expect("they wait for it");
    assert!(metrics.contains("quiver_interface_up{interface=\"one\",port=\"memif\"} 0"), "{metrics}");
    assert!(metrics.contains("quiver_memif_connected{interface=\"one\"} 0"), "{metrics}");
    assert_eq!(seen, (1, 1, 0, true));
    drop(core);
}

#[test]
fn the_longest_round_is_told_until_counters_are_cleared() {
    const HELD_UP: Duration = Duration::from_millis(300);
    let engine = engine();
    let look = engine.handle();
    let longest = || look.runtime().workers[0].longest_round_microseconds;
    let held_up = HELD_UP.as_micros() as f64;
    assert!(longest() < held_up, "{}", longest());
    look.shared.pool.workers()[0].send(|_| std::thread::sleep(HELD_UP));
    eventually(|| (longest() >= held_up).then_some(()));
    let all = ClearCountersRequest { runtime: true, ..ClearCountersRequest::default() };
    look.clear_counters(&all);
    assert!(longest() < held_up, "{}", longest());
    // Nothing to do: it sleeps, which is no round.
    std::thread::sleep(2 * HELD_UP);
    assert!(longest() < held_up, "{}", longest());
}
