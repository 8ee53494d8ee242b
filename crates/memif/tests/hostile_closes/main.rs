//! Peers that send what can't be closed, with closes that really hang: threads and descriptors are bounded, whoever else connects is
//! served, and nobody is kept awake. Peers that must be told apart are processes of their own: this program again.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;
mod held;
#[path = "../common/lingering.rs"]
mod lingering;
mod peers;
#[path = "../common/raw.rs"]
mod raw;
mod server;

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lingering::{close, unclosable};
use memif::{Address, Client, ClientConfig, ClientEvent, ClientTiming, Error, ListenerSettings, ServerEvent};
use peers::{Act, Other};
use raw::Raw;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use server::{PATIENCE, Server};

/// What is said in `foreign.rs`: an origin's descriptors before it is turned away.
const SHARE: usize = 64;

/// Descriptors of this process, by what they are.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Threads that close.
fn closers() -> usize {
    threads("memif-close")
}

/// Of that name.
fn threads(called: &str) -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.trim() == called).count()
}

/// This process alone: the tests here count its threads and descriptors.
fn alone(test: &str, run: impl FnOnce()) {
    if std::env::var_os("QUIVER_TEST_ALONE").is_some() {
        // The process has one userfaultfd from its first region on, and one file to signal with from its first queue on, for good: none of
        // those that are counted.
        let _ = memif::region::notices_punched_holes();
        let _ = memif::ring::signals_by_kernel();
        return run();
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("QUIVER_TEST_ALONE", "1")
        .status();
    assert!(status.unwrap().success());
}

/// A message with more descriptors than an origin may have: its next connection is refused, not one a second later.
#[test]
fn hostile_message_of_a_hundred_descriptors_that_hang() {
    alone("hostile_message_of_a_hundred_descriptors_that_hang", || {
        let mut server = Server::new("hundred");
        let before = descriptors();
        let other = Other::new(&server, Act::Again(100));
        server.until("it is refused", |server| server.count("file-descriptors") == 1);
        server.until("and not let in again", |server| server.count("hanging-descriptors") >= 3);
        assert!(descriptors() >= before + 100, "they hang");
        server.until("one thread closes", |_| closers() == 1);
        server.still_serves();
        drop(other);
        server.until("all are closed", |_| closers() == 0 && descriptors() <= before);
    });
}

/// One below that: it may go on.
#[test]
fn hostile_message_of_a_share_of_descriptors_that_hang() {
    alone("hostile_message_of_a_share_of_descriptors_that_hang", || {
        let mut server = Server::new("share");
        let before = descriptors();
        let other = Other::new(&server, Act::Again(SHARE - 1));
        // Its next connections end as it ends them.
        server.until("it is let in again", |server| server.count("closed") >= 3);
        assert_eq!(server.count("hanging-descriptors"), 0);
        server.until("one thread closes", |_| closers() == 1);
        drop(other);
        server.until("all are closed", |_| closers() == 0 && descriptors() <= before);
    });
}

/// On connections that it has already nothing more is taken, either.
#[test]
fn hostile_connections_that_all_send_what_hangs() {
    alone("hostile_connections_that_all_send_what_hangs", || {
        let mut server = Server::new("many");
        let before = descriptors();
        let other = Other::new(&server, Act::Many);
        server.until("all are refused", |server| server.listener.ended().values().sum::<u64>() > 40);
        // One of 1, and three of 20, are below the share; one more is taken. Of the others their sockets are left.
        assert_eq!(server.count("file-descriptors"), 4, "{:?}", server.listener.ended());
        assert_eq!(server.count("hanging-descriptors"), 36);
        server.until("one thread closes", |_| closers() == 1);
        // Who closes looks into ten sockets, one within the other; and there is the other's input.
        assert!(descriptors() <= before + 1 + 4 * 20 + 36 + 10 + 1, "{} after {before}", descriptors());
        server.still_serves();
        server.is_idle();
        drop(other);
        server.until("all are closed", |_| closers() == 0 && descriptors() <= before);
    });
}

/// A container that has its connections made by processes that end: it is one origin more, and not as many as it has had processes.
#[test]
fn hostile_container_that_connects_by_processes_that_end() {
    alone("hostile_container_that_connects_by_processes_that_end", || {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: not root, so no process namespace can be made");
            return;
        }
        let mut server = Server::new("gone");
        let before = descriptors();
        let other = Other::new(&server, Act::Gone);
        server.until("they come", |server| server.listener.ended().values().sum::<u64>() >= 20);
        // Some may have been accepted before the process ended. Two messages are beyond the share.
        assert!(server.count("file-descriptors") <= 4, "{:?}", server.listener.ended());
        assert!(server.count("hanging-descriptors") > 0, "{:?}", server.listener.ended());
        assert!(closers() <= 2, "{}", closers());
        server.still_serves();
        drop(other);
        server.until("all are closed", |_| closers() == 0 && descriptors() <= before);
    });
}

