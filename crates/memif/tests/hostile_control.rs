//! A client that says anything, at any time: each lie costs it the connection, with a reason, and nobody else
//! anything.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/lingering.rs"]
mod lingering;
#[path = "common/raw.rs"]
mod raw;

use std::os::fd::{AsFd, OwnedFd};

use common::{connect, exchange, settle, small_queues};
use lingering::{close, lingering};
use memif::control::{AddRegion, AddRing, Init, Message, RING_S2M, VERSION};
use memif::region::RegionError;
use memif::ring::{RingError, RingSize, RingView};
use memif::{
    Address, Client, ClientConfig, ClientTiming, Listener, ListenerSettings, Mode, Reason, ServerConfig,
    ServerEvent,
};
use raw::{RING, Raw, SIZE, connect_message, handshake, init, region, rings};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

fn server() -> ServerConfig {
    ServerConfig {
        max_regions: 2,
        max_rx_queues: 2,
        max_tx_queues: 1,
        max_memory: 1 << 20,
        max_ring_size: SIZE,
        ..ServerConfig::default()
    }
}

struct Server {
    name: String,
    listener: Listener,
}

impl Server {
    fn new(test: &str) -> Self {
        let name = format!("quiver-hostile-{test}-{}", std::process::id());
        let mut listener =
            Listener::bind(&Address::abstract_name(&name), ListenerSettings::default()).unwrap();
        listener.register(0, server()).unwrap();
        Self { name, listener }
    }

    fn process(&mut self) -> Vec<ServerEvent> {
        settle(&mut self.listener)
    }

    /// Lets a client act; gives why it was turned away, which it must have been told, too.
    fn reason(&mut self, act: impl FnOnce(&Raw)) -> Reason {
        let raw = Raw::connect(&self.name);
        act(&raw);
        let mut events = self.process();
        assert_eq!(events.len(), 1, "{events:?}");
        let (ServerEvent::Refused { reason, .. } | ServerEvent::Disconnected { reason, .. }) =
            events.remove(0)
        else {
            panic!("connected")
        };
        let Some(Message::Disconnect { reason: told, .. }) = raw.hear().pop() else { panic!("not told") };
        assert_eq!(told, reason.text());
        reason
    }

    /// The reason when these messages are said one after another.
    fn reason_for(&mut self, messages: &[Message]) -> Reason {
        self.reason(|raw| messages.iter().for_each(|message| raw.say(message)))
    }

    /// After all that, whoever behaves is served as ever.
    fn still_serves(&mut self) {
        let config = ClientConfig { queues: small_queues(), ..ClientConfig::default() };
        let address = Address::abstract_name(&self.name);
        let mut client = Client::new(address, config, ClientTiming::default()).unwrap();
        let (mut a, mut b) = connect(&mut self.listener, &mut [&mut client]).remove(0);
        exchange(&mut a, &mut b);
    }
}

fn ring(change: impl FnOnce(&mut AddRing)) -> Message {
    let mut ring = RING;
    change(&mut ring);
    Message::AddRing(ring)
}

#[test]
fn a_good_handshake_by_hand() {
    let mut server = Server::new("good");
    let raw = Raw::connect(&server.name);
    handshake().iter().for_each(|message| raw.say(message));
    let events = server.process();
    assert!(matches!(&events[..], [ServerEvent::Connected(_)]), "{events:?}");
    let heard: Vec<_> = raw.hear().iter().map(Message::name).collect();
    assert_eq!(heard, ["HELLO", "ACK", "ACK", "ACK", "ACK", "CONNECTED"]);
    // Whatever is said afterwards, but DISCONNECT, is out of place: the data path is running.
    for message in handshake() {
        let mut all = handshake();
        all.push(message.clone());
        drop(server);
        server = Server::new("good");
        let raw = Raw::connect(&server.name);
        all.iter().for_each(|message| raw.say(message));
        let events = server.process();
        let [ServerEvent::Connected(_), ServerEvent::Disconnected { id: 0, reason }] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(reason, &Reason::Unexpected { message: message.name(), state: "connected" });
    }
}

