//! The server that they come to, and whoever behaves.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use memif::region::SealPolicy;
use memif::{
    Address, Client, ClientConfig, ClientTiming, Listener, ListenerSettings, ServerConfig, ServerEvent,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::pipe;

use crate::common::{connect, exchange, small_queues};
use crate::peers::init;
use crate::raw::{Raw, region};

/// Longer than anything takes.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Interfaces of the server.
pub const INTERFACES: u32 = 40;

/// One socket, served by the test's own thread.
pub struct Server {
    pub name: String,
    pub listener: Listener,
    /// All that has happened.
    pub told: Vec<ServerEvent>,
}

impl Server {
    /// With the usual settings.
    pub fn new(test: &str) -> Self {
        Self::with(test, ListenerSettings::default())
    }

    /// With these.
    pub fn with(test: &str, settings: ListenerSettings) -> Self {
        Self::at(format!("quiver-closes-{test}-{}", std::process::id()), settings)
    }

    /// At that abstract socket.
    pub fn named(name: &str) -> Self {
        Self::at(name.into(), ListenerSettings::default())
    }

    fn at(name: String, settings: ListenerSettings) -> Self {
        let mut listener = Listener::bind(&Address::abstract_name(&name), settings).unwrap();
        for id in 0..INTERFACES {
            // There are peers that announce one file many times.
            let seals = SealPolicy::Allow;
            listener.register(id, ServerConfig { seals, ..ServerConfig::default() }).unwrap();
        }
        Self { name, listener, told: Vec::new() }
    }

    /// Serves until it is done, without being busy.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let started = Instant::now();
        while !done(self) {
            assert!(started.elapsed() < PATIENCE, "{what}: {:?}", self.told);
            let mut ready = [PollFd::from_borrowed_fd(self.listener.fd(), PollFlags::IN)];
            poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 })).unwrap();
            self.told.extend(self.listener.process(Instant::now()).unwrap());
        }
    }

    /// How many were turned away for this kind of reason.
    pub fn count(&self, kind: &str) -> u64 {
        self.listener.ended().get(kind).copied().unwrap_or(0)
    }

    /// Whoever behaves is served as ever, at the interface of those who don't and at another.
    pub fn still_serves(&mut self) {
        [0, INTERFACES - 1].into_iter().for_each(|id| self.still_serves_at(id));
    }

    /// What one leaves is closed, and nothing is left to do.
    fn still_serves_at(&mut self, id: u32) {
        let config = ClientConfig { id, queues: small_queues(), ..ClientConfig::default() };
        let mut client =
            Client::new(Address::abstract_name(&self.name), config, ClientTiming::default()).unwrap();
        let (mut a, mut b) = connect(&mut self.listener, &mut [&mut client]).remove(0);
        exchange(&mut a, &mut b);
        drop((client, a, b));
        let before = self.count("region-not-memory");
        let (end, sent) = pipe().unwrap();
        // The queue may be full of those who don't behave: then it waits for us.
        let name = self.name.clone();
        let connecting = std::thread::spawn(move || Raw::connect(&name));
        self.until("it is connected", |_| connecting.is_finished());
        let raw = connecting.join().unwrap();
        self.until("HELLO comes", |_| !raw.hear().is_empty());
        raw.send(&init(id), &[]);
        raw.send(&region().encode(), &[sent.as_fd()]);
        drop(sent);
        self.until("a wrong descriptor is refused", |server| server.count("region-not-memory") > before);
        let mut closed = [PollFd::new(&end, PollFlags::empty())];
        let patience = Timespec::try_from(PATIENCE).unwrap();
        assert_eq!(poll(&mut closed, Some(&patience)), Ok(1), "what others send isn't closed");
    }

    /// Nothing wakes it.
    pub fn is_idle(&mut self) {
        self.told.extend(self.listener.process(Instant::now()).unwrap());
        let mut ready = [PollFd::from_borrowed_fd(self.listener.fd(), PollFlags::IN)];
        assert_eq!(poll(&mut ready, Some(&Timespec::default())), Ok(0), "it is kept awake");
    }
}
