//! Anything at all, in any order: state machines and rings end in an error or go on, and never panic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use common::{packet, receive, send};
use memif::control::{
    AddRegion, AddRing, ClientMachine, Hello, Init, Interfaces, Limits, Message, ServerMachine, VERSION,
};
use memif::region::{HugePages, Region, RegionOptions};
use memif::ring::{Event, RingSize};
use memif::{ClientConfig, QueueConfig, Reason, ServerConfig, in_process};
use proptest::prelude::*;

struct One(Arc<ServerConfig>);

impl Interfaces for One {
    fn config(&self, id: u32) -> Option<Arc<ServerConfig>> {
        (id == 0).then(|| Arc::clone(&self.0))
    }

    fn claim(&mut self, _: u32) -> Result<(), Reason> {
        Ok(())
    }
}

/// Small numbers, and all others.
fn number() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 0..3_u16, 1 => any::<u16>()]
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        Just(Message::Ack),
        Just(Message::Connect { interface: "a".into() }),
        Just(Message::Connected { interface: "b".into() }),
        (any::<u32>(), ".{0,120}")
            .prop_map(|(code, text)| Message::Disconnect { code, reason: text.as_str().into() }),
        (number(), number(), number(), number(), 0..20_u8).prop_map(|(min, max_region, m2s, s2m, log2)| {
            Message::Hello(Hello {
                name: "h".into(),
                min_version: if min == 0 { VERSION } else { min },
                max_version: VERSION,
                max_region,
                max_m2s_ring: m2s,
                max_s2m_ring: s2m,
                max_log2_ring_size: log2,
            })
        }),
        (number(), number(), 0..3_u8).prop_map(|(version, id, mode)| {
            let version = if version == 0 { VERSION } else { version };
            Message::Init(Init { version, id: id.into(), mode, secret: None, name: "i".into() })
        }),
        (number(), prop_oneof![Just(8192_u64), any::<u64>()])
            .prop_map(|(index, size)| Message::AddRegion(AddRegion { index, size })),
        (
            number(),
            number(),
            number(),
            prop_oneof![(0..8_u32).prop_map(|o| o * 1024), any::<u32>()],
            5..16_u8,
            0..20_u16
        )
            .prop_map(|(flags, index, region, offset, log2_ring_size, private)| {
                let private_hdr_size = private / 19;
                Message::AddRing(AddRing { flags, index, region, offset, log2_ring_size, private_hdr_size })
            }),
    ]
}

/// A message as bytes, at times spoilt, with the descriptor it should have, or another number of them.
#[derive(Debug, Clone)]
struct Said {
    message: Message,
    spoil: Option<(usize, u8)>,
    cut: Option<usize>,
    extra_fds: usize,
}

fn said() -> impl Strategy<Value = Said> {
    let rarely = |n: u32| prop::bool::weighted(1.0 / f64::from(n));
    (message(), 0..128_usize, any::<u8>(), rarely(8), 0..140_usize, rarely(20), rarely(20)).prop_map(
        |(message, at, byte, spoil, length, cut, extra)| Said {
            message,
            spoil: spoil.then_some((at, byte)),
            cut: cut.then_some(length),
            extra_fds: extra.into(),
        },
    )
}

impl Said {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.message.encode().to_vec();
        if let Some((at, byte)) = self.spoil {
            bytes[at] = byte;
        }
        bytes.resize(self.cut.unwrap_or(128), 0xff);
        bytes
    }

    fn fds(&self, region: &Region) -> Vec<OwnedFd> {
        let event = || Event::new("test").unwrap().fd().try_clone_to_owned().unwrap();
        let mut fds = match self.message {
            Message::AddRegion(_) => vec![region.fd().try_clone_to_owned().unwrap()],
            Message::AddRing(_) => vec![event()],
            _ => vec![],
        };
        fds.extend((0..self.extra_fds).map(|_| event()));
        fds
    }
}

