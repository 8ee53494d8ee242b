//! A client that says anything to a server.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use memif::control::{
    Amount, Interfaces, Limits, Member, Message, Quota, Scope, ServerMachine, ServerNext, ServerStep,
    Unmapped,
};
use memif::region::{HugePages, Region, RegionOptions, RegionTable};
use memif::ring::{Event, RingSize, RingView};
use memif::{Reason, Secret, ServerConfig};

use super::bytes::Bytes;

const MEMORY: u32 = 8192;
const RING: u32 = 1152;

struct One {
    config: Arc<ServerConfig>,
    quota: Arc<Member>,
}

impl Interfaces for One {
    fn config(&self, id: u32) -> Option<Arc<ServerConfig>> {
        (id == 0).then(|| Arc::clone(&self.config))
    }

    fn quota(&self, _: u32) -> Arc<Member> {
        Arc::clone(&self.quota)
    }

    fn claim(&mut self, _: u32) -> Result<(), Reason> {
        Ok(())
    }
}

/// Memory with rings wherever one may be, an eventfd, and something that is neither.
struct Descriptors {
    memory: Region,
    event: Event,
    pipe: OwnedFd,
}

impl Descriptors {
    fn new() -> Self {
        let options =
            RegionOptions { name: "fuzz".into(), size: MEMORY.into(), huge_pages: HugePages::Never };
        let memory = Region::create(&options).unwrap();
        let shared = memory.fd().try_clone_to_owned().unwrap();
        let region =
            Arc::new(Region::map(shared, MEMORY.into(), memif::region::SealPolicy::Require).unwrap());
        let table = Arc::new(RegionTable::new(vec![region]).unwrap());
        for at in (0..=MEMORY - RING).step_by(RING as usize) {
            RingView::new(Arc::clone(&table), 0, at, RingSize::MIN).unwrap().initialise();
        }
        Self { memory, event: Event::new("test").unwrap(), pipe: rustix::pipe::pipe().unwrap().0 }
    }

    fn pick(&self, which: u8) -> OwnedFd {
        let fd = match which % 8 {
            0 => &self.pipe.try_clone().unwrap(),
            n if n % 2 == 1 => &self.memory.fd().try_clone_to_owned().unwrap(),
            _ => &self.event.fd().try_clone_to_owned().unwrap(),
        };
        fd.try_clone().unwrap()
    }
}

/// What has been agreed, as a second, simpler state machine sees it.
#[derive(Default)]
struct Seen {
    init: bool,
    regions: usize,
    /// To the server, to the client.
    rings: [usize; 2],
    connected: bool,
}

impl Seen {
    /// Takes what the server has accepted; panics if it must not have.
    fn accepted(&mut self, message: &[u8], config: &ServerConfig) {
        let number = |at: usize, n: usize| {
            message[at..at + n].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        assert!(!self.connected, "nothing is legal any more");
        match number(0, 2) {
            3 => {
                assert!(!self.init, "INIT twice");
                assert_eq!((number(2, 2), number(4, 4), number(8, 1)), (0x0200, 0, 0));
                assert_eq!(&message[9..14], b"hush\0");
                self.init = true;
            }
            4 => {
                assert!(self.init && self.rings == [0, 0]);
                assert_eq!(number(2, 2), self.regions as u64);
                assert!((1..=u64::from(MEMORY)).contains(&number(4, 8)));
                self.regions += 1;
                assert!(self.regions <= config.max_regions.into());
            }
            5 => {
                let (flags, index, region) = (number(2, 2), number(4, 2), number(6, 2));
                let (offset, log2, private) = (number(8, 4), number(12, 1), number(13, 2));
                assert!(self.init && flags < 2 && private == 0 && (6..=8).contains(&log2));
                assert!(region < self.regions as u64 && offset + 128 + (16 << log2) <= u64::from(MEMORY));
                let (max, rings) = match flags {
                    1 => (config.max_rx_queues, &mut self.rings[0]),
                    _ => (config.max_tx_queues, &mut self.rings[1]),
                };
                assert_eq!(index, *rings as u64);
                *rings += 1;
                assert!(*rings <= max.into());
            }
            6 => {
                assert!(self.init && self.rings != [0, 0]);
                self.connected = true;
            }
            other => panic!("message {other} was accepted"),
        }
    }
}

/// What two interfaces of one socket share, by one byte: from nothing to more than both can use.
struct Shared {
    process: Arc<Quota>,
    socket: Arc<Quota>,
    other: Member,
    max: Amount,
    /// What the other interface is promised: half of the tighter bound, among two.
    promised: usize,
}

impl Shared {
    fn new(choice: u8) -> Self {
        let max = Amount {
            descriptors: usize::from(choice & 15),
            memory: u64::from(choice >> 4 & 3) * u64::from(MEMORY),
        };
        // Of the two bounds the process's is the tighter one in half of the cases.
        let (outer, inner) = if choice & 0x80 == 0 { (Amount::MAX, max) } else { (max, Amount::MAX) };
        let process = Arc::new(Quota::new(Scope::Process, outer));
        let socket = Arc::new(Quota::new(Scope::Socket, inner).within(Arc::clone(&process)));
        let other = Member::new(&socket, max);
        Self { process, socket, other, max, promised: max.descriptors / 4 }
    }

