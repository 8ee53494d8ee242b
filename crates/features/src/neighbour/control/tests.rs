//! The state machine alone, with time as the test says.

use super::config::SECOND;
use super::{Action, Config, NeighbourKey, Neighbours, State};
use crate::interface::{Interface, InterfaceAddress, LinkMode};
use crate::neighbour::neighbor_drop::{self, Drop};
use crate::neighbour::{ARP, IP4_LOOKUP, RESOLVE4};
use core::net::{IpAddr, Ipv4Addr};
use graph::IfIndex;
use graph::packet::{Flags, OwnedPacket};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{ArpPacket, IntoBytes, IpProtocol, Ipv4Header, MacAddr};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn host(interface: IfIndex, n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, interface as u8, n)
}

/// Interface with address 10.0.index.1/24.
fn interface(index: IfIndex) -> Interface {
    Interface {
        exists: true,
        up: true,
        mode: LinkMode::Ethernet,
        mac: MacAddr([2, 0xfe, 0, 0, 0, index as u8]),
        addresses: Arc::new(vec![InterfaceAddress { address: host(index, 1).into(), prefix_len: 24 }]),
        ..Interface::default()
    }
}

/// A packet of `len` bytes to `to`, as `ip4-resolve` hands it over.
fn waiting(tx_if: IfIndex, to: Ipv4Addr, len: usize, local: bool) -> OwnedPacket {
    let header = Ipv4Header::new(Ipv4Addr::new(192, 0, 2, 1), to, IpProtocol::UDP, 64, len as u16);
    let mut bytes = to.to_ipv6_mapped().octets().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(16 + len.max(20), 0);
    let mut packet = OwnedPacket::new(9, bytes);
    let meta = packet.meta_mut();
    meta.l3 = meta.data + 16;
    meta.l2 = meta.l3;
    meta.tx_if = tx_if;
    if local {
        meta.flags.set(Flags::LOCAL);
    }
    packet
}

fn arp(rx_if: IfIndex, packet: &ArpPacket) -> OwnedPacket {
    OwnedPacket::new(rx_if, packet.as_bytes().to_vec())
}

/// What `from` at `mac` answers to us on `interface`.
fn answer(interface: IfIndex, from: Ipv4Addr, mac: MacAddr) -> OwnedPacket {
    let us = MacAddr([2, 0xfe, 0, 0, 0, interface as u8]);
    arp(interface, &ArpPacket::request(us, host(interface, 1), from).reply(mac))
}

fn question(interface: IfIndex, from: Ipv4Addr, mac: MacAddr) -> OwnedPacket {
    arp(interface, &ArpPacket::request(mac, from, host(interface, 1)))
}

struct Machine {
    neighbours: Neighbours,
    now: u64,
    /// What the forwarding tables would say.
    programmed: BTreeMap<NeighbourKey, MacAddr>,
    /// Packets that came back, by target; those that are lost by reason.
    injected: BTreeMap<u32, usize>,
    lost: BTreeMap<u8, usize>,
    conflicts: usize,
    sent: usize,
}

impl Machine {
    fn new(config: Config) -> Self {
        let now = 7 * SECOND;
        let neighbours = Neighbours::new(config, now);
        let mut machine = Self {
            neighbours,
            now,
            programmed: BTreeMap::new(),
            injected: BTreeMap::new(),
            lost: BTreeMap::new(),
            conflicts: 0,
            sent: 0,
        };
        for index in 1..=3 {
            machine.neighbours.set_interface(now, index, Some(&interface(index)));
        }
        machine.act();
        machine
    }

    fn act(&mut self) {
        for action in self.neighbours.take_actions() {
            match action {
                Action::Send { .. } => self.sent += 1,
                Action::Program { interface, address, mac } => {
                    self.programmed.insert(NeighbourKey { interface, address }, mac);
                }
                Action::Unprogram { interface, address } => {
                    let was = self.programmed.remove(&NeighbourKey { interface, address });
                    assert!(was.is_some(), "{address} was not programmed");
                }
                Action::Inject { target: neighbor_drop::INJECT_KEY, packet, .. } => {
                    *self.lost.entry(packet.meta().next_hop as u8).or_default() += 1;
                }
                Action::Inject { target, .. } => *self.injected.entry(target).or_default() += 1,
                Action::Conflict { .. } => self.conflicts += 1,
            }
        }
    }

    /// Packets that were let go on.
    fn released(&self) -> usize {
        self.injected.get(&IP4_LOOKUP).copied().unwrap_or(0)
    }

