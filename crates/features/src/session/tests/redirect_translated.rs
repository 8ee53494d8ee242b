//! Engines that look into sessions which are translated: they see both sides as the initiator knows them.

use super::balance::{BALANCE4, simple};
use super::nat::mapped::{CONVERSATIONS, MAPPED, map, mapping};
use super::nat::{NAT, pool};
use super::redirect::{redirected, sent, with_engine};
use super::*;
use crate::session::redirect::OnFailure;

const ROWS: &str = include_str!("../../../tests/vectors/redirected.txt");

/// A tenant with an engine and that service.
pub(super) fn network(tier: Tier, service: &str, inspect_packets: u64) -> Bench {
    let chain = [order().chain(["l4-lifecycle", "redirect", service]).unwrap(); 2];
    let nat = (service == "nat").then(|| Arc::new(pool(5000..=5000)));
    let mut bench = with_engine(tier, &Tenant { chain, nat, ..redirected(inspect_packets, OnFailure::Drop) });
    let mut balancer = simple();
    balancer.publish();
    let key = bench.key::<Tenants>();
    bench.publish(|draft| draft.change(key, |all| all.vips = balancer.vips().clone()));
    bench
}

/// It goes to the engine, and when that has sent it back, where it is meant to go.
fn through(bench: &mut Bench, name: &str) {
    pass(bench, ROWS, name);
    pass(bench, ROWS, &format!("{name} back"));
}

fn names(of: &str) -> Vec<String> {
    let all = rows(ROWS).into_iter().map(|row| row.name.to_string());
    all.filter(|name| name.starts_with(of) && !name.ends_with(" answer") && !name.ends_with(" back"))
        .collect()
}

#[test]
fn both_sides_are_seen_as_the_initiator_knows_them() {
    for tier in Tier::available() {
        for (service, of) in [("nat", "nat "), ("balance", "vip4 "), ("balance", "vip6 ")] {
            let all = names(of);
            assert!(all.len() >= 3, "{all:?}");
            for name in all.iter().filter(|name| !name.contains("expires")) {
                let mut bench = network(tier, service, 0);
                for _ in 0..3 {
                    through(&mut bench, name);
                    through(&mut bench, &format!("{name} answer"));
                }
                let seen = one(&mut bench);
                assert!(seen.session.is_translated() && seen.balanced == (service == "balance"));
                assert_eq!(
                    (seen.session.packets(), sent(&bench)),
                    ([3, 3], 6),
                    "{name}: each is counted once"
                );
            }
        }
    }
}

#[test]
fn errors_that_are_made_behind_the_engine_speak_of_what_was_sent() {
    for tier in Tier::available() {
        through(&mut network(tier, "nat", 0), "nat expires");
    }
}

/// What the engine has seen enough of is translated as without it.
#[test]
fn the_rest_passes_without_and_is_translated_likewise() {
    for (service, of) in [("nat", "nat udp"), ("balance", "vip4 udp"), ("balance", "vip6 udp")] {
        let mut bench = network(Tier::available()[0], service, 1);
        for name in [of.to_string(), format!("{of} answer")] {
            through(&mut bench, &name);
            let (came, left) = (packet(ROWS, &name), packet(ROWS, &format!("{name} back")));
            let Verdict::Sent(expected) = left.verdict else { panic!("{name}") };
            let outcome = bench.run(came.rx_if, &[came.frame], 1);
            assert_eq!(outcome.sent.get(&expected[0].0), Some(&vec![expected[0].1.clone()]), "{name}");
        }
    }
}

/// Sends a row's packet through the engine, which is sent it by one of its interfaces; gives what that sees: source and destination.
fn seen_of(bench: &mut Bench, text: &'static str, name: &str) -> [[u8; 4]; 2] {
    let row = packet(text, name);
    let outcome = bench.run(row.rx_if, &[row.frame], 1);
    let [(by, frames)] = &outcome.sent.into_iter().collect::<Vec<_>>()[..] else {
        panic!("{name}: {:?}", outcome.drops)
    };
    let (frame, other) = (frames[0].clone(), if *by == 1 { 5 } else { 1 });
    let back = bench.run(other, std::slice::from_ref(&frame), 1);
    let Verdict::Sent(expected) = row.verdict else { panic!("{name}") };
    for (interface, frame) in expected {
        assert_eq!(back.sent.get(&interface), Some(&vec![frame]), "{name}: {:?}", back.drops);
    }
    [26, 30].map(|at| *frame[at..].first_chunk().unwrap())
}

/// Hosts that are seen with addresses of their own, whoever asks: also from outside, and among themselves.
#[test]
fn mapped_hosts_are_seen_as_whoever_asks_them_knows_them() {
    for tier in Tier::available() {
        for name in CONVERSATIONS {
            let mapping = mapping();
            let tenant = Tenant { nat: mapping.nat.clone(), ..nat_and_engine() };
            let mut bench = with_engine(tier, &tenant);
            map(&mut bench, &tenant);
            for _ in 0..2 {
                let question = seen_of(&mut bench, MAPPED, name);
                let [source, destination] = seen_of(&mut bench, MAPPED, &format!("{name} answer"));
                assert_eq!(question, [destination, source], "{name}");
            }
            assert_eq!(one(&mut bench).session.packets(), [2, 2], "{name}");
        }
    }
}

/// As without an engine; the engine sees none of them.
#[test]
fn errors_about_translated_packets_pass_without() {
    for tier in Tier::available() {
        for (service, text, who) in [
            ("balance", BALANCE4, ["a router", "the backend", "the client", "a near router"]),
            ("nat", NAT, ["a router", "the other host", "the host", "an inside router"]),
        ] {
            let mut bench = network(tier, service, 0);
            if service == "nat" {
                let port =
                    packet(text, "udp answer").frame[22..24].try_into().map(u16::from_be_bytes).unwrap();
                let tenant = Tenant { nat: Some(Arc::new(pool(port..=port))), ..nat_and_engine() };
                bench = with_engine(tier, &tenant);
            }
            seen_of(&mut bench, text, "udp");
            seen_of(&mut bench, text, "udp answer");
            for one in who {
                pass(&mut bench, text, &format!("udp error of {one}"));
            }
            assert_eq!(sent(&bench), 2, "{service}");
        }
    }
}

fn nat_and_engine() -> Tenant {
    let chain = [order().chain(["l4-lifecycle", "redirect", "nat"]).unwrap(); 2];
    Tenant { chain, ..redirected(0, OnFailure::Drop) }
}
