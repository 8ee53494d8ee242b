//! Where it happens: a victim in a thread, and its log.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memif::app::Batch;
use memif::ring::{Armed, DoorbellSettings, Signals};
use memif::{
    Address, Connection, Error, Listener, ListenerSettings, QueueError, Reason, ServerConfig, ServerEvent,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::traffic::{Traffic, bystander, client};
use crate::wire::PATIENCE;

/// The interface of the hostile peer.
pub const HOSTILE: u32 = 0;
/// The interface of the well-behaved one.
pub const GOOD: u32 = 1;
/// The first of those that nobody has; see [`Setting::free`].
pub const FREE: u32 = 2;

/// What an operator sees of the hostile peer's interface.
#[derive(Debug, Default)]
pub struct Log {
    /// Times it came up.
    pub up: usize,
    /// Why peers were turned away or disconnected.
    pub ended: Vec<Reason>,
    /// The listener's counters.
    pub counters: BTreeMap<&'static str, u64>,
    /// Packets taken from it.
    pub received: u64,
    /// Packets for it that found no room.
    pub dropped: u64,
    /// Where it says in its packets whose they are: such from it that are another's.
    pub mixed_up: u64,
    /// Regions and rings that the server's clients have.
    pub in_use: usize,
    /// Accepting failed.
    pub failed: Vec<Error>,
}

impl Log {
    /// All that ended, counted.
    pub fn count(&self) -> u64 {
        self.counters.values().sum()
    }
}

/// What victim, well-behaved peer and test share.
#[derive(Debug, Default)]
pub struct Shared {
    stop: AtomicBool,
    /// The well-behaved peer needs no server any more.
    done: AtomicBool,
    log: Mutex<Log>,
    thread: AtomicI32,
    /// Packets of the well-behaved peer that came back.
    pub good: AtomicU64,
}

impl Shared {
    pub fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }

    /// The kernel's number of the server's thread; 0 before it runs.
    pub fn thread(&self) -> i32 {
        self.thread.load(Ordering::Relaxed)
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits until the log says something.
    pub fn wait<T>(&self, what: &str, mut done: impl FnMut(&Log) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = done(&self.log()) {
                return found;
            }
            assert!(started.elapsed() < PATIENCE, "{what}: {:?}", self.log());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The hostile peer changes words in steps while they are read: to such at first as may be true, until so many packets of it were
    /// taken, on a link that must stay up for that; then to lies as well, until these have ended its link. Gives how many were taken in
    /// all, and why it ended.
    pub fn race(&self, packets: u64, mut act: impl FnMut(u64, bool)) -> (u64, Reason) {
        let (before, ended) = {
            let log = self.log();
            (log.received, log.ended.len())
        };
        let (started, mut lies) = (Instant::now(), false);
        for step in 0.. {
            act(step, lies);
            if step % 64 == 0 {
                let log = self.log();
                let taken = log.received - before;
                if let Some(reason) = log.ended.get(ended) {
                    assert!(lies, "after {taken} packets, and nothing that is wrong: {reason}");
                    return (taken, reason.clone());
                }
                lies = taken >= packets;
                assert!(
                    started.elapsed() < PATIENCE,
                    "after {taken} packets nothing happens any more: {log:?}"
                );
            }
        }
        unreachable!("steps without end")
    }

    /// Waits for so many more packets of the well-behaved peer.
    pub fn traffic_flows(&self, packets: u64) {
        let (before, started) = (self.good.load(Ordering::Relaxed), Instant::now());
        while self.good.load(Ordering::Relaxed) < before + packets {
            assert!(started.elapsed() < PATIENCE, "the well-behaved peer's packets stopped");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// How the server is set.
pub struct Setting {
    pub hostile: ServerConfig,
    pub listener: ListenerSettings,
    /// Interfaces from [`FREE`] on, to which nobody is connected at first.
    pub free: u32,
    /// Sleep while there is nothing to do, instead of polling.
    pub interrupts: bool,
}

/// A server with a hostile and a well-behaved client.
pub struct Arena {
    pub name: String,
    pub shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Arena {
    /// With packets flowing.
    pub fn new(test: &str, change: impl FnOnce(&mut Setting)) -> Self {
        let mut arena = Self::serve(test, change);
        let shared = Arc::clone(&arena.shared);
        let mut traffic = Traffic::new(bystander(&arena.name, GOOD), Arc::clone(&shared));
        arena.threads.push(std::thread::spawn(move || {
            while !shared.stopped() {
                traffic.step(true);
                shared.good.store(traffic.back, Ordering::Relaxed);
                std::thread::yield_now();
            }
            traffic.finish();
        }));
        arena.shared.traffic_flows(100);
        arena
    }

    /// A server that sends everything back, without clients.
    pub fn idle(test: &str, change: impl FnOnce(&mut Setting)) -> Self {
        Self::serve(test, change)
    }

    fn serve(test: &str, change: impl FnOnce(&mut Setting)) -> Self {
        let name = format!("quiver-arena-{test}-{}", std::process::id());
        let shared = Arc::new(Shared::default());
        let mut setting = Setting {
            hostile: ServerConfig {
                max_regions: 2,
                max_rx_queues: 2,
                max_tx_queues: 1,
                max_memory: 1 << 20,
                max_packet: 9216,
                // As quiverd.
                signals: Signals::Doorbell(DoorbellSettings::default()),
                ..ServerConfig::default()
            },
            // As quiverd.
            listener: ListenerSettings {
                handshake_timeout: PATIENCE,
                threaded: true,
                ..ListenerSettings::default()
            },
            free: 0,
            interrupts: false,
        };
        change(&mut setting);
        let mut server = Server::new(&name, setting, Arc::clone(&shared));
        let threads = vec![std::thread::spawn(move || server.run())];
        Self { name, shared, threads }
    }

    /// After all that: whoever behaves is served on the same interface, and nobody has lost a packet.
    pub fn finish(self) {
        self.serves(HOSTILE);
        self.stop();
    }

    /// Waits until the well-behaved peer is the only one that has regions and rings: to free others' takes a moment.
    pub fn settles(&self) {
        self.shared.wait("all is given back", |log| (log.in_use == 3).then_some(()));
    }

    /// A client that behaves connects to that interface, packets come back to it, and it goes again.
    pub fn comes_and_goes(&self, id: u32) {
        let ended = self.shared.log().ended.len();
        self.serves(id);
        self.shared.wait("it is gone", |log| (log.ended.len() > ended).then_some(()));
    }

    /// A client that behaves connects to that interface, and packets arrive both ways.
    pub fn serves(&self, id: u32) {
        let before = self.shared.log().received;
        let mut traffic = client(&self.name, id);
        let (mut link, mut batch, mut back) = (None, Batch::new(64), 0);
        self.shared.wait("a good client is served", |log| {
            for event in traffic.process(Instant::now()) {
                if let memif::ClientEvent::Connected(connection) = event {
                    link = Some(connection);
                }
            }
            if let Some(link) = &mut link {
                link.tx[0].send_batch(&[[7; 100]]).unwrap();
                batch.clear();
                link.rx[0].recv_batch(&mut batch).unwrap();
                back += batch.packets().count();
            }
            (back > 10 && (id != HOSTILE || log.received > before + 10)).then_some(())
        });
    }

    /// Ends it, once the well-behaved peer has got back all of its packets.
    pub fn stop(mut self) {
        self.shared.traffic_flows(100);
        self.shared.stop();
        let good = self.threads.pop().unwrap().join();
        self.close();
        good.unwrap();
    }

    /// Ends the server.
    pub fn close(mut self) {
        self.shared.stop();
        self.shared.done.store(true, Ordering::Relaxed);
        self.threads.pop().unwrap().join().unwrap();
    }
}

struct Server {
    listener: Listener,
    links: BTreeMap<u32, Connection>,
    shared: Arc<Shared>,
    batch: Batch,
    interrupts: bool,
}

impl Server {
    fn new(name: &str, setting: Setting, shared: Arc<Shared>) -> Self {
        let mut listener = Listener::bind(&Address::abstract_name(name), setting.listener).unwrap();
        let (seals, signals) = (setting.hostile.seals, setting.hostile.signals.clone());
        listener.register(HOSTILE, setting.hostile).unwrap();
        listener.register(GOOD, ServerConfig { seals, signals, ..ServerConfig::default() }).unwrap();
        for id in FREE..FREE + setting.free {
            listener.register(id, ServerConfig::default()).unwrap();
        }
        let (links, batch) = (BTreeMap::new(), Batch::new(64));
        Self { listener, links, shared, batch, interrupts: setting.interrupts }
    }

    /// Until the well-behaved peer has got its last packet.
    fn run(&mut self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.shared.thread.store(thread, Ordering::Relaxed);
        while !self.shared.done.load(Ordering::Relaxed) {
            self.control();
            // The hostile one last: it may be ended by what the others send it.
            let ids: Vec<_> = self.links.keys().rev().copied().collect();
            let faults: Vec<_> = ids.into_iter().filter_map(|id| Some((id, self.serve(id).err()?))).collect();
            for (id, error) in faults {
                let reason = Reason::from(error.fault);
                self.links.remove(&id);
                assert!(self.listener.disconnect(id, &reason));
                self.ended(Some(id), reason);
            }
            if self.interrupts {
                self.sleep();
            } else {
                std::thread::yield_now();
            }
        }
    }

    fn control(&mut self) {
        self.shared.log().in_use = self.listener.in_use().descriptors;
        for event in self.listener.process(Instant::now()).unwrap() {
            match event {
                ServerEvent::Connected(link) => {
                    if link.id == HOSTILE {
                        self.shared.log().up += 1;
                    }
                    self.links.insert(link.id, link);
                }
                ServerEvent::Disconnected { id, reason } => {
                    self.links.remove(&id);
                    self.ended(Some(id), reason);
                }
                ServerEvent::Refused { reason, .. } => self.ended(None, reason),
                ServerEvent::NotAccepting { error } => self.shared.log().failed.push(error),
            }
        }
    }

    fn ended(&self, id: Option<u32>, reason: Reason) {
        if self.shared.stopped() {
            return;
        }
        assert_ne!(id, Some(GOOD), "the well-behaved peer was disconnected: {reason}");
        let mut log = self.shared.log();
        log.ended.push(reason);
        log.counters = self.listener.ended().clone();
        log.in_use = self.listener.in_use().descriptors;
    }

    /// What came from an interface: the good one's goes back, and a copy to the hostile one.
    fn serve(&mut self, id: u32) -> Result<(), QueueError> {
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        self.batch.clear();
        let taken = link.rx.iter_mut().try_for_each(|queue| queue.recv_batch(&mut self.batch).map(drop));
        let packets: Vec<_> = self.batch.packets().collect();
        if id == HOSTILE {
            // What came before a fault has come.
            self.shared.log().received += packets.len() as u64;
            return taken;
        }
        taken?;
        if packets.is_empty() {
            return Ok(());
        }
        assert_eq!(link.tx[0].send_batch(&packets)?, packets.len(), "no room for the well-behaved peer");
        let Some(tx) = self.links.get_mut(&HOSTILE).and_then(|link| link.tx.first_mut()) else {
            return Ok(());
        };
        match tx.send_batch(&packets) {
            Ok(sent) => self.shared.log().dropped += (packets.len() - sent) as u64,
            Err(error) => {
                let reason = Reason::from(error.fault);
                self.links.remove(&HOSTILE);
                assert!(self.listener.disconnect(HOSTILE, &reason));
                self.ended(Some(HOSTILE), reason);
            }
        }
        Ok(())
    }

    /// Until a queue or the control side has something.
    fn sleep(&mut self) {
        let queues = self.links.values_mut().flat_map(|link| &mut link.rx);
        if queues.fold(false, |ready, queue| ready | (queue.arm() != Ok(Armed::Sleep))) {
            return;
        }
        let queues = self.links.values().flat_map(|link| &link.rx);
        let fds: Vec<BorrowedFd<'_>> =
            std::iter::once(self.listener.fd()).chain(queues.map(|queue| queue.event().fd())).collect();
        let mut fds: Vec<_> = fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 })).unwrap();
        for queue in self.links.values_mut().flat_map(|link| &mut link.rx) {
            queue.take_signal();
        }
    }
}