    fn lost(&self, reason: Drop) -> usize {
        self.lost.get(&reason.into()).copied().unwrap_or(0)
    }

    fn punt(&mut self, kind: &str, packet: OwnedPacket) {
        let origin = packet.meta().rx_if;
        assert!(self.neighbours.punt(self.now, (0, origin), kind, packet));
        self.act();
    }

    fn pass(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            self.now = (self.now + SECOND / 10).min(end);
            self.neighbours.tick(self.now, 1000);
            self.act();
        }
    }

    fn state(&self, interface: IfIndex, address: Ipv4Addr) -> Option<State> {
        let key = NeighbourKey { interface, address: address.into() };
        self.neighbours.iter().find(|view| view.key == key).map(|view| view.state)
    }

    fn mac(&self, interface: IfIndex, address: Ipv4Addr) -> Option<MacAddr> {
        self.programmed.get(&NeighbourKey { interface, address: address.into() }).copied()
    }
}

#[test]
fn an_unasked_answer_makes_no_neighbour_and_moves_only_a_known_one() {
    let mut machine = Machine::new(Config::default());
    let it = host(1, 9);
    machine.punt(ARP, answer(1, it, MAC));
    assert_eq!(machine.state(1, it), None);
    machine.punt(RESOLVE4, waiting(1, it, 100, false));
    machine.punt(ARP, answer(1, it, MAC));
    assert_eq!((machine.state(1, it), machine.mac(1, it)), (Some(State::Reachable), Some(MAC)));
    machine.punt(ARP, answer(1, it, OTHER));
    assert_eq!(
        (machine.state(1, it), machine.mac(1, it)),
        (Some(State::Stale), Some(OTHER)),
        "nobody had asked: it is believed for now, and asked soon"
    );
}

#[test]
fn a_static_neighbour_is_neither_asked_nor_believed() {
    let mut machine = Machine::new(Config::default());
    let it = host(1, 9);
    machine.punt(RESOLVE4, waiting(1, it, 100, false));
    machine.neighbours.set_static(machine.now, 1, it.into(), MAC);
    machine.act();
    assert_eq!(machine.released(), 1, "who waited goes on");
    let sent = machine.sent;
    machine.punt(ARP, answer(1, it, OTHER));
    machine.punt(ARP, question(1, it, OTHER));
    machine.pass(1000 * SECOND);
    assert_eq!((machine.mac(1, it), machine.state(1, it)), (Some(MAC), Some(State::Static)));
    assert_eq!(machine.sent, sent + 3, "announcements of our own addresses, no question");
    machine.neighbours.flush(1, it.into());
    assert_eq!(machine.state(1, it), Some(State::Static), "only configuration takes it back");
    machine.neighbours.remove_static(1, it.into());
    machine.act();
    assert_eq!((machine.mac(1, it), machine.state(1, it)), (None, None));
}

#[test]
fn of_too_many_packets_the_oldest_go() {
    let mut machine = Machine::new(Config { waiting_bytes: 2000, ..Config::default() });
    for _ in 0..20 {
        machine.punt(RESOLVE4, waiting(1, host(1, 9), 60, false));
    }
    assert_eq!(machine.neighbours.waiting(), (16, 16 * 60));
    assert_eq!(machine.lost(Drop::QueueOverflow), 4);
    machine.punt(RESOLVE4, waiting(1, host(1, 10), 1500, false));
    assert_eq!((machine.neighbours.waiting().0, machine.lost(Drop::MemoryFull)), (16, 1));
    machine.pass(4 * SECOND);
    assert_eq!(machine.neighbours.waiting(), (0, 0));
    assert_eq!(machine.injected, [(crate::icmp::INJECT_KEY_4, 16)].into());
}

