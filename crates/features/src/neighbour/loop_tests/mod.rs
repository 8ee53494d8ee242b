//! Worker and control thread together, as the daemon joins them: a packet waits, a neighbour answers, the packet goes on.

mod lost;
mod shares;

use super::control::{Action, Config, Neighbours, State};
use super::{ETHERNET_OUT, frame};
use crate::ip::control::Forwarding;
use crate::ip::topology::{self, address};
use crate::testing::{Bench, TestWire, Vectors, rows};
use graph::nodes::Injection;
use graph::port::IfIndex;
use graph::simd::Tier;
use graph::worker::Event;
use proptest::prelude::*;
use std::sync::mpsc::Sender;

/// A bench with its control thread.
struct Lab {
    bench: Bench,
    forwarding: Forwarding,
    neighbours: Neighbours,
    injector: Sender<Injection>,
    conflicts: usize,
}

impl Lab {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let mut bench = Bench::new(Tier::available().remove(0));
        let forwarding = topology::set_up(&mut bench, 300);
        let mut neighbours = Neighbours::new(config, bench.now);
        for index in 1..=6 {
            neighbours.set_interface(bench.now, index, Some(&topology::interface(index, 300)));
        }
        let injector = bench.graph.injector().unwrap();
        let mut lab = Self { bench, forwarding, neighbours, injector, conflicts: 0 };
        // Announcements of our own addresses are over.
        lab.pass(5);
        lab.all_sent();
        lab
    }

    fn send(&mut self, rx_if: IfIndex, frame: &[u8]) {
        self.bench.wires[&rx_if].send(frame, 256);
        self.settle();
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.bench.now += 100_000_000;
            self.neighbours.tick(self.bench.now, 1000);
            self.settle();
        }
    }

    /// Lets both sides work until neither has anything to do.
    fn settle(&mut self) {
        loop {
            self.bench.settle();
            while let Ok(event) = self.bench.events.try_recv() {
                if let Event::Punt { worker, kind, origin, packet } = event {
                    assert!(self.neighbours.punt(self.bench.now, (worker, origin), kind, packet), "{kind}");
                }
            }
            let actions = self.neighbours.take_actions();
            if actions.is_empty() {
                return;
            }
            actions.into_iter().for_each(|action| self.act(action));
        }
    }

    fn act(&mut self, action: Action) {
        let inject = |target, packet| self.injector.send(Injection { target, packet }).unwrap();
        match action {
            Action::Send { tx_if, frame: bytes } => inject(ETHERNET_OUT, frame(tx_if, bytes)),
            Action::Inject { target, packet, .. } => inject(target, packet),
            Action::Program { interface, address, mac } => {
                self.forwarding.set_neighbour(interface, address, Some(mac)).unwrap();
                self.bench.commit(&mut self.forwarding);
            }
            Action::Unprogram { interface, address } => {
                self.forwarding.set_neighbour(interface, address, None).unwrap();
                self.bench.commit(&mut self.forwarding);
            }
            Action::Conflict { .. } => self.conflicts += 1,
        }
    }

    fn sent(&self, tx_if: IfIndex) -> Vec<Vec<u8>> {
        self.bench.wires[&tx_if].take()
    }

    fn all_sent(&self) -> usize {
        self.bench.wires.values().map(TestWire::take).map(|frames| frames.len()).sum()
    }

    fn state(&self, interface: IfIndex, of: &str) -> Option<State> {
        let key = |view: &super::control::NeighbourView| (view.key.interface, view.key.address);
        self.neighbours.iter().find(|view| key(view) == (interface, address(of))).map(|view| view.state)
    }
}

fn vectors() -> Vectors {
    Vectors::read(include_str!("../../../tests/vectors/waiting.txt"))
}

#[test]
fn a_packet_waits_for_the_answer_and_goes_on() {
    let (mut lab, v) = (Lab::new(), vectors());
    lab.send(2, &v.get("ping-1"));
    assert_eq!(lab.sent(1), [v.get("who-has")]);
    assert_eq!(lab.state(1, "10.0.1.9"), Some(State::Incomplete));
    lab.send(2, &v.get("ping-2"));
    assert_eq!(lab.sent(1), Vec::<Vec<u8>>::new(), "one question is enough");
    lab.send(1, &v.get("is-at"));
    assert_eq!(lab.sent(1), [v.get("ping-1-out"), v.get("ping-2-out")]);
    assert_eq!(lab.state(1, "10.0.1.9"), Some(State::Reachable));
    lab.send(2, &v.get("ping-1"));
    assert_eq!(lab.sent(1), [v.get("ping-1-out")], "the next ones don't wait");
    assert_eq!(lab.neighbours.waiting(), (0, 0));
}

