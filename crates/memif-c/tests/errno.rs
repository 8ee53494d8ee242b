//! What fails for want of descriptors says so by the kernel's number, wherever it fails. One test: the limit is the process's.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use memif::{Address, ClientConfig, Listener, ListenerSettings, ServerConfig, ServerEvent};
use quiver_memif::port::Port;
use quiver_memif::status::{Failure, Status};
use quiver_memif::wait::wait;
use quiver_memif::watch::watch;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// With so many descriptors to be had.
fn with_free<T>(free: u64, act: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::Nofile);
    let lowest = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
    let current = Some(u64::try_from(lowest).unwrap() + free);
    setrlimit(Resource::Nofile, Rlimit { current, ..before }).unwrap();
    let done = act();
    setrlimit(Resource::Nofile, before).unwrap();
    done
}

fn is_out_of_descriptors(failure: &Failure, step: &str) {
    assert_eq!(failure.status, Status::System, "{failure:?}");
    assert_eq!(failure.errno, Errno::MFILE.raw_os_error(), "{failure:?}");
    assert!(failure.cause.contains(step), "{failure:?}");
}

#[test]
fn out_of_descriptors() {
    let address = |what: &str| Address::abstract_name(format!("quiver/errno-{what}-{}", std::process::id()));
    let idle =
        Port::server(&address("idle"), 0, ServerConfig::default(), ListenerSettings::default()).unwrap();
    let sleeps = || wait(&[&idle], Duration::from_millis(1)).unwrap_err();
    is_out_of_descriptors(&with_free(0, sleeps), "eventfd");
    is_out_of_descriptors(&with_free(1, sleeps), "dup");
    let watches = || watch(&idle).unwrap_err();
    is_out_of_descriptors(&with_free(0, watches), "eventfd");
    is_out_of_descriptors(&with_free(1, watches), "epoll");

    // A client that learns that its link is up, and can't have it.
    let at = address("link");
    let mut server = Listener::bind(&at, ListenerSettings::default()).unwrap();
    server.register(0, ServerConfig::default()).unwrap();
    let client = Port::client(&at, ClientConfig::default()).unwrap();
    let started = Instant::now();
    let mut links = Vec::new();
    while links.is_empty() {
        assert!(started.elapsed() < PATIENCE, "no link");
        wait(&[&client], Duration::from_millis(1)).unwrap();
        let events = server.process(Instant::now()).unwrap();
        links.extend(events.into_iter().filter(|event| matches!(event, ServerEvent::Connected(_))));
    }
    let failure = loop {
        assert!(started.elapsed() < PATIENCE, "nothing fails");
        if let Err(failure) = with_free(0, || wait(&[&client], Duration::ZERO)) {
            break failure;
        }
    };
    is_out_of_descriptors(&failure, "dup");
}
