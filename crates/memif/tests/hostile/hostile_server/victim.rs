//! A client with two links: one to a hostile server, one to a well-behaved one that sends everything back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memif::app::Batch;
use memif::ring::{DoorbellSettings, Signals};
use memif::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, QueueConfig, QueueError, Reason,
};

use super::raw::Listening;
use crate::arena::{Arena, GOOD, Shared};
use crate::traffic::{Traffic, bystander, small_queues};
use crate::wire::{PATIENCE, TAIL};

/// The client, its log, and the socket of the hostile server.
pub struct Victim {
    pub shared: Arc<Shared>,
    pub listening: Listening,
    thread: JoinHandle<()>,
    pub good: Arena,
}

impl Victim {
    /// With packets flowing on the link to the well-behaved server.
    pub fn new(test: &str, change: impl FnOnce(&mut ClientTiming)) -> Self {
        let good = Arena::idle(&format!("good-{test}"), |_| ());
        let bystander = bystander(&good.name, GOOD);
        let host = Host { batch: Batch::new(64) };
        Self::with(test, change, small_queues(), good, bystander, Box::new(host))
    }

    /// One whose link to the hostile server has these queues and this use, beside a link to the good one.
    pub fn with(
        test: &str,
        change: impl FnOnce(&mut ClientTiming),
        queues: QueueConfig,
        good: Arena,
        bystander: Client,
        application: Box<dyn Application>,
    ) -> Self {
        let name = format!("quiver-server-{test}-{}", std::process::id());
        let listening = Listening::new(&name);
        // Soon, so that tests needn't wait.
        let quick = Duration::from_millis(20);
        let mut timing = ClientTiming { handshake_timeout: PATIENCE, min_backoff: quick, max_backoff: quick };
        change(&mut timing);
        // As quiverd.
        let signals = Signals::Doorbell(DoorbellSettings::default());
        let config = ClientConfig { queues, signals, ..ClientConfig::default() };
        let hostile = Client::new(Address::abstract_name(name), config, timing).unwrap();
        let shared = Arc::new(Shared::default());
        let traffic = Traffic::new(bystander, Arc::clone(&good.shared));
        let mut both = Both { hostile, link: None, application, shared: Arc::clone(&shared) };
        let thread = std::thread::spawn(move || both.run(traffic));
        let victim = Self { shared, listening, thread, good };
        victim.shared.traffic_flows(100);
        victim
    }

    /// After all that: a server that behaves is talked to, and nobody has lost a packet.
    pub fn finish(self) {
        self.finish_but_for(|_| false);
    }

    /// The same where other links may have ended for some reasons, perhaps only now.
    pub fn finish_but_for(self, may_end: impl Fn(&Reason) -> bool) {
        // Where handshakes may take a short time only, some may fail.
        let mut served = self.listening.accept();
        while !served.try_handshake() {
            served = self.listening.accept();
        }
        let before = self.shared.log().received;
        served.publish(&[crate::wire::Slot { length: 100, ..Default::default() }; 10]);
        self.shared.wait("packets are taken", |log| (log.received == before + 10).then_some(()));
        let sent = || served.word(served.to_server, 6) > 0;
        self.shared.wait("packets are sent", |_| sent().then_some(()));
        served.set(served.to_server, TAIL, served.word(served.to_server, 6));
        self.shared.traffic_flows(100);
        self.shared.stop();
        let mut ended = std::mem::take(&mut self.good.shared.log().ended);
        ended.retain(|reason| !may_end(reason));
        assert!(ended.is_empty(), "a link of somebody else ended: {ended:?}");
        // The end of the well-behaved link is no surprise from here on.
        self.good.shared.stop();
        self.thread.join().unwrap();
        self.good.close();
    }
}

/// What is done with the link to the hostile server.
pub trait Application: Send {
    /// One round of it, while it is up.
    ///
    /// # Errors
    /// What the hostile server has done.
    fn serve(&mut self, link: &mut Connection, shared: &Shared) -> Result<(), QueueError>;

    /// What there is to do besides, also while it is down.
    fn round(&mut self) {}
}

/// Counts what comes, and sends something.
struct Host {
    batch: Batch,
}

impl Application for Host {
    fn serve(&mut self, link: &mut Connection, shared: &Shared) -> Result<(), QueueError> {
        self.batch.clear();
        let received = link.rx[0].recv_batch(&mut self.batch)?;
        shared.log().received += received as u64;
        let sent = link.tx[0].send_batch(&[[9; 100]])?;
        shared.log().dropped += 1 - sent as u64;
        Ok(())
    }
}

/// What one thread of an application does: both links in turn.
struct Both {
    hostile: Client,
    link: Option<Connection>,
    application: Box<dyn Application>,
    shared: Arc<Shared>,
}

impl Both {
    fn run(&mut self, mut traffic: Traffic) {
        while !self.shared.stopped() {
            traffic.step(true);
            self.shared.good.store(traffic.back, Ordering::Relaxed);
            self.step();
            std::thread::yield_now();
        }
        traffic.finish();
    }

    fn step(&mut self) {
        for event in self.hostile.process(Instant::now()) {
            match event {
                ClientEvent::Connected(link) => {
                    self.link = Some(link);
                    self.shared.log().up += 1;
                }
                ClientEvent::Disconnected { reason } | ClientEvent::Refused { reason } => self.ended(reason),
                ClientEvent::Unreachable { .. } => {}
            }
        }
        self.application.round();
        let Some(link) = &mut self.link else { return };
        let Err(error) = self.application.serve(link, &self.shared) else { return };
        let reason = Reason::from(error.fault);
        self.hostile.disconnect(Instant::now(), &reason);
        self.ended(reason);
    }

    fn ended(&mut self, reason: Reason) {
        self.link = None;
        let mut log = self.shared.log();
        *log.counters.entry(reason.kind()).or_default() += 1;
        log.ended.push(reason);
    }
}
