//! The well-behaved peer: numbered packets at a fixed rate, that must all come back, and soon.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memif::app::Batch;
use memif::region::HugePages;
use memif::{Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, QueueConfig, RingSize};

use crate::arena::Shared;
use crate::waits::Waits;
use crate::wire::PATIENCE;

/// Time from one packet to the next: by the clock, not when others have come back.
const PACE: Duration = Duration::from_micros(250);
/// Packets on their way for which there is room: for so long, 200 ms, may the server stand still before one is lost.
///
/// What the server does itself takes less than 4 ms at a time, 256 regions to map included. The rest is for the machine: tests run side by
/// side in one process, and who maps or unmaps regions waits for others that do, and that don't run while they hold the lock of its
/// memory, which the kernel doesn't tell of.
const ROOM: usize = 800;
/// Longest time in which no packet comes back, besides what the machine takes itself: see [`Waits`].
const GAP: Duration = Duration::from_micros(PACE.as_micros() as u64 * ROOM as u64);
/// One buffer, two, and the shortest.
const LENGTHS: [usize; 4] = [64, 1514, 3000, 60];

/// Queues as small as can be, so that many tests run at once.
pub fn small_queues() -> QueueConfig {
    QueueConfig { ring_size: RingSize::MIN, huge_pages: HugePages::Never, ..QueueConfig::default() }
}

/// A client of interface `id`.
pub fn client(name: &str, id: u32) -> Client {
    let config = ClientConfig { id, queues: small_queues(), ..ClientConfig::default() };
    let timing = ClientTiming { handshake_timeout: PATIENCE, ..ClientTiming::default() };
    Client::new(Address::abstract_name(name), config, timing).unwrap()
}

/// Descriptors of its rings: those of all packets on their way, one in four of which has two.
pub const BYSTANDER_RING: u32 = 1024;

/// A client of it that has room for what is due while the server stands still for a moment.
pub fn bystander(name: &str, id: u32) -> Client {
    bystander_with(name, id, small_queues())
}

/// The same with other memory.
pub fn bystander_with(name: &str, id: u32, queues: QueueConfig) -> Client {
    let queues = QueueConfig { ring_size: RingSize::from_descriptors(BYSTANDER_RING).unwrap(), ..queues };
    let timing = ClientTiming { handshake_timeout: PATIENCE, ..ClientTiming::default() };
    Client::new(Address::abstract_name(name), ClientConfig { id, queues, ..ClientConfig::default() }, timing)
        .unwrap()
}

/// A client of a server that sends everything back, and what it has on its way.
pub struct Traffic {
    client: Client,
    link: Option<Connection>,
    batch: Batch,
    flying: VecDeque<Vec<u8>>,
    next: u64,
    /// When the next packet is due.
    due: Instant,
    /// What was due and found no room: lost.
    unsent: u64,
    /// When the last one came back, and the longest time between two, without what the machine took.
    last: Option<Instant>,
    gap: Duration,
    waits: Waits,
    /// What the machine has taken, as far as `due` and `last` know of it.
    waited: Duration,
    /// Packets that came back.
    pub back: u64,
}

impl Traffic {
    /// To such a server.
    pub fn new(client: Client, server: Arc<Shared>) -> Self {
        let (batch, due, waits) = (Batch::new(ROOM), Instant::now(), Waits::new(server));
        let (link, flying, last, gap, waited) = Default::default();
        Self { client, link, batch, flying, next: 0, due, unsent: 0, last, gap, waits, waited, back: 0 }
    }

    /// A packet whose bytes say which it is and where each belongs.
    fn packet(&mut self) -> Vec<u8> {
        self.next += 1;
        let length = LENGTHS[self.next as usize % LENGTHS.len()];
        let mut bytes: Vec<u8> =
            (0..length as u64).map(|i| (self.next * 131 + i * 7 + i / 256) as u8).collect();
        bytes[..8].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }

    /// Receives what has come back, and sends what is due if `more`, whether or not anything has come back; panics if anything is lost, changed or out of order, or
    /// if the link goes down.
    pub fn step(&mut self, more: bool) {
        for event in self.client.process(Instant::now()) {
            match event {
                ClientEvent::Connected(link) => {
                    self.link = Some(link);
                    (self.due, self.waited) = (Instant::now(), self.waits.until_now());
                }
                // Where handshakes may take a short time only, the first may fail.
                ClientEvent::Refused { .. } if self.next == 0 => {}
                ClientEvent::Unreachable { .. } => {}
                other => panic!("the well-behaved peer was hurt: {other:?}"),
            }
        }
        let Some(link) = &mut self.link else { return };
        self.batch.clear();
        link.rx[0].recv_batch(&mut self.batch).unwrap();
        for packet in self.batch.packets() {
            assert!(
                self.flying.pop_front().is_some_and(|sent| sent == packet),
                "a packet was lost or changed"
            );
            self.back += 1;
        }
        let now = Instant::now();
        let came_back = self.batch.packets().next().is_some();
        if !came_back && self.due > now {
            return;
        }
        // What was due while the machine let others run is due later; not so what was due while the server, or this thread, did something else.
        let waited = self.waits.until_now();
        let taken = waited - std::mem::replace(&mut self.waited, waited);
        self.due = (self.due + taken).min(now.max(self.due));
        self.last = self.last.map(|last| (last + taken).min(now));
        if came_back {
            self.gap = self.gap.max(self.last.replace(now).map_or(Duration::ZERO, |last| now - last));
        }
        while more && self.due <= now {
            self.due += PACE;
            if self.flying.len() == ROOM {
                self.unsent += 1;
                continue;
            }
            let packet = self.packet();
            let link = self.link.as_mut().unwrap();
            assert_eq!(link.tx[0].send_batch(&[&packet]).unwrap(), 1, "no room");
            self.flying.push_back(packet);
        }
    }

    /// Waits for what is on its way: not one may be missing.
    pub fn finish(mut self) -> u64 {
        let started = Instant::now();
        while !self.flying.is_empty() {
            assert!(started.elapsed() < PATIENCE, "{} packets are lost", self.flying.len());
            self.step(false);
            std::thread::yield_now();
        }
        assert_eq!(self.back, self.next);
        let (unsent, gap, taken) = (self.unsent, self.gap, self.waited);
        assert_eq!(unsent, 0, "lost for want of room; the machine itself took {taken:?} in all");
        assert!(
            gap <= GAP,
            "nothing came back for {gap:?}, without what the machine itself took, {taken:?} in all"
        );
        self.back
    }
}