/// A process that may have few descriptors keeps what its clients and the application may have, and its other sockets, whatever peers send.
#[test]
fn hostile_processes_that_want_all_of_a_few_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    alone("hostile_processes_that_want_all_of_a_few_descriptors", || {
        let usual = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(1024), ..usual }).unwrap();
        // Less than the socket may have waiting, an eighth of 1024; the most that one message brings; and both.
        for messages in [&[100, 100][..], &[253], &[100, 253]] {
            let (mut server, mut second) = (Server::new("few"), Server::new("few-second"));
            let before = descriptors();
            let acts = messages.iter().chain([&1]).map(|count| Act::Message(*count));
            let mut others: Vec<_> = acts.map(|act| Other::waiting(&server, act)).collect();
            let mut last = others.pop().unwrap();
            for (other, count) in others.iter_mut().zip(1..) {
                other.begin();
                server.until("it is refused", |server| server.count("file-descriptors") == count);
            }
            last.begin();
            let is_full = |event: &ServerEvent| {
                matches!(event, ServerEvent::NotAccepting { error: Error::HangingDescriptors })
            };
            server.until("nobody is accepted any more", |server| server.told.iter().any(is_full));
            assert!(descriptors() >= before + messages.iter().sum::<usize>(), "they hang");
            // That eighth, and one message more; a closer takes 16 at each level, and there are pipes to the others.
            assert!(descriptors() <= before + 128 + 253 + 4 * 10 + 30, "{} after {before}", descriptors());
            let more: Vec<_> = (0..100).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
            second.still_serves();
            drop((more, others, last));
            server.until("all are closed", |_| closers() == 0 && descriptors() <= before);
            server.still_serves();
        }
    });
}

/// What it has announced waits behind what it can't have closed, and counts in the quota all that time: others have their parts.
#[test]
fn hostile_regions_that_wait_behind_what_hangs() {
    alone("hostile_regions_that_wait_behind_what_hangs", || {
        // 40 interfaces with 240 / 2 / 40 = 3 each: 240 - 39 * 3 = 123 are for one of them.
        let settings = ListenerSettings { max_descriptors: 240, ..ListenerSettings::default() };
        let mut server = Server::with("regions", settings);
        let before = descriptors();
        for _ in 0..3 {
            let refused = server.count("region-not-memory");
            let other = Other::new(&server, Act::Regions(110));
            server.until("it is refused", |server| server.count("region-not-memory") > refused);
            assert!(descriptors() >= before + 110, "they wait");
            assert_eq!(server.listener.in_use().descriptors, 110, "and count");
            server.still_serves();
            drop(other);
            server.until("all are closed", |_| closers() == 0 && descriptors() <= before);
            assert_eq!(server.listener.in_use().descriptors, 0);
        }
    });
}

/// Of the process's descriptors for the clients of all sockets together; see `io::descriptors`.
#[test]
fn hostile_descriptors_by_the_hundred_find_room() {
    alone("hostile_descriptors_by_the_hundred_find_room", || {
        let size = || -> u64 {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap().trim().parse().unwrap()
        };
        let may_open = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let for_clients = may_open.unwrap_or(u64::MAX) / 4;
        let settings = || ListenerSettings { max_descriptors: 3000, ..ListenerSettings::default() };
        let one = Server::with("room-one", settings());
        assert!(size() >= for_clients.min(3000) * 2, "{}", size());
        let other = Server::with("room-other", settings());
        assert!(size() >= for_clients.min(6000) * 2, "{}", size());
        drop((one, other));
    });
}