#[test]
fn who_does_not_answer_is_reported_unreachable() {
    let (mut lab, v) = (Lab::new(), vectors());
    lab.send(2, &v.get("ping-1"));
    lab.send(2, &v.get("ping-2"));
    lab.pass(2);
    assert_eq!(lab.sent(2), Vec::<Vec<u8>>::new());
    lab.pass(2);
    assert_eq!(lab.sent(1), vec![v.get("who-has"); 3]);
    assert_eq!(lab.sent(2), [v.get("unreachable-1"), v.get("unreachable-2")]);
    lab.send(2, &v.get("ping-1"));
    assert_eq!(lab.sent(2), [v.get("unreachable-1")], "for a moment nobody is asked again");
    assert_eq!(lab.sent(1), Vec::<Vec<u8>>::new());
    lab.pass(4);
    lab.send(2, &v.get("ping-1"));
    assert_eq!(lab.sent(1), [v.get("who-has")]);
}

#[test]
fn a_next_router_is_resolved_for_all_routes_through_it() {
    let (mut lab, v) = (Lab::new(), vectors());
    lab.send(2, &v.get("via-router"));
    assert_eq!(lab.sent(2), [v.get("who-has-router")]);
    lab.send(2, &v.get("router-is-at"));
    assert_eq!(lab.sent(2), [v.get("via-router-out")]);
}

#[test]
fn a_station_that_asks_us_need_not_be_asked() {
    let (mut lab, v) = (Lab::new(), vectors());
    lab.send(1, &v.get("asks-us"));
    assert_eq!(lab.sent(1), [v.get("told")]);
    assert_eq!(lab.state(1, "10.0.1.9"), Some(State::Stale));
    lab.send(2, &v.get("ping-1"));
    assert_eq!(lab.sent(1), [v.get("ping-1-out")]);
    lab.pass(6);
    assert_eq!(lab.sent(1), vec![v.get("who-has-alone"); 2], "whether it is alive is asked soon after");
    lab.send(1, &v.get("is-at"));
    assert_eq!(lab.state(1, "10.0.1.9"), Some(State::Reachable));
}

#[test]
fn a_neighbour_that_has_gone_leaves_the_tables() {
    let (mut lab, v) = (Lab::new(), vectors());
    lab.send(2, &v.get("ping-1"));
    lab.send(1, &v.get("is-at"));
    lab.sent(1);
    lab.pass(45);
    assert_eq!(lab.sent(1), vec![v.get("who-has-alone"); 3]);
    assert_eq!(lab.state(1, "10.0.1.9"), None);
    lab.send(2, &v.get("ping-1"));
    assert_eq!(lab.sent(1), [v.get("who-has")]);
}

#[test]
fn our_addresses_are_defended_once_in_a_while() {
    let (mut lab, v) = (Lab::new(), vectors());
    for _ in 0..100 {
        lab.send(1, &v.get("claims-ours"));
    }
    assert_eq!((lab.sent(1), lab.conflicts), (vec![v.get("announcement")], 1));
    lab.pass(10);
    lab.send(1, &v.get("claims-ours"));
    assert_eq!((lab.sent(1), lab.conflicts), (vec![v.get("announcement")], 2));
}

#[test]
fn a_scan_is_slowed_down_and_a_flow_to_nowhere_waits_in_one_queue() {
    let (mut lab, v) = (Lab::new(), vectors());
    for host in 0..=255u8 {
        let mut ping = v.get("ping-1");
        ping[33] = host;
        // The header checksum follows the destination.
        let sum = u16::from_be_bytes([ping[24], ping[25]]);
        let sum = wire::checksum::update_u16(sum, 0x0109, u16::from_be_bytes([1, host]));
        ping[24..26].copy_from_slice(&sum.to_be_bytes());
        lab.bench.wires[&2].send(&ping, 256);
    }
    for _ in 0..1000 {
        lab.bench.wires[&2].send(&v.get("ping-1"), 256);
    }
    lab.settle();
    let (waiting, bytes) = lab.neighbours.waiting();
    assert!((200..=512).contains(&waiting), "{waiting} packets wait");
    assert!(bytes > waiting * 28, "{bytes} bytes");
    let of_one =
        lab.neighbours.iter().find(|view| view.key.address == address("10.0.1.9")).map(|v| v.waiting);
    assert!(of_one <= Some(16), "{of_one:?} packets wait for one neighbour");
    lab.pass(10);
    assert_eq!(lab.neighbours.waiting(), (0, 0));
}