    /// Panics if more is taken than one of the two may have.
    fn check(&self, seen: &Seen) {
        let used = self.socket.in_use();
        assert_eq!(used, self.process.in_use());
        assert!(used.descriptors + self.promised <= self.max.descriptors && used.memory <= self.max.memory);
        assert!(seen.connected || used.descriptors == seen.regions + seen.rings.iter().sum::<usize>());
    }

    /// Panics if what ended has kept something.
    fn check_given_back(self) {
        assert_eq!(self.socket.in_use(), Amount::default());
        assert_eq!(self.process.in_use(), Amount::default());
        drop(self.other);
    }
}

/// Any sequence of messages and descriptors: what is accepted is legal and within the quota, what is connected is what was announced, and
/// nothing of the quota is kept.
pub fn server(data: &[u8]) {
    thread_local! { static DESCRIPTORS: Descriptors = Descriptors::new() }
    let Some((&choice, data)) = data.split_last() else { return };
    let shared = Shared::new(choice);
    let meanwhile = choice & 0x40 != 0;
    DESCRIPTORS.with(|descriptors| converse(Bytes(data), descriptors, &shared, meanwhile));
    shared.check_given_back();
}

fn converse(mut bytes: Bytes<'_>, descriptors: &Descriptors, shared: &Shared, meanwhile: bool) {
    let config = ServerConfig {
        secret: Secret::new("hush").ok(),
        max_regions: 2,
        max_rx_queues: 3,
        max_tx_queues: 2,
        max_memory: 1 << 16,
        max_ring_size: RingSize::from_log2(8).unwrap(),
        ..ServerConfig::default()
    };
    let config = Arc::new(config);
    let quota = Arc::new(Member::new(&shared.socket, shared.max));
    let mut interfaces = One { config: Arc::clone(&config), quota };
    let (mut machine, hello) = ServerMachine::new(Limits::of("fuzz", [&*config]));
    assert!(Message::decode(&hello.encode()).is_ok());
    let mut seen = Seen::default();
    while !bytes.is_empty() {
        let (message, fds) = say(&mut bytes, descriptors, &seen);
        let step = match heard(&mut machine, &message, fds, &mut interfaces) {
            Ok(ServerNext::Step(step)) => Ok(step),
            Ok(ServerNext::Map(unmapped)) if meanwhile && !bytes.is_empty() => {
                let (message, fds) = say(&mut bytes, descriptors, &seen);
                let next = heard(&mut machine, &message, fds, &mut interfaces);
                return interrupted(next, machine, unmapped, shared);
            }
            Ok(ServerNext::Map(unmapped)) => machine.mapped(unmapped.map()),
            Err(reason) => Err(reason),
        };
        match step {
            Err(reason) => return refused(&reason),
            Ok(step) => accepted(step, &message, &machine, &mut seen, shared, &config),
        }
    }
}

/// As a listener hears it: descriptors that aren't due aren't even taken, and their number is looked at first.
fn heard(
    machine: &mut ServerMachine,
    message: &[u8],
    fds: Vec<OwnedFd>,
    interfaces: &mut One,
) -> Result<ServerNext, Reason> {
    if !fds.is_empty() && !machine.takes_descriptors() {
        return Err(machine.not_due(message));
    }
    ServerMachine::check_count(message, fds.len())?;
    machine.begin(message, fds, interfaces)
}

/// Whatever is said while a region is being mapped ends the connection. The region's part of the quota is given back with the region.
fn interrupted(
    next: Result<ServerNext, Reason>,
    machine: ServerMachine,
    unmapped: Unmapped,
    shared: &Shared,
) {
    refused(&next.expect_err("a region is being mapped"));
    drop(machine);
    assert_eq!(shared.socket.in_use().descriptors, 1);
    drop(unmapped.map());
}

fn accepted(
    step: ServerStep,
    message: &[u8],
    machine: &ServerMachine,
    seen: &mut Seen,
    shared: &Shared,
    config: &ServerConfig,
) {
    seen.accepted(message, config);
    assert_eq!(machine.is_connected(), seen.connected);
    shared.check(seen);
    assert!(step.reply.is_some());
    if let Some(connection) = step.connection {
        assert_eq!([connection.rx.len(), connection.tx.len()], seen.rings);
        assert!(seen.connected);
    }
}

fn refused(reason: &Reason) {
    let text = reason.text();
    assert!(
        !text.as_str().is_empty() && !text.as_str().contains(char::is_control) && !reason.kind().is_empty()
    );
}

/// A message that is often what should come next, and its descriptors.
fn say(bytes: &mut Bytes<'_>, descriptors: &Descriptors, seen: &Seen) -> (Vec<u8>, Vec<OwnedFd>) {
    let choice = bytes.byte();
    let mut message = vec![0; 128];
    let kind = match choice & 15 {
        0..=9 if !seen.init => 3,
        n @ 0..=9 => [4, 5, 5, 5, 6][usize::from(n) / 2],
        n @ 10..=14 => u16::from(n) - 8,
        _ => bytes.word(),
    };
    message[..2].copy_from_slice(&kind.to_le_bytes());
    let body = match kind {
        3 => {
            message[9..13].copy_from_slice(b"hush");
            vec![(2, bytes.one_of(&[0x0200]), 2), (4, bytes.one_of(&[0]), 4), (8, bytes.one_of(&[0]), 1)]
        }
        4 => vec![
            (2, bytes.one_of(&[seen.regions as u32]), 2),
            (4, bytes.one_of(&[MEMORY, 4096, MEMORY + 1, 0]), 4),
            (8, bytes.one_of(&[0]), 4),
        ],
        5 => {
            let flags = bytes.one_of(&[1, 0]);
            let next = seen.rings[usize::from(flags & 1 == 0)] as u32;
            let offset = bytes.one_of(&[0, RING, 2 * RING, MEMORY - RING, MEMORY - 128, 64, 8, u32::MAX]);
            vec![
                (2, flags, 2),
                (4, bytes.one_of(&[next]), 2),
                (6, bytes.one_of(&[0]), 2),
                (8, offset, 4),
                (12, bytes.one_of(&[6, 6, 6, 7, 8, 9, 15]), 1),
                (13, bytes.one_of(&[0]), 2),
            ]
        }
        _ => vec![],
    };
    for (at, value, width) in body {
        message[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
    if choice & 0x70 == 0x10 {
        let at = usize::from(bytes.byte() & 127);
        message[at] = bytes.byte();
    }
    if choice & 0x70 == 0x20 && choice & 8 == 0 {
        message.resize(usize::from(bytes.byte()), 0xff);
    }
    let usual = match kind {
        4 => vec![1],
        5 => vec![2],
        _ => vec![],
    };
    let which =
        if choice & 0x80 == 0 { usual } else { (0..bytes.byte() % 4).map(|_| bytes.byte()).collect() };
    (message, which.into_iter().map(|which| descriptors.pick(which)).collect())
}