#[test]
fn a_scan_takes_no_room_from_neighbours_that_answer() {
    let mut machine = Machine::new(Config { per_interface: 10, total: 15, ..Config::default() });
    for n in 10..15 {
        machine.punt(RESOLVE4, waiting(1, host(1, n), 100, false));
        machine.punt(ARP, answer(1, host(1, n), MAC));
    }
    for n in 100..200 {
        machine.pass(SECOND / 100);
        machine.punt(RESOLVE4, waiting(1, host(1, n), 100, false));
    }
    assert_eq!(machine.neighbours.iter().count(), 10);
    assert!((10..15).all(|n| machine.state(1, host(1, n)) == Some(State::Reachable)));
    assert_eq!(machine.state(1, host(1, 199)), Some(State::Incomplete), "the newest is asked");
    assert_eq!(machine.lost(Drop::Evicted), 95, "one packet waited for each that was asked before");
    for n in 10..20 {
        machine.punt(ARP, question(2, host(2, n), MAC));
    }
    assert_eq!(machine.neighbours.iter().count(), 15);
    assert!((10..15).all(|n| machine.state(1, host(1, n)) == Some(State::Reachable)));
    assert!((10..20).all(|n| machine.state(2, host(2, n)) == Some(State::Stale)), "they asked us");
    machine.punt(RESOLVE4, waiting(2, host(2, 200), 100, false));
    assert_eq!(machine.state(2, host(2, 200)), None, "what answers isn't thrown out for what may");
    assert_eq!(machine.lost(Drop::TableFull), 1);
}

/// A packet that came in by `rx_if`.
fn from(rx_if: IfIndex, packet: OwnedPacket) -> OwnedPacket {
    let mut packet = packet;
    packet.meta_mut().rx_if = rx_if;
    packet
}

/// The flooder's packets come first, last, and in between.
#[test]
fn a_full_queue_loses_packets_of_the_origin_that_has_most() {
    let mut machine = Machine::new(Config::default());
    for n in 0..100 {
        machine.punt(RESOLVE4, from(20, waiting(1, host(1, 9), 100, false)));
        if n % 20 == 10 {
            machine.punt(RESOLVE4, from(21, waiting(1, host(1, 9), 60, false)));
        }
    }
    assert_eq!(machine.neighbours.waiting(), (16, 11 * 100 + 5 * 60));
    machine.punt(ARP, answer(1, host(1, 9), MAC));
    assert_eq!(machine.released(), 16);
}

#[test]
fn bytes_that_wait_are_limited_for_each_origin() {
    let config = Config { waiting_bytes: 20_000, waiting_bytes_per_origin: 5000, ..Config::default() };
    let mut machine = Machine::new(config);
    for n in 10..100 {
        machine.punt(RESOLVE4, from(20, waiting(1, host(1, n), 1000, false)));
    }
    assert_eq!(machine.neighbours.waiting(), (5, 5000));
    for n in 10..15 {
        machine.punt(RESOLVE4, from(21, waiting(1, host(1, n), 1000, false)));
    }
    assert_eq!(machine.neighbours.waiting(), (10, 10_000));
    for n in 10..15 {
        machine.punt(ARP, answer(1, host(1, n), MAC));
    }
    assert_eq!((machine.released(), machine.neighbours.waiting()), (10, (0, 0)));
    machine.punt(RESOLVE4, from(20, waiting(1, host(1, 200), 1000, false)));
    assert_eq!(machine.neighbours.waiting(), (1, 1000), "what has gone on counts no longer");
}

#[test]
fn a_scan_evicts_only_neighbors_that_its_own_origin_asked_for() {
    let mut machine = Machine::new(Config { unanswered_per_origin: 10, ..Config::default() });
    machine.punt(RESOLVE4, from(21, waiting(1, host(1, 250), 100, false)));
    // The scan asked for this one first; it is charged to the other origin once that waits for it, too.
    machine.punt(RESOLVE4, from(20, waiting(1, host(1, 251), 100, false)));
    machine.punt(RESOLVE4, from(20, waiting(1, host(1, 252), 100, false)));
    machine.punt(RESOLVE4, from(20, waiting(1, host(1, 253), 100, false)));
    machine.punt(RESOLVE4, from(21, waiting(1, host(1, 251), 100, false)));
    for n in 10..200 {
        machine.pass(SECOND / 100);
        machine.punt(RESOLVE4, from(20, waiting(1, host(1, n), 100, false)));
        machine.punt(RESOLVE4, from(20, waiting(1, host(1, 251), 100, false)));
    }
    assert_eq!(machine.neighbours.iter().count(), 12);
    for n in [250, 251] {
        assert_eq!(machine.state(1, host(1, n)), Some(State::Incomplete));
        machine.punt(ARP, answer(1, host(1, n), MAC));
    }
    // Questions by stations that nobody looks for count, too.
    for n in 10..100 {
        let packet = question(2, host(2, n), MAC);
        assert!(machine.neighbours.punt(machine.now, (0, 20), ARP, packet));
        machine.act();
    }
    assert!(machine.neighbours.iter().filter(|view| view.state == State::Stale).count() <= 10);
    assert!([250, 251].iter().all(|n| machine.state(1, host(1, *n)) == Some(State::Reachable)));
}

