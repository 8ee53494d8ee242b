//! What services may do, with three that are there for it: one judges by the initiator's port, one behind it sees what comes by, and one between them puts that on the
//! chains of some sessions.

use super::super::service::{Custom, Insertable, Packet, node};
use super::super::services::{Order, SERVICES_ARC, Service};
use super::super::serving::{RESUMES, Serve, Serving, Verdict as Passes, Visit};
use super::acl::{publish, rule, set_acl};
use super::*;
use crate::session::acl::Action;
use crate::session::acl::control::Filters;
use graph::{Feature, NodeSpec};
use wire::IpProtocol;

graph::drops! {
    /// Why the judge drops.
    enum Reason {
        /// This packet.
        Once => "once", Info,
        /// This packet, and all of its session.
        ForGood => "for-good", Info,
        /// This packet, and its session.
        Ended => "ended", Info,
    }
}

graph::counters! {
    /// What the witness counts.
    enum Counter {
        /// Packets that came by.
        Seen => "seen",
    }
}

struct Judge;

impl Serve for Judge {
    fn packet(&mut self, visit: &mut Visit<'_>) -> Passes {
        let (low, high) = visit.key.endpoints();
        match low.1.max(high.1) {
            40000 => Passes::Block(Reason::ForGood.into()),
            40001 => Passes::Skip,
            40002 => {
                visit.session.retire(visit.me);
                Passes::Drop(Reason::Once.into())
            }
            _ => Passes::End(Reason::Ended.into()),
        }
    }
}

struct Witness;

impl Serve for Witness {
    fn packet(&mut self, visit: &mut Visit<'_>) -> Passes {
        visit.count(Counter::Seen);
        Passes::Next
    }
}

/// Puts the witness on the chains of sessions of one port, and goes; tells by its counter what it can't.
struct Usher;

impl Custom for Usher {
    fn packet(&mut self, packet: &mut Packet<'_, '_>) -> Passes {
        let number = |name: &str| Insertable::of(&all(), name).unwrap();
        if packet.initiator().1 == 40000 && packet.insert_service(number("witness")) {
            packet.leave_session();
        }
        // Before it, or itself: neither would see the packet.
        if packet.insert_service(number("judge")) || packet.insert_service(number("usher")) {
            packet.count(Counter::Seen);
        }
        Passes::Next
    }
}

const USHER: Service = Service {
    node: NodeSpec {
        name: "usher",
        help: "Has others come.",
        features: &[Feature {
            arc: SERVICES_ARC,
            runs_before: &["witness"],
            runs_after: &["l4-lifecycle", "judge"],
        }],
        make: |cx| node(cx, Usher),
        ..WITNESS.node
    },
    ..WITNESS
};

const JUDGE: Service = Service {
    node: NodeSpec {
        name: "judge",
        help: "Judges.",
        edges: &["drop"],
        drops: Reason::SPECS,
        features: &[Feature {
            arc: SERVICES_ARC,
            runs_before: &["l4-lifecycle", "tcp-check"],
            runs_after: &[],
        }],
        resumes: RESUMES,
        make: |cx| Serving::boxed(cx, Judge),
        ..NodeSpec::EMPTY
    },
    ..Service::EMPTY
};

pub(super) const WITNESS: Service = Service {
    node: NodeSpec {
        name: "witness",
        help: "Sees.",
        edges: &["drop"],
        counters: Counter::SPECS,
        features: &[Feature { arc: SERVICES_ARC, runs_before: &[], runs_after: &["l4-lifecycle", "judge"] }],
        resumes: RESUMES,
        make: |cx| Serving::boxed(cx, Witness),
        ..NodeSpec::EMPTY
    },
    ..Service::EMPTY
};

graph::edges! {
    /// Where the detour sends packets.
    enum Way {
        Drop => "drop",
        Lookup4 => "ip4-lookup",
        Lookup6 => "ip6-lookup",
    }
}

/// Sends datagrams by its node's own edges, past all services behind it.
struct Detour;

impl Custom for Detour {
    fn packet(&mut self, packet: &mut Packet<'_, '_>) -> Passes {
        match (packet.protocol(), packet.head()[0] >> 4) {
            (IpProtocol::UDP, 4) => Passes::To(Way::Lookup4.edge()),
            (IpProtocol::UDP, _) => Passes::To(Way::Lookup6.edge()),
            _ => Passes::Next,
        }
    }
}

const DETOUR: Service = Service {
    node: NodeSpec {
        name: "detour",
        help: "Goes another way.",
        edges: Way::NAMES,
        counters: &[],
        features: &[Feature { arc: SERVICES_ARC, runs_before: &["witness"], runs_after: &["usher"] }],
        make: |cx| node(cx, Detour),
        ..WITNESS.node
    },
    ..WITNESS
};

