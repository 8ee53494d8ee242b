//! Services that are written elsewhere: the sample's (`docs/write-a-service.md`), and one that tells what it is shown.

use super::super::service::{Custom, Packet, RESUMES, SERVICES_ARC, Verdict as Passes, node};
use super::super::services::{Order, Service};
use super::slow_path::fragment;
use super::*;
use graph::{Feature, NodeSpec};

#[path = "../../../../../examples/sample-service/src/amplification_guard.rs"]
mod amplification_guard;

graph::counters! {
    /// What is counted.
    enum Counter {
        /// Packets with a transport header.
        Whole => "whole",
        /// Parts without.
        Later => "later",
        /// Neither.
        Neither => "neither",
    }
}

struct Shown;

impl Custom for Shown {
    fn packet(&mut self, packet: &mut Packet<'_, '_>) -> Passes {
        packet.count(match (packet.is_later_fragment(), packet.transport()) {
            (false, Some(_)) => Counter::Whole,
            (true, None) => Counter::Later,
            _ => Counter::Neither,
        });
        Passes::Next
    }
}

const SHOWN: Service = Service {
    node: NodeSpec {
        name: "shown",
        help: "Tells what it is shown.",
        edges: &["drop"],
        counters: Counter::SPECS,
        features: &[Feature { arc: SERVICES_ARC, runs_before: &[], runs_after: &["l4-lifecycle"] }],
        resumes: RESUMES,
        make: |cx| node(cx, Shown),
        ..NodeSpec::EMPTY
    },
    ..Service::EMPTY
};

const ADDED: [Service; 2] = [amplification_guard::SERVICE, SHOWN];

fn bench(tier: Tier, names: &[&str]) -> Bench {
    let order = Order::resolve(&[SERVICES, &ADDED].concat()).unwrap();
    let nodes = [crate::testing::all_nodes(), ADDED.map(|service| service.node).to_vec()].concat();
    let chain = [order.chain(names.iter().copied()).unwrap(); 2];
    furnish(Bench::with_nodes(tier, &nodes), &[Tenant { chain, ..tenant() }])
}

#[test]
fn they_are_shown_every_part_of_a_datagram() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &["l4-lifecycle", "shown"]);
        for name in ["udp", "first fragment", "later fragment"] {
            pass(&mut bench, text, name);
        }
        assert_eq!(["whole", "later", "neither"].map(|what| count(&bench, "shown", what)), [2, 1, 0]);
    });
}

/// The packet, of an interface without link-layer headers, with so many bytes more.
fn longer(text: &str, frame: &[u8], more: u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let at = if text == V4 { 2 } else { 4 };
    let len = u16::from_be_bytes([frame[at], frame[at + 1]]) + more;
    frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
    frame.resize(frame.len() + usize::from(more), 0);
    frame
}

/// The first one is short; it is the others that amplify.
#[test]
fn the_sample_cuts_off_who_answers_by_too_much_in_fragments() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &["l4-lifecycle", "amplification-guard"]);
        pass(&mut bench, text, "udp");
        let answer = packet(text, "udp answer").frame;
        let first = bench.run(3, &[fragment(text, &answer, true)], 1);
        assert_eq!((first.drops.len(), first.sent.get(&2).map(Vec::len)), (0, Some(1)));
        let later = bench.run(3, &[fragment(text, &longer(text, &answer, 160), false)], 1);
        assert_eq!(later.drops, [("amplification-guard amplified".to_string(), 1)].into());
        assert_eq!(count(&bench, "amplification-guard", "cut-off"), 1);
        assert!(one(&mut bench).session.is_blocked());
        dropped(&mut bench, text, "udp", "amplification-guard amplified");
    });
}
