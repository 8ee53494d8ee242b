//! The control plane over the real packet engine: workers, queues and ports that need no root.
#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod common;

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use api::v1::{ApplyRequest, Config, Kind, ObjectState, Route, RouteAction};
use common::{apply, deletes, outcome, refuse, upserts};
use memif::app::{Batch, LinkEvent, Port};
use memif::region::HugePages;
use quiverd::control::Controller;
use quiverd::dataplane::Inspect;
use quiverd::engine::{Engine, EngineHandle, EngineOptions, Patience};
use quiverd::model::{Key, Name};
use quiverd::state::StateDirectory;
use rustix::fs::{FileType, Mode, OFlags, mknodat, open};

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
        Self::with(EngineOptions {
            cores: vec![None, None],
            tier: None,
            huge_pages: HugePages::Never,
            copy: copy::CopyOptions::default(),
            ipfix: Vec::new(),
            captures: ports::wrap::capture::DEFAULT_LIMIT,
            fib_bytes: None,
            sessions: 1 << 24,
            patience: Patience::default(),
        })
    }

    fn with(options: EngineOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::start(&options).unwrap();
        let look = engine.handle();
        let state = StateDirectory::open(&directory.path().join("state")).unwrap();
        Self { controller: Controller::new(Box::new(engine), state), look, directory }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().into()
    }

    #[track_caller]
    fn apply(&mut self, toml: &str) {
        let response = apply(&mut self.controller, &upserts(toml));
        let counts = response.counts.unwrap();
        assert_eq!(counts.pending, 0, "{:#?}", response.results);
    }

    fn received(&self, interface: &str) -> u64 {
        self.counters(interface).rx_packets
    }

    fn sent(&self, interface: &str) -> u64 {
        self.counters(interface).tx_packets
    }

    fn counters(&self, interface: &str) -> api::v1::InterfaceCounters {
        let all = self.look.interfaces();
        all.into_iter().find(|state| state.name == interface).unwrap().counters.unwrap()
    }

    fn dropped(&self, reason: &str) -> u64 {
        self.look.drops().iter().filter(|drop| drop.reason == reason).map(|drop| drop.packets).sum()
    }

    fn state(&self, interface: &str) -> (ObjectState, String) {
        let key = Key::Interface(Name::new(interface).unwrap());
        let status = self.controller.view().get(&key).unwrap().status.unwrap();
        (status.state(), status.failure)
    }

    /// Waits until an interface has sent more.
    #[track_caller]
    fn flows(&self, interface: &str) {
        let before = self.sent(interface);
        eventually(|| self.sent(interface) > before + 10);
    }
}

#[track_caller]
fn eventually(condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "it never comes to that");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A generator whose packets all go to `to`.
fn generator(to: &str, more: &str, port: &str) -> String {
    format!(
        "[[interface]]\nname = \"gen\"\ncross_connect = \"{to}\"\n{more}\n\
         generator = {{ source_address = \"10.9.0.1\", destination_address = \"10.9.0.2\", rate = 5000{port} }}\n"
    )
}

const SINK: &str = "[[interface]]\nname = \"out\"\nsink = {}\n";

#[test]
fn damage_changes_while_the_queues_run() {
    let mut lab = Lab::new();
    lab.apply(&(generator("out", "", "") + SINK));
    lab.flows("out");
    lab.apply(&generator("out", "fault = { drop_ppm = 1000000 }", ""));
    let dropped = lab.dropped("fault");
    eventually(|| lab.dropped("fault") > dropped + 100);
    let sent = lab.sent("out");
    eventually(|| lab.dropped("fault") > dropped + 300);
    assert_eq!(lab.sent("out"), sent, "nothing passes");
    let dropped = lab.dropped("fault");
    assert!(lab.counters("gen").rx_drops >= dropped, "they are the interface's, too");
    lab.apply(&generator("out", "", ""));
    lab.flows("out");
}

#[test]
fn the_address_of_a_generator_is_in_its_frames() {
    let mut lab = Lab::new();
    let file = lab.path("out.pcapng");
    let out = format!("[[interface]]\nname = \"out\"\npcap = {{ tx_file = \"{file}\" }}\n");
    lab.apply(&(generator("out", "mac = \"02:00:00:00:00:11\"", "") + &out));
    lab.flows("out");
    lab.apply(&generator("out", "mac = \"02:00:00:00:00:22\"", ""));
    let has = |mac: [u8; 6]| fs::read(&file).unwrap().windows(6).any(|bytes| bytes == mac);
    eventually(|| has([2, 0, 0, 0, 0, 0x22]));
    assert!(has([2, 0, 0, 0, 0, 0x11]), "the file was not begun anew");
}

