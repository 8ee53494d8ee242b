//! Listener and client on real sockets: connecting, refusing, disconnecting, reconnecting.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/raw.rs"]
mod raw;

use std::time::{Duration, Instant};

use common::{client_connection, connect, drive, exchange, server_connection, small_queues};
use memif::control::{Hello, Message, VERSION};
use memif::io::{Credentials, Handshake};
use memif::ring::RingSize;
use memif::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Error, Listener, ListenerSettings, Mode,
    QueueConfig, Reason, Refusal, Secret, ServerConfig, ServerEvent,
};

fn listen(address: &Address, interfaces: impl IntoIterator<Item = (u32, ServerConfig)>) -> Listener {
    let settings = ListenerSettings { name: "test-server".into(), ..ListenerSettings::default() };
    let mut listener = Listener::bind(address, settings).unwrap();
    for (id, config) in interfaces {
        listener.register(id, config).unwrap();
    }
    listener
}

fn dial(address: &Address, config: ClientConfig) -> Client {
    Client::new(address.clone(), config, ClientTiming::default()).unwrap()
}

fn client(id: u32) -> ClientConfig {
    ClientConfig { id, name: format!("client{id}"), queues: small_queues(), ..ClientConfig::default() }
}

fn server(id: u32) -> ServerConfig {
    ServerConfig { name: format!("server{id}"), ..ServerConfig::default() }
}

/// What the kernel says of this process, which is both sides.
fn us() -> Credentials {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Credentials { pid: Some(std::process::id()), uid, gid }
}