#[test]
fn a_neighbor_that_failed_for_one_origin_is_asked_for_by_another() {
    let mut machine = Machine::new(Config::default());
    machine.punt(RESOLVE4, from(20, waiting(1, host(1, 9), 100, false)));
    machine.pass(4 * SECOND);
    assert_eq!(machine.state(1, host(1, 9)), Some(State::Failed));
    machine.punt(RESOLVE4, from(20, waiting(1, host(1, 9), 100, false)));
    let unreachable = || (2, Some(State::Failed));
    assert_eq!((machine.injected[&crate::icmp::INJECT_KEY_4], machine.state(1, host(1, 9))), unreachable());
    let sent = machine.sent;
    machine.punt(RESOLVE4, from(21, waiting(1, host(1, 9), 100, false)));
    assert_eq!((machine.state(1, host(1, 9)), machine.sent), (Some(State::Incomplete), sent + 1));
    machine.punt(ARP, answer(1, host(1, 9), MAC));
    assert_eq!(machine.released(), 1);
}

#[test]
fn a_link_that_comes_up_has_failed_neighbors_asked_again() {
    let mut machine = Machine::new(Config::default());
    machine.punt(RESOLVE4, waiting(1, host(1, 9), 100, false));
    machine.pass(4 * SECOND);
    assert_eq!(machine.state(1, host(1, 9)), Some(State::Failed));
    machine.neighbours.link_up(machine.now, 1);
    machine.act();
    machine.punt(RESOLVE4, waiting(1, host(1, 9), 100, false));
    assert_eq!(machine.state(1, host(1, 9)), Some(State::Incomplete));
}

#[test]
fn what_is_no_neighbour_is_not_asked_for() {
    let mut machine = Machine::new(Config::default());
    let sent = machine.sent;
    for (interface, to) in [(1, host(1, 1)), (1, host(1, 255)), (1, host(1, 0)), (9, host(9, 9))] {
        machine.punt(RESOLVE4, waiting(interface, to, 100, false));
    }
    machine.punt(RESOLVE4, waiting(1, Ipv4Addr::new(224, 0, 0, 9), 100, false));
    assert_eq!((machine.sent, machine.lost(Drop::NeighbourGone)), (sent, 1), "there is no interface 9");
    assert_eq!(machine.lost(Drop::NotANeighbour), 4);
}

#[test]
fn neighbours_go_with_their_interface_and_their_network() {
    let mut machine = Machine::new(Config::default());
    for index in 1..=2 {
        machine.punt(RESOLVE4, waiting(index, host(index, 9), 100, false));
        machine.punt(ARP, answer(index, host(index, 9), MAC));
    }
    let renumbered = InterfaceAddress { address: host(7, 1).into(), prefix_len: 24 };
    let changed = Interface { addresses: Arc::new(vec![renumbered]), ..interface(1) };
    machine.neighbours.set_interface(machine.now, 1, Some(&changed));
    machine.act();
    assert_eq!((machine.state(1, host(1, 9)), machine.mac(1, host(1, 9))), (None, None));
    machine.punt(RESOLVE4, waiting(2, host(2, 10), 100, false));
    machine.neighbours.set_interface(machine.now, 2, Some(&Interface { up: false, ..interface(2) }));
    machine.act();
    assert_eq!(machine.neighbours.iter().count(), 0);
    assert!(machine.programmed.is_empty());
    assert_eq!((machine.neighbours.waiting(), machine.lost(Drop::NeighbourGone)), ((0, 0), 1));
}

#[test]
fn addresses_are_announced_when_they_come_and_when_the_mac_changes() {
    let mut machine = Machine::new(Config::default());
    machine.pass(10 * SECOND);
    assert_eq!(machine.sent, 6, "three interfaces, each twice");
    machine.neighbours.set_interface(machine.now, 1, Some(&interface(1)));
    machine.pass(10 * SECOND);
    assert_eq!(machine.sent, 6, "nothing is new");
    machine.neighbours.set_interface(machine.now, 1, Some(&Interface { mac: OTHER, ..interface(1) }));
    machine.pass(10 * SECOND);
    assert_eq!(machine.sent, 8);
    machine.neighbours.set_interface(machine.now, 1, None);
    machine.neighbours.set_interface(machine.now, 1, Some(&interface(1)));
    machine.neighbours.set_interface(machine.now, 1, None);
    machine.pass(10 * SECOND);
    assert_eq!(machine.sent, 9, "what has gone isn't announced again");
    machine.neighbours.link_up(machine.now, 1);
    machine.neighbours.link_up(machine.now, 2);
    machine.neighbours.link_up(machine.now, 2);
    machine.pass(10 * SECOND);
    assert_eq!(
        machine.sent, 11,
        "what isn't there isn't announced, and a link that bounces within a moment is as one"
    );
}