#[test]
fn what_a_refused_batch_has_touched_runs_as_before() {
    let mut lab = Lab::new();
    let socket = lab.path("one");
    let memif = |socket: &str, more: &str| {
        format!(
            "[[interface]]\nname = \"one\"\nmemif = {{ socket = \"{socket}\", role = \"server\"{more} }}\n"
        )
    };
    lab.apply(&(generator("out", "", "") + SINK + &memif(&socket, "")));
    let before =
        lab.look.interfaces().iter().map(|state| (state.name.clone(), state.index)).collect::<Vec<_>>();
    // Ports, damage and address of the others have changed when this one is found to have no directory.
    for bad in [
        generator("out", "", ", frame_sizes = [900]"),
        generator("out", "fault = { drop_ppm = 1000000 }\nmac = \"02:00:00:00:00:11\"\nmtu = 1300", ""),
        memif(&socket, ", ring_size = 256"),
    ] {
        let other =
            "[[interface]]\nname = \"z\"\nmemif = { socket = \"/nowhere/at/all\", role = \"server\" }\n";
        let response = refuse(&mut lab.controller, &upserts(&(bad + other)));
        assert!(outcome(&response, "z").starts_with("refused memif.socket"), "{response:#?}");
        lab.flows("out");
        assert_eq!(lab.dropped("fault"), 0);
    }
    let now = lab.look.interfaces().iter().map(|state| (state.name.clone(), state.index)).collect::<Vec<_>>();
    assert_eq!(now, before, "no interface was made anew");
    assert!(connect(&lab.path("one")).connection().is_some(), "the old socket listens");
}

fn connect(socket: &str) -> Port {
    connect_with(socket, 1)
}

fn connect_with(socket: &str, tx_queues: u16) -> Port {
    let config = memif::ClientConfig {
        queues: memif::QueueConfig {
            tx_queues,
            huge_pages: HugePages::Never,
            ..memif::QueueConfig::default()
        },
        ..memif::ClientConfig::default()
    };
    let mut port =
        Port::client(memif::Address::path(socket), config, memif::ClientTiming::default()).unwrap();
    wait_up(&mut port);
    port
}

fn wait_up(port: &mut Port) {
    let end = Instant::now() + PATIENCE;
    while port.connection().is_none() {
        assert!(Instant::now() < end, "no link");
        port.wait(Some(Duration::from_millis(50))).unwrap();
    }
}

#[test]
fn a_memif_is_opened_again_with_other_parameters_and_its_peer_returns() {
    let mut lab = Lab::new();
    let socket = lab.path("one");
    let memif = |more: &str| {
        format!(
            "[[interface]]\nname = \"one\"\nmemif = {{ socket = \"{socket}\", role = \"server\"{more} }}\n{}",
            generator("one", "", "")
        )
    };
    lab.apply(&memif(""));
    let mut peer = connect(&socket);
    let mut batch = Batch::new(64);
    let mut receive = |peer: &mut Port| {
        let end = Instant::now() + PATIENCE;
        while peer.receive(&mut batch).unwrap() == 0 {
            assert!(Instant::now() < end, "nothing comes");
            peer.wait(Some(Duration::from_millis(50))).unwrap();
        }
    };
    receive(&mut peer);
    lab.apply(&memif(", rx_queues = 2"));
    let end = Instant::now() + PATIENCE;
    let mut events = Vec::new();
    while !events.iter().any(|event| matches!(event, LinkEvent::Down(_))) {
        assert!(Instant::now() < end, "{events:?}");
        events.extend(peer.wait(Some(Duration::from_millis(50))).unwrap());
    }
    wait_up(&mut peer);
    receive(&mut peer);
    // And its own packets are taken, by the worker that has the queue now.
    let received = lab.received("one");
    assert_eq!(peer.send(&[[0xff; 60]; 8]).unwrap(), 8);
    eventually(|| lab.received("one") == received + 8);
}

