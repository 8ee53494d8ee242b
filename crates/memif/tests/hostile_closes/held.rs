//! Peers that hold the file of a region, so that whoever seals it waits for ever.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use memif::control::{AddRegion, Limits, Message, ServerMachine};
use memif::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Error, ListenerSettings, Reason, ServerConfig,
    ServerEvent,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::common::{connect, exchange, small_queues};
use crate::peers::init;
use crate::raw;
use crate::server::{INTERFACES, PATIENCE, Server};
use crate::{alone, closers, descriptors, threads};

/// A process that does; see `holder.py`.
struct Holder {
    child: Child,
    says: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    /// At this socket, with these words.
    fn new(name: &str, words: &[Vec<u8>]) -> Self {
        let hex = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut child = Command::new("python3")
            .args(["-c", include_str!("holder.py"), name])
            .args(words.iter().map(hex))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, says }
    }

    /// What it says next; `false`: it can't do its part here, which only a machine may refuse that needn't run all tests.
    fn said(line: &str, expected: &str) -> bool {
        if line == expected {
            return true;
        }
        let required = ["QUIVER_REQUIRE_ROOT", "QUIVER_REQUIRE_PEERS"];
        let required = required.iter().any(|name| std::env::var(name).is_ok_and(|value| value == "1"));
        assert!(
            !required,
            "the file of a region can't be held here: {line}; run as root, or allow userfaultfd"
        );
        eprintln!("SKIPPED: {line}");
        false
    }

    fn hears(&mut self, expected: &str) -> bool {
        let line = self.says.next().unwrap().unwrap();
        Self::said(&line, expected)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A server that holds the memory of its client while that connects: the handshake ends when it is out of time, and whoever serves the client never
/// waits. There is no other attempt, with memory of its own, until the first one's is let go.
#[test]
fn hostile_server_that_holds_the_file() {
    alone("held::hostile_server_that_holds_the_file", || {
        let name = format!("quiver-held-server-{}", std::process::id());
        let (_, hello) = ServerMachine::new(Limits::of("holder", [&ServerConfig::default()]));
        let connected = Message::Connected { interface: "held".into() };
        let words = [hello, Message::Ack, connected].map(|message| message.encode().to_vec());
        let mut holder = Holder::new(&name, &words);
        if !holder.hears("listening") {
            return;
        }
        let timing = ClientTiming { handshake_timeout: Duration::from_secs(6), ..ClientTiming::default() };
        let config = ClientConfig { queues: small_queues(), ..ClientConfig::default() };
        let mut client = Client::new(Address::abstract_name(&name), config, timing).unwrap();
        let mut bystander = Server::new("held-bystander");
        let of_bystander = ClientConfig { queues: small_queues(), ..ClientConfig::default() };
        let at = Address::abstract_name(&bystander.name);
        let mut other = Client::new(at, of_bystander, ClientTiming::default()).unwrap();
        let (mut a, mut b) = connect(&mut bystander.listener, &mut [&mut other]).remove(0);
        let started = Instant::now();
        let mut told = Vec::new();
        let mut longest = Duration::ZERO;
        let is_refused =
            |event: &ClientEvent| matches!(event, ClientEvent::Unreachable { error: Error::HangingRegion });
        while !told.iter().any(is_refused) {
            assert!(started.elapsed() < PATIENCE, "{told:?}");
            let called = Instant::now();
            told.extend(client.process(called));
            longest = longest.max(called.elapsed());
            // Served by the same thread.
            exchange(&mut a, &mut b);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(holder.hears("held"));
        assert!(
            matches!(
                &told[..],
                [ClientEvent::Refused { reason: Reason::TimeoutHeld }, ClientEvent::Unreachable { .. }]
            ),
            "{told:?}"
        );
        assert!(longest < PATIENCE / 2, "it has waited {longest:?}");
        assert_eq!(threads("memif-seal"), 1);
        let later = || Instant::now() + Duration::from_secs(10);
        assert!(client.process(later()).is_empty(), "told once");
        let mut ready = [PollFd::from_borrowed_fd(client.fd(), PollFlags::IN)];
        assert_eq!(poll(&mut ready, Some(&Timespec::default())), Ok(0), "it is kept awake");
        drop(holder);
        let mut server = Server::named(&name);
        while !client.is_connected() {
            assert!(started.elapsed() < PATIENCE, "not even now: {told:?}");
            told.extend(client.process(later()));
            server.told.extend(server.listener.process(Instant::now()).unwrap());
            told.extend(client.process(later()));
            std::thread::sleep(Duration::from_millis(1));
        }
        while threads("memif-seal") > 0 {
            assert!(started.elapsed() < PATIENCE, "its thread stays");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Who says more while its region is being mapped isn't heard: it is disconnected once, when it is out of time, and nothing of what it said has come
/// to be.
#[test]
fn hostile_messages_while_a_region_is_held() {
    alone("held::hostile_messages_while_a_region_is_held", || {
        let settings =
            ListenerSettings { handshake_timeout: Duration::from_secs(6), ..ListenerSettings::default() };
        let mut server = Server::with("meanwhile", settings);
        let [ring, _] = raw::rings();
        let another = Message::AddRegion(AddRegion { index: 1, size: raw::REGION });
        let meanwhile = [another, ring, raw::connect_message()];
        let ids = INTERFACES..INTERFACES + 3;
        // Where regions are sealed.
        for id in ids.clone() {
            server.listener.register(id, ServerConfig::default()).unwrap();
        }
        let config = ClientConfig { id: 1, queues: small_queues(), ..ClientConfig::default() };
        let at = Address::abstract_name(&server.name);
        let mut bystander = Client::new(at, config, ClientTiming::default()).unwrap();
        let (mut a, mut b) = connect(&mut server.listener, &mut [&mut bystander]).remove(0);
        let theirs = server.listener.in_use().descriptors;
        let name = server.name.clone();
        let saying = std::thread::spawn(move || {
            let holders = ids.zip(&meanwhile).map(|(id, more)| {
                let words = [init(id), raw::region().encode().to_vec(), more.encode().to_vec()];
                let mut holder = Holder::new(&name, &words);
                (holder.says.next().unwrap().unwrap(), holder)
            });
            holders.collect::<Vec<_>>()
        });
        server.until("they are there", |_| saying.is_finished());
        let holders = saying.join().unwrap();
        if !holders.iter().all(|(line, _)| Holder::said(line, "held")) {
            return;
        }
        server.until("they are out of time", |server| {
            exchange(&mut a, &mut b);
            server.count("timeout") == 3
        });
        assert_eq!((threads("memif-map"), server.listener.in_use().descriptors), (3, theirs + 3));
        let refused = |id| {
            let for_time = |event: &&ServerEvent| matches!(event, ServerEvent::Refused { id: Some(at), reason: Reason::TimeoutHeld, .. } if *at == id);
            server.told.iter().filter(for_time).count()
        };
        assert_eq!([0, 1, 2].map(|n| refused(INTERFACES + n)), [1; 3], "{:?}", server.told);
        assert_eq!(server.listener.ended().values().sum::<u64>(), 3, "{:?}", server.listener.ended());
        for (_, mut holder) in holders {
            assert_eq!(holder.says.next().unwrap().unwrap(), format!("told {}", Reason::TimeoutHeld.text()));
            assert_eq!(holder.says.next().unwrap().unwrap(), "ended");
        }
        server.until("all is given back", |server| {
            exchange(&mut a, &mut b);
            server.listener.in_use().descriptors == theirs && threads("memif-map") == 0
        });
        server.still_serves();
    });
}

/// What it announces can't be sealed for ever, as it holds the lock of its file: it keeps one thread, and its interface, and others connect
/// meanwhile, and lose no packet.
#[test]
fn hostile_region_whose_file_is_held() {
    alone("held::hostile_region_whose_file_is_held", || {
        let settings =
            ListenerSettings { handshake_timeout: Duration::from_secs(6), ..ListenerSettings::default() };
        let mut server = Server::with("held", settings);
        // Where regions are sealed.
        server.listener.register(INTERFACES, ServerConfig::default()).unwrap();
        let config = ClientConfig { id: 1, queues: small_queues(), ..ClientConfig::default() };
        let at = Address::abstract_name(&server.name);
        let mut bystander = Client::new(at, config, ClientTiming::default()).unwrap();
        let (mut a, mut b) = connect(&mut server.listener, &mut [&mut bystander]).remove(0);
        let theirs = server.listener.in_use().descriptors;
        let before = descriptors();
        let words = [init(INTERFACES), raw::region().encode().to_vec()];
        let mut holder = Holder::new(&server.name, &words);
        let saying = std::thread::spawn(move || (holder.says.next().unwrap().unwrap(), holder));
        server.until("it is there", |_| saying.is_finished());
        let (line, holder) = saying.join().unwrap();
        if !Holder::said(&line, "held") {
            return;
        }
        server.until("its region is taken", |server| server.listener.in_use().descriptors == theirs + 1);
        server.until("a thread is at it", |_| threads("memif-map") == 1);
        server.still_serves();
        server.is_idle();
        server.until("it is out of time", |server| {
            exchange(&mut a, &mut b);
            server.count("timeout") == 1
        });
        // Its thread isn't let go by that, and what it has counts. Whoever comes next doesn't get another.
        for number in 1..=3 {
            let again = raw::Raw::connect(&server.name);
            again.send(&init(INTERFACES), &[]);
            server.until("it is turned away", |server| server.count("hanging-region") == number);
        }
        assert_eq!((threads("memif-map"), server.listener.in_use().descriptors), (1, theirs + 1));
        server.still_serves();
        drop(holder);
        server.until("all is given back", |server| {
            server.listener.in_use().descriptors == theirs && threads("memif-map") == 0
        });
        // The files had holes: from the first of them on the process watches what peers keep.
        server.until("all are closed", |_| closers() == 0 && descriptors() <= before + 1);
        server.still_serves();
        let again = raw::Raw::connect(&server.name);
        again.send(&init(INTERFACES), &[]);
        server.until("HELLO and ACK come", |_| again.hear().iter().any(|said| matches!(said, Message::Ack)));
    });
}
