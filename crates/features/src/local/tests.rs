//! Fragments to us, and back out.

use crate::ip::topology;
use crate::testing::{Bench, Outcome, Vectors};
use graph::simd::Tier;
use std::sync::LazyLock;
use wire::checksum::Partial;
use wire::ipv4::Ipv4Flags;
use wire::{Header, Icmpv4Header, IntoBytes, Ipv4Header};

/// The frames of that name, in order.
fn all(name: &str) -> Vec<Vec<u8>> {
    static VECTORS: LazyLock<Vectors> =
        LazyLock::new(|| Vectors::read(include_str!("../../tests/vectors/reassembly.txt")));
    let v = &*VECTORS;
    let names = v.names().filter(|of| of.rsplit_once('/').is_some_and(|(of, _)| of == name));
    let mut numbers: Vec<usize> = names.map(|of| of[name.len() + 1..].parse().unwrap()).collect();
    numbers.sort_unstable();
    assert!(!numbers.is_empty(), "{name}");
    numbers.into_iter().map(|at| v.get(&format!("{name}/{at}"))).collect()
}

fn bench(tier: Tier) -> Bench {
    let mut bench = Bench::new(tier);
    topology::set_up(&mut bench, 1280);
    bench
}

/// What came out by interface 2, the identification of IPv6 fragments set to 0.
fn sent(outcome: &Outcome) -> Vec<Vec<u8>> {
    assert!(outcome.sent.keys().all(|interface| *interface == 2));
    let mut frames = outcome.sent.get(&2).cloned().unwrap_or_default();
    for frame in frames.iter_mut().filter(|frame| frame[12..14] == [0x86, 0xdd] && frame[20] == 44) {
        assert_ne!(frame[58..62], [0; 4], "an identification");
        frame[58..62].fill(0);
    }
    frames
}

#[test]
fn a_ping_in_fragments_is_answered_in_fragments() {
    let names =
        ["1473", "4000", "9000", "tiny", "options"].map(|n| (format!("ping-{n}"), format!("pong-{n}")));
    let names6 =
        ["1453", "4000", "9000", "headers", "named"].map(|n| (format!("ping6-{n}"), format!("pong6-{n}")));
    for tier in Tier::available() {
        let mut bench = bench(tier);
        for (ping, pong) in names.iter().chain(&names6) {
            for burst in [1, 256] {
                let outcome = bench.run(2, &all(ping), burst);
                assert_eq!(outcome.drops, [].into(), "{ping}");
                assert!(sent(&outcome) == all(pong), "{ping}, tier {}", tier.name());
                let mut backwards = all(ping);
                backwards.reverse();
                let outcome = bench.run(2, &backwards, burst);
                assert!(sent(&outcome) == all(pong), "{ping} backwards");
            }
        }
    }
}

#[test]
fn fragments_that_come_by_several_workers_meet_at_one() {
    let workers = graph::handover::exchange(3).unwrap_or_else(|error| panic!("{error}"));
    let mut benches: Vec<_> = workers
        .into_iter()
        .map(|station| {
            let mut bench = Bench::of_worker(station, Tier::detect());
            topology::set_up(&mut bench, 1280);
            bench
        })
        .collect();
    for (ping, pong) in [("ping-4000", "pong-4000"), ("ping-9000", "pong-9000"), ("ping6-9000", "pong6-9000")]
    {
        let mut frames = Vec::new();
        for (at, fragment) in all(ping).into_iter().enumerate() {
            let outcome = benches[at % 3].run(2, &[fragment], 1);
            assert_eq!(outcome.drops, [].into(), "{ping}");
            frames.extend(sent(&outcome));
        }
        // What was handed over last is still under way.
        for bench in &mut benches {
            let outcome = bench.run(2, &[], 1);
            assert_eq!(outcome.drops, [].into(), "{ping}");
            frames.extend(sent(&outcome));
        }
        assert!(frames == all(pong), "{ping}");
    }
}

#[test]
fn fragments_for_a_worker_that_stands_still_are_dropped_by_name() {
    let workers = graph::handover::exchange(2).unwrap_or_else(|error| panic!("{error}"));
    let mut benches = workers.into_iter().map(|station| Bench::of_worker(station, Tier::detect()));
    let (Some(mut works), Some(_stands)) = (benches.next(), benches.next()) else { panic!("there are two") };
    topology::set_up(&mut works, 1280);
    // Other identifications, so that about half of them belong to the other worker.
    let first = all("ping-4000").remove(0);
    let fragments: Vec<_> = (0..10_000_u16)
        .map(|id| {
            let mut frame = first.clone();
            let (header, _) =
                Ipv4Header::parse_mut(&mut frame[14..]).unwrap_or_else(|error| panic!("{error:?}"));
            header.id = id.into();
            header.checksum = header.compute_checksum(&[]).into();
            frame
        })
        .collect();
    let outcome = works.run(2, &fragments, 256);
    let full = outcome.drops.get("ip4-reassembly handover-full").copied().unwrap_or_default();
    let evicted = outcome.drops.get("ip4-reassembly evicted").copied().unwrap_or_default();
    assert!(full > 1000 && evicted > 1000, "{:?}", outcome.drops);
    assert!(outcome.drops.len() == 2, "{:?}", outcome.drops);
}