#[test]
fn a_memifs_queues_are_the_workers_that_are_named() {
    let mut lab = Lab::new();
    let socket = lab.path("one");
    let memif = |workers: &str| {
        format!(
            "[[interface]]\nname = \"one\"\nmemif = {{ socket = \"{socket}\", rx_queues = 3{workers} }}\n"
        )
    };
    let workers = |lab: &Lab| {
        let memif = lab.look.memifs().remove(0);
        let rx: Vec<_> = memif.queues.iter().filter(|queue| queue.rx).map(|queue| queue.worker).collect();
        let interface = lab.look.interfaces().remove(0);
        let placed: Vec<_> = interface.placement.iter().map(|queue| queue.worker).collect();
        // Both tell the same, once they are placed.
        if rx == placed { rx } else { Vec::new() }
    };
    for named in [[1, 1, 0], [0, 0, 0], [1, 1, 1]] {
        lab.apply(&memif(&format!(", rx_workers = {named:?}")));
        let mut peer = connect_with(&socket, 3);
        eventually(|| workers(&lab) == named);
        // It is received from there, and the queue counts.
        assert_eq!(peer.send(&[[0xff; 60]; 8]).unwrap(), 8);
        let counted = |queue: &api::v1::MemifQueue| (queue.rx, queue.index, queue.packets, queue.bytes);
        eventually(|| {
            lab.look.memifs().remove(0).queues.iter().map(counted).collect::<Vec<_>>()
                == [(true, 0, 8, 480), (true, 1, 0, 0), (true, 2, 0, 0), (false, 0, 0, 0)]
        });
    }
    for (bad, why) in [
        ("[0, 1, 2]", "there is no worker 2: quiverd has workers 0 to 1"),
        ("[0, 1]", "names 2 workers for rx_queues = 3"),
    ] {
        let response = refuse(&mut lab.controller, &upserts(&memif(&format!(", rx_workers = {bad}"))));
        let outcome = outcome(&response, "one");
        assert!(outcome.starts_with("refused memif.rx_workers") && outcome.contains(why), "{outcome}");
    }
    lab.apply(&memif(""));
    let _peer = connect_with(&socket, 3);
    eventually(|| workers(&lab) == [0, 1, 0]);
}

#[test]
fn the_queues_of_a_generator_are_streams_of_the_workers_that_are_named() {
    let mut lab = Lab::new();
    let file = lab.path("out");
    let out = format!("[[interface]]\nname = \"out\"\npcap = {{ tx_file = \"{file}\" }}\n");
    let some = ", count = 500, flows = 500, vary = \"destination_address\", rx_queues = 2";
    lab.apply(&(generator("out", "", &format!("{some}, rx_workers = [1, 0]")) + &out));
    let placed = |lab: &Lab| -> Vec<(u32, u32)> {
        let interfaces = lab.look.interfaces();
        let from = interfaces.iter().find(|interface| interface.name == "gen").unwrap();
        from.placement.iter().map(|queue| (queue.queue, queue.worker)).collect()
    };
    assert_eq!(placed(&lab), [(0, 1), (1, 0)]);
    eventually(|| lab.counters("gen").rx_packets == 500 && lab.counters("out").tx_packets == 500);
    for worker in lab.look.runtime().workers {
        let made = worker.nodes.iter().find(|node| node.name == "generator-input");
        assert_eq!(made.map(|node| node.packets), Some(250), "half of them: worker {}", worker.index);
    }
    let response =
        refuse(&mut lab.controller, &upserts(&generator("out", "", &format!("{some}, rx_workers = [0, 2]"))));
    let outcome = outcome(&response, "gen");
    let why = "there is no worker 2: quiverd has workers 0 to 1";
    assert!(outcome.starts_with("refused generator.rx_workers") && outcome.contains(why), "{outcome}");
}

#[test]
fn an_interface_leaves_a_vrf_that_goes_with_the_same_batch() {
    let mut lab = Lab::new();
    lab.apply("[[vrf]]\nname = \"red\"\n[[interface]]\nname = \"out\"\nsink = {}\nvrf = \"red\"\naddresses = [\"10.0.0.1/24\"]");
    let mut request = upserts("[[interface]]\nname = \"out\"\nsink = {}\naddresses = [\"10.0.0.1/24\"]");
    request.deletes = deletes(&[(Kind::Vrf, "red")]).deletes;
    let response = apply(&mut lab.controller, &request);
    assert_eq!(response.counts.unwrap().pending, 0, "{:#?}", response.results);
    assert_eq!(lab.state("out").0, ObjectState::Applied);
}

#[test]
fn what_a_bridge_may_be_told_it_can_be() {
    let mut lab = Lab::new();
    let bridge = |age: u32| format!("[[bridge]]\nname = \"lan\"\nmac_age_seconds = {age}\n");
    let member = "[[interface]]\nname = \"out\"\nsink = {}\nbridge = { name = \"lan\" }\n";
    lab.apply(&(bridge(32_766) + member));
    assert_eq!(lab.state("out").0, ObjectState::Applied);
    let response = refuse(&mut lab.controller, &upserts(&bridge(32_767)));
    assert!(outcome(&response, "lan").starts_with("refused mac_age_seconds"), "{:#?}", response.results);
}