#[test]
fn whoever_is_being_asked_is_asked_anew_when_the_link_comes_up() {
    let mut machine = Machine::new(Config::default());
    machine.pass(10 * SECOND);
    machine.punt(RESOLVE4, waiting(1, host(1, 9), 100, false));
    let sent = machine.sent;
    machine.neighbours.link_up(machine.now, 2);
    machine.act();
    assert_eq!(machine.sent, sent, "a peer that has just connected has no room yet");
    machine.pass(SECOND / 5);
    assert_eq!(machine.sent, sent + 1, "announced; nobody is being asked there");
    machine.neighbours.link_up(machine.now, 1);
    machine.pass(SECOND / 5);
    assert_eq!(machine.sent, sent + 3, "announced, and asked");
    // Who begins to be asked for within that moment isn't asked to nobody either.
    machine.neighbours.link_up(machine.now, 1);
    machine.punt(RESOLVE4, waiting(1, host(1, 10), 100, false));
    machine.act();
    assert_eq!(machine.sent, sent + 3, "quiet");
    machine.pass(SECOND / 5);
    assert_eq!(machine.sent, sent + 6, "announced, and both asked");
}

#[test]
fn a_packet_that_goes_round_is_stopped() {
    let mut machine = Machine::new(Config::default());
    machine.punt(RESOLVE4, waiting(1, host(1, 9), 100, false));
    machine.punt(ARP, answer(1, host(1, 9), MAC));
    for _ in 0..1000 {
        machine.punt(RESOLVE4, waiting(1, host(1, 9), 100, false));
    }
    assert!(machine.released() < 100, "{}", machine.released());
    assert_eq!(machine.released() + machine.lost(Drop::NotProgrammed), 1001);
    machine.programmed.clear();
    machine.pass(2 * SECOND);
    machine.punt(RESOLVE4, waiting(1, host(1, 9), 100, false));
    assert_eq!(machine.mac(1, host(1, 9)), Some(MAC), "perhaps the tables have forgotten it");
}

#[derive(Clone, Debug)]
enum Event {
    Resolve { interface: IfIndex, host: u8, packets: u64, len: usize, local: bool },
    Answer { interface: IfIndex, host: u8, moved: bool },
    Question { interface: IfIndex, host: u8, moved: bool },
    Gratuitous { interface: IfIndex, host: u8 },
    Pass { tenths: u64, budget: usize },
    Interface { interface: IfIndex, up: bool, network: u8 },
    Static { interface: IfIndex, host: u8, set: bool },
    Flush { interface: IfIndex, host: u8 },
}

fn event() -> impl Strategy<Value = Event> {
    let of = || (1..=3u16, 0..=24u8);
    prop_oneof![
        6 => (of(), 1..6u64, 20..700usize, any::<bool>()).prop_map(|((interface, host), packets, len, local)| {
            Event::Resolve { interface, host, packets, len, local }
        }),
        4 => (of(), any::<bool>()).prop_map(|((interface, host), moved)| Event::Answer { interface, host, moved }),
        3 => (of(), any::<bool>()).prop_map(|((interface, host), moved)| Event::Question { interface, host, moved }),
        1 => of().prop_map(|(interface, host)| Event::Gratuitous { interface, host }),
        4 => (0..60u64, 1..20usize).prop_map(|(tenths, budget)| Event::Pass { tenths, budget }),
        1 => (1..=3u16, any::<bool>(), 1..=4u8)
            .prop_map(|(interface, up, network)| Event::Interface { interface, up, network }),
        1 => (of(), any::<bool>()).prop_map(|((interface, host), set)| Event::Static { interface, host, set }),
        1 => of().prop_map(|(interface, host)| Event::Flush { interface, host }),
    ]
}

const SMALL: Config = Config {
    per_interface: 8,
    total: 12,
    unanswered_per_origin: 6,
    waiting: 3,
    waiting_bytes: 4000,
    waiting_bytes_per_origin: 3000,
    retransmit: SECOND,
    attempts: 3,
    reachable: 30 * SECOND,
    stale: 5 * SECOND,
    failed: 3 * SECOND,
    announcements: 2,
    announce: 2 * SECOND,
    settle: SECOND / 10,
    defend: 10 * SECOND,
};

