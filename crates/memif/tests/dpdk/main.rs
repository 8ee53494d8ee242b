//! Interoperation with DPDK's memif driver, in both roles, every byte checked.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;
mod interoperation;
#[path = "../common/matrix.rs"]
mod matrix;
mod testpmd;

use std::time::{Duration, Instant};

use common::{PATIENCE, client_connection, drive, packet, receive, send, server_connection, small_queues};
use memif::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, Listener, ListenerSettings,
    QueueConfig, Reason, RingSize, RxQueue, Secret, ServerConfig, ServerEvent, TxQueue,
};
use testpmd::{Testpmd, available};

/// Our end, whichever it is: keeps the control channel.
struct Ours {
    connection: Connection,
    listener: Option<Listener>,
    client: Option<Client>,
}

fn serve(address: &Address, config: ServerConfig) -> Listener {
    let mut listener = Listener::bind(address, ListenerSettings::default()).unwrap();
    listener.register(0, config).unwrap();
    listener
}

fn accept(mut listener: Listener) -> Ours {
    let (served, _) = drive(Some(&mut listener), &mut [], |s, _| !s.is_empty());
    let connection = served.into_iter().find_map(server_connection).expect("refused");
    Ours { connection, listener: Some(listener), client: None }
}

fn dial(address: &Address, config: ClientConfig) -> Ours {
    connected(Client::new(address.clone(), config, ClientTiming::default()).unwrap())
}

/// What a client has when it has found its server.
fn connected(mut client: Client) -> Ours {
    let connected = |h: &[Vec<ClientEvent>]| h[0].iter().any(|e| matches!(e, ClientEvent::Connected(_)));
    let (_, mut happened) = drive(None, &mut [&mut client], |_, h| connected(h));
    let connection = happened.remove(0).into_iter().find_map(client_connection).unwrap();
    Ours { connection, listener: None, client: Some(client) }
}

/// Receives from any of the queues until there are `n` packets.
fn receive_n(rx: &mut [RxQueue], n: usize) -> Vec<Vec<u8>> {
    let started = Instant::now();
    let mut packets = Vec::new();
    while packets.len() < n {
        for queue in &mut *rx {
            packets.extend(receive(queue).unwrap());
        }
        let lengths = || packets.iter().map(Vec::len).collect::<Vec<_>>();
        assert!(started.elapsed() < PATIENCE, "{} of {n} packets, of {:?} bytes", packets.len(), lengths());
        std::thread::sleep(Duration::from_micros(50));
    }
    packets
}

/// Sends all of them, waiting for room. (A DPDK client posts no buffers before it first polls.)
fn send_all(tx: &mut TxQueue, packets: &[Vec<u8>]) {
    let (mut sent, started) = (0, Instant::now());
    while sent < packets.len() {
        sent += send(tx, &packets[sent..]).unwrap();
        assert!(started.elapsed() < PATIENCE, "{sent} of {} packets sent", packets.len());
        std::thread::yield_now();
    }
}

/// Sends packets through a testpmd that gives each back unchanged, a few at a time, and checks them.
fn reflect(ours: &mut Ours, lengths: &[usize], rounds: usize) {
    let Connection { rx, tx, .. } = &mut ours.connection;
    for round in 0..rounds {
        let queue = round % tx.len();
        let packets: Vec<_> =
            lengths.iter().enumerate().map(|(i, length)| packet(round * 10 + i, *length)).collect();
        send_all(&mut tx[queue], &packets);
        assert_eq!(receive_n(rx, packets.len()), packets, "round {round}");
    }
    if let Some(listener) = &mut ours.listener {
        assert!(listener.process(Instant::now()).unwrap().is_empty());
    }
    if let Some(client) = &mut ours.client {
        assert!(client.process(Instant::now()).is_empty());
    }
}

const LENGTHS: [usize; 7] = [60, 61, 64, 128, 594, 1514, 2048];

#[test]
fn as_server_of_a_dpdk_client() {
    if !available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let listener =
        serve(&Address::path(&path), ServerConfig { name: "server0".into(), ..Default::default() });
    let device = format!("role=client,id=0,socket={},socket-abstract=no", path.display());
    let testpmd = Testpmd::start(&device, &["--forward-mode=io"]);
    let mut ours = accept(listener);
    assert!(ours.connection.peer.application.as_str().starts_with("DPDK"), "{:?}", ours.connection.peer);
    assert_eq!(ours.connection.rx[0].ring_size(), RingSize::default());
    reflect(&mut ours, &LENGTHS, 1000);
    let statistics = testpmd.finish();
    assert!(statistics.contains("RX-packets: 7000 "), "{statistics}");
    let mut listener = ours.listener.unwrap();
    let (served, _) = drive(Some(&mut listener), &mut [], |s, _| !s.is_empty());
    assert!(matches!(&served[0], ServerEvent::Disconnected { id: 0, .. }), "{served:?}");
}

