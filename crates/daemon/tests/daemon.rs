//! The daemon as its clients meet it: over its sockets.
#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::client::connect;
use api::text::Words as _;
use api::v1::quiver_client::QuiverClient;
use api::v1::{
    AdjacenciesRequest, ApplyRequest, BridgesRequest, CaptureRequest, ClearCountersRequest,
    ClearSessionsRequest, Config, DropsRequest, FibRequest, GetRequest, GraphRequest, InterfacesRequest,
    JudgeSessionsRequest, Kind, MemifRequest, NeighborsRequest, NextHop, ObjectState, Route, RuntimeRequest,
    SessionEventKind, SessionEventsRequest, SessionFilter, SessionVerdict, SessionsRequest, TenantsRequest,
    TraceAddRequest, TraceClearRequest, TraceShowRequest, VersionRequest, WatchRequest,
};
use common::{FIB_ENTRIES, Glass, SESSIONS, World, deletes, upserts};
use quiverd::daemon::{DaemonError, run};
use quiverd::settings::{Listen, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic::transport::Channel;

/// A daemon that runs in this process.
struct Running {
    directory: PathBuf,
    client: QuiverClient<Channel>,
    world: World,
    glass: Glass,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), DaemonError>>,
}

fn settings(directory: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.api.socket = directory.join("quiver.sock");
    settings.state.directory = directory.join("state");
    settings.metrics.listen = Listen::Unix(directory.join("metrics.sock"));
    settings
}

