//! What the tests share.

#![allow(dead_code, reason = "each test uses its part")]

use memif::app::{Batch, Port};
use memif::{Address, ListenerSettings, ServerConfig};
use quiver_tgen::clock::Clock;
use quiver_tgen::link::Link;
use quiver_tgen::plan::Plan;
use quiver_tgen::profile;
use quiver_tgen::report::Report;
use quiver_tgen::stateless::{self, Lane, Progress};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for something that has to happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A stack for most tests.
pub const STACK: &str = r#"stack = [
  { ethernet = { dst = "02:00:00:00:00:01", src = "02:00:00:00:00:02" } },
  { ipv4 = { src = "10.0.0.2", dst = { from = "10.0.1.2", to = "10.0.1.251" } } },
  { udp = { src = 1024, dst = 9 } },
]
"#;

/// The plan of a profile.
pub fn plan(text: &str) -> Plan {
    profile::parse(Path::new("test.toml"), text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Runs a profile within this process.
pub fn run(text: &str) -> Report {
    let plan = plan(text);
    let clock = Clock::start();
    let (stop, progress) = (AtomicBool::new(false), Progress::default());
    let mut links = Link::all(&plan, &stop).unwrap();
    let lanes = Lane::all(&plan, &links).unwrap();
    let outcome = stateless::run(&mut links, lanes, &plan, &clock, &stop, &progress);
    let names: Vec<String> = links.iter().map(|link| link.name().into()).collect();
    Report::new(&plan, &names, &outcome, None)
}

/// An abstract socket that no other test has.
pub fn socket(tag: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("@tgen-{tag}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A memif server at that socket.
pub fn server(socket: &str) -> Port {
    let Ok(address) = socket.parse::<Address>();
    Port::server(&address, 0, ServerConfig::default(), ListenerSettings::default()).unwrap()
}

/// A device under test of two memif servers: what comes in at the one is handed to `deal`, and what that gives goes out at the
/// other; until dropped.
pub struct Middle {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Middle {
    pub fn new(left: &str, right: &str, deal: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        Self::start(left, right, false, deal)
    }

    /// One that sends everything back where it came from.
    pub fn back(left: &str, right: &str) -> Self {
        Self::start(left, right, true, |packet: &[u8]| vec![packet.to_vec()])
    }

    fn start(
        left: &str,
        right: &str,
        back: bool,
        mut deal: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static,
    ) -> Self {
        let (mut left, mut right) = (server(left), server(right));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            // Few at a time, as from a device that gives room little by little.
            let mut batch = Batch::new(32);
            while !stopped.load(Ordering::Relaxed) {
                right.wait(Some(Duration::ZERO)).unwrap();
                left.wait(Some(Duration::from_millis(1))).unwrap();
                while left.receive(&mut batch).unwrap_or(0) > 0 {
                    let out: Vec<Vec<u8>> = batch.packets().flat_map(&mut deal).collect();
                    let (mut sent, begun) = (0, Instant::now());
                    while sent < out.len() && begun.elapsed() < PATIENCE {
                        let out_at = if back { &mut left } else { &mut right };
                        sent += out_at.send(&out[sent..]).unwrap_or(0);
                    }
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the middle panicked");
        }
    }
}

/// The two interfaces of a [`Middle`], for a profile.
pub fn interfaces(left: &str, right: &str) -> String {
    format!(
        "[[interface]]\nname = \"left\"\nmemif = {{ socket = \"{left}\" }}\n\
         [[interface]]\nname = \"right\"\nmemif = {{ socket = \"{right}\" }}\n"
    )
}

/// Runs the program.
pub fn program(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quiver-tgen")).args(args).output().unwrap()
}

/// Whether tests that need root can run. Without root they are skipped, unless `QUIVER_REQUIRE_ROOT=1`.
pub fn root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    let required = std::env::var("QUIVER_REQUIRE_ROOT").is_ok_and(|value| value == "1");
    assert!(root || !required, "{test} needs root and QUIVER_REQUIRE_ROOT=1 demands that it runs");
    if !root {
        eprintln!("skipped: {test} makes network namespaces, which needs root");
    }
    root
}