/// What must hold after every event.
fn hold_together(machine: &Machine, resolves: u64) {
    let views: Vec<_> = machine.neighbours.iter().collect();
    let learned = |interface: Option<IfIndex>| {
        let of = views.iter().filter(|view| interface.is_none_or(|index| view.key.interface == index));
        of.filter(|view| view.state != State::Static).count()
    };
    assert!(learned(None) <= SMALL.total);
    assert!((1..=3).all(|index| learned(Some(index)) <= SMALL.per_interface));
    assert!(views.iter().all(|view| view.waiting <= SMALL.waiting));
    assert!(views.iter().all(|view| view.waiting == 0 || view.state == State::Incomplete));
    let (packets, bytes) = machine.neighbours.waiting();
    assert!(bytes <= SMALL.waiting_bytes && (packets == 0) == (bytes == 0));
    let fates = machine.injected.values().sum::<usize>() + machine.lost.values().sum::<usize>() + packets;
    assert_eq!(
        fates as u64, resolves,
        "every packet has one fate: {:?}, lost {:?}, {packets} wait",
        machine.injected, machine.lost
    );
    let usable = views.iter().filter(|view| view.state.is_usable());
    let usable: BTreeMap<_, _> = usable.map(|view| (view.key, view.mac.unwrap_or(MacAddr::ZERO))).collect();
    assert_eq!(machine.programmed, usable, "the tables say what is known");
}

proptest! {
    #[test]
    fn whatever_happens_bounds_hold_and_no_packet_is_lost_track_of(
        events in proptest::collection::vec(event(), 1..250)
    ) {
        let mut machine = Machine::new(SMALL);
        let mut resolves = 0;
        for event in events {
            match event {
                Event::Resolve { interface, host: n, packets, len, local } => {
                    resolves += packets;
                    for _ in 0..packets {
                        machine.punt(RESOLVE4, waiting(interface, host(interface, n), len, local));
                    }
                }
                Event::Answer { interface, host: n, moved } => {
                    machine.punt(ARP, answer(interface, host(interface, n), if moved { OTHER } else { MAC }));
                }
                Event::Question { interface, host: n, moved } => {
                    machine.punt(ARP, question(interface, host(interface, n), if moved { OTHER } else { MAC }));
                }
                Event::Gratuitous { interface, host: n } => {
                    let it = host(interface, n);
                    machine.punt(ARP, arp(interface, &ArpPacket::request(OTHER, it, it)));
                }
                Event::Pass { tenths, budget } => {
                    machine.now += tenths * SECOND / 10;
                    machine.neighbours.tick(machine.now, budget);
                }
                Event::Interface { interface: index, up, network } => {
                    let address = InterfaceAddress { address: host(network.into(), 1).into(), prefix_len: 24 };
                    let changed = Interface { addresses: Arc::new(vec![address]), ..interface(index) };
                    machine.neighbours.set_interface(machine.now, index, up.then_some(&changed));
                }
                Event::Static { interface, host: n, set } => {
                    let address = IpAddr::V4(host(interface, n));
                    if set {
                        machine.neighbours.set_static(machine.now, interface, address, MAC);
                    } else {
                        machine.neighbours.remove_static(interface, address);
                    }
                }
                Event::Flush { interface, host: n } => {
                    machine.neighbours.flush(interface, host(interface, n).into());
                }
            }
            machine.act();
            hold_together(&machine, resolves);
        }
        machine.pass(60 * SECOND);
        hold_together(&machine, resolves);
        let left: Vec<_> = machine.neighbours.iter().filter(|view| view.state != State::Static).collect();
        prop_assert!(left.is_empty(), "nobody answers, and still there are {left:?}");
        let sent = machine.sent;
        machine.pass(60 * SECOND);
        prop_assert_eq!(machine.sent, sent, "and then there is nothing to do");
    }

    #[test]
    fn whatever_bytes_come_nothing_panics(
        kind in prop_oneof![Just("arp"), Just("nd"), Just("resolve4"), Just("resolve6")],
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        (l3, l4) in (any::<u16>(), any::<u16>()),
    ) {
        let mut machine = Machine::new(SMALL);
        let mut packet = OwnedPacket::new(1, bytes);
        let meta = packet.meta_mut();
        (meta.l3, meta.l4, meta.tx_if) = (l3, l4, 1);
        machine.punt(kind, packet);
        machine.pass(10 * SECOND);
    }
}