fn all() -> Order {
    let services: Vec<Service> = SERVICES.iter().copied().chain([WITNESS, USHER, JUDGE, DETOUR]).collect();
    Order::resolve(&services).unwrap()
}

fn served(names: &[&str]) -> Tenant {
    Tenant { chain: [all().chain(names.iter().copied()).unwrap(); 2], ..tenant() }
}

fn bench(tier: Tier, names: &[&str]) -> Bench {
    let nodes =
        [crate::testing::all_nodes(), vec![JUDGE.node, USHER.node, WITNESS.node, DETOUR.node]].concat();
    furnish(Bench::with_nodes(tier, &nodes), &[served(names)])
}

/// How many packets came to a node.
pub(super) fn calls(bench: &Bench, name: &str) -> u64 {
    let id = bench.plan.node(name).unwrap();
    bench.graph.counters().runtime[usize::from(id)].packets.get()
}

const EVERYTHING: &[&str] = &["witness", "judge", "l4-lifecycle"];

#[test]
fn services_are_ordered_as_they_declare() {
    let names: Vec<&str> = all().services().iter().map(|service| service.node.name).collect();
    assert_eq!(
        names,
        [
            "judge",
            "tcp-check",
            "l4-lifecycle",
            "l4-one-sided",
            "session-stats",
            "balance",
            "acl",
            "policer",
            "redirect",
            "nat",
            "direct-return",
            "usher",
            "detour",
            "witness"
        ]
    );
}

#[test]
fn a_packet_passes_the_services_of_its_chain_in_order_and_no_others() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &["l4-lifecycle", "witness"]);
        pass(&mut bench, text, "udp");
        pass(&mut bench, text, "udp answer");
        assert_eq!(
            (one(&mut bench).session.state, count(&bench, "witness", "seen")),
            (State::Established, 2)
        );
    });
}

#[test]
fn each_direction_has_its_own_chain() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[]);
        let chain =
            [all().chain(["l4-lifecycle"]).unwrap(), all().chain(["witness", "l4-lifecycle"]).unwrap()];
        set_tenants(&mut bench, &[Tenant { chain, ..tenant() }]);
        ["udp", "udp answer", "udp"].into_iter().for_each(|name| pass(&mut bench, text, name));
        assert_eq!(count(&bench, "witness", "seen"), 1);
    });
}

#[test]
fn a_service_may_let_a_packet_skip_the_others() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, EVERYTHING);
        pass(&mut bench, text, "another udp");
        assert_eq!((seen(&mut bench).len(), count(&bench, "witness", "seen")), (1, 0));
    });
}

/// By an edge of its node, whatever is behind it on the chain; the session has counted them.
#[test]
fn a_service_may_send_packets_to_a_node_of_its_choice() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &["l4-lifecycle", "detour", "witness"]);
        ["udp", "udp answer", "udp"].into_iter().for_each(|name| pass(&mut bench, text, name));
        assert_eq!((one(&mut bench).session.packets(), count(&bench, "witness", "seen")), ([2, 1], 0));
        pass(&mut bench, text, "tcp syn");
        assert_eq!(count(&bench, "witness", "seen"), 1, "what stays on its chain");
    });
}

#[test]
fn a_service_may_leave_a_session_alone_from_then_on() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, EVERYTHING);
        dropped(&mut bench, text, "a third udp", "judge once");
        pass(&mut bench, text, "a third udp");
        assert_eq!(count(&bench, "witness", "seen"), 1);
    });
}

/// From the very packet on, of both directions, until the tenant changes; other sessions never know.
#[test]
fn a_service_may_put_another_on_a_session_s_chains() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &["usher", "l4-lifecycle"]);
        pass(&mut bench, text, "another udp");
        assert_eq!(count(&bench, "witness", "seen"), 0);
        for (name, times) in [("udp", 1), ("udp answer", 2), ("udp", 3)] {
            pass(&mut bench, text, name);
            assert_eq!(count(&bench, "witness", "seen"), times);
        }
        assert_eq!(count(&bench, "usher", "seen"), 0);
        set_tenants(&mut bench, &[served(&["l4-lifecycle"])]);
        pass(&mut bench, text, "udp");
        assert_eq!(count(&bench, "witness", "seen"), 3, "the tenant says anew what its sessions pass");
    });
}

