//! Workers that really stand still: a command that doesn't end, as a service's packet might not.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::metrics::Collector;

const NOTICE: Duration = Duration::from_millis(400);
const CHILD: &str = "QUIVERD_TEST_STUCK";
const SIGABRT: i32 = 6;

/// A worker that stands still until this is dropped, so that the engine can end.
struct Stuck(Arc<AtomicBool>);

impl Stuck {
    fn new(look: &EngineHandle, worker: usize, wait: impl Fn() + Send + 'static) -> Self {
        let free = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&free);
        look.shared.pool.workers()[worker].send(move |_| {
            while !theirs.load(Ordering::Acquire) {
                wait();
            }
        });
        Self(free)
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn lab(patience: Patience) -> Lab {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine_of(2, patience);
    let look = engine.handle();
    let state = StateDirectory::open(&directory.path().join("state")).unwrap();
    Lab { controller: Controller::new(Box::new(engine), state), look, directory }
}

/// Generators at both workers: each sends to a sink of its own.
const BOTH: &str = "[[interface]]\nname = \"one\"\ncross_connect = \"out-one\"
generator = { source_address = \"10.9.0.1\", destination_address = \"10.9.0.2\", rate = 5000 }
[[interface]]\nname = \"out-one\"\nsink = {}
[[interface]]\nname = \"two\"\ncross_connect = \"out-two\"
generator = { source_address = \"10.9.0.1\", destination_address = \"10.9.0.2\", rate = 5000 }
[[interface]]\nname = \"out-two\"\nsink = {}\n";

impl Lab {
    fn sent(&self, name: &str) -> u64 {
        let all = self.look.interfaces();
        all.into_iter().find(|state| state.name == name).unwrap().counters.unwrap().tx_packets
    }

    fn worker(&self, worker: usize) -> api::v1::WorkerRuntime {
        self.look.runtime().workers.swap_remove(worker)
    }

    /// The worker that has the interface's queue.
    fn worker_of(&self, name: &str) -> usize {
        let inventory = self.look.shared.directory.get();
        let index = inventory.registry.find(name).unwrap();
        let has = |worker: &usize| self.look.shared.pool.queues(*worker).iter().any(|queue| queue.0 == index);
        (0..2).find(has).unwrap()
    }
}

#[test]
fn a_worker_that_loops_is_noticed_and_others_go_on() {
    let patience = Patience { notice: NOTICE, restart: None };
    let mut lab = lab(patience);
    lab.apply(BOTH);
    let (held, other) = (lab.worker_of("one"), lab.worker_of("two"));
    assert_ne!(held, other);
    eventually(|| (lab.sent("out-one") > 10 && lab.sent("out-two") > 10).then_some(()));
    let metrics = Collector::new(Arc::new(lab.look.clone()));
    // A machine that is busy gives a worker no time for as long as that now and then.
    eventually(|| metrics.faults().is_empty().then_some(()));
    assert!(!metrics.restart_helps());

    let stuck = Stuck::new(&lab.look, held, std::hint::spin_loop);
    let said = eventually(|| Some(lab.worker(held)).filter(|worker| worker.standstill.contains("no end")));
    assert!(said.stuck_seconds >= NOTICE.as_secs_f64() && said.stuck_times >= 1, "{said:?}");
    let (standstill, how) = (&said.standstill, "between nodes (commands): it runs");
    assert!(standstill.starts_with("stands still for ") && standstill.contains(how), "{said:?}");
    assert_eq!(said.summary, said.standstill);
    let named = format!("worker {held} stands still for ");
    assert!(metrics.faults().iter().any(|fault| fault.starts_with(&named)), "{:?}", metrics.faults());
    eventually(|| metrics.restart_helps().then_some(()));
    let never = format!("quiver_worker_stuck_total{{worker=\"{held}\"}} 0\n");
    let goes_on = format!("quiver_worker_stuck_seconds{{worker=\"{other}\"}} 0\n");
    let text = eventually(|| Some(metrics.collect(None)).filter(|text| text.contains(&goes_on)));
    assert!(!text.contains(&never), "{text}");

    let (still, goes) = (lab.sent("out-one"), lab.sent("out-two"));
    eventually(|| (lab.sent("out-two") > goes + 500).then_some(()));
    assert_eq!(lab.sent("out-one"), still);

    drop(stuck);
    eventually(|| (lab.sent("out-one") > still).then_some(()));
    let goes_on = eventually(|| Some(lab.worker(held)).filter(|worker| worker.stuck_seconds == 0.0));
    assert!(
        goes_on.standstill.is_empty() && goes_on.stuck_times >= 1,
        "that it was is still told: {goes_on:?}"
    );
    eventually(|| metrics.faults().is_empty().then_some(()));
    assert!(!metrics.restart_helps());
}

#[test]
fn a_worker_that_waits_is_told_from_one_that_loops() {
    let lab = lab(Patience { notice: NOTICE, restart: None });
    let _stuck = Stuck::new(&lab.look, 1, || std::thread::sleep(Duration::from_millis(100)));
    let waits = |worker: &api::v1::WorkerRuntime| worker.standstill.ends_with("it waits in the kernel");
    eventually(|| Some(lab.worker(1)).filter(waits));
    eventually(|| (lab.worker(0).stuck_seconds == 0.0).then_some(()));
}

#[test]
fn a_worker_that_sleeps_does_not_stand_still() {
    let lab = lab(Patience { notice: NOTICE, restart: None });
    eventually(|| {
        // One that is given no time is told of as that.
        let said = lab.worker(0).standstill;
        assert!(!said.ends_with("it waits in the kernel"), "{said}");
        (lab.worker(0).sleeps >= 4).then_some(())
    });
}

/// One whose memory may be freed by its peer can have a worker sleep: quiverd says so, and goes on.
#[test]
fn a_worker_that_a_peer_may_keep_waiting_ends_nothing() {
    let mut lab = lab(Patience { notice: NOTICE, restart: Some(NOTICE) });
    let socket = lab.path("one");
    lab.apply(&format!(
        "[[interface]]\nname = \"one\"\nmemif = {{ socket = \"{socket}\", role = \"server\", peer_memory = \"shared\" }}\n"
    ));
    let stuck = Stuck::new(&lab.look, 1, || std::thread::sleep(Duration::from_millis(100)));
    let long = 5.0 * NOTICE.as_secs_f64();
    let said = eventually(|| Some(lab.worker(1)).filter(|worker| worker.stuck_seconds > long));
    assert!(!said.standstill.is_empty() && lab.look.restart_helps().is_empty(), "{said:?}");
    drop(stuck);
}

/// What a process that runs this test alone says, which ends by SIGABRT.
fn aborted(test: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("engine::tests::watchdog::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    said
}

/// Taps stay, peers connect again, the desired state is on disk: as after a panic, quiverd is started anew.
#[test]
fn quiverd_ends_for_a_worker_that_does_not_go_on() {
    if std::env::var_os(CHILD).is_some() {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
        let mut lab = lab(Patience { notice: NOTICE, restart: Some(2 * NOTICE) });
        lab.apply(BOTH);
        let _stuck = Stuck::new(&lab.look, 1, std::hint::spin_loop);
        // Reached only if nobody ends the process: the test then ends with success.
        std::thread::sleep(PATIENCE);
        return;
    }
    let said = aborted("quiverd_ends_for_a_worker_that_does_not_go_on");
    assert!(said.contains("worker 1 has stood still for"), "{said}");
    assert!(said.contains("quiverd ends, as after a panic: worker 1"), "{said}");
    assert!(said.contains("it runs, and its round has no end; wchan "), "{said}");
}

/// SIGTERM, while a worker will never come to the end of its round: it isn't waited for in vain while the others have stopped.
#[test]
fn an_engine_that_ends_does_not_wait_for_a_worker_that_stands_still() {
    if std::env::var_os(CHILD).is_some() {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
        let mut lab = lab(Patience { notice: NOTICE, restart: None });
        lab.apply(BOTH);
        let look = lab.look.clone();
        let _stuck = Stuck::new(&look, 1, std::hint::spin_loop);
        eventually(|| (lab.worker(1).stuck_seconds > 0.0).then_some(()));
        drop(lab);
        return;
    }
    let said = aborted("an_engine_that_ends_does_not_wait_for_a_worker_that_stands_still");
    assert!(said.contains("quiverd ends, as after a panic: worker 1 doesn't stop, "), "{said}");
}