async fn start(directory: &Path) -> Running {
    let settings = settings(directory);
    let (world, glass) = (World::default(), Glass::default());
    let dataplane = Box::new(world.referee());
    let inspect = std::sync::Arc::new(glass.clone());
    let (stop, stopped) = oneshot::channel();
    let socket = settings.api.socket.clone();
    let task = tokio::spawn(async move {
        run(&settings, dataplane, inspect, async {
            let _ = stopped.await;
            "the test is over"
        })
        .await
    });
    // It is ready when it can be reached; how long that takes is the machine's business.
    let client = loop {
        match connect(&socket).await {
            Ok(client) => break client,
            Err(error) if task.is_finished() => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    Running { directory: directory.to_owned(), client, world, glass, stop, task }
}

impl Running {
    async fn stop(self) {
        // A client that stays would be waited for.
        drop(self.client);
        let _ = self.stop.send(());
        self.task.await.unwrap().unwrap();
    }

    async fn scrape(&self, request: &str) -> String {
        let mut stream = tokio::net::UnixStream::connect(self.directory.join("metrics.sock")).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

const LAB: &str = r#"
    [[interface]]
    name = "a"
    memif = { socket = "@a" }
    addresses = ["10.0.0.1/24"]
    [[route]]
    prefix = "192.0.2.0/24"
    next_hops = [{ address = "10.0.0.2" }]
    [[route]]
    prefix = "198.51.100.0/24"
    next_hops = [{ interface = "ghost" }]
"#;

#[tokio::test]
async fn a_client_applies_gets_and_watches() {
    let directory = tempfile::tempdir().unwrap();
    let mut daemon = start(directory.path()).await;
    let mut events = daemon.client.watch(WatchRequest::default()).await.unwrap().into_inner();
    let response = daemon.client.apply(upserts(LAB)).await.unwrap().into_inner();
    assert!(response.committed);
    assert_eq!((response.counts.unwrap().applied, response.counts.unwrap().pending), (2, 1));

    let mut seen = Vec::new();
    while seen.len() < 3 {
        let event = events.message().await.unwrap().unwrap();
        seen.push((
            event.object.unwrap().to_string(),
            event.status.unwrap().state().word(),
            event.generation,
        ));
    }
    assert_eq!(
        seen,
        [
            ("interface a".into(), "applied".into(), 1),
            ("route default/192.0.2.0/24".into(), "applied".into(), 1),
            ("route default/198.51.100.0/24".into(), "pending".into(), 1),
        ]
    );

    let one = GetRequest { kind: Kind::Route.into(), name: "192.0.2.0/24".into() };
    let part = daemon.client.get(one).await.unwrap().into_inner().message().await.unwrap().unwrap();
    assert_eq!(part.generation, 1);
    assert_eq!(part.objects[0].status.as_ref().unwrap().state(), ObjectState::Applied);
    let all = daemon.client.get(GetRequest::default()).await.unwrap().into_inner();
    let objects = all.map(|part| part.unwrap().objects).collect::<Vec<_>>().await.concat();
    assert_eq!(objects.len(), 3);

    for (request, code) in [
        (GetRequest { kind: Kind::Route.into(), name: "10.0.0.0/8".into() }, Code::NotFound),
        (GetRequest { kind: Kind::Route.into(), name: "nonsense".into() }, Code::InvalidArgument),
        (GetRequest { kind: 0, name: "a".into() }, Code::InvalidArgument),
        (GetRequest { kind: 99, name: String::new() }, Code::InvalidArgument),
    ] {
        assert_eq!(daemon.client.get(request.clone()).await.unwrap_err().code(), code, "{request:?}");
    }
    let stale = ApplyRequest { expected_generation: Some(0), ..deletes(&[(Kind::Interface, "a")]) };
    assert_eq!(daemon.client.apply(stale).await.unwrap_err().code(), Code::Aborted);
    daemon.client.apply(deletes(&[(Kind::Interface, "a")])).await.unwrap();
    let event = events.message().await.unwrap().unwrap();
    assert_eq!((event.object.unwrap().to_string(), event.status), ("interface a".into(), None));
    daemon.stop().await;
}

#[tokio::test]
async fn it_comes_back_as_it_went() {
    let directory = tempfile::tempdir().unwrap();
    let mut daemon = start(directory.path()).await;
    daemon.client.apply(upserts(LAB)).await.unwrap();
    daemon.stop().await;
    for socket in ["quiver.sock", "metrics.sock"] {
        assert!(!directory.path().join(socket).exists(), "{socket} is left behind");
    }

    let mut daemon = start(directory.path()).await;
    assert_eq!(daemon.world.interfaces(), ["a"]);
    assert_eq!(daemon.world.route("192.0.2.0/24").as_deref(), Some("router 10.0.0.2 on a"));
    let version = daemon.client.version(VersionRequest {}).await.unwrap().into_inner();
    assert_eq!((version.generation, version.pid), (1, std::process::id()));
    assert!(version.rustc.starts_with("rustc "), "{version:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn two_daemons_do_not_share_a_state() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = start(directory.path()).await;
    let dataplane = Box::new(World::default().referee());
    let inspect = std::sync::Arc::new(Glass::default());
    let error =
        run(&settings(directory.path()), dataplane, inspect, std::future::pending()).await.unwrap_err();
    assert!(error.to_string().contains("in use by another quiverd"), "{error}");
    daemon.stop().await;
}

#[tokio::test]
async fn many_routes_come_in_parts_and_are_sent_in_parts() {
    // More than one part of 4 MiB.
    const ROUTES: u32 = 200_000;
    let directory = tempfile::tempdir().unwrap();
    let mut daemon = start(directory.path()).await;
    daemon.client.apply(upserts(LAB)).await.unwrap();
    let routes = (0..ROUTES).map(|number| Route {
        prefix: format!("{}/32", std::net::Ipv4Addr::from(0x0b00_0000 + number)),
        next_hops: vec![NextHop { address: format!("10.0.0.{}", 2 + number % 16), ..NextHop::default() }],
        ..Route::default()
    });
    let upserts = Some(Config { routes: routes.collect(), ..Config::default() });
    let request = ApplyRequest { upserts, ..ApplyRequest::default() };
    let response = api::client::apply(&mut daemon.client, request).await.unwrap();
    assert!(response.committed);
    assert_eq!((response.generation, response.counts.unwrap().applied), (2, ROUTES.into()));
    assert!(response.results.is_empty(), "a large batch is answered tersely");
    assert_eq!(daemon.world.state().routes.len(), ROUTES as usize + 1);

    let request = GetRequest { kind: Kind::Route.into(), name: String::new() };
    let parts = daemon.client.get(request).await.unwrap().into_inner().collect::<Vec<_>>().await;
    assert!(parts.len() > 50, "in parts");
    let objects = parts.into_iter().flat_map(|part| part.unwrap().objects).count();
    assert_eq!(objects, ROUTES as usize + 2);
    daemon.stop().await;
}

#[tokio::test]
async fn the_engine_is_asked_what_the_client_asks() {
    let directory = tempfile::tempdir().unwrap();
    let mut daemon = start(directory.path()).await;
    let client = &mut daemon.client;
    let interfaces = |name: &str| InterfacesRequest { name: name.into() };
    assert_eq!(client.interfaces(interfaces("")).await.unwrap().into_inner().interfaces.len(), 2);
    assert_eq!(client.interfaces(interfaces("b")).await.unwrap().into_inner().interfaces[0].name, "b");
    assert_eq!(client.interfaces(interfaces("x")).await.unwrap_err().code(), Code::NotFound);
    let neighbors = NeighborsRequest { interface: "b".into() };
    assert_eq!(client.neighbors(neighbors).await.unwrap().into_inner().neighbors.len(), 1);
    assert_eq!(client.bridges(BridgesRequest::default()).await.unwrap().into_inner().bridges[0].moves, 2);
    assert_eq!(client.tenants(TenantsRequest::default()).await.unwrap().into_inner().tenants[0].sessions, 8);
    let tenant = |tenant: &str| Some(SessionFilter { tenant: tenant.into(), ..SessionFilter::default() });
    for (limit, expected) in [(0, SESSIONS as usize), (1200, 1200), (7, 7)] {
        let request = SessionsRequest { filter: None, limit };
        let parts = client.sessions(request).await.unwrap().into_inner().collect::<Vec<_>>().await;
        assert_eq!(parts.into_iter().map(|part| part.unwrap().sessions.len()).sum::<usize>(), expected);
    }
    let request = SessionsRequest { filter: tenant("ghost"), limit: 0 };
    let mut ghost = client.sessions(request).await.unwrap().into_inner();
    assert_eq!(ghost.message().await.unwrap_err().code(), Code::NotFound);
    let request = ClearSessionsRequest { filter: tenant("red") };
    assert_eq!(client.clear_sessions(request).await.unwrap().into_inner().ended, 3);
    assert!(daemon.glass.take_asked().contains(&"clear sessions of \"red\"".to_owned()));
    let verdict = SessionVerdict::DropRest.into();
    let request = JudgeSessionsRequest { filter: tenant("red"), verdict };
    assert_eq!(client.judge_sessions(request).await.unwrap().into_inner().judged, 2);
    assert!(daemon.glass.take_asked().contains(&"judge sessions of \"red\": DropRest".to_owned()));
    assert!(client.memif(MemifRequest::default()).await.unwrap().into_inner().memifs[0].connected);
    let adjacencies = |interface: &str| AdjacenciesRequest { interface: interface.into() };
    assert_eq!(client.adjacencies(adjacencies("")).await.unwrap().into_inner().adjacencies.len(), 303);
    let of_b = client.adjacencies(adjacencies("b")).await.unwrap().into_inner().adjacencies;
    assert_eq!(of_b.iter().map(|one| one.packets).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(client.adjacencies(adjacencies("ghost")).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(client.runtime(RuntimeRequest {}).await.unwrap().into_inner().workers[0].packets, 600);
    assert_eq!(client.drops(DropsRequest {}).await.unwrap().into_inner().drops[0].reason, "bad-checksum");
    assert_eq!(client.graph(GraphRequest {}).await.unwrap().into_inner().nodes[0].name, "drop");

    let fib = |vrf: &str, prefix: &str, lookup: &str| FibRequest {
        vrf: vrf.into(),
        prefix: prefix.into(),
        lookup: lookup.into(),
    };
    let parts = client.fib(fib("", "", "")).await.unwrap().into_inner().collect::<Vec<_>>().await;
    assert_eq!(
        parts.iter().map(|part| part.as_ref().unwrap().entries.len()).sum::<usize>(),
        FIB_ENTRIES as usize
    );
    let one = client.fib(fib("default", "", "10.0.0.1")).await.unwrap().into_inner().message().await.unwrap();
    assert_eq!(one.unwrap().entries.len(), 1);
    let mut missing = client.fib(fib("red", "", "")).await.unwrap().into_inner();
    assert_eq!(missing.message().await.unwrap_err().code(), Code::NotFound);
    for request in [fib("", "10.0.0.1/8", ""), fib("", "", "x"), fib("", "::/0", "::1")] {
        assert_eq!(client.fib(request).await.unwrap_err().code(), Code::InvalidArgument);
    }
    daemon.glass.take_asked();

    client.clear_counters(ClearCountersRequest::default()).await.unwrap();
    client.clear_counters(ClearCountersRequest { drops: true, ..Default::default() }).await.unwrap();
    client.trace_add(TraceAddRequest::default()).await.unwrap();
    let trace = |from: &str, count| TraceAddRequest { from: from.into(), count };
    assert_eq!(client.trace_add(trace("ghost", 1)).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(client.trace_add(trace("a", 10_001)).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(client.trace_show(TraceShowRequest::default()).await.unwrap().into_inner().remaining, 2);
    client.trace_clear(TraceClearRequest {}).await.unwrap();
    let events = client.session_events(SessionEventsRequest::default()).await.unwrap().into_inner();
    let events = events.map(|part| part.unwrap()).map(|part| (part.events[0].kind(), part.missed));
    let ended = SessionEventKind::Ended;
    assert_eq!(events.collect::<Vec<_>>().await, [(ended, 0), (ended, 1)]);
    let nobody = SessionFilter { tenant: "nobody".into(), ..SessionFilter::default() };
    let nobody = SessionEventsRequest { filter: Some(nobody), ..SessionEventsRequest::default() };
    assert_eq!(client.session_events(nobody).await.unwrap_err().code(), Code::NotFound);
    let capture = client.capture(CaptureRequest::default()).await.unwrap().into_inner();
    let packets = capture.map(|part| part.unwrap().packets.remove(0).data[0]).collect::<Vec<_>>().await;
    assert_eq!(packets, [0, 1, 2]);
    assert_eq!(
        daemon.glass.take_asked(),
        [
            "clear true true true true",
            "clear false false true false",
            "trace 10 from None",
            "trace 1 from Some(\"ghost\")",
            "trace clear",
            "events of \"\"",
            "capture true true true"
        ]
    );
    daemon.stop().await;
}

#[tokio::test]
async fn scrapers_that_say_nothing_hold_up_nobody_who_stops() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = start(directory.path()).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(tokio::net::UnixStream::connect(directory.path().join("metrics.sock")).await.unwrap());
    }
    // Less than a silent one is waited for.
    tokio::time::timeout(Duration::from_secs(8), daemon.stop()).await.unwrap();
}

#[tokio::test]
async fn what_is_in_the_place_of_the_metrics_socket_stays() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("metrics.sock");
    std::fs::write(&place, "precious").unwrap();
    let refused = |settings: Settings| async move {
        let dataplane = Box::new(World::default().referee());
        let inspect = std::sync::Arc::new(Glass::default());
        run(&settings, dataplane, inspect, std::future::pending()).await.unwrap_err().to_string()
    };
    let error = refused(settings(directory.path())).await;
    assert!(error.contains("metrics.sock exists and is no socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&place).unwrap(), "precious");
    std::fs::remove_file(&place).unwrap();
    let daemon = start(directory.path()).await;
    let mut other = settings(&directory.path().join("other"));
    other.metrics.listen = Listen::Unix(place);
    let error = refused(other).await;
    assert!(error.contains("another process already serves"), "{error}");
    assert!(daemon.scrape("GET /healthz HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    daemon.stop().await;
}

#[tokio::test]
async fn metrics_are_served_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let mut daemon = start(directory.path()).await;
    daemon.client.apply(upserts(LAB)).await.unwrap();
    let answer = daemon.scrape("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    for line in [
        "quiver_generation 1",
        "quiver_tenant_sessions_ended_total{tenant=\"red\",reason=\"evicted_for_quota\"} 5",
        "quiver_tenant_new_sessions_per_second_max{tenant=\"red\"} 4",
        "quiver_tenant_packets_total{tenant=\"red\",direction=\"forward\"} 30",
        "quiver_tenant_bytes_total{tenant=\"red\",direction=\"reverse\"} 2000",
        "quiver_session_events_missed_total 3",
        "quiver_ipfix_records_total{collector=\"192.0.2.9:4739\",domain=\"0\"} 6",
        "quiver_objects{kind=\"route\",state=\"pending\"} 1",
        "quiver_objects{kind=\"interface\",state=\"applied\"} 1",
        "quiver_interface_up{interface=\"b\",port=\"memif\"} 0",
        "quiver_interface_receive_packets_total{interface=\"a\"} 7",
        "quiver_worker_load_ratio{worker=\"0\",core=\"1\"} 0.25",
        "quiver_worker_sessions{worker=\"0\"} 8",
        "quiver_worker_sessions_max{worker=\"0\"} 16777216",
        "quiver_worker_session_bytes{worker=\"0\"} 1536",
        "quiver_node_clocks_total{worker=\"0\",node=\"ip4-lookup\"} 9000",
        "quiver_drops_total{node=\"ip4-input\",reason=\"bad-checksum\",severity=\"invalid\",interface=\"\"} 5",
        "quiver_neighbors{interface=\"a\",phase=\"reachable\"} 1",
        "quiver_adjacencies{interface=\"b\"} 2",
        "quiver_adjacency_packets_total{interface=\"a\",address=\"10.0.0.2\"} 3",
        "quiver_adjacency_bytes_total{interface=\"b\",address=\"\"} 256",
        "quiver_adjacency_packets_total{interface=\"b\",address=\"10.0.1.2\"} 5",
        "quiver_adjacencies{interface=\"crowd\"} 300",
        "quiver_node_events_total{node=\"icmp4-error\",event=\"icmp-limited\"} 6",
        "quiver_memif_disconnects_total{interface=\"a\"} 4",
        "quiver_memif_held_regions{interface=\"a\"} 2",
        "quiver_memif_refused_total{interface=\"a\",socket=\"\",reason=\"mode\"} 5",
        "quiver_memif_refused_total{interface=\"\",socket=\"@a\",reason=\"timeout\"} 3",
    ] {
        assert!(body.lines().any(|found| found == line), "{line} is missing in:\n{body}");
    }
    let crowd =
        body.lines().filter(|line| line.starts_with("quiver_adjacency_packets_total{interface=\"crowd\""));
    assert_eq!(crowd.count(), 256, "not each of thousands has a series");
    daemon.client.apply(deletes(&[(Kind::Route, "198.51.100.0/24")])).await.unwrap();
    let answer = daemon.scrape("GET /metrics HTTP/1.1\r\n\r\n").await;
    assert!(answer.contains("quiver_objects{kind=\"route\",state=\"pending\"} 0"), "it is counted anew");

    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
        ("nonsense\r\n\r\n", "HTTP/1.1 400"),
    ] {
        let answer = daemon.scrape(request).await;
        assert!(answer.starts_with(status), "{request}: {answer}");
    }
    let head = daemon.scrape("HEAD /metrics HTTP/1.1\r\n\r\n").await;
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(daemon.scrape(&"x".repeat(9000)).await, "", "too long a request is not answered");
    daemon.stop().await;
}

/// What a unix socket answers to a request.
async fn ask(socket: PathBuf, request: &str) -> String {
    let mut stream = tokio::net::UnixStream::connect(socket).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn silent_connections_keep_nobody_from_health_and_metrics() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = start(directory.path()).await;
    let mut silent = Vec::new();
    for name in ["metrics.sock", "quiver-health.sock"] {
        for _ in 0..200 {
            silent.push(tokio::net::UnixStream::connect(directory.path().join(name)).await.unwrap());
        }
    }
    const HEALTH: &str = "GET /healthz HTTP/1.1\r\n\r\n";
    assert!(daemon.scrape(HEALTH).await.ends_with("\r\n\r\nok\n"));
    let health = directory.path().join("quiver-health.sock");
    assert!(ask(health.clone(), HEALTH).await.ends_with("\r\n\r\nok\n"));
    assert!(ask(health, "GET /metrics HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404"));
    let metrics = daemon.scrape("GET /metrics HTTP/1.1\r\n\r\n").await;
    let figure = |name: &str, listener: &str| {
        let series = format!("{name}{{listener=\"{listener}\"}} ");
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix(&series))
            .unwrap_or_else(|| panic!("{metrics}"));
        line.parse::<u64>().unwrap()
    };
    for listener in ["metrics", "health"] {
        assert!(figure("quiver_listener_connections", listener) <= 16, "{metrics}");
        assert!(figure("quiver_listener_closed_total", listener) >= 184, "{metrics}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn idle_connections_keep_nobody_from_the_api() {
    let directory = tempfile::tempdir().unwrap();
    let mut daemon = start(directory.path()).await;
    let mut silent = Vec::new();
    for _ in 0..1000 {
        silent.push(tokio::net::UnixStream::connect(directory.path().join("quiver.sock")).await.unwrap());
    }
    let mut other = connect(directory.path().join("quiver.sock")).await.unwrap();
    other.version(VersionRequest {}).await.unwrap();
    // Of one client the silent ones went, not the one that had spoken.
    daemon.client.version(VersionRequest {}).await.unwrap();
    drop(other);
    daemon.stop().await;
}

#[tokio::test]
async fn watches_of_one_client_keep_nobody_from_the_api() {
    let directory = tempfile::tempdir().unwrap();
    let mut daemon = start(directory.path()).await;
    let mut watches = Vec::new();
    let mut clients = Vec::new();
    let refused = 'refused: loop {
        let mut client = connect(directory.path().join("quiver.sock")).await.unwrap();
        for _ in 0..16 {
            match client.watch(WatchRequest::default()).await {
                Ok(events) => watches.push(events),
                Err(status) => break 'refused status,
            }
        }
        clients.push(client);
    };
    assert_eq!((refused.code(), watches.len()), (Code::ResourceExhausted, 32));
    assert!(refused.message().contains("the limit is 32 for each client"), "{refused}");
    assert_eq!(daemon.client.version(VersionRequest {}).await.unwrap_err().code(), Code::ResourceExhausted);
    // An answer that ends, or that nobody waits for any more, makes room.
    drop(watches.pop());
    loop {
        match daemon.client.version(VersionRequest {}).await {
            Ok(_) => break,
            Err(status) => assert_eq!(status.code(), Code::ResourceExhausted),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop((watches, clients));
    daemon.stop().await;
}