#[test]
fn hostile_messages_out_of_place() {
    let mut server = Server::new("order");
    let [tx, rx] = rings();
    let waiting = "waiting for INIT";
    let announcing = "waiting for regions, rings and CONNECT";
    for (messages, message, state) in [
        (vec![region()], "ADD_REGION", waiting),
        (vec![tx.clone()], "ADD_RING", waiting),
        (vec![connect_message()], "CONNECT", waiting),
        (vec![Message::Ack], "ACK", waiting),
        (vec![Message::Connected { interface: "x".into() }], "CONNECTED", waiting),
        (vec![init(), init()], "INIT", announcing),
        (vec![init(), Message::Ack], "ACK", announcing),
        (vec![init(), region(), tx, region()], "ADD_REGION", "rings are announced"),
        (vec![init(), region(), rx.clone(), region()], "ADD_REGION", "rings are announced"),
    ] {
        assert_eq!(server.reason_for(&messages), Reason::Unexpected { message, state });
    }
    assert_eq!(server.reason_for(&[init(), connect_message()]), Reason::NoRings);
    assert_eq!(server.reason_for(&[init(), region(), connect_message()]), Reason::NoRings);
    for (bytes, expected) in [
        (vec![1; 5], Reason::MessageSize(5)),
        (vec![1; 127], Reason::MessageSize(127)),
        (vec![1; 500], Reason::MessageSize(129)),
        (vec![0; 128], Reason::UnknownMessage(0)),
        (vec![9; 128], Reason::UnknownMessage(0x0909)),
    ] {
        assert_eq!(server.reason(|raw| raw.send(&bytes, &[])), expected);
    }
    server.still_serves();
}

#[test]
fn hostile_inits() {
    let mut server = Server::new("init");
    let change = |change: fn(&mut Init)| {
        let mut init = Init { version: VERSION, id: 0, mode: 0, secret: None, name: "\u{1b}[31mraw".into() };
        change(&mut init);
        Message::Init(init)
    };
    let mode = |peer| Reason::Mode { interface: Mode::Ethernet, peer };
    for (init, expected) in [
        (change(|i| i.version = 0x0100), Reason::Version(0x0100)),
        (change(|i| i.version = 0x0201), Reason::Version(0x0201)),
        (change(|i| i.id = 1), Reason::UnknownInterface(1)),
        (change(|i| i.id = u32::MAX), Reason::UnknownInterface(u32::MAX)),
        (change(|i| i.mode = 1), mode(1)),
        (change(|i| i.mode = 2), mode(2)),
        (change(|i| i.mode = 255), mode(255)),
    ] {
        assert_eq!(server.reason_for(&[init]), expected);
    }
    server.still_serves();
}

#[test]
fn hostile_regions() {
    let mut server = Server::new("region");
    let say = |index, size| Message::AddRegion(AddRegion { index, size });
    for (regions, expected) in [
        (vec![say(1, 4096)], Reason::RegionIndex { index: 1, expected: 0 }),
        (vec![say(u16::MAX, 4096)], Reason::RegionIndex { index: u16::MAX, expected: 0 }),
        (vec![say(0, 4096), say(0, 4096)], Reason::RegionIndex { index: 0, expected: 1 }),
        (vec![say(0, 4096), say(1, 4096)], RegionError::SealedAgainstWriting.into()),
        (vec![say(0, 0)], RegionError::Size(0).into()),
        (vec![say(0, 65_537)], RegionError::Truncated { claimed: 65_537, actual: 65_536 }.into()),
        (vec![say(0, 1 << 21)], Reason::TooMuchMemory { total: 1 << 21, max: 1 << 20 }),
        (vec![say(0, 65_536), say(1, u64::MAX)], Reason::TooMuchMemory { total: u64::MAX, max: 1 << 20 }),
    ] {
        assert_eq!(server.reason_for(&[vec![init()], regions].concat()), expected);
    }

    let memfd = |seals| -> OwnedFd {
        let fd = memfd_create("hostile", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, 65_536).unwrap();
        fcntl_add_seals(&fd, seals).unwrap();
        fd
    };
    let with = |raw: &Raw, fds: &[OwnedFd]| {
        raw.say(&init());
        raw.send(&region().encode(), &fds.iter().map(AsFd::as_fd).collect::<Vec<_>>());
    };
    let wrong = |count| Reason::FileDescriptors { message: "ADD_REGION", count, expected: 1 };
    assert_eq!(server.reason(|raw| with(raw, &[])), wrong(0));
    let two = [memfd(SealFlags::SHRINK), memfd(SealFlags::SHRINK)];
    assert_eq!(server.reason(|raw| with(raw, &two)), wrong(2));
    let unsealed = memfd(SealFlags::GROW);
    assert_eq!(server.reason(|raw| with(raw, &[unsealed])), RegionError::Unsealed.into());
    let pipe = rustix::pipe::pipe().unwrap().0;
    let reason = server.reason(|raw| with(raw, &[pipe]));
    assert!(matches!(reason, Reason::Region(RegionError::NotMemory(_))), "{reason}");
    server.still_serves();
}

