//! A sink and a source for tests: whole packets as vectors of bytes.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::{Duration, Instant};

use memif::region::{CheckedRange, HugePages};
use memif::{
    Client, ClientEvent, Connection, Fault, Listener, QueueConfig, RingSize, RxQueue, RxSink, ServerEvent,
    TxQueue, TxSource,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Collects packets.
#[derive(Debug, Default)]
pub struct Packets(pub Vec<Vec<u8>>);

fn bytes(range: CheckedRange<'_>) -> Vec<u8> {
    let mut bytes = vec![0; range.len() as usize];
    assert_eq!(range.read(&mut bytes), bytes.len());
    bytes
}

impl RxSink for Packets {
    fn packet(&mut self, range: CheckedRange<'_>) {
        self.0.push(bytes(range));
    }

    fn chain(&mut self, parts: &[CheckedRange<'_>], length: u32) {
        let packet: Vec<u8> = parts.iter().flat_map(|part| bytes(*part)).collect();
        assert_eq!(packet.len(), length as usize);
        self.0.push(packet);
    }
}

/// Gives packets.
#[derive(Debug)]
pub struct Source<'p> {
    pub packets: &'p [Vec<u8>],
    pub refused: Vec<usize>,
}

impl TxSource for Source<'_> {
    fn length(&mut self, packet: usize) -> u32 {
        self.packets[packet].len() as u32
    }

    fn write(&mut self, packet: usize, into: CheckedRange<'_>) {
        assert_eq!(into.write(&self.packets[packet]), self.packets[packet].len());
    }

    fn write_chain(&mut self, packet: usize, into: &[CheckedRange<'_>]) {
        let mut rest = &self.packets[packet][..];
        for part in into {
            rest = &rest[part.write(rest)..];
        }
        assert!(rest.is_empty());
    }

    fn refused(&mut self, packet: usize) -> bool {
        self.refused.push(packet);
        true
    }
}

/// Sends packets; gives how many were dealt with.
pub fn send(tx: &mut TxQueue, packets: &[Vec<u8>]) -> Result<usize, Fault> {
    let mut source = Source { packets, refused: Vec::new() };
    let done = tx.transmit(packets.len(), &mut source).map_err(|error| error.fault)?;
    assert_eq!(done.refused, source.refused.len());
    tx.notify();
    Ok(done.done())
}

/// Receives what is there.
pub fn receive(rx: &mut RxQueue) -> Result<Vec<Vec<u8>>, Fault> {
    let mut packets = Packets::default();
    let n = rx.receive(usize::MAX, &mut packets).map_err(|error| error.fault)?;
    assert_eq!(n, packets.0.len());
    rx.release();
    Ok(packets.0)
}

/// A packet whose bytes say which it is and where each belongs.
pub fn packet(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (number * 131 + i * 7 + i / 256) as u8).collect()
}

/// Drives both ends until `done` says so; panics with what happened if it doesn't for long.
pub fn drive(
    mut listener: Option<&mut Listener>,
    clients: &mut [&mut Client],
    mut done: impl FnMut(&[ServerEvent], &[Vec<ClientEvent>]) -> bool,
) -> (Vec<ServerEvent>, Vec<Vec<ClientEvent>>) {
    let started = Instant::now();
    let mut served = Vec::new();
    let mut happened: Vec<Vec<ClientEvent>> = clients.iter().map(|_| Vec::new()).collect();
    loop {
        if let Some(listener) = &mut listener {
            served.extend(listener.process(Instant::now()).unwrap());
        }
        for (client, happened) in clients.iter_mut().zip(&mut happened) {
            happened.extend(client.process(Instant::now()));
        }
        if done(&served, &happened) {
            return (served, happened);
        }
        assert!(started.elapsed() < PATIENCE, "it did not happen; this did: {served:#?} {happened:#?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// All that happens at a listener without anybody doing more: it may take several calls, and regions are mapped elsewhere.
pub fn settle(listener: &mut Listener) -> Vec<ServerEvent> {
    let (started, mut events) = (Instant::now(), Vec::new());
    loop {
        events.extend(listener.process(Instant::now()).unwrap());
        let mapping = listener.is_mapping();
        let mut ready = [PollFd::from_borrowed_fd(listener.fd(), PollFlags::IN)];
        if !mapping && poll(&mut ready, Some(&Timespec::default())).unwrap() == 0 {
            return events;
        }
        assert!(started.elapsed() < PATIENCE, "it doesn't settle: {events:?}");
        std::thread::yield_now();
    }
}

/// How long something may take that takes milliseconds on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Drives until all clients are connected; gives (client's, server's) connections in the clients' order.
pub fn connect(listener: &mut Listener, clients: &mut [&mut Client]) -> Vec<(Connection, Connection)> {
    let n = clients.len();
    let connected = |served: &[ServerEvent], happened: &[Vec<ClientEvent>]| {
        served.iter().filter(|e| matches!(e, ServerEvent::Connected(_))).count() == n
            && happened.iter().all(|h| h.iter().any(|e| matches!(e, ClientEvent::Connected(_))))
    };
    let (served, happened) = drive(Some(listener), clients, connected);
    let mut servers: Vec<_> = served.into_iter().filter_map(server_connection).collect();
    let ends = happened.into_iter().map(|events| {
        let client = events.into_iter().find_map(client_connection).unwrap();
        let at = servers.iter().position(|server| server.id == client.id).unwrap();
        (client, servers.remove(at))
    });
    ends.collect()
}

/// The connection of an event, if it is one.
pub fn server_connection(event: ServerEvent) -> Option<Connection> {
    if let ServerEvent::Connected(connection) = event { Some(connection) } else { None }
}

/// The connection of an event, if it is one.
pub fn client_connection(event: ClientEvent) -> Option<Connection> {
    if let ClientEvent::Connected(connection) = event { Some(connection) } else { None }
}

/// Sends packets of many lengths both ways over all queues and checks every byte.
pub fn exchange(a: &mut Connection, b: &mut Connection) {
    for (from, to) in [(&mut a.tx, &mut b.rx), (&mut b.tx, &mut a.rx)] {
        assert_eq!(from.len(), to.len());
        for (i, (tx, rx)) in from.iter_mut().zip(to).enumerate() {
            for round in 0..3 {
                let packets: Vec<_> =
                    [60, 64, 1514, 2049, 9014].iter().map(|length| packet(i + round, *length)).collect();
                assert_eq!(send(tx, &packets).unwrap(), packets.len());
                assert_eq!(receive(rx).unwrap(), packets);
            }
        }
    }
}

/// Small memory without huge pages, so that many tests can run at once.
pub fn small_queues() -> QueueConfig {
    QueueConfig { ring_size: RingSize::MIN, huge_pages: HugePages::Never, ..QueueConfig::default() }
}