/// Leaves, services that were put on a session's chains, and blocks.
#[test]
fn what_services_have_decided_outlives_changes_of_others() {
    everywhere(|tier, text, _| {
        let names = &["usher", "l4-lifecycle"];
        let mut bench = bench(tier, names);
        pass(&mut bench, text, "udp");
        pass(&mut bench, text, "another udp");
        let came = calls(&bench, "usher");
        for times in 2..5 {
            change_something(&mut bench);
            pass(&mut bench, text, "udp");
            assert_eq!((calls(&bench, "usher"), count(&bench, "witness", "seen")), (came, times));
        }
        pass(&mut bench, text, "another udp");
        assert_eq!(calls(&bench, "usher"), came + 1, "it has stayed with that one");
        set_tenants(&mut bench, &[served(names)]);
        pass(&mut bench, text, "udp");
        assert_eq!((calls(&bench, "usher"), count(&bench, "witness", "seen")), (came + 2, 5), "asked anew");

        let mut bench = self::bench(tier, EVERYTHING);
        dropped(&mut bench, text, "udp", "judge for-good");
        for _ in 0..2 {
            change_something(&mut bench);
            dropped(&mut bench, text, "udp", "judge for-good");
            dropped(&mut bench, text, "udp answer", "judge for-good");
        }
        assert_eq!(calls(&bench, "judge"), 1);
        set_tenants(&mut bench, &[served(EVERYTHING)]);
        dropped(&mut bench, text, "udp", "judge for-good");
        assert_eq!(calls(&bench, "judge"), 2, "asked anew");
    });
}

/// What rules say is asked anew whenever anything changes, also of a session that another service has left.
#[test]
fn rules_are_asked_again_though_others_have_left() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &["usher", "l4-lifecycle", "acl"]);
        let mut filters = Filters::default();
        for (action, times) in [(Action::Reflect, 1), (Action::Deny, 1), (Action::Reflect, 2)] {
            set_acl(&mut filters, "all", vec![rule(action)]);
            publish(&mut bench, &mut filters, &["all"]);
            match action {
                Action::Deny => dropped(&mut bench, text, "udp", "acl denied"),
                _ => pass(&mut bench, text, "udp"),
            }
            assert_eq!(count(&bench, "witness", "seen"), times);
        }
    });
}

#[test]
fn who_can_be_inserted_is_who_tenants_can_name() {
    assert_eq!(Insertable::named("acl"), Insertable::of(order(), "acl"));
    assert!(Insertable::named("acl").is_some());
    assert_eq!(["direct-return", "nobody"].map(Insertable::named), [None, None]);
}

#[test]
fn a_session_s_packets_may_be_dropped_for_good_and_its_tenant_s_change_decides_anew() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, EVERYTHING);
        let frame = packet(text, "udp").frame;
        let outcome = bench.run(2, &vec![frame; 8], 8);
        assert_eq!(
            outcome.drops,
            [("judge for-good".to_string(), 8)].into(),
            "also those of the same vector"
        );
        let before = calls(&bench, "judge");
        dropped(&mut bench, text, "udp", "judge for-good");
        dropped(&mut bench, text, "udp answer", "judge for-good");
        dropped(&mut bench, text, "error of a router", "judge for-good");
        assert_eq!(calls(&bench, "judge"), before, "they don't come to the service any more");
        // No round in between: the next packet is treated as the tenant says now.
        set_tenants(&mut bench, &[served(&["l4-lifecycle", "witness"])]);
        pass(&mut bench, text, "udp");
        assert_eq!((count(&bench, "witness", "seen"), one(&mut bench).session.is_blocked()), (1, false));
        set_tenants(&mut bench, &[served(EVERYTHING)]);
        dropped(&mut bench, text, "udp", "judge for-good");
    });
}

#[test]
fn a_service_may_end_a_session() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, EVERYTHING);
        dropped(&mut bench, text, "echo", "judge ended");
        assert_eq!(seen(&mut bench).len(), 1);
        wait(&mut bench, 1);
        assert!(seen(&mut bench).is_empty());
    });
}

/// A session makes room for another between the node that finds sessions and the services: its packet isn't taken for the
/// other's.
#[test]
fn a_packet_whose_session_is_gone_is_dropped_by_name() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &["l4-lifecycle", "witness"]);
        set_tenants(&mut bench, &[Tenant { max_sessions: 1, ..served(&["witness"]) }]);
        let frames = ["udp", "another udp", "a third udp"].map(|name| packet(text, name).frame);
        let outcome = bench.run(2, &frames, 3);
        assert_eq!(outcome.drops, [("ip4-session-input session-gone".to_string(), 2)].into());
        assert_eq!((outcome.sent.get(&3).map(Vec::len), count(&bench, "witness", "seen")), (Some(1), 1));
    });
}
