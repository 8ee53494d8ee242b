//! What an interface receives, in frames made by scapy.

use super::*;
use crate::interface::control::stack;
use crate::interface::{Interface, Interfaces, Layer2, LinkMode};
use crate::testing::{Bench, Row, rows, run_table};
use graph::simd::Tier;
use std::sync::Arc;
use tables::policer::{Kind, Meter, Rates, Unit};

const FRAMES: &str = include_str!("../../tests/vectors/policer-l2.txt");
const SECOND: u64 = 1_000_000_000;

fn profile(rates: Rates, actions: [Action; 3]) -> Profile {
    Profile {
        name: "gold".into(),
        meter: Meter::new(&rates).unwrap(),
        actions,
        is_aware: false,
        per_session: false,
        version: 1,
    }
}

/// 1 ↔ 2, 3 ↔ 4 in IP mode; 1 and 3 are metered.
fn setup(bench: &mut Bench, profile: Profile) -> [Arc<Policed>; 2] {
    let cross = |peer, mode| Interface {
        mtu: 1500,
        mode,
        layer2: Layer2::CrossConnect { peer },
        ..Interface::default()
    };
    for (index, peer, mode) in
        [(1, 2, LinkMode::Ethernet), (2, 1, LinkMode::Ethernet), (3, 4, LinkMode::Ip), (4, 3, LinkMode::Ip)]
    {
        bench.add_port(index, cross(peer, mode), "cross-connect");
    }
    let key = bench.key::<Interfaces>();
    bench.publish(|draft| draft.change(key, stack).unwrap());
    let profile = Arc::new(profile);
    let policed = [(); 2].map(|()| Arc::new(Policed::new(&profile, Arc::default(), bench.now)));
    let key = bench.key::<Policers>();
    for (index, policed) in [1, 3].into_iter().zip(&policed) {
        bench.chain("device-input", index, &[INTERFACE_POLICER], "cross-connect");
        bench.publish(|draft| draft.change(key, |all| all.set(index, Arc::clone(policed), index == 1)));
    }
    policed
}

const UNLIMITED: Rates = Rates {
    kind: Kind::SingleRate,
    unit: Unit::Bits,
    committed: 1_000_000_000,
    committed_burst: 1_000_000,
    other: 0,
    other_burst: 0,
};

fn packets(committed: u64, committed_burst: u64, other_burst: u64) -> Rates {
    Rates { unit: Unit::Packets, committed, committed_burst, other_burst, ..UNLIMITED }
}

fn frame(name: &str) -> Row {
    rows(FRAMES).into_iter().find(|row| row.name == name).unwrap()
}

#[test]
fn what_is_ip_is_marked_and_the_rest_is_as_it_came() {
    run_table(&rows(FRAMES), |bench| {
        setup(bench, profile(UNLIMITED, [Action::Mark(46); 3]));
    });
}

#[test]
fn all_that_comes_counts_and_each_interface_has_its_own() {
    for tier in Tier::available() {
        for burst in [1, 256] {
            let mut bench = Bench::new(tier);
            let [first, other] = setup(
                &mut bench,
                profile(packets(10, 4, 2), [Action::Transmit, Action::Transmit, Action::Drop]),
            );
            let frames = [vec![frame("ip4").frame; 3], vec![frame("arp").frame; 7]].concat();
            let outcome = bench.run(1, &frames, burst);
            assert_eq!(outcome.sent.get(&2).map(Vec::len), Some(6));
            assert_eq!(outcome.drops, [("interface-policer violating".to_string(), 4)].into());
            let lens = [0, 3].map(|at| frames[at].len() as u64 - 14);
            let bytes = [3 * lens[0] + lens[1], 2 * lens[1], 4 * lens[1]];
            assert_eq!(first.hits.figures(), Figures { packets: [4, 2, 4], bytes });
            assert_eq!(other.hits.figures(), Figures::default());
            let outcome = bench.run(3, &[frame("ip4 without frame").frame], 1);
            assert_eq!(outcome.sent.get(&4).map(Vec::len), Some(1), "{:?}", outcome.drops);
            assert_eq!(other.hits.figures(), Figures { packets: [1, 0, 0], bytes: [lens[0], 0, 0] });
            // A tenth of a second brings one token, a second ten, and four at most are kept; what is more is kept as the excess.
            bench.now += SECOND / 10;
            assert_eq!(bench.run(1, &frames, burst).sent.get(&2).map(Vec::len), Some(1));
            bench.now += SECOND;
            assert_eq!(bench.run(1, &frames, burst).sent.get(&2).map(Vec::len), Some(6));
            assert_eq!(first.hits.figures().packets, [9, 4, 17]);
        }
    }
}

#[test]
fn frames_come_coloured_where_that_is_asked_for() {
    for is_aware in [false, true] {
        let mut bench = Bench::new(Tier::available()[0]);
        let aware = Profile { is_aware, ..profile(packets(10, 100, 100), [Action::Transmit; 3]) };
        let [first, _] = setup(&mut bench, aware);
        let mut red = frame("tagged ip4").frame;
        let yellow = frame("ip4 with options").frame;
        // AF13 in a tag; the checksum isn't looked at here.
        red[19] = 14 << 2;
        bench.run(1, &[yellow, red, frame("arp").frame], 3);
        let expected = if is_aware { [1, 1, 1] } else { [3, 0, 0] };
        assert_eq!(first.hits.figures().packets, expected);
    }
}
