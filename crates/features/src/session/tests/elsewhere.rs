//! Services that are written elsewhere: the sample's (`docs/write-a-service.md`), and one that tells what it is shown.

use super::super::service::{self, Custom, Packet, RESUMES, SERVICES_ARC, Verdict as Passes, node};
use super::super::services::{Order, Service};
use super::slow_path::fragment;
use super::*;
use graph::{Feature, NodeSpec};
use std::process::Command;

#[path = "../../../../../examples/sample-service/src/amplification_guard.rs"]
mod amplification_guard;
#[path = "../../../../../examples/sample-service/src/first_packets.rs"]
mod first_packets;

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

    fn fragment(&mut self, packet: &mut Packet<'_, '_>) -> Passes {
        self.packet(packet)
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

/// Set where a test is alone in its process.
const ALONE: &str = "QUIVER_TEST_ALONE";

/// As quiverd has it: services are added once, and the graph, chains and what explains them all go by the order of the process.
#[test]
fn a_process_s_own_services_are_numbered_alike_everywhere() {
    if std::env::var_os(ALONE).is_none() {
        let name = "session::tests::elsewhere::a_process_s_own_services_are_numbered_alike_everywhere";
        let this = std::env::current_exe().unwrap();
        let done = Command::new(this).args([name, "--exact"]).env(ALONE, "1").output().unwrap();
        let said =
            [done.stdout, done.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    service::add(&[amplification_guard::SERVICE, first_packets::SERVICE]).unwrap();
    let scope = order().scope("quic").unwrap();
    let own = order().number("first-packets").unwrap();
    let other = order().of(0).find(|(number, _)| *number == own).unwrap().1.node.name;
    assert_ne!(other, "first-packets", "the bit stands for another service in the default scope");
    everywhere(|tier, text, _| {
        let chain = |scope, names: [&str; 3]| [order().chain_in(scope, names).unwrap(); 2];
        let quic = Tenant {
            scope,
            chain: chain(scope, ["l4-lifecycle", "session-stats", "first-packets"]),
            ..tenant()
        };
        let red = Tenant {
            outside: Vec::new(),
            chain: chain(0, ["l4-lifecycle", "session-stats", "amplification-guard"]),
            ..tenant()
        };
        // The whole graph, of which the services that were added are a part.
        let mut bench = furnish(Bench::new(tier), &[quic, red]);
        let key = bench.key::<Tenants>();
        bench.publish(|draft| {
            draft.change(key, |all| all.set_place(3, Place { tenant: 2, ..Place::default() }));
        });
        // Each vector has packets of both scopes: the first one's, and those of a session that the other has begun.
        pass(&mut bench, text, "udp answer");
        let [own, answer] = ["another udp", "udp"].map(|name| packet(text, name).frame);
        let frames: Vec<_> = [&own, &answer].into_iter().cycle().take(200).cloned().collect();
        let outcome = bench.run(2, &frames, 2);
        assert_eq!(count(&bench, "first-packets", "hundred"), 1, "{:?}", outcome.drops);
        let reason = "amplification-guard amplified".to_string();
        let sent = outcome.sent.get(&3).map_or(0, Vec::len);
        assert_eq!((sent, outcome.drops), (100 + 3, [(reason, 100 - 3)].into()));
        let mut noted = seen(&mut bench).into_iter().map(|seen| (seen.session.tenant, seen.stats.is_some()));
        assert!(noted.len() == 2 && noted.all(|(_, noted)| noted));
    });
}
