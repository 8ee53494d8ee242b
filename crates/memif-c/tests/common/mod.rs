//! What several of these tests need.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::time::{Duration, Instant};

use memif::region::HugePages;
use memif::{Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, QueueConfig};
use quiver_memif::port::Port;
use quiver_memif::wait::wait;

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of a server of this process, with small buffers. The server's news until then are taken.
pub fn connect(address: &Address, server: &Port) -> (Client, Connection) {
    let queues = QueueConfig { buffer_size: 64, huge_pages: HugePages::Never, ..QueueConfig::default() };
    let config = ClientConfig { queues, ..ClientConfig::default() };
    let mut client = Client::new(address.clone(), config, ClientTiming::default()).unwrap();
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < PATIENCE, "no link");
        wait(&[server], Duration::from_millis(5)).unwrap();
        while server.next_news().is_some() {}
        for event in client.process(Instant::now()) {
            if let ClientEvent::Connected(connection) = event {
                return (client, connection);
            }
        }
    }
}