/// Drives until the client was turned away; gives what each side says was the reason.
fn refused(listener: &mut Listener, config: ClientConfig, address: &Address) -> (Reason, Reason) {
    let asked = Some(config.id);
    let mut client = dial(address, config);
    let (mut served, mut happened) =
        drive(Some(listener), &mut [&mut client], |s, h| !s.is_empty() && !h[0].is_empty());
    match (served.remove(0), happened.remove(0).remove(0)) {
        (ServerEvent::Refused { reason: server, id, peer }, ClientEvent::Refused { reason: client })
            if id == asked =>
        {
            assert_eq!(peer, Some(us()), "who it was is told");
            (server, client)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_who_is_let_in_is_served() {
    use memif::control::{Admission, Stranger};

    let name = format!("quiver-admission-{}", std::process::id());
    let address = Address::abstract_name(name);
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let only = |admission| ServerConfig { admission, ..server(0) };
    let own = Some("/proc/self/ns/pid".into());
    let mut listener = listen(
        &address,
        [
            (0, only(Admission { uids: vec![uid], gids: vec![gid], pid_namespace: own })),
            (1, only(Admission { uids: vec![uid + 1], ..Admission::default() })),
            (2, only(Admission { gids: vec![gid + 1], ..Admission::default() })),
            (3, only(Admission { pid_namespace: Some("/proc/self/ns/net".into()), ..Admission::default() })),
        ],
    );
    let strangers = [Stranger::User(uid), Stranger::Group(gid), Stranger::ProcessNamespace];
    for (id, stranger) in (1..).zip(strangers) {
        let expected = Reason::NotAllowed(stranger);
        let (ours, theirs) = refused(&mut listener, client(id), &address);
        assert!(matches!(theirs, Reason::Peer { text, .. } if text == expected.text()));
        assert_eq!(ours, expected);
    }
    assert_eq!(listener.ended().get("not-allowed"), Some(&3));
    let mut welcome = dial(&address, client(0));
    connect(&mut listener, &mut [&mut welcome]);
}

#[test]
fn several_interfaces_share_a_socket() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::path(directory.path().join("memif.sock"));
    let mut listener = listen(&address, (0..4).map(|id| (id, server(id))));
    assert_eq!(listener.register(2, server(2)).unwrap_err().cause, Error::Registered { id: 2 });
    let mut clients: Vec<_> = (0..4).map(|id| dial(&address, client(id))).collect();
    let mut connections = connect(&mut listener, &mut clients.iter_mut().collect::<Vec<_>>());
    for (id, (client, server)) in connections.iter_mut().enumerate() {
        exchange(client, server);
        assert_eq!(server.peer.interface.as_str(), format!("client{id}"));
        assert_eq!(client.peer.interface.as_str(), format!("server{id}"));
        assert_eq!(client.peer.application.as_str(), "test-server");
        assert!(listener.is_connected(id as u32));
    }
}

#[test]
fn sizes_and_counts_are_what_both_sides_can() {
    let address = Address::abstract_name(format!("quiver-test-sizes-{}", std::process::id()));
    let limits = ServerConfig {
        max_rx_queues: 2,
        max_tx_queues: 1,
        max_ring_size: RingSize::from_descriptors(128).unwrap(),
        ..server(0)
    };
    let mut listener = listen(&address, [(0, limits)]);
    let mut config = client(0);
    config.queues =
        QueueConfig { rx_queues: 4, tx_queues: 4, ring_size: RingSize::default(), ..small_queues() };
    let mut client = dial(&address, config);
    let (mut client, mut server) = connect(&mut listener, &mut [&mut client]).remove(0);
    assert_eq!((client.tx.len(), client.rx.len()), (2, 1));
    for connection in [&client, &server] {
        assert_eq!(connection.rx[0].ring_size().descriptors(), 128);
        assert_eq!(connection.tx[0].ring_size().descriptors(), 128);
    }
    assert_eq!(client.tx[1].buffer_size(), Some(2048));
    exchange(&mut client, &mut server);
}

#[test]
fn ip_mode() {
    let address = Address::abstract_name(format!("quiver-test-ip-{}", std::process::id()));
    let mut listener = listen(&address, [(7, ServerConfig { mode: Mode::Ip, ..server(7) })]);
    let mut ip = dial(&address, ClientConfig { mode: Mode::Ip, ..client(7) });
    let (client_end, server_end) = connect(&mut listener, &mut [&mut ip]).remove(0);
    assert_eq!((client_end.mode, server_end.mode), (Mode::Ip, Mode::Ip));
}

#[test]
fn who_may_not_connect_is_told_why() {
    let address = Address::abstract_name(format!("quiver-test-refuse-{}", std::process::id()));
    let secret = |text| Some(Secret::new(text).unwrap());
    let guarded = ServerConfig { secret: secret("open sesame"), ..server(1) };
    let mut listener = listen(&address, [(0, server(0)), (1, guarded)]);
    for (config, expected) in [
        (client(9), Reason::UnknownInterface(9)),
        (ClientConfig { mode: Mode::Ip, ..client(0) }, Reason::Mode { interface: Mode::Ethernet, peer: 1 }),
        (client(1), Reason::SecretRequired),
        (ClientConfig { secret: secret("open sesam"), ..client(1) }, Reason::WrongSecret),
        (ClientConfig { secret: secret("open sesame!"), ..client(1) }, Reason::WrongSecret),
    ] {
        let (server, client) = refused(&mut listener, config, &address);
        let code = expected.refusal().map_or(0, Refusal::code);
        assert_eq!(client, Reason::Peer { code, text: expected.text() });
        assert_eq!(client.refusal(), expected.refusal());
        assert_eq!(server, expected);
    }
    let mut right = dial(&address, ClientConfig { secret: secret("open sesame"), ..client(1) });
    connect(&mut listener, &mut [&mut right]);
    let second = ClientConfig { secret: secret("open sesame"), ..client(1) };
    assert_eq!(refused(&mut listener, second, &address).0, Reason::AlreadyConnected(1));
    let wrong = ClientConfig { secret: secret("?"), ..client(1) };
    assert_eq!(refused(&mut listener, wrong, &address).0, Reason::WrongSecret, "before AlreadyConnected");
}

#[test]
fn a_client_reconnects_when_its_server_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::path(directory.path().join("memif.sock"));
    let mut client = dial(&address, client(0));
    let (_, happened) = drive(None, &mut [&mut client], |_, h| !h[0].is_empty());
    assert!(matches!(happened[0][0], ClientEvent::Unreachable { .. }));
    for _ in 0..3 {
        let mut listener = listen(&address, [(0, server(0))]);
        let (mut a, mut b) = connect(&mut listener, &mut [&mut client]).remove(0);
        exchange(&mut a, &mut b);
        drop(listener);
        let (_, happened) = drive(None, &mut [&mut client], |_, h| !h[0].is_empty());
        let ClientEvent::Disconnected { reason: Reason::Peer { text, .. } } = &happened[0][0] else {
            panic!("{happened:?}")
        };
        assert_eq!(text.as_str(), "server closed");
        assert!(!client.is_connected());
        // Memory outlives the control channel: what still uses it does no harm.
        exchange(&mut a, &mut b);
    }
}

#[test]
fn a_server_takes_the_next_client() {
    let address = Address::abstract_name(format!("quiver-test-next-{}", std::process::id()));
    let mut listener = listen(&address, [(0, server(0))]);
    for _ in 0..3 {
        let mut client = dial(&address, client(0));
        connect(&mut listener, &mut [&mut client]);
        drop(client);
        let (served, _) = drive(Some(&mut listener), &mut [], |s, _| !s.is_empty());
        assert!(matches!(
            &served[0],
            ServerEvent::Disconnected { id: 0, reason: Reason::Peer { text, .. } } if text.as_str() == "client closed"
        ));
        assert!(!listener.is_connected(0));
    }
}

#[test]
fn an_interface_can_be_taken_away_and_a_client_thrown_out() {
    let address = Address::abstract_name(format!("quiver-test-away-{}", std::process::id()));
    let mut listener = listen(&address, [(0, server(0)), (1, server(1))]);
    let (mut zero, mut one) = (dial(&address, client(0)), dial(&address, client(1)));
    connect(&mut listener, &mut [&mut zero, &mut one]);
    assert!(listener.disconnect(1, &Reason::Local("wrong kind of packets".into())));
    assert!(listener.unregister(0));
    assert!(!listener.unregister(0));
    let (_, happened) = drive(None, &mut [&mut zero, &mut one], |_, h| h.iter().all(|h| !h.is_empty()));
    for (events, expected) in happened.iter().zip(["interface deleted", "wrong kind of packets"]) {
        assert!(
            matches!(&events[0], ClientEvent::Disconnected { reason: Reason::Peer { text, .. } } if text.as_str() == expected)
        );
    }
    let (served, happened) = drive(Some(&mut listener), &mut [&mut zero, &mut one], |s, h| {
        h[0].iter().any(|e| matches!(e, ClientEvent::Refused { .. }))
            && s.iter().any(|e| matches!(e, ServerEvent::Connected(_)))
            && h[1].iter().any(|e| matches!(e, ClientEvent::Connected(_)))
    });
    let back = served.into_iter().find_map(server_connection).unwrap();
    assert_eq!(back.id, 1);
    assert!(happened.into_iter().flatten().find_map(client_connection).is_some());
}

#[test]
fn a_slow_handshake_is_ended_and_cannot_keep_others_out() {
    let address = Address::abstract_name(format!("quiver-test-slow-{}", std::process::id()));
    let settings = ListenerSettings { max_handshakes: 3, ..ListenerSettings::default() };
    let mut listener = Listener::bind(&address, settings).unwrap();
    listener.register(0, server(0)).unwrap();
    let now = Instant::now();
    let lurk = || {
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let kind = rustix::net::SocketType::SEQPACKET;
        let fd = rustix::net::socket_with(rustix::net::AddressFamily::UNIX, kind, flags, None).unwrap();
        let name = format!("quiver-test-slow-{}", std::process::id());
        let name = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        rustix::net::connect(&fd, &name).unwrap();
        fd
    };
    let mut lurkers: Vec<_> = (0..5).map(|_| lurk()).collect();
    let served = listener.process(now).unwrap();
    assert_eq!(served.len(), 2, "two of five are one too many: {served:?}");
    for event in served {
        let ServerEvent::Refused { id: None, peer, reason: Reason::TooManyConnections } = event else {
            panic!("{event:?}")
        };
        assert_eq!(peer, Some(us()));
    }
    let under_way: Vec<_> = listener.handshakes().collect();
    assert_eq!(under_way, [Handshake { peer: Some(us()), id: None, since: now }; 3]);
    let mut client = dial(&address, client(0));
    connect_ignoring_refusals(&mut listener, &mut client);
    assert_eq!(listener.handshakes().count(), 2, "who is connected is in none any more");
    lurkers.push(lurk());
    assert!(listener.process(now).unwrap().is_empty());
    let deadline = listener.next_deadline().unwrap();
    assert!(deadline > now && deadline <= now + Duration::from_secs(25));
    let served = listener.process(deadline + Duration::from_secs(60)).unwrap();
    assert!(!served.is_empty());
    for event in served {
        assert!(matches!(event, ServerEvent::Refused { id: None, reason: Reason::Timeout, .. }));
    }
    assert_eq!(listener.next_deadline(), None);
    assert!(listener.is_connected(0), "whoever is connected has no deadline");
}

/// Each message comes well within the limit: what counts is when the handshake began.
#[test]
fn hostile_messages_during_a_handshake_give_no_more_time() {
    let name = format!("quiver-test-drip-{}", std::process::id());
    let (address, limit) = (Address::abstract_name(name.clone()), Duration::from_secs(5));
    let settings = ListenerSettings { handshake_timeout: limit, ..ListenerSettings::default() };
    let mut listener = Listener::bind(&address, settings).unwrap();
    listener.register(0, server(0)).unwrap();
    let (begin, peer) = (Instant::now(), raw::Raw::connect(&name));
    assert_eq!(listener.process(begin).unwrap().len(), 0);
    let mut served = Vec::new();
    let under_way = |listener: &Listener| listener.handshakes().map(|one| one.id).collect::<Vec<_>>();
    assert_eq!(under_way(&listener), [None], "it has claimed nothing");
    for (message, tenths) in raw::handshake().iter().zip([2, 6, 9, 12, 15]) {
        peer.say(message);
        // It may take a moment until the socket has it.
        for _ in 0..10 {
            served.extend(listener.process(begin + limit * tenths / 10).unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
        let over = tenths > 10;
        assert_eq!(under_way(&listener), if over { vec![] } else { vec![Some(0)] });
        assert_eq!(served.len(), usize::from(over), "{tenths} tenths of the limit: {served:?}");
    }
    assert!(matches!(served[..], [ServerEvent::Refused { reason: Reason::Timeout, .. }]), "{served:?}");
    // And the other role: a server that says HELLO late, and nothing then.
    let listening = listen_by_hand(&format!("{name}-server"));
    let timing = ClientTiming { handshake_timeout: limit, ..ClientTiming::default() };
    let address = Address::abstract_name(format!("{name}-server"));
    let mut client = Client::new(address, client(0), timing).unwrap();
    assert!(client.process(begin).is_empty());
    let server = raw::Raw::serve(&listening);
    server.say(&Message::Hello(Hello {
        min_version: VERSION,
        max_version: VERSION,
        max_region: 255,
        max_s2m_ring: 0,
        max_m2s_ring: 0,
        max_log2_ring_size: 14,
        name: "late".into(),
    }));
    assert!(client.process(begin + limit * 8 / 10).is_empty());
    let told = client.process(begin + limit);
    assert!(matches!(told[..], [ClientEvent::Refused { reason: Reason::Timeout }]), "{told:?}");
}

fn listen_by_hand(name: &str) -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
    let kind = SocketType::SEQPACKET;
    let listening = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    bind(&listening, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
    listen(&listening, 1).unwrap();
    listening
}

fn connect_ignoring_refusals(listener: &mut Listener, client: &mut Client) {
    drive(Some(listener), &mut [client], |s, h| {
        s.iter().any(|e| matches!(e, ServerEvent::Connected(_)))
            && h[0].iter().any(|e| matches!(e, ClientEvent::Connected(_)))
    });
}

#[test]
fn a_client_gives_up_on_a_silent_server() {
    let address = Address::abstract_name(format!("quiver-test-silent-{}", std::process::id()));
    let _never_processed = listen(&address, []);
    let mut client = dial(&address, client(0));
    let now = Instant::now();
    assert!(client.process(now).is_empty());
    let deadline = client.next_deadline().unwrap();
    assert_eq!(deadline, now + ClientTiming::default().handshake_timeout);
    let events = client.process(deadline);
    assert!(matches!(events[..], [ClientEvent::Refused { reason: Reason::Timeout }]));
    assert_eq!(client.next_deadline(), Some(deadline + ClientTiming::default().min_backoff));
}

#[test]
fn attempts_get_rarer_and_are_told_once() {
    let address = Address::abstract_name("quiver-test-nobody");
    let mut client = dial(&address, client(0));
    let mut now = Instant::now();
    let timing = ClientTiming::default();
    let mut expected = timing.min_backoff;
    for attempt in 0..10 {
        let events = client.process(now);
        assert_eq!(events.len(), usize::from(attempt == 0));
        let next = client.next_deadline().unwrap();
        assert_eq!(next - now, expected);
        expected = (expected * 2).min(timing.max_backoff);
        now = next;
    }
}

#[test]
fn a_path_may_be_longer_than_a_socket_address() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("d".repeat(120)).join("e".repeat(120));
    std::fs::create_dir_all(&deep).unwrap();
    let address = Address::path(deep.join("memif.sock"));
    let mut listener = listen(&address, [(0, server(0))]);
    let mut client = dial(&address, client(0));
    connect(&mut listener, &mut [&mut client]);
    assert!(matches!(
        Listener::bind(&address, ListenerSettings::default()).unwrap_err().cause,
        Error::InUse { .. }
    ));
}
