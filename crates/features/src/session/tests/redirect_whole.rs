//! Engines that see packets whole which come in fragments.

use super::redirect::{SIDES, judge, redirected, with_engine};
use super::redirect_fragments::{all, datagrams, is, reversed, way};
use super::*;
use crate::interface::Interface;
use crate::session::redirect::{Judgment, OnFailure};

const NAMES: [(&str, &str); 2] = [("4", "ip4-redirect-reassembly"), ("6", "ip6-redirect-reassembly")];

/// The tenant's engine sees packets whole from now on, and has room for them.
fn reassembling(mut bench: Bench) -> Bench {
    let (tenants, interfaces) = (bench.key::<Tenants>(), bench.key::<crate::interface::Interfaces>());
    let mut tenant = bench.publisher.current().get(tenants).get(1).unwrap().clone();
    let redirect = tenant.redirect.as_mut().unwrap();
    redirect.reassemble = true;
    let redirect = redirect.clone();
    bench.publish(|draft| {
        draft.change(tenants, |all| {
            all.set(1, Some(tenant));
            all.engines.add((1, 0), &redirect);
        });
    });
    for side in SIDES {
        let interface = bench.publisher.current().get(interfaces).get(side).clone();
        bench.set_interface(side, Interface { mtu: 9000, ..interface });
    }
    bench
}

fn network(tier: Tier, inspect_packets: u64) -> Bench {
    reassembling(with_engine(tier, &redirected(inspect_packets, OnFailure::Drop)))
}

/// Drops as the bench says them.
fn drops(node: &str, reasons: &[(&str, u64)]) -> std::collections::BTreeMap<String, u64> {
    reasons.iter().map(|(reason, packets)| (format!("{node} {reason}"), *packets)).collect()
}

#[test]
fn the_engine_sees_the_whole_and_its_receiver_what_was_sent() {
    for tier in Tier::available() {
        for (name, bench) in datagrams(tier) {
            let mut bench = reassembling(bench);
            for burst in [1, 256] {
                for name in [name.to_string(), format!("{name}-answer")] {
                    let [by, to, back, out] = way(&name);
                    let parts = |kind: &str| all(&format!("{name}/{kind}"));
                    for came in [parts("came"), reversed(parts("came"))] {
                        is(&bench.run(by, &came, burst), to, parts("whole"), &name);
                        is(&bench.run(back, &parts("whole"), burst), out, parts("left"), &name);
                    }
                }
            }
            let parts = all(&format!("{name}/came")).len() as u64;
            assert_eq!(one(&mut bench).session.packets(), [4 * parts; 2], "{name}: fragments are counted");
        }
    }
}

#[test]
fn what_comes_to_nothing_is_dropped_and_named() {
    for tier in Tier::available() {
        for (version, node) in NAMES {
            let came = |name: &str| all(&format!("{name}{version}/came"));
            let becomes = |name: &str, reasons: &[(&str, u64)]| {
                let outcome = network(tier, 0).run(2, &came(name), 1);
                assert!(outcome.sent.is_empty(), "{name}{version}");
                assert_eq!(outcome.drops, drops(node, reasons), "{name}{version}");
            };
            becomes("overlap", &[("overlap", 2), ("evicted", 1)]);
            becomes("twice", &[("duplicate", 1)]);
            becomes("many", &[("too-many-fragments", 1), ("evicted", 128), ("overlap", 1)]);
            becomes("large", &[("bad-fragment", 1)]);
            // Others have to come within two seconds; nobody is told.
            let mut bench = network(tier, 0);
            assert_eq!(bench.run(2, &came("last-missing"), 1), Default::default());
            wait(&mut bench, 2);
            let tenants = bench.key::<Tenants>();
            let engine =
                Arc::clone(&bench.publisher.current().get(tenants).engines.get(SIDES[0]).unwrap().engine.0);
            (0..2).for_each(|side| engine.beat(side, bench.now));
            let outcome = bench.run(2, &came("twice")[..1], 1);
            assert_eq!((outcome.sent.len(), outcome.drops), (0, drops(node, &[("timed-out", 2)])));
        }
    }
}

