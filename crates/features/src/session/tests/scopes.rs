//! Scopes in the graph: the same bit stands for one service here and for another there, in one vector and one table.

use super::super::service::{Custom, Insertable, Packet, node};
use super::super::services::{Order, SERVICES_ARC, Scopes, Service};
use super::super::serving::{RESUMES, Serve, Serving, Verdict as Passes, Visit};
use super::*;
use graph::{Feature, NodeContext, NodeSpec};
use std::collections::BTreeMap;

graph::counters! {
    /// What is counted.
    enum Counter {
        /// Packets that came by.
        Seen => "seen",
    }
}

struct Witness;

impl Serve for Witness {
    fn packet(&mut self, visit: &mut Visit<'_>) -> Passes {
        visit.count(Counter::Seen);
        Passes::Next
    }
}

/// Puts a service of the other scope on chains, and counts where that can't be.
struct Usher(Insertable);

impl Custom for Usher {
    fn packet(&mut self, packet: &mut Packet<'_, '_>) -> Passes {
        if !packet.insert_service(self.0) {
            packet.count(Counter::Seen);
        }
        Passes::Next
    }
}

const fn witness(name: &'static str, features: &'static [Feature], scopes: Scopes) -> Service {
    Service {
        node: NodeSpec {
            name,
            help: "Sees.",
            edges: &["drop"],
            counters: Counter::SPECS,
            features,
            resumes: RESUMES,
            make: |cx| Serving::boxed(cx, Witness),
            ..NodeSpec::EMPTY
        },
        scopes,
        ..Service::EMPTY
    }
}

const fn place(runs_before: &'static [&'static str], runs_after: &'static [&'static str]) -> Feature {
    Feature { arc: SERVICES_ARC, runs_before, runs_after }
}

const FIELD: Scopes = Scopes::Of(&["field"]);

/// One before all, two beside those of the default scope, and one that is of both. Behind them, one of both that has another come, and witnesses with
/// the same bit in either scope, and with one that the default scope hasn't.
pub(super) const SERVICES: [Service; 8] = [
    witness("field-first", &[place(&["tcp-check"], &[])], FIELD),
    witness("field-meter", &[place(&["field-gate"], &["policer"])], FIELD),
    witness("field-gate", &[place(&[], &["policer"])], FIELD),
    witness("wide", &[place(&[], &["field-gate", "nat"])], BOTH),
    USHER,
    witness("field-last", &[place(&[], &["usher"])], FIELD),
    witness("home-last", &[place(&[], &["usher"])], Scopes::DEFAULT),
    witness("field-end", &[place(&[], &["field-last", "home-last"])], FIELD),
];

const BOTH: Scopes = Scopes::Of(&["default", "field"]);

const USHER: Service = {
    let witness = witness("usher", &[place(&[], &["wide"])], BOTH);
    let make = |cx: &NodeContext<'_>| node(cx, Usher(Insertable::of(&all(), "field-last").unwrap()));
    Service { node: NodeSpec { make, ..witness.node }, ..witness }
};

fn all() -> Order {
    Order::resolve(&[super::super::SERVICES, &SERVICES].concat()).unwrap()
}

/// Tenant 1 is of the default scope, at interface 2; tenant 2 of the other, at interface 3.
fn two(bench: &mut Bench, here: &[&str], there: &[&str]) {
    let order = all();
    let scope = order.scope("field").unwrap();
    let own =
        Tenant { chain: [order.chain(here.iter().copied()).unwrap(); 2], outside: Vec::new(), ..tenant() };
    let other = Tenant {
        name: "blue".into(),
        scope,
        chain: [order.chain_in(scope, there.iter().copied()).unwrap(); 2],
        ..own.clone()
    };
    set_tenants(bench, &[own, other]);
    let key = bench.key::<Tenants>();
    bench.publish(|draft| {
        draft.change(key, |all| all.set_place(3, Place { tenant: 2, context: 7, ..Place::default() }))
    });
}

fn bench(tier: Tier) -> Bench {
    let nodes = SERVICES.map(|service| service.node);
    furnish(Bench::with_nodes(tier, &[crate::testing::all_nodes(), nodes.to_vec()].concat()), &[tenant()])
}

fn seen_by(bench: &Bench) -> [u64; 4] {
    ["field-first", "field-meter", "field-gate", "wide"].map(|name| count(bench, name, "seen"))
}