#[test]
fn fragments_that_cannot_be_come_to_nothing() {
    let cases = [
        ("overlap", "ip4-reassembly overlap", 1, None),
        ("odd", "ip4-reassembly bad-fragment", 1, None),
        ("beyond", "ip4-reassembly bad-fragment", 1, None),
        ("overlap6", "ip6-reassembly overlap", 1, None),
        ("odd6", "", 0, Some("odd6-report")),
        ("beyond6", "", 0, Some("beyond6-report")),
        ("ns", "ip6-reassembly neighbor-discovery", 2, None),
    ];
    for (name, reason, count, report) in cases {
        let outcome = bench(Tier::detect()).run(2, &all(name), 256);
        assert_eq!(sent(&outcome), report.map(all).unwrap_or_default(), "{name}");
        if count > 0 {
            assert_eq!(outcome.drops.get(reason), Some(&count), "{name}: {:?}", outcome.drops);
        }
    }
    let outcome = bench(Tier::detect()).run(2, &all("udp")[1..], 256);
    assert_eq!(outcome.drops, [("ip4-local fragment".into(), 1)].into(), "nothing would take it");
}

#[test]
fn a_fragment_that_comes_too_late_finds_the_others_gone() {
    let mut bench = bench(Tier::detect());
    let ping = all("ping-4000");
    assert_eq!(bench.run(2, &ping[..2], 256), Outcome::default(), "they wait");
    bench.now += 31_000_000_000;
    let outcome = bench.run(2, &ping[2..], 256);
    assert_eq!(outcome.drops, [("ip4-reassembly timed-out".into(), 2)].into());
    assert_eq!(sent(&outcome), all("late-report"), "who sent the first one is told");
    let outcome = bench.run(2, &ping[..2], 256);
    assert_eq!(sent(&outcome), all("pong-4000"));
    let id = bench.drop_id("ip4-reassembly timed-out");
    assert_eq!(bench.graph.counters().drops_of(2).nth(id.into()), Some(2), "of the interface");
}

#[test]
fn an_ip6_fragment_that_comes_too_late_finds_the_others_gone() {
    let mut bench = bench(Tier::detect());
    let ping = all("ping6-4000");
    assert_eq!(bench.run(2, &ping[..2], 256), Outcome::default(), "they wait");
    bench.now += 61_000_000_000;
    let outcome = bench.run(2, &ping[2..], 256);
    assert_eq!(outcome.drops, [("ip6-reassembly timed-out".into(), 2)].into());
    assert_eq!(sent(&outcome), all("late6-report"));
    bench.now += 61_000_000_000;
    let outcome = bench.run(2, &ping[1..2], 256);
    assert_eq!(outcome.drops, [("ip6-reassembly timed-out".into(), 1)].into());
    assert_eq!(sent(&outcome), Vec::<Vec<u8>>::new(), "without the first one nobody is told");
}

#[test]
fn the_largest_ping_there_is_is_answered_whole() {
    let data: Vec<u8> = (0..65507u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut message = [Icmpv4Header::echo_request(1, 1).as_bytes(), &data].concat();
    let checksum = Partial::of(&message).checksum();
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let template = all("ping-1473").remove(0);
    let frames: Vec<Vec<u8>> = message
        .chunks(1480)
        .enumerate()
        .map(|(at, piece)| {
            let mut ip = *Ipv4Header::parse(&template[14..]).unwrap().0;
            let last = (at + 1) * 1480 >= message.len();
            ip.set_fragment(if last { Ipv4Flags::empty() } else { Ipv4Flags::MORE_FRAGMENTS }, at * 1480);
            ip.total_len = (20 + piece.len() as u16).into();
            ip.checksum = ip.compute_checksum(&[]).into();
            [&template[..14], ip.as_bytes(), piece].concat()
        })
        .collect();
    let mut bench = bench(Tier::detect());
    let outcome = bench.run(2, &frames, 256);
    let mut answer = Vec::new();
    for frame in sent(&outcome) {
        let (ip, _) = Ipv4Header::check(&frame[14..], frame.len() - 14).unwrap();
        assert_eq!(ip.fragment_offset(), answer.len());
        answer.extend_from_slice(&frame[34..]);
    }
    assert!(Partial::of(&answer).is_valid());
    assert_eq!((answer[0], answer[1], answer.len()), (0, 0, message.len()));
    assert!(answer[4..] == message[4..], "identifier, sequence number and data are the request's");
}