/// A fragment of another datagram.
fn numbered(frame: &[u8], version: &str, number: u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if version == "4" {
        let before = u16::from_be_bytes([frame[18], frame[19]]);
        frame[18..20].copy_from_slice(&number.to_be_bytes());
        let sum = u16::from_be_bytes([frame[24], frame[25]]);
        let sum = wire::checksum::update_u16(sum, before, number);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame[60..62].copy_from_slice(&number.to_be_bytes());
    }
    frame
}

#[test]
fn a_flood_of_first_fragments_takes_no_more_than_its_bounds_and_costs_others_nothing() {
    for tier in Tier::available() {
        for (version, node) in NAMES {
            let parts = |name: &str, kind: &str| all(&format!("{name}{version}{kind}"));
            let mut bench = network(tier, 0);
            is(&bench.run(2, &parts("plain", "/came"), 1), SIDES[0], parts("plain", "/whole"), version);
            // An answer is on its way when they come.
            let answer = parts("plain", "-answer/came");
            assert_eq!(bench.run(3, &answer[..1], 1), Default::default());
            let first = &parts("plain", "/came")[0];
            let flood: Vec<_> = (100..5100).map(|number| numbered(first, version, number)).collect();
            let outcome = bench.run(2, &flood, 256);
            assert_eq!((outcome.sent.len(), outcome.drops), (0, drops(node, &[("evicted", 5000 - 255)])));
            is(&bench.run(3, &answer[1..], 1), SIDES[1], parts("plain", "-answer/whole"), version);
            // So is another packet of the same interface, which comes at once.
            is(&bench.run(2, &parts("plain", "/came"), 256), SIDES[0], parts("plain", "/whole"), version);
        }
    }
}

#[test]
fn a_datagram_is_one_packet_to_who_waits_for_it() {
    for tier in Tier::available() {
        for (version, _) in NAMES {
            let parts = |kind: &str| all(&format!("plain{version}/{kind}"));
            let mut bench = network(tier, 0);
            is(&bench.run(2, &parts("came"), 1), SIDES[0], parts("whole"), version);
            assert_eq!(judge(&mut bench, 17, Judgment::AllowRest), 1);
            // It doesn't overtake what is still with the engine.
            is(&bench.run(2, &parts("came"), 1), SIDES[0], parts("whole"), version);
            is(
                &bench.run(SIDES[1], &[parts("whole"), parts("whole")].concat(), 1),
                3,
                [parts("left"), parts("left")].concat(),
                version,
            );
            is(&bench.run(2, &parts("came"), 1), 3, parts("left"), version);
        }
    }
}

#[test]
fn what_is_too_long_for_the_engine_s_interface_is_dropped_and_named() {
    for tier in Tier::available() {
        for (version, _) in NAMES {
            let mut bench = network(tier, 0);
            let interfaces = bench.key::<crate::interface::Interfaces>();
            let interface = bench.publisher.current().get(interfaces).get(SIDES[0]).clone();
            bench.set_interface(SIDES[0], Interface { mtu: 4000, ..interface });
            let outcome = bench.run(2, &all(&format!("plain{version}/came")), 1);
            assert_eq!(
                (outcome.sent.len(), outcome.drops),
                (0, drops("redirect-output", &[("too-long", 1)]))
            );
        }
    }
}

/// A packet with a fragment header that nobody here has put together isn't cut.
#[test]
fn only_what_was_put_together_is_cut_again() {
    for tier in Tier::available() {
        let whole = all("plain6/whole").remove(0);
        let mut bench = with_engine(tier, &redirected(0, OnFailure::Pass));
        bench.now += SECOND;
        let frame = [&all("plain6/came")[0][..14], &whole[14..]].concat();
        let outcome = bench.run(2, &[frame], 1);
        assert_eq!(outcome.drops, [("ip6-rewrite too-big".into(), 1)].into());
        assert_eq!(outcome.sent[&2].len(), 1, "its sender is told");
    }
}
