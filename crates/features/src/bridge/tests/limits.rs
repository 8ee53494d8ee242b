//! Bounds: slots, lengths, any bytes at all.

use super::*;
use crate::interface::fits;
use graph::packet::{Gso, Packets, SLOTS};
use graph::simd::Tier;
use proptest::prelude::*;
use tables::mac::MacKey;

#[test]
fn flooding_ends_with_a_member_s_share_of_the_slots_and_says_so() {
    const MEMBERS: usize = 60;
    const SHARE: usize = SLOTS / 4;
    let v = vectors();
    let mut bench = Bench::new(Tier::detect());
    for index in 1..=MEMBERS as IfIndex {
        member(&mut bench, index, 0);
    }
    bridge(&mut bench, &BridgeConfig::default());
    let frame = v.get("long-a-to-all");
    let outcome = bench.run(1, &vec![frame.clone(); 256], 256);
    let out: usize = outcome.sent.values().map(Vec::len).sum();
    assert_eq!(out, 256 + SHARE, "the 256 received, and as many copies as one may have");
    assert!(outcome.sent.values().flatten().all(|sent| *sent == frame));
    let missing = (256 * (MEMBERS - 1) - 256 - SHARE) as u64;
    assert_eq!(outcome.drops, [("bridge-flood flood-limited".to_string(), missing)].into());
    assert_eq!(counter(&bench, "bridge-flood", "copies"), (256 + SHARE) as u64);
    // Others have their own share in the same round, and the next round has all again.
    bench.now += 1;
    bench.wires[&2].send(&v.get("b-to-all"), 56);
    let outcome = bench.run(1, &vec![frame.clone(); 200], 200);
    let from_2 = outcome.sent.values().flatten().filter(|sent| **sent == v.get("b-to-all")).count();
    assert_eq!(from_2, MEMBERS - 1);
    bench.now += 1;
    let outcome = bench.run(1, std::slice::from_ref(&frame), 1);
    assert_eq!(outcome.sent.values().map(Vec::len).sum::<usize>(), MEMBERS - 1);
}

#[test]
fn a_copy_that_is_too_long_for_one_member_goes_to_the_others() {
    let v = vectors();
    for tier in Tier::available() {
        let mut bench = Bench::new(tier);
        ports(&mut bench);
        bridge(&mut bench, &BridgeConfig::default());
        let narrow = |bench: &mut Bench, index| {
            let layer2 = Layer2::Bridge { bridge: BRIDGE, split_horizon_group: 0, bvi: false };
            bench.set_interface(index, Interface { mtu: 199, layer2, ..Interface::default() });
        };
        narrow(&mut bench, B);
        let outcome = bench.run(A, &vec![v.get("long-a-to-all"); 3], 8);
        assert_eq!(by(&outcome.sent), [C]);
        assert_eq!(outcome.drops, [("bridge-flood too-long".to_string(), 3)].into());
        narrow(&mut bench, C);
        let outcome = bench.run(A, &vec![v.get("long-a-to-all"); 3], 8);
        assert_eq!(by(&outcome.sent), []);
        assert_eq!(outcome.drops, [("bridge-flood too-long".to_string(), 6)].into(), "both copies of each");
    }
}

/// Sources and destinations at random: known, new, elsewhere, fixed, one behind the other, for all. Whether they come together or one by
/// one, and on every tier, makes no difference.
#[test]
fn many_stations_in_one_vector_are_as_many_vectors_of_one() {
    let station = |at: IfIndex, number: u32| MacAddr([2, 0, 0, 1, at as u8, number as u8]);
    let mut random = 1u32;
    let mut any = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) % below
    };
    let frames: Vec<Vec<u8>> = (0..700)
        .flat_map(|_| {
            let src = match any(8) {
                0 => station(C, 0),
                1 => station(C, 1),
                2 => MacAddr::BROADCAST,
                _ => station(A, any(20)),
            };
            let dst = match any(8) {
                0 => MacAddr::BROADCAST,
                1 => station(C, any(3)),
                2 => station(A, any(6)),
                3 => MAC_A,
                _ => station(B, any(20)),
            };
            let frame = [&dst.0[..], &src.0, &[0x88, 0xb5], &any(1 << 15).to_be_bytes(), &[0; 42]].concat();
            // Some stations send several frames to the same destination.
            vec![frame; 1 + any(3) as usize]
        })
        .collect();
    let mut expected = None;
    for tier in Tier::available() {
        for burst in [1, 7, 256] {
            let mut bench = Bench::new(tier);
            ports(&mut bench);
            let fixed = fixed(station(C, 0), Place::Interface(C));
            bridge(&mut bench, &BridgeConfig { static_macs: vec![fixed], ..BridgeConfig::default() });
            let bridges = bridges(&bench);
            let macs = bridges.macs().unwrap();
            for (at, number) in [(A, 0..6), (B, 0..16), (C, 1..2)]
                .into_iter()
                .flat_map(|(at, numbers)| numbers.map(move |number| (at, number)))
            {
                macs.learn(MacKey::new(BRIDGE, station(at, number).0), at.into(), 0);
            }
            let outcome = bench.run(A, &frames, burst);
            let counters = ["learned", "moved"].map(|name| counter(&bench, "bridge-input", name));
            assert_eq!(counters, [14, 1], "tier {}, vectors of {burst}", tier.name());
            // Floods leave after what is known: their order is their own.
            let mut sent = outcome.sent;
            sent.values_mut().for_each(|frames| frames.sort());
            let all = (sent, outcome.drops, known(&bench));
            let expected = expected.get_or_insert_with(|| all.clone());
            assert_eq!(expected.1, all.1, "tier {}, vectors of {burst}: drops", tier.name());
            assert!(*expected == all, "tier {}, vectors of {burst}", tier.name());
        }
    }
}

