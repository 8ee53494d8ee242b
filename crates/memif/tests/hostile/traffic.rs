//! The well-behaved peer: numbered packets at a fixed rate, that must all come back, and soon.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memif::app::Batch;
use memif::region::HugePages;
use memif::{Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, QueueConfig, RingSize};

use crate::wire::PATIENCE;

/// Time from one packet to the next: by the clock, not when others have come back.
const PACE: Duration = Duration::from_millis(1);
/// Longest time in which no packet comes back, besides what the machine takes itself: see [`Pulse`]. What others' work takes from a thread that
/// has much to do, as one that unmaps hundreds of regions has, the pulse doesn't see.
const GAP: Duration = Duration::from_secs(1);
/// Packets on their way at most: less than a ring holds, so that not one is dropped for want of room.
const WINDOW: usize = 12;
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

/// A thread that does nothing but sleep for a moment again and again, and so shows for how long threads of this process don't get to
/// run: other tests, other programs, a debugger.
struct Pulse {
    stop: Arc<AtomicBool>,
    /// Longest time between two of its moments, in microseconds.
    longest: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    fn new() -> Self {
        let (stop, longest) = <(Arc<AtomicBool>, Arc<AtomicU64>)>::default();
        let (stopped, seen) = (Arc::clone(&stop), Arc::clone(&longest));
        let thread = std::thread::spawn(move || {
            let mut last = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(PACE);
                let now = Instant::now();
                seen.fetch_max((now - last).as_micros() as u64, Ordering::Relaxed);
                last = now;
            }
        });
        Self { stop, longest, thread: Some(thread) }
    }

    /// The longest time that somebody may have to wait without anybody else's fault: three threads in turn, each as late as this.
    fn excuse(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed)) * 3
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
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
    /// When the last one came back, and the longest time between two.
    last: Option<Instant>,
    gap: Duration,
    pulse: Pulse,
    /// Packets that came back.
    pub back: u64,
}

impl Traffic {
    pub fn new(client: Client) -> Self {
        let batch = Batch::new(64);
        let (due, pulse) = (Instant::now(), Pulse::new());
        let (link, flying, last, gap) = Default::default();
        Self { client, link, batch, flying, next: 0, due, last, gap, pulse, back: 0 }
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

    /// Receives what has come back, and sends more if `more`; panics if anything is lost, changed or out of order, or
    /// if the link goes down.
    pub fn step(&mut self, more: bool) {
        for event in self.client.process(Instant::now()) {
            match event {
                ClientEvent::Connected(link) => self.link = Some(link),
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
        if self.batch.packets().next().is_some() {
            self.gap = self.gap.max(self.last.replace(now).map_or(Duration::ZERO, |last| now - last));
        }
        // What was due while this thread didn't run is left out.
        self.due = self.due.max(now - 2 * PACE);
        while more && self.due <= now && self.flying.len() < WINDOW {
            self.due += PACE;
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
        let (gap, excuse) = (self.gap, self.pulse.excuse());
        assert!(
            gap <= GAP + excuse,
            "nothing came back for {gap:?}, of which the machine took {excuse:?} at most"
        );
        self.back
    }
}