fn queues() -> QueueConfig {
    QueueConfig {
        ring_size: RingSize::MIN,
        huge_pages: HugePages::Never,
        buffer_size: 128,
        ..QueueConfig::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_server_survives_any_hostile_conversation(conversation in prop::collection::vec(said(), 1..30), init_first: bool) {
        let options = RegionOptions { name: "any".into(), size: 8192, huge_pages: HugePages::Never };
        let region = Region::create(&options).unwrap();
        let config = ServerConfig { max_memory: 1 << 20, ..ServerConfig::default() };
        let mut interfaces = One(Arc::new(config));
        let (mut machine, _) = ServerMachine::new(Limits::of("s", [&*interfaces.0]));
        if init_first {
            let init = Init { version: VERSION, id: 0, mode: 0, secret: None, name: "i".into() };
            machine.receive(&Message::Init(init).encode(), vec![], &mut interfaces).unwrap();
        }
        for said in conversation {
            let was_connected = machine.is_connected();
            match machine.receive(&said.bytes(), said.fds(&region), &mut interfaces) {
                Ok(step) => {
                    prop_assert!(!was_connected, "nothing is legal any more");
                    prop_assert_eq!(step.connection.is_some(), machine.is_connected());
                    prop_assert!(step.reply.is_some());
                }
                Err(reason) => {
                    prop_assert!(!reason.text().as_str().is_empty());
                    break;
                }
            }
        }
    }

    #[test]
    fn a_client_survives_any_hostile_conversation(conversation in prop::collection::vec(said(), 1..12), acks in 0..6_usize) {
        let mut machine = ClientMachine::new(ClientConfig { queues: queues(), ..ClientConfig::default() });
        let options = RegionOptions { name: "any".into(), size: 4096, huge_pages: HugePages::Never };
        let region = Region::create(&options).unwrap();
        let hello = Limits::of("s", [&ServerConfig::default()]);
        let (_, hello) = ServerMachine::new(hello);
        machine.receive(&hello.encode(), vec![]).unwrap();
        for _ in 0..acks.min(4) {
            machine.receive(&Message::Ack.encode(), vec![]).unwrap();
        }
        for said in conversation {
            let was_connected = machine.is_connected();
            match machine.receive(&said.bytes(), said.fds(&region)) {
                Ok(step) => {
                    prop_assert!(!was_connected, "nothing is legal any more");
                    prop_assert_eq!(step.connection.is_some(), machine.is_connected());
                }
                Err(_) => break,
            }
        }
    }

    /// Whatever stands in shared memory: both ends receive and send, or fault.
    #[test]
    fn rings_survive_any_hostile_memory(
        words in prop::collection::vec((any::<prop::sample::Index>(), word()), 1..200),
        operations in prop::collection::vec(0..6_u8, 1..60),
    ) {
        let (mut client, mut server) = in_process(&queues()).unwrap();
        let table = Arc::clone(client.tx[0].regions());
        let rings = 2 * memif::ring::RingView::bytes(RingSize::MIN);
        let mut words = words.iter().cycle();
        for operation in operations {
            for _ in 0..3 {
                let (at, value) = words.next().unwrap();
                let at = at.index(rings as usize / 8) as u32 * 8;
                table.check(0, at, 8).unwrap().write(&value.to_le_bytes());
            }
            let packets = [packet(0, 60), packet(1, 500), packet(2, 128)];
            let end = if operation % 2 == 0 { &mut client } else { &mut server };
            // Every fault would end the connection; going on all the same must do no harm either.
            let _ = match operation / 2 {
                0 => receive(&mut end.rx[0]).map(|_| ()),
                1 => send(&mut end.tx[0], &packets).map(|_| ()),
                _ => end.rx[0].arm().map(|_| ()).map_err(|error| error.fault),
            };
        }
    }
}

/// Plausible descriptor words and index words, and all others.
fn word() -> impl Strategy<Value = u64> {
    let descriptor = (0..2_u64, 0..2_u64, 0..600_u64).prop_map(|(f, r, l)| f | r << 16 | l << 32);
    let offset = 0..100_000_u64;
    let header = (0..100_u64).prop_map(|head| 0x03e3_1f20 | head << 48);
    prop_oneof![descriptor, offset, header, 0..100_u64, any::<u64>()]
}
