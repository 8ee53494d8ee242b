//! Every public call that can fail says for which interface, and why.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Packets, Source, client_connection, drive, packet, server_connection, small_queues};
use memif::app::{Batch, Port};
use memif::layout::Layout;
use memif::region::HugePages;
use memif::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, Error, Fault, InterfaceError,
    Listener, ListenerSettings, Pool, QueueConfig, QueueError, QueueName, RingSize, RxQueue, ServerConfig,
    ServerEvent, TxQueue, in_process,
};
use memory::simd::{Simd, Tier, TierTask};

const ID: u32 = 7;

/// An address of its own, and how errors of its interface begin.
fn place(test: &str) -> (Address, String) {
    let address = Address::abstract_name(format!("quiver-errors-{test}-{}", std::process::id()));
    let interface = format!("{address} id {ID}");
    (address, interface)
}

fn said<T>(result: Result<T, InterfaceError>, interface: &str, cause: &str) {
    let error = result.err().unwrap_or_else(|| panic!("{interface}: {cause}: it didn't fail"));
    assert_eq!(error.interface, interface, "{error}");
    let text = error.to_string();
    assert!(text.starts_with(interface) && error.cause.to_string().contains(cause), "{text}");
    assert!(text.contains(cause), "{text}");
}

#[test]
fn calls_on_sockets_name_the_interface_and_the_cause() {
    let (address, interface) = place("calls");
    let socket = address.to_string();
    let client = |address: &Address, queues| {
        let config = ClientConfig { id: ID, queues, ..ClientConfig::default() };
        Client::new(address.clone(), config, ClientTiming::default())
    };
    let none = QueueConfig { rx_queues: 0, tx_queues: 0, ..small_queues() };
    said(client(&address, none.clone()), &interface, "is not in 1..=256");
    // Before there is a server to ask, and told by what is to be changed.
    let (queues, ring_size) = (256, RingSize::MAX);
    let large = QueueConfig { rx_queues: queues, tx_queues: queues, ring_size, ..small_queues() };
    let largest = QueueConfig { ring_size: RingSize::from_descriptors(2048).unwrap(), ..large.clone() };
    let words = "512 queues of 16384 buffers of 2048 bytes need 17851023360 bytes, at most 4294967296 can be had: take fewer \
                 queues, smaller rings or buffers";
    said(client(&address, large), &interface, words);
    assert!(client(&address, largest).is_ok());
    said(client(&Address::path(""), small_queues()), " id 7", "it is empty");
    said(Listener::bind(&Address::abstract_name(""), ListenerSettings::default()), "@", "it is empty");
    let mut listener = Listener::bind(&address, ListenerSettings::default()).unwrap();
    said(Listener::bind(&address, ListenerSettings::default()), &socket, "is in use");
    let no_queues = ServerConfig { max_rx_queues: 0, max_tx_queues: 0, ..ServerConfig::default() };
    said(listener.register(ID, no_queues), &interface, "is not in 1..=256");
    listener.register(ID, ServerConfig::default()).unwrap();
    said(listener.register(ID, ServerConfig::default()), &interface, "already registered");
    said(in_process(&none), "in process", "is not in 1..=256");
    // What a program shows whose `main` returns it.
    let shown = format!("{:?}", in_process(&none).unwrap_err());
    assert!(shown.starts_with("in process: ") && shown.ends_with("is not in 1..=256"), "{shown}");
    said(Pool::new("cnfs", 0, 2048, HugePages::Never), "trust group cnfs", "buffers of a pool 0 is not in");

    let directory = tempfile::tempdir().unwrap();
    let path = Address::path(directory.path().join("memif.sock"));
    let mut listener = Listener::bind(&path, ListenerSettings::default()).unwrap();
    std::fs::remove_file(directory.path().join("memif.sock")).unwrap();
    said(listener.set_file(0o600, None, None), &path.to_string(), "find the socket's file");
}