#[test]
fn hostile_rings() {
    let mut server = Server::new("ring");
    let outside = |region, offset| RingError::Outside { region, offset, descriptors: 64 }.into();
    let last = 65_536 - RingView::bytes(SIZE);
    for (ring, expected) in [
        (ring(|r| r.region = 1), outside(1, 0)),
        (ring(|r| r.region = u16::MAX), outside(u16::MAX, 0)),
        (ring(|r| r.offset = last + 64), outside(0, last + 64)),
        (ring(|r| r.offset = u32::MAX), outside(0, u32::MAX)),
        (ring(|r| r.offset = u32::MAX - 1151), outside(0, u32::MAX - 1151)),
        (ring(|r| r.log2_ring_size = 0), Reason::RingSize { log2: 0, max: 6 }),
        (ring(|r| r.log2_ring_size = 5), Reason::RingSize { log2: 5, max: 6 }),
        (ring(|r| r.log2_ring_size = 7), Reason::RingSize { log2: 7, max: 6 }),
        (ring(|r| r.log2_ring_size = 15), Reason::RingSize { log2: 15, max: 6 }),
        (ring(|r| r.log2_ring_size = 255), Reason::RingSize { log2: 255, max: 6 }),
        (ring(|r| r.flags = 2), Reason::RingFlags(2)),
        (ring(|r| r.flags = u16::MAX), Reason::RingFlags(u16::MAX)),
        (ring(|r| r.private_hdr_size = 1), Reason::PrivateHeader),
        (ring(|r| r.index = 1), Reason::RingIndex { index: 1, expected: 0 }),
        (ring(|r| r.index = u16::MAX), Reason::RingIndex { index: u16::MAX, expected: 0 }),
    ] {
        assert_eq!(server.reason_for(&[init(), region(), ring.clone()]), expected, "{ring:?}");
    }
    let next = |flags, index| ring(|r| (r.flags, r.index) = (flags, index));
    for (rings, expected) in [
        (vec![next(0, 0), next(0, 1)], Reason::TooManyRings(1)),
        (vec![next(RING_S2M, 0), next(RING_S2M, 1), next(RING_S2M, 2)], Reason::TooManyRings(2)),
        (vec![next(RING_S2M, 0), next(RING_S2M, 0)], Reason::RingIndex { index: 0, expected: 1 }),
    ] {
        assert_eq!(server.reason_for(&[vec![init(), region()], rings].concat()), expected);
    }
    // Without the region it would lie in.
    assert_eq!(server.reason_for(&[init(), ring(|_| ())]), outside(0, 0));

    let wrong = |count| Reason::FileDescriptors { message: "ADD_RING", count, expected: 1 };
    let with = |raw: &Raw, fds: &[OwnedFd]| {
        raw.say(&init());
        raw.say(&region());
        raw.send(&Message::AddRing(RING).encode(), &fds.iter().map(AsFd::as_fd).collect::<Vec<_>>());
    };
    assert_eq!(server.reason(|raw| with(raw, &[])), wrong(0));
    // A pipe that nobody reads would block whoever writes to it.
    let (read_end, write_end) = rustix::pipe::pipe().unwrap();
    let reason = server.reason(|raw| with(raw, &[write_end]));
    assert!(matches!(reason, Reason::NotAnEventfd(_)), "{reason}");
    drop(read_end);

    let at = |offset| [init(), region(), ring(|r| r.offset = offset), connect_message()];
    assert_eq!(server.reason_for(&at(8)), RingError::Misaligned(8).into());
    assert_eq!(server.reason_for(&at(last)), RingError::Cookie(0).into());
    server.still_serves();
}