#[test]
fn as_client_of_a_dpdk_server() {
    if !available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let device = format!("role=server,id=0,socket={},socket-abstract=no", path.display());
    let mut testpmd = Testpmd::serve(&[&device], &[], &["--forward-mode=io"]);
    let config = ClientConfig { queues: small_queues(), ..ClientConfig::default() };
    let mut ours = dial(&Address::path(&path), config);
    testpmd.forward();
    assert!(ours.connection.peer.application.as_str().starts_with("DPDK"), "{:?}", ours.connection.peer);
    reflect(&mut ours, &LENGTHS, 1000);
    let statistics = testpmd.finish();
    assert!(statistics.contains("RX-packets: 7000 "), "{statistics}");
    let mut client = ours.client.unwrap();
    let (_, happened) = drive(None, &mut [&mut client], |_, h| !h[0].is_empty());
    assert!(matches!(&happened[0][0], ClientEvent::Disconnected { .. }), "{happened:?}");
}

#[test]
fn jumbo_frames_are_chained_both_ways() {
    if !available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    // 17 slots a round: the ring wraps differently each time, so that slots of chains are used for single
    // packets later.
    let jumbo = [9000, 60, 4096, 4097, 9014, 61];
    let application = ["--forward-mode=io"];

    let listener = serve(&Address::path(&path), ServerConfig::default());
    let device = format!("role=client,id=0,socket={},socket-abstract=no", path.display());
    let testpmd = Testpmd::start(&device, &application);
    reflect(&mut accept(listener), &jumbo, 200);
    testpmd.finish();

    let device = format!("role=server,id=0,socket={},socket-abstract=no", path.display());
    let mut testpmd = Testpmd::serve(&[&device], &[], &application);
    let config = ClientConfig { queues: small_queues(), ..ClientConfig::default() };
    let mut ours = dial(&Address::path(&path), config);
    testpmd.forward();
    reflect(&mut ours, &jumbo, 200);
    testpmd.finish();
}

#[test]
fn smallest_and_largest_rings_and_other_buffers() {
    if !available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    for (log2, buffer_size) in [(6_u8, 2048), (14, 1024)] {
        let listener = serve(&Address::path(&path), ServerConfig::default());
        let socket = format!("socket={},socket-abstract=no", path.display());
        let device = format!("role=client,id=0,rsize={log2},bsize={buffer_size},{socket}");
        let testpmd = Testpmd::start(&device, &["--forward-mode=io"]);
        let mut ours = accept(listener);
        assert_eq!(ours.connection.rx[0].ring_size().log2(), log2);
        reflect(&mut ours, &LENGTHS, 3000);
        testpmd.finish();
        drop(ours);

        let device = format!("role=server,id=0,{socket}");
        let mut testpmd = Testpmd::serve(&[&device], &[], &["--forward-mode=io"]);
        let ring_size = RingSize::from_log2(log2).unwrap();
        let queues = QueueConfig { ring_size, buffer_size, ..small_queues() };
        let mut ours = dial(&Address::path(&path), ClientConfig { queues, ..ClientConfig::default() });
        testpmd.forward();
        assert_eq!(ours.connection.tx[0].ring_size().log2(), log2);
        reflect(&mut ours, &LENGTHS, 3000);
        testpmd.finish();
    }
}

#[test]
fn several_queues_an_abstract_socket_and_a_secret() {
    if !available() {
        return;
    }
    let name = format!("quiver/dpdk-{}", std::process::id());
    let address = Address::abstract_name(&name);
    let secret = || Some(Secret::new("s3cret").unwrap());
    let listener = serve(&address, ServerConfig { secret: secret(), ..ServerConfig::default() });
    let device = format!("role=client,id=0,socket={name},socket-abstract=yes,secret=s3cret");
    let queues = ["--forward-mode=io", "--rxq=2", "--txq=2"];
    let testpmd = Testpmd::start(&device, &queues);
    let mut ours = accept(listener);
    assert_eq!((ours.connection.rx.len(), ours.connection.tx.len()), (2, 2));
    reflect(&mut ours, &LENGTHS, 200);
    testpmd.finish();
    drop(ours);

    let device = format!("role=server,id=0,socket={name},socket-abstract=yes,secret=s3cret");
    let mut testpmd = Testpmd::serve(&[&device], &[], &queues);
    let queues = QueueConfig { rx_queues: 2, tx_queues: 2, ..small_queues() };
    let mut without = Client::new(address.clone(), ClientConfig::default(), ClientTiming::default()).unwrap();
    let refusal = |event: &ClientEvent| match event {
        ClientEvent::Refused { reason: Reason::Peer { text, .. } } => Some(text.as_str().to_owned()),
        _ => None,
    };
    let wanted = |event: &ClientEvent| refusal(event).is_some_and(|text| text == "Secret required");
    drive(None, &mut [&mut without], |_, h| h[0].iter().any(wanted));
    drop(without);
    let config = ClientConfig { secret: secret(), queues, ..ClientConfig::default() };
    let mut ours = dial(&address, config);
    testpmd.forward();
    assert_eq!((ours.connection.rx.len(), ours.connection.tx.len()), (2, 2));
    reflect(&mut ours, &LENGTHS, 200);
    testpmd.finish();
}