#[test]
fn bits_are_those_of_the_scope() {
    let order = all();
    let number = |name: &str| order.number(name).unwrap();
    assert!(order.number("tcp-check") > order.number("field-first"), "of both, so behind what is so in one");
    assert_eq!(number("field-gate"), number("field-meter") + 1);
    let scope = order.scope("field").unwrap();
    let same = |(bit, one): &(u8, &Service)| {
        order.of(scope).any(|(other, service)| other == *bit && service.node.name != one.node.name)
    };
    let shared: Vec<&str> = order.of(0).filter(same).map(|(_, service)| service.node.name).collect();
    assert!(shared.len() >= 2, "{shared:?}");
    // Alone, Quiver's own have the bits that they have always had.
    assert_eq!(super::order().number("tcp-check"), Some(0));
}

/// Both tenants' packets meet in the nodes of services that are of every scope.
#[test]
fn each_session_passes_the_services_of_its_tenant_s_scope() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier);
        let order = all();
        let names = ["field-first", "l4-lifecycle", "field-meter", "field-gate", "wide"];
        two(&mut bench, &["l4-lifecycle", "wide"], &names);
        let (udp, answer) = (packet(text, "udp"), packet(text, "udp answer"));
        for vector in [1, 256] {
            let before = seen_by(&bench);
            bench.run(2, &vec![udp.frame.clone(); vector], vector);
            let now = seen_by(&bench);
            assert_eq!(now, [before[0], before[1], before[2], before[3] + vector as u64], "{vector}");
            bench.run(3, &vec![answer.frame.clone(); vector], vector);
            let one = vector as u64;
            assert_eq!(
                seen_by(&bench),
                [before[0] + one, before[1] + one, before[2] + one, before[3] + 2 * one]
            );
        }
        let all = seen(&mut bench);
        assert_eq!(all.len(), 2, "{all:?}");
        // What the one scope's chain says, read as the other's, is something else.
        let chain = order.chain_in(order.scope("field").unwrap(), ["field-meter", "field-gate"]).unwrap();
        assert_eq!(order.names(0, chain).count(), 2);
    });
}

/// One vector has packets of sessions of both scopes, where tenants share an address space.
#[test]
fn packets_of_both_scopes_go_apart_from_one_vector() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier);
        two(
            &mut bench,
            &["tcp-check", "session-stats"],
            &["tcp-check", "session-stats", "field-gate", "wide"],
        );
        let key = bench.key::<Tenants>();
        let place = Place { tenant: 2, ..Place::default() };
        bench.publish(|draft| draft.change(key, |all| all.set_place(3, place)));
        pass(&mut bench, text, "udp answer");
        assert_eq!(seen_by(&bench), [0, 0, 1, 1]);
        // That session's other direction, and one that begins here.
        let (its, own) = (packet(text, "udp").frame, packet(text, "another udp").frame);
        let frames: Vec<_> = [&its, &own, &own].into_iter().cycle().take(255).cloned().collect();
        let outcome = bench.run(2, &frames, 255);
        assert_eq!(outcome.sent.get(&3).map(Vec::len), Some(255), "{:?}", outcome.drops);
        assert_eq!(seen_by(&bench), [0, 0, 86, 86]);
        let noted = |bench: &mut Bench| seen(bench).iter().filter(|seen| seen.stats.is_some()).count();
        assert_eq!(noted(&mut bench), 2, "a service of every scope has seen both");
    });
}

#[test]
fn a_tenant_that_changes_its_scope_has_its_sessions_pass_the_other_s_services() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier);
        two(&mut bench, &["l4-lifecycle", "wide"], &["field-gate"]);
        pass(&mut bench, text, "udp");
        assert_eq!(seen_by(&bench), [0, 0, 0, 1]);
        let order = all();
        let scope = order.scope("field").unwrap();
        let chain = [order.chain_in(scope, ["tcp-check", "field-gate", "field-first"]).unwrap(); 2];
        set_tenants(&mut bench, &[Tenant { scope, chain, ..tenant() }]);
        pass(&mut bench, text, "udp");
        assert_eq!((seen_by(&bench), seen(&mut bench).len()), ([1, 0, 1, 1], 1));
        set_tenants(&mut bench, &[Tenant { chain: [order.chain(["wide"]).unwrap(); 2], ..tenant() }]);
        pass(&mut bench, text, "udp");
        assert_eq!(seen_by(&bench), [1, 0, 1, 2]);
    });
}

