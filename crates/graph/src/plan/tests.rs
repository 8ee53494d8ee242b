use super::*;
use crate::arc::ArcSpec;
use crate::context::{Ctx, Frame};
use crate::node::{Attach, Feature, Node, NodeKind, Resume};

struct Pass;
impl Node for Pass {
    fn process(&mut self, _ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        frame.all(0);
    }
}

const PASS: NodeSpec = NodeSpec { edges: &["drop"], make: |_| Box::new(Pass), ..NodeSpec::EMPTY };

const fn feature(name: &'static str, features: &'static [Feature]) -> NodeSpec {
    NodeSpec { name, features, ..PASS }
}

const ARC: ArcSpec = ArcSpec { name: "ip4-unicast", help: "" };
const INPUT: NodeSpec = NodeSpec { name: "input", kind: NodeKind::Input, starts: &["ip4-unicast"], ..PASS };
const LOOKUP: NodeSpec = NodeSpec { name: "lookup", ends: &["ip4-unicast"], ..PASS };

const A: NodeSpec =
    feature("a", &[Feature { arc: "ip4-unicast", runs_before: &[], runs_after: &["b", "not-there"] }]);
const B: NodeSpec = feature("b", &[Feature { arc: "ip4-unicast", runs_before: &[], runs_after: &[] }]);
const C: NodeSpec = feature("c", &[Feature { arc: "ip4-unicast", runs_before: &["b"], runs_after: &[] }]);

#[test]
fn features_come_in_declared_order_whatever_the_order_of_registration() {
    for specs in [[INPUT, LOOKUP, A, B, C], [C, B, A, LOOKUP, INPUT], [B, A, INPUT, C, LOOKUP]] {
        let plan = Plan::resolve(&specs, &[ARC], Schema::default()).unwrap();
        let arc = &plan.arcs[plan.arc("ip4-unicast").unwrap() as usize];
        let names: Vec<_> = arc.members.iter().map(|id| plan.nodes[*id as usize].spec.name).collect();
        assert_eq!(names, ["c", "b", "a", "lookup"]);
        assert_eq!(plan.chain("ip4-unicast", &["a", "c"], "lookup").unwrap(), [0, 2, 3]);
    }
}

#[test]
fn nodes_are_numbered_along_the_way_of_packets() {
    let plan = Plan::resolve(&[LOOKUP, A, C, INPUT, B], &[ARC], Schema::default()).unwrap();
    let id = |name| plan.node(name).unwrap();
    assert!(id("input") < id("c") && id("c") < id("b") && id("b") < id("a") && id("a") < id("lookup"));
    assert!(id("lookup") < id("drop"), "drops of all nodes are counted together, last");
    for node in &plan.nodes {
        assert!(node.edges.iter().all(|target| (*target as usize) < plan.nodes.len()), "no edge dangles");
    }
}

#[test]
fn mistakes_are_named() {
    let resolve = |specs: &[NodeSpec]| {
        Plan::resolve(specs, &[ARC], Schema::default()).map(|_| ()).unwrap_err().to_string()
    };
    const LOST: NodeSpec = NodeSpec { name: "lost", edges: &["drop", "nowhere"], ..PASS };
    assert!(resolve(&[LOST]).contains("lost has an edge to nowhere"));
    assert!(resolve(&[B, B]).contains("b is declared twice"));
    const CHILD: NodeSpec = NodeSpec { name: "child", attach: &[Attach { parent: "b", key: 0x800 }], ..PASS };
    const RIVAL: NodeSpec = NodeSpec { name: "rival", ..CHILD };
    assert!(resolve(&[CHILD]).contains("child attaches itself to b"));
    let taken = resolve(&[B, CHILD, RIVAL]);
    assert!(taken.contains("child and rival both attach themselves to b under key 0x800"), "{taken}");
    const LOOP: NodeSpec =
        feature("a", &[Feature { arc: "ip4-unicast", runs_before: &["c"], runs_after: &["b"] }]);
    let cycle = resolve(&[LOOP, B, C]);
    assert!(cycle.contains("ip4-unicast can't be ordered") && cycle.contains(" before "), "{cycle}");
}

/// A node that a feature sends packets to, and that sends them on along the feature's arc, lies between the two, whatever
/// else leads to either of them.
#[test]
fn who_resumes_an_arc_comes_between_the_feature_and_those_behind_it() {
    const SIDE: NodeSpec = NodeSpec {
        name: "side",
        attach: &[Attach { parent: "b", key: 1 }, Attach { parent: "early", key: 1 }],
        resumes: &[Resume { arc: "ip4-unicast", after: "b" }],
        ..PASS
    };
    const EARLY: NodeSpec = NodeSpec { name: "early", kind: NodeKind::Input, ..PASS };
    for specs in [[EARLY, INPUT, LOOKUP, A, B, C, SIDE], [SIDE, C, B, A, LOOKUP, INPUT, EARLY]] {
        let plan = Plan::resolve(&specs, &[ARC], Schema::default()).unwrap();
        let id = |name| plan.node(name).unwrap();
        assert!(id("c") < id("b") && id("b") < id("side") && id("side") < id("a"), "{:?}", plan.dot());
        let node = &plan.nodes[usize::from(id("side"))];
        let place = node.arcs[0];
        assert_eq!(node.edges[usize::from(place.base) + 2], id("a"), "all places can be reached by number");
    }
}