/// testpmd's own packets: Ethernet, IPv4, UDP to the discard port, 64 bytes, checksum right.
#[test]
fn a_dpdk_generator_and_a_dpdk_sink() {
    if !available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let listener = serve(&Address::path(&path), ServerConfig::default());
    let device = format!("role=client,id=0,socket={},socket-abstract=no", path.display());
    let testpmd = Testpmd::start(&device, &["--forward-mode=txonly"]);
    let mut ours = accept(listener);
    for packet in receive_n(&mut ours.connection.rx, 50_000) {
        assert_eq!(packet.len(), 64);
        assert_eq!(packet[12..16], [0x08, 0x00, 0x45, 0x00]);
        assert_eq!(packet[26..34], [198, 18, 0, 1, 198, 18, 0, 2]);
        let words = packet[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "IPv4 checksum");
    }
    drop(ours);
    testpmd.finish();

    let device = format!("role=server,id=0,socket={},socket-abstract=no", path.display());
    let mut testpmd = Testpmd::serve(&[&device], &[], &["--forward-mode=rxonly"]);
    let config = ClientConfig { queues: small_queues(), ..ClientConfig::default() };
    let mut ours = dial(&Address::path(&path), config);
    testpmd.forward();
    let packets: Vec<_> = (0..20_000).map(|i| packet(i, 60)).collect();
    send_all(&mut ours.connection.tx[0], &packets);
    let started = Instant::now();
    while ours.connection.tx[0].room().unwrap() < 64 {
        assert!(started.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    let statistics = testpmd.finish();
    assert!(statistics.contains("RX-packets: 20000 "), "{statistics}");
}

/// testpmd answers ARP and pings; the expected answers are RFC 826's and RFC 792's.
#[test]
fn a_dpdk_host_answers_arp_and_ping() {
    if !available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let device =
        format!("role=server,id=0,socket={},socket-abstract=no,mac=02:00:00:00:00:02", path.display());
    let mut testpmd = Testpmd::serve(&[&device], &[], &["--forward-mode=icmpecho"]);
    let config = ClientConfig { queues: small_queues(), ..ClientConfig::default() };
    let mut ours = dial(&Address::path(&path), config);
    testpmd.forward();

    let (us, them) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let arp = |to: [u8; 6],
               from: [u8; 6],
               operation: u8,
               sha: [u8; 6],
               spa: [u8; 4],
               tha: [u8; 6],
               tpa: [u8; 4]| {
        let head = [8, 6, 0, 1, 8, 0, 6, 4, 0, operation];
        let mut frame = [&to[..], &from, &head, &sha, &spa, &tha, &tpa].concat();
        frame.resize(60, 0);
        frame
    };
    let (our_ip, their_ip) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    let request = arp([0xff; 6], us, 1, us, our_ip, [0; 6], their_ip);
    send(&mut ours.connection.tx[0], &[request]).unwrap();
    let answer = receive_n(&mut ours.connection.rx, 1).remove(0);
    assert_eq!(answer, arp(us, them, 2, them, their_ip, us, our_ip));

    // 192.0.2.1 → 192.0.2.2, echo request, id 0x1234, sequence 1, checksums worked out by hand.
    let ip = |from: [u8; 4], to: [u8; 4]| {
        [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0xf6, 0xdd][..], &from, &to].concat()
    };
    let echo = |to: [u8; 6], from: [u8; 6], ip: Vec<u8>, icmp: [u8; 8]| {
        let mut frame = [&to[..], &from, &[8, 0], &ip, &icmp].concat();
        frame.resize(60, 0);
        frame
    };
    let ping = echo(them, us, ip(our_ip, their_ip), [8, 0, 0xe5, 0xca, 0x12, 0x34, 0, 1]);
    send(&mut ours.connection.tx[0], &[ping]).unwrap();
    let pong = receive_n(&mut ours.connection.rx, 1).remove(0);
    assert_eq!(pong, echo(us, them, ip(their_ip, our_ip), [0, 0, 0xed, 0xca, 0x12, 0x34, 0, 1]));
    testpmd.finish();
}

/// DPDK leaves it to us to touch the buffers that we send into first, and so has us pay for them as long as it lives: no longer. So often, or
/// `QUIVER_DPDK_RESTARTS` times; without their being given back the fourth time would be one too many.
#[test]
fn a_client_that_never_allocates_may_come_back_for_ever() {
    if !available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let config = ServerConfig { max_holes: 12 << 20, ..ServerConfig::default() };
    let mut listener = serve(&Address::path(&path), config);
    let device = format!("role=client,id=0,socket={},socket-abstract=no", path.display());
    let restarts = std::env::var("QUIVER_DPDK_RESTARTS").map_or(6, |times| times.parse().unwrap());
    for _ in 0..restarts {
        let testpmd = Testpmd::start(&device, &["--forward-mode=io"]);
        let mut ours = accept(listener);
        // Every buffer of both rings.
        reflect(&mut ours, &LENGTHS, 300);
        drop(testpmd); // killed
        listener = ours.listener.unwrap();
        let (served, _) = drive(Some(&mut listener), &mut [], |s, _| !s.is_empty());
        assert!(matches!(&served[0], ServerEvent::Disconnected { .. }), "{served:?}");
    }
}

#[test]
fn a_killed_peer_can_come_back() {
    if !available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let mut listener = serve(&Address::path(&path), ServerConfig::default());
    let device = format!("role=client,id=0,socket={},socket-abstract=no", path.display());
    for _ in 0..2 {
        let testpmd = Testpmd::start(&device, &["--forward-mode=io"]);
        let mut ours = accept(listener);
        reflect(&mut ours, &LENGTHS, 10);
        drop(testpmd); // killed
        listener = ours.listener.unwrap();
        let (served, _) = drive(Some(&mut listener), &mut [], |s, _| !s.is_empty());
        assert!(matches!(&served[0], ServerEvent::Disconnected { reason: Reason::Closed, .. }), "{served:?}");
    }
}

#[test]
fn a_killed_server_that_comes_back_is_found_again() {
    if !available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let device = format!("role=server,id=0,socket={},socket-abstract=no", path.display());
    let mut testpmd = Testpmd::serve(&[&device], &[], &["--forward-mode=io", "--rxq=4", "--txq=4"]);
    let queues = QueueConfig { rx_queues: 4, tx_queues: 4, ..small_queues() };
    let mut ours = dial(&Address::path(&path), ClientConfig { queues, ..ClientConfig::default() });
    testpmd.forward();
    for _ in 0..2 {
        reflect(&mut ours, &LENGTHS, 40);
        drop(testpmd); // killed
        let mut client = ours.client.unwrap();
        let (_, happened) = drive(None, &mut [&mut client], |_, h| !h[0].is_empty());
        assert!(matches!(&happened[0][0], ClientEvent::Disconnected { .. }), "{happened:?}");
        // A killed one leaves its socket, which DPDK itself doesn't get out of its way.
        let _ = std::fs::remove_file(&path);
        testpmd = Testpmd::serve(&[&device], &[], &["--forward-mode=io", "--rxq=4", "--txq=4"]);
        ours = connected(client);
        testpmd.forward();
    }
    reflect(&mut ours, &LENGTHS, 40);
}

/// DPDK's client looks for its server when its port is started, and not again by itself.
#[test]
fn our_server_that_was_restarted_takes_a_dpdk_client_back() {
    if !available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let listener = serve(&Address::path(&path), ServerConfig::default());
    let device = format!("role=client,id=0,socket={},socket-abstract=no", path.display());
    let mut testpmd = Testpmd::start(&device, &["-i", "--forward-mode=io"]);
    let mut ours = accept(listener);
    for _ in 0..2 {
        reflect(&mut ours, &LENGTHS, 40);
        testpmd.say("stop", "Done.");
        drop(ours);
        let listener = serve(&Address::path(&path), ServerConfig::default());
        testpmd.say("port stop 0", "Done");
        testpmd.say("port start 0", "Done");
        ours = accept(listener);
        testpmd.forward();
    }
    reflect(&mut ours, &LENGTHS, 40);
    testpmd.say("stop", "Done.");
}