#[test]
fn ip6_waits_and_goes_on_and_is_reported_as_ip4_is() {
    let (mut lab, v) = (Lab::new(), vectors());
    lab.send(2, &v.get("ping6"));
    assert_eq!(lab.sent(1), [v.get("solicit")]);
    lab.pass(4);
    assert_eq!(lab.sent(1), vec![v.get("solicit"); 2]);
    assert_eq!(lab.sent(2), [v.get("unreachable6")]);
    lab.pass(4);
    lab.send(2, &v.get("ping6"));
    assert_eq!(lab.sent(1), [v.get("solicit")]);
    lab.send(1, &v.get("advertise"));
    assert_eq!(lab.sent(1), [v.get("ping6-out")]);
    assert_eq!(lab.state(1, "2001:db8:1::9"), Some(State::Reachable));
}

#[test]
fn an_advertisement_that_does_not_override_raises_a_doubt_and_no_more() {
    let (mut lab, v) = (Lab::new(), vectors());
    lab.send(2, &v.get("ping6"));
    lab.send(1, &v.get("advertise"));
    lab.sent(1);
    lab.send(1, &v.get("advertise-quietly"));
    assert_eq!(lab.state(1, "2001:db8:1::9"), Some(State::Stale));
    lab.send(2, &v.get("ping6"));
    assert_eq!(lab.sent(1), [v.get("ping6-out")], "at the old address");
    lab.pass(5);
    assert_eq!(lab.sent(1), [v.get("solicit-alone")]);
}

#[test]
fn our_ip6_addresses_are_defended() {
    let (mut lab, v) = (Lab::new(), vectors());
    lab.send(1, &v.get("claims-ours6"));
    lab.send(1, &v.get("claims-ours6"));
    assert_eq!((lab.sent(1), lab.conflicts), (vec![v.get("announcement6")], 1));
}

#[test]
fn link_local_neighbours_are_resolved_on_their_link() {
    let (mut lab, v) = (Lab::new(), vectors());
    lab.send(1, &v.get("link-ping"));
    assert_eq!(lab.sent(1), [v.get("link-solicit")]);
    lab.send(1, &v.get("link-advertise"));
    assert_eq!(lab.sent(1), [v.get("link-pong")]);
    lab.send(1, &v.get("link-ping"));
    assert_eq!(lab.sent(1), [v.get("link-pong")]);
}

#[test]
fn an_interface_speaks_by_its_link_local_address_of_the_mac() {
    let (mut lab, v) = (Lab::new(), vectors());
    lab.send(4, &v.get("auto-ping"));
    assert_eq!(lab.sent(4), [v.get("auto-solicit")]);
    lab.send(4, &v.get("auto-advertise"));
    assert_eq!(lab.sent(4), [v.get("auto-pong")]);
    lab.send(4, &v.get("auto-lost"));
    assert_eq!(lab.sent(4), [v.get("auto-report")], "errors come from it, too");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_frames_never_panic(
        damage in proptest::collection::vec(
            (any::<usize>(), proptest::collection::vec((0..200usize, any::<u8>()), 0..4), 0..400usize),
            1..200,
        ),
    ) {
        let texts = [
            include_str!("../../../tests/vectors/neighbour.txt"),
            include_str!("../../../tests/vectors/nd.txt"),
            include_str!("../../../tests/vectors/icmp4.txt"),
            include_str!("../../../tests/vectors/icmp6.txt"),
        ];
        let all: Vec<_> = texts.into_iter().flat_map(rows).collect();
        let mut lab = Lab::new();
        for (which, spoilt, len) in damage {
            let row = &all[which % all.len()];
            let mut frame = row.frame.clone();
            for (at, value) in spoilt {
                let at = at % frame.len();
                frame[at] = value;
            }
            frame.truncate(len.max(1));
            lab.bench.wires[&row.rx_if].send(&frame, 256);
        }
        lab.settle();
        lab.pass(10);
        prop_assert_eq!(lab.neighbours.waiting(), (0, 0));
    }
}