#[test]
fn errors_about_sessions_of_another_scope_pass_none_of_its_services() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier);
        two(&mut bench, &["l4-lifecycle"], &["field-gate"]);
        let order = all();
        let scope = order.scope("field").unwrap();
        // The bits of services that errors pass by default stand for others here.
        let chain = [order.chain_in(scope, order.known(scope).split(", ")).unwrap(); 2];
        let without_rules = chain.map(|chain| chain.without(order.number("acl").unwrap()));
        set_tenants(&mut bench, &[Tenant { scope, chain: without_rules, ..tenant() }]);
        pass(&mut bench, text, "udp");
        assert_eq!(seen_by(&bench), [1; 4]);
        pass(&mut bench, text, "error of a router");
        assert_eq!(seen_by(&bench), [1; 4], "nothing has changed the packet that it quotes");
    });
}

/// The bit would stand for another service there: for one that nobody has asked for.
#[test]
fn a_service_of_another_scope_is_not_inserted() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier);
        two(&mut bench, &["l4-lifecycle", "usher"], &["l4-lifecycle", "usher"]);
        let order = all();
        assert_eq!(order.number("field-last"), order.number("home-last"));
        let last =
            |bench: &Bench| ["usher", "field-last", "home-last"].map(|name| count(bench, name, "seen"));
        let (udp, answer) = (packet(text, "udp").frame, packet(text, "udp answer").frame);
        let outcome = bench.run(2, &vec![udp; 3], 3);
        assert_eq!((outcome.drops.len(), last(&bench)), (0, [3, 0, 0]), "the first scope hasn't got it");
        let outcome = bench.run(3, &vec![answer; 3], 3);
        assert_eq!((outcome.drops.len(), last(&bench)), (0, [3, 3, 0]));
        let chains: Vec<_> = seen(&mut bench).iter().map(|seen| seen.session.chain[0]).collect();
        let with = |name: &str| chains.iter().filter(|chain| chain.has(order.number(name).unwrap())).count();
        assert_eq!((chains.len(), with("usher"), with("field-last")), (2, 2, 1));
    });
}

/// The first packet of a vector is one of a session of one scope; the second one takes its place for a session of the other. The first isn't taken for that one's, whatever its
/// bit stands for there.
#[test]
fn a_session_s_number_may_be_another_scope_s_before_its_packet_has_gone_on() {
    everywhere(|tier, text, _| {
        let order = all();
        let bit = |name: &str| order.number(name).unwrap();
        assert!(order.of(0).all(|(number, _)| number != bit("field-end")), "an edge that no node has");
        let gone = BTreeMap::from([("ip4-session-input session-gone".to_string(), 1)]);
        for theirs in ["field-last", "field-end"] {
            // One session in all, and both tenants in one address space.
            let new = || {
                let mut bench = bench(tier);
                two(&mut bench, &["home-last"], &[theirs]);
                let key = bench.key::<Tenants>();
                bench.publish(|draft| {
                    draft.change(key, |all| {
                        all.per_worker = 1;
                        all.set_place(3, Place { tenant: 2, ..Place::default() });
                    });
                });
                bench
            };
            let witnesses = |bench: &Bench| ["home-last", theirs].map(|name| count(bench, name, "seen"));
            let frame = |name| packet(text, name).frame;
            // From the other scope to the default one, and the other way round.
            let mut bench = new();
            pass(&mut bench, text, "udp answer");
            let outcome = bench.run(2, &[frame("udp"), frame("another udp")], 2);
            assert_eq!((outcome.drops, outcome.sent.get(&3).map(Vec::len)), (gone.clone(), Some(1)));
            assert_eq!((witnesses(&bench), one(&mut bench).session.tenant), ([1, 1], 1), "{theirs}");
            let mut bench = new();
            pass(&mut bench, text, "udp");
            let outcome = bench.run(3, &[frame("udp answer"), frame("tcp syn answer")], 2);
            assert_eq!((outcome.drops, outcome.sent.get(&2).map(Vec::len)), (gone.clone(), Some(1)));
            assert_eq!((witnesses(&bench), one(&mut bench).session.tenant), ([1, 1], 2), "{theirs}");
        }
    });
}