#[test]
fn calls_on_ports_name_the_interface_and_the_cause() {
    let (address, interface) = place("ports");
    let server = || {
        let (config, settings) = (ServerConfig::default(), ListenerSettings::default());
        Port::server(&address, ID, config, settings)
    };
    let client = |queues| {
        let config = ClientConfig { id: ID, queues, ..ClientConfig::default() };
        Port::client(address.clone(), config, ClientTiming::default())
    };
    said(client(QueueConfig { buffer_size: 1, ..small_queues() }), &interface, "buffer size 1 is not in");
    let (mut first, mut batch) = (server().unwrap(), Batch::new(8));
    said(server(), &interface, "is in use");
    said(first.receive_from(256, &mut batch), &interface, "no queue 256 to receive from: there are 256");
    said(first.send_on(256, &[[0; 60]]), &interface, "no queue 256 to send to: there are 256");
    let mut second = client(small_queues()).unwrap();
    for break_rx in [true, false] {
        while first.connection().is_none() || second.connection().is_none() {
            let _ = (first.poll().unwrap(), second.poll().unwrap());
        }
        spoil(second.connection().unwrap());
        let failed = if break_rx { first.receive(&mut batch) } else { first.send(&[[0; 60]]) };
        assert!(matches!(failed.as_ref().unwrap_err().cause, Error::Disconnected(_)));
        said(failed, &interface, "is impossible");
        while second.connection().is_some() {
            let _ = second.poll().unwrap();
        }
    }
}

/// Indices of both rings that neither of both sides can have written.
fn spoil(client: &Connection) {
    let layout = Layout { tx_rings: 1, rx_rings: 1, ring_size: RingSize::MIN, buffer_size: 2048 };
    let regions = client.rx[0].regions();
    for ring in [layout.tx_ring(0), layout.rx_ring(0)] {
        for index in [6, 64] {
            let word = regions.check(0, ring as u32 + index, 2).unwrap();
            word.write(&30_000_u16.to_le_bytes());
        }
    }
}

/// Calls of a dataplane. That in two steps, which is for unsafe code only, is in the fuzzers' harness.
enum Call<'q> {
    Receive(&'q mut RxQueue),
    Transmit(&'q mut TxQueue),
}

impl TierTask for Call<'_> {
    type Output = Result<(), QueueError>;

    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let mut packets = memory::packet::Packets::new();
        match self {
            Self::Receive(queue) => queue.receive_packets(simd, &mut packets, 1, 8).map(drop),
            Self::Transmit(queue) => queue.transmit_packets(simd, &packets, &[]).map(drop),
        }
    }
}

#[test]
fn calls_on_queues_name_interface_queue_and_fault() {
    let (address, interface) = place("queues");
    let mut listener = Listener::bind(&address, ListenerSettings::default()).unwrap();
    listener.register(ID, ServerConfig::default()).unwrap();
    let config = ClientConfig { id: ID, queues: small_queues(), ..ClientConfig::default() };
    let mut client = Client::new(address, config, ClientTiming::default()).unwrap();
    let up = |served: &[ServerEvent], happened: &[Vec<ClientEvent>]| {
        served.iter().any(|event| matches!(event, ServerEvent::Connected(_)))
            && happened[0].iter().any(|event| matches!(event, ClientEvent::Connected(_)))
    };
    let (served, mut happened) = drive(Some(&mut listener), &mut [&mut client], up);
    let server = served.into_iter().find_map(server_connection).unwrap();
    let client = happened.remove(0).into_iter().find_map(client_connection).unwrap();
    let (inner_client, inner_server) = in_process(&small_queues()).unwrap();
    spoil(&client);
    spoil(&inner_client);
    let ends = [
        (server, interface.as_str()),
        (client, interface.as_str()),
        (inner_client, "in process, client"),
        (inner_server, "in process, server"),
    ];
    for (mut end, interface) in ends {
        let check = |result: Result<(), QueueError>, queue, call: &str| {
            let error = result.expect_err(call);
            assert_eq!((&*error.interface, error.queue), (interface, queue), "{call}: {error}");
            assert!(matches!(error.fault, Fault::Index(_)), "{call}: {error}");
            assert_eq!(error.to_string(), format!("{interface}: {queue}: {}", error.fault));
        };
        let (rx, tx, tier) = (&mut end.rx[0], &mut end.tx[0], Tier::detect());
        let name = QueueName::Rx(0);
        check(rx.receive(8, &mut Packets::default()).map(drop), name, "receive");
        check(rx.recv_batch(&mut Batch::new(8)).map(drop), name, "recv_batch");
        check(rx.arm().map(drop), name, "arm");
        check(tier.dispatch(Call::Receive(rx)), name, "receive_packets");
        let (name, packets) = (QueueName::Tx(0), [packet(0, 60)]);
        let mut source = Source { packets: &packets, refused: Vec::new() };
        check(tx.room().map(drop), name, "room");
        check(tx.transmit(1, &mut source).map(drop), name, "transmit");
        check(tx.send_batch(&packets).map(drop), name, "send_batch");
        check(tier.dispatch(Call::Transmit(tx)), name, "transmit_packets");
    }
}