#[test]
fn super_frames_are_cut_later_and_fit() {
    let mut packets = Packets::new();
    let frame = vectors().get("longer-a-to-b");
    let read = |buffer: &mut [u8]| {
        buffer[..frame.len()].copy_from_slice(&frame);
        Ok((0, frame.len()))
    };
    let slot = packets.receive_private(A, 2048, read).unwrap().unwrap();
    let interface = Interface { mtu: 200, ..Interface::default() };
    assert!(!fits(&packets, slot, &interface));
    packets.meta_mut(slot).offload.gso = Gso::Tcp4;
    assert!(fits(&packets, slot, &interface));
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let station = prop_oneof![
        Just(MAC_A.0),
        Just(MAC_B.0),
        Just(MAC_C.0),
        Just(MAC_BVI.0),
        Just([0xff; 6]),
        any::<[u8; 6]>()
    ];
    let tags = prop_oneof![
        Just(vec![]),
        Just(vec![0x88, 0xa8, 0, 100, 0x81, 0, 0, 200]),
        prop::collection::vec(any::<u8>(), 0..12)
    ];
    let frame = (station.clone(), station, tags, prop::collection::vec(any::<u8>(), 0..250), 1usize..260);
    frame.prop_map(|(dst, src, tags, rest, cut)| {
        let mut frame: Vec<u8> = dst.into_iter().chain(src).chain(tags).chain(rest).collect();
        frame.truncate(cut);
        frame
    })
}

/// Frames that mean something, with a few bytes changed and the end cut off.
fn damaged_frame() -> impl Strategy<Value = Vec<u8>> {
    let names = [
        "arp-for-2",
        "ns-for-2",
        "ns-free-2",
        "na-of-2",
        "qinq-100-200-a-to-b",
        "a-to-bvi",
        "long-vlan-300-a-to-b",
    ];
    let damage = prop::collection::vec((0usize..100, any::<u8>()), 0..3);
    (prop::sample::select(names.to_vec()), damage, 1usize..300).prop_map(|(name, damage, cut)| {
        let mut frame = vectors().get(name);
        for (at, value) in damage {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(cut);
        frame
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Whatever comes in by whatever interface: no panic, nothing sent back but answers, the same in every tier.
    #[test]
    fn any_bytes_are_survived(
        frames in prop::collection::vec(
            (prop::sample::select(vec![A, B, C, TRUNK, ROUTER]), prop_oneof![any_frame(), damaged_frame()]),
            1..60
        ),
        arp_termination: bool
    ) {
        let mut first = None;
        for tier in Tier::available() {
            let mut bench = Bench::new(tier);
            all(&mut bench);
            answering::neighbours(&mut bench);
            bridge(&mut bench, &BridgeConfig { arp_termination, ..BridgeConfig::default() });
            let results: Vec<_> = frames.iter().map(|(rx_if, frame)| {
                let before = counter(&bench, "bridge-answer", "answered");
                let outcome = bench.run(*rx_if, std::slice::from_ref(frame), 1);
                let answered = counter(&bench, "bridge-answer", "answered") - before;
                let back = outcome.sent.get(rx_if).map_or(0, Vec::len) as u64;
                prop_assert!(*rx_if == TRUNK || back == answered, "{} came back by {}", back, rx_if);
                Ok((outcome.drops.clone(), by(&outcome.sent)))
            }).collect::<Result<_, TestCaseError>>()?;
            prop_assert_eq!(first.get_or_insert(results.clone()), &results);
        }
    }
}