/// Each has a thread of its own, and closing goes on for whoever else comes.
#[test]
fn hostile_processes_by_the_dozen_whose_closes_hang() {
    alone("hostile_processes_by_the_dozen_whose_closes_hang", || {
        let mut server = Server::new("dozen");
        let before = descriptors();
        let mut others: Vec<_> = (0..24).map(|_| Other::waiting(&server, Act::Message(1))).collect();
        for (other, count) in others.iter_mut().zip(1..) {
            other.begin();
            server.until("it is refused", |server| server.count("region-not-memory") == count);
            server.until("a thread closes it", |_| closers() == count as usize);
        }
        server.still_serves();
        server.until("that one's thread ends", |_| closers() == 24);
        server.is_idle();
        drop(others);
        server.until("all are closed", |_| closers() == 0 && descriptors() <= before);
    });
}

/// Connections that are refused bring descriptors as well, which nobody takes: where the kernel can keep them out (Linux 6.16) no more
/// of these are left than fit the queue of those that wait to be accepted. Elsewhere they are, until nobody is accepted any more.
#[test]
fn hostile_connections_without_end_that_nobody_reads() {
    alone("hostile_connections_without_end_that_nobody_reads", || {
        let mut server = Server::new("blind");
        let before = descriptors();
        let keeps_out = can_keep_out();
        let other = Other::new(&server, Act::Blind);
        let refused = if keeps_out { 3000 } else { 300 };
        server.until("they are refused", |server| server.count("hanging-descriptors") > refused);
        if keeps_out {
            let most = before + SHARE + 253 + 2 * 65 + 12;
            assert!(descriptors() <= most, "{} after {before}", descriptors());
        }
        server.until("one thread closes", |_| closers() == 1);
        server.still_serves();
        drop(other);
        server.until("all are closed", |_| closers() == 0 && descriptors() <= before);
        server.still_serves();
        server.is_idle();
    });
}

fn can_keep_out() -> bool {
    const SO_PASSRIGHTS: i32 = 83;
    let program = format!(
        "import socket; socket.socket(socket.AF_UNIX).getsockopt(socket.SOL_SOCKET, {SO_PASSRIGHTS})"
    );
    Command::new("python3").args(["-c", &program]).stderr(Stdio::null()).status().unwrap().success()
}

/// A server that sends what hangs, whenever our client comes.
#[test]
fn hostile_server_whose_descriptors_hang() {
    alone("hostile_server_whose_descriptors_hang", || {
        let name = format!("quiver-closes-server-{}", std::process::id());
        let listening = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let address = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        rustix::net::bind(&listening, &address).unwrap();
        rustix::net::listen(&listening, 8).unwrap();
        let (config, timing) = (ClientConfig::default(), ClientTiming::default());
        let mut client = Client::new(Address::abstract_name(&name), config, timing).unwrap();
        let (bad, unread) = unclosable();
        let mut now = Instant::now();
        let mut told = HashMap::<_, usize>::new();
        let mut attempts = 0;
        let error = loop {
            now += PATIENCE;
            if let Some(ClientEvent::Unreachable { error }) = client.process(now).pop() {
                break error;
            }
            attempts += 1;
            let served = Raw::serve(&listening);
            served.send(&[1; 128], &[bad.as_fd()]);
            match &client.process(now)[..] {
                [ClientEvent::Refused { reason }] => *told.entry(reason.kind()).or_default() += 1,
                other => panic!("{other:?}"),
            }
            let mut ready = [PollFd::from_borrowed_fd(client.fd(), PollFlags::IN)];
            assert_eq!(poll(&mut ready, Some(&Timespec::default())), Ok(0), "it is kept awake");
        };
        assert_eq!(error, Error::HangingDescriptors);
        assert_eq!(attempts, SHARE, "{told:?}");
        // A thread has its name once it has run.
        let started = Instant::now();
        while closers() == 0 {
            assert!(started.elapsed() < PATIENCE, "nobody closes");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(closers(), 1);
        assert!(client.process(now + PATIENCE).is_empty(), "told once");
        close(bad);
        drop(unread);
        let started = Instant::now();
        while closers() > 0 {
            assert!(started.elapsed() < PATIENCE, "closed");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(client.process(now + 2 * PATIENCE).is_empty());
        Raw::serve(&listening);
    });
}