/// HELLO comes before it is known whose client it is, so it says the most that any interface of the socket takes.
#[test]
fn rings_that_only_another_interface_takes() {
    let mut server = Server::new("other");
    let large = ServerConfig { max_ring_size: RingSize::from_descriptors(1024).unwrap(), ..self::server() };
    server.listener.register(1, large).unwrap();
    let raw = Raw::connect(&server.name);
    server.process();
    let heard = raw.hear();
    assert!(matches!(&heard[..], [Message::Hello(hello)] if hello.max_log2_ring_size == 10), "{heard:?}");
    drop(raw);
    server.process();

    let of = |id, log2| {
        let Message::Init(init) = init() else { panic!("not INIT") };
        [Message::Init(Init { id, ..init }), region(), ring(|r| r.log2_ring_size = log2)]
    };
    for (id, log2, max) in [(0, 10, 6), (0, 7, 6), (1, 11, 10)] {
        assert_eq!(server.reason_for(&of(id, log2)), Reason::RingSize { log2, max }, "interface {id}");
    }
    let raw = Raw::connect(&server.name);
    of(1, 10).iter().chain([&connect_message()]).for_each(|message| raw.say(message));
    let events = server.process();
    assert!(matches!(&events[..], [ServerEvent::Connected(_)]), "{events:?}");
    drop((raw, events));
    server.still_serves();
}

#[test]
fn hostile_descriptors_where_none_belong() {
    let mut server = Server::new("fds");
    let event = memif::ring::Event::new("test").unwrap();
    for message in [init(), connect_message(), Message::Ack] {
        // From a stranger they aren't even taken.
        let reason = server.reason(|raw| raw.send(&message.encode(), &[event.fd()]));
        assert_eq!(reason, Reason::DescriptorsNotDue { message: message.name() });
        let wrong = Reason::FileDescriptors { message: message.name(), count: 1, expected: 0 };
        let reason = server.reason(|raw| {
            raw.send(&init().encode(), &[]);
            raw.send(&message.encode(), &[event.fd()]);
        });
        assert_eq!(reason, wrong);
    }
    server.still_serves();
}

/// Answers that nobody reads fill the socket: one that ends the handshake then can't be sent. Who was never told that a link is up must
/// not be told that it is down.
#[test]
fn hostile_peer_that_reads_no_answer() {
    let name = format!("quiver-hostile-unread-{}", std::process::id());
    let mut listener = Listener::bind(&Address::abstract_name(&name), ListenerSettings::default()).unwrap();
    let limits = ServerConfig { max_rx_queues: 256, max_tx_queues: 256, ..server() };
    listener.register(0, limits).unwrap();
    let mut full = 0;
    for count in 200..400_u16 {
        let raw = Raw::connect(&name);
        let mut messages = vec![init(), region()];
        messages.extend((0..count).map(|n| {
            let flags = if n < 256 { RING_S2M } else { 0 };
            ring(|ring| (ring.index, ring.flags) = (n % 256, flags))
        }));
        messages.push(connect_message());
        let mut events = Vec::new();
        for some in messages.chunks(20) {
            some.iter().for_each(|message| raw.say(message));
            events.extend(settle(&mut listener));
        }
        drop(raw);
        events.extend(settle(&mut listener));
        match &events[..] {
            [ServerEvent::Connected(_), ServerEvent::Disconnected { .. }] => assert_eq!(full, 0),
            [ServerEvent::Refused { id: Some(0), reason: Reason::Socket(_), .. }] => full += 1,
            other => panic!("{count} rings: {other:?}"),
        }
        if full == 3 {
            return;
        }
    }
    panic!("the socket is never full");
}

/// A close that hangs holds the socket that it waits in, which is readable for ever then: nobody must be woken by it.
#[test]
fn hostile_close_that_hangs_keeps_nobody_awake() {
    let mut server = Server::new("awake");
    let (lingers, _unread) = lingering();
    server.reason(|raw| {
        // Behind a message that ends the connection: this one is never read.
        raw.send(&[1], &[]);
        raw.send(&init().encode(), &[lingers.as_fd()]);
        close(lingers);
    });
    let mut ready = [PollFd::from_borrowed_fd(server.listener.fd(), PollFlags::IN)];
    assert_eq!(rustix::event::poll(&mut ready, Some(&Timespec::default())).unwrap(), 0);
    server.still_serves();
}
