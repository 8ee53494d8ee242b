//! DPDK's testpmd with one memif port, as a child process.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use crate::common::PATIENCE;

const PROGRAM: &str = "dpdk-testpmd";

/// Whether DPDK's tests can run. Without testpmd they are left out, aloud; with `QUIVER_REQUIRE_PEERS=1` they
/// fail.
pub fn available() -> bool {
    let found = Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok() {
        return true;
    }
    assert!(
        std::env::var_os("QUIVER_REQUIRE_PEERS").is_none_or(|value| value != "1"),
        "QUIVER_REQUIRE_PEERS=1 but {PROGRAM} is not installed (Debian: dpdk-dev)"
    );
    eprintln!("SKIPPED: {PROGRAM} is not installed (Debian: dpdk-dev)");
    false
}

/// A running testpmd. It polls a core, so that only one runs at a time.
pub struct Testpmd {
    child: Child,
    /// Whether it takes commands.
    interactive: bool,
    output: Arc<Mutex<String>>,
    /// What DPDK would leave behind in /run.
    _runtime: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Testpmd {
    /// Starts a client with these arguments of the memif device and of the application. It forwards once it is connected.
    pub fn start(device: &str, application: &[&str]) -> Self {
        Self::start_with(&[device], &[], &[&["--auto-start"], application].concat())
    }

    /// Starts a server likewise, with several devices perhaps, and options of DPDK itself; whoever has connected has it
    /// [forward](Self::forward).
    ///
    /// Who connects while it still sets up its queues has it crash: it maps rings of queues that it doesn't have yet. So does who connects
    /// while it polls them: it works out where a ring is, in a region that isn't mapped yet, before it looks whether there is a connection.
    pub fn serve(devices: &[&str], options: &[&str], application: &[&str]) -> Self {
        let testpmd = Self::start_with(devices, options, &[&["-i"], application].concat());
        testpmd.wait_for("testpmd>");
        testpmd
    }

    /// Has one that was started with `-i` forward.
    pub fn forward(&mut self) {
        self.say("start", "packets/burst=");
    }

    fn start_with(devices: &[&str], options: &[&str], application: &[&str]) -> Self {
        static ALONE: OnceLock<Mutex<()>> = OnceLock::new();
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let alone = ALONE.get_or_init(Mutex::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let prefix = format!("memif-test-{}-{number}", std::process::id());
        let runtime = tempfile::tempdir().unwrap();
        // What it prints is to come at once, not when its buffer is full.
        let mut child = Command::new("stdbuf")
            .args(["-oL", PROGRAM])
            .args([
                "-l",
                "0-1",
                "--no-huge",
                "-m",
                "256",
                "--no-pci",
                "--no-shconf",
                "--file-prefix",
                &prefix,
            ])
            .args(devices.iter().enumerate().map(|(n, device)| format!("--vdev=net_memif{n},{device}")))
            .args(options)
            .args(["--", "--no-mlockall", "--total-num-mbufs=8192", "--disable-link-check"])
            // Else it throws away what it received between connecting and forwarding, which is what a test sent first.
            .arg("--no-flush-rx")
            .args(application)
            .env("RUNTIME_DIRECTORY", runtime.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let (mut stdout, sink) = (child.stdout.take().unwrap(), Arc::clone(&output));
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            // Not by lines: its prompt is none.
            while let Ok(length @ 1..) = stdout.read(&mut some) {
                sink.lock().unwrap().push_str(&String::from_utf8_lossy(&some[..length]));
            }
        });
        let interactive = application.contains(&"-i");
        Self { child, interactive, output, _runtime: runtime, _alone: alone }
    }

    fn wait_for(&self, text: &str) {
        let started = Instant::now();
        while !self.output.lock().unwrap().contains(text) {
            assert!(started.elapsed() < PATIENCE, "no {text:?} in: {}", self.output.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Gives it a command, where it was started with `-i`, and waits for this answer, which it hasn't given before.
    pub fn say(&mut self, command: &str, answer: &str) {
        let before = self.output.lock().unwrap().matches(answer).count();
        self.child.stdin.as_mut().unwrap().write_all(format!("{command}\n").as_bytes()).unwrap();
        let started = Instant::now();
        while self.output.lock().unwrap().matches(answer).count() == before {
            assert!(started.elapsed() < PATIENCE, "{command}: {}", self.output.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Lets it end and gives what it printed, with the statistics at the end.
    pub fn finish(mut self) -> String {
        let end: &[u8] = if self.interactive { b"quit\n" } else { b"\n" };
        self.child.stdin.take().unwrap().write_all(end).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{PROGRAM}: {status}: {}", self.output.lock().unwrap());
        self.wait_for("Accumulated forward statistics");
        self.output.lock().unwrap().clone()
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