/// Whoever opens one waits for its other end, as a rule.
#[test]
fn a_pipe_that_nobody_holds_keeps_nobody_waiting() {
    let mut lab = Lab::new();
    let pipe = lab.path("pipe");
    mknodat(rustix::fs::CWD, &*pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for (port, why) in [
        (format!("pcap = {{ rx_file = \"{pipe}\" }}"), "it is no regular file"),
        (format!("pcap = {{ tx_file = \"{pipe}\" }}"), "it is a pipe that nobody reads"),
        (format!("tap = {{ netns = \"{pipe}\" }}"), "pipe"),
    ] {
        let response =
            refuse(&mut lab.controller, &upserts(&format!("[[interface]]\nname = \"a\"\n{port}\n")));
        let outcome = outcome(&response, "a");
        assert!(outcome.starts_with("refused") && outcome.contains(why), "{outcome}");
    }
}

/// A pipe is a file whose other end can go away.
#[test]
fn a_port_that_fails_by_itself_is_named_and_opened_again() {
    let mut lab = Lab::new();
    let file = lab.path("pipe");
    mknodat(rustix::fs::CWD, &*file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reader: OwnedFd = open(&*file, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let out = format!("[[interface]]\nname = \"out\"\npcap = {{ tx_file = \"{file}\" }}\n");
    lab.apply(&(generator("out", "", "") + &out));
    lab.flows("out");
    // From now on an ordinary file.
    fs::remove_file(&file).unwrap();
    drop(reader);
    let end = Instant::now() + PATIENCE;
    while lab.state("out").0 == ObjectState::Applied {
        assert!(Instant::now() < end, "nobody notices");
        lab.controller.tend();
        std::thread::sleep(Duration::from_millis(5));
    }
    let (state, failure) = lab.state("out");
    assert_eq!(state, ObjectState::Failed);
    assert!(failure.contains("roken pipe") && failure.contains("tried again every 3 s"), "{failure}");
    assert_eq!(lab.state("gen").0, ObjectState::Pending, "its other side is gone");
    lab.controller.retry();
    assert_eq!(lab.state("out"), (ObjectState::Applied, String::new()));
    assert_eq!(lab.state("gen").0, ObjectState::Applied);
    lab.flows("out");
    eventually(|| fs::metadata(Path::new(&file)).unwrap().len() > 1000);
}

#[test]
fn routes_that_a_full_table_has_no_room_for_are_not_called_applied() {
    let mut lab = Lab::with(EngineOptions {
        cores: vec![None],
        tier: None,
        huge_pages: HugePages::Never,
        copy: copy::CopyOptions::default(),
        ipfix: Vec::new(),
        captures: ports::wrap::capture::DEFAULT_LIMIT,
        fib_bytes: Some(0),
        sessions: 1 << 24,
        patience: Patience::default(),
    });
    // Far apart, so that each takes nodes of its own.
    let routes = |range: std::ops::Range<u32>| {
        let route = |n: u32| Route {
            prefix: format!("{}/24", std::net::Ipv4Addr::from((n * 3 + 1) << 16 | 0x0100)),
            action: RouteAction::Blackhole.into(),
            ..Route::default()
        };
        let upserts = Config { routes: range.map(route).collect(), ..Config::default() };
        ApplyRequest { upserts: Some(upserts), ..ApplyRequest::default() }
    };
    let response = apply(&mut lab.controller, &routes(0..20_000));
    let counts = response.counts.unwrap();
    assert!(counts.applied > 1000 && counts.pending > 1000, "{counts:?}");
    assert_eq!(counts.applied + counts.pending, 20_000);
    let waits = response.results.iter().map(|result| format!("{:?}", result.outcome)).collect::<Vec<_>>();
    assert!(waits.iter().all(|wait| wait.contains("the table is full")), "{:?}", waits.first());
    // Those that are in force work, and so does everything else.
    lab.apply(&(generator("out", "", "") + SINK));
    lab.flows("out");
    // Room is made: the others are tried again and come in.
    let names: Vec<String> = (0..15_000u32)
        .map(|n| format!("default/{}/24", std::net::Ipv4Addr::from((n * 3 + 1) << 16 | 0x0100)))
        .collect();
    let names: Vec<_> = names.iter().map(|name| (Kind::Route, &**name)).collect();
    apply(&mut lab.controller, &deletes(&names));
    lab.controller.retry();
    let view = lab.controller.view();
    let last = api::v1::ObjectRef::new(
        Kind::Route,
        format!("{}/24", std::net::Ipv4Addr::from((19_999 * 3 + 1) << 16 | 0x0100)),
    );
    assert_eq!(view.get(&Key::parse(&last).unwrap()).unwrap().status.unwrap().state(), ObjectState::Applied);
}
