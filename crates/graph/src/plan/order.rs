//! The two orders: of features on an arc, and of nodes in a round.

use super::error::PlanError;
use crate::node::{Feature, NodeKind, NodeSpec};

/// Features of arc `arc` among `specs`, by position, in an order that satisfies every declaration; where nothing is declared, by name, so
/// that the result doesn't depend on the order of registration. A plan numbers the members of its arcs so.
///
/// # Errors
/// [`PlanError::Cycle`] names features that come before each other.
pub fn features(arc: &str, specs: &[NodeSpec]) -> Result<Vec<usize>, PlanError> {
    let on = |spec: &NodeSpec| -> Option<Feature> { spec.features.iter().find(|f| f.arc == arc).copied() };
    let mut left: Vec<usize> = (0..specs.len()).filter(|at| on(&specs[*at]).is_some()).collect();
    left.sort_by_key(|at| specs[*at].name);
    let before = |a: usize, b: usize| {
        on(&specs[a]).is_some_and(|f| f.runs_before.contains(&specs[b].name))
            || on(&specs[b]).is_some_and(|f| f.runs_after.contains(&specs[a].name))
    };
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let free = left.iter().position(|at| !left.iter().any(|other| other != at && before(*other, *at)));
        match free {
            Some(at) => order.push(left.remove(at)),
            None => return Err(PlanError::Cycle { arc: arc.into(), cycle: cycle(&left, specs, before) }),
        }
    }
    Ok(order)
}

/// One cycle among `left`, each of which has a predecessor there.
fn cycle(left: &[usize], specs: &[NodeSpec], before: impl Fn(usize, usize) -> bool) -> String {
    let mut path = vec![left[0]];
    loop {
        let last = path[path.len() - 1];
        let Some(earlier) = left.iter().find(|at| before(**at, last)) else { break };
        if let Some(start) = path.iter().position(|at| at == earlier) {
            path.drain(..start);
            path.reverse();
            break;
        }
        path.push(*earlier);
    }
    let names: Vec<&str> = path.iter().chain(path.first()).map(|at| specs[*at].name).collect();
    names.join(" before ")
}

/// Nodes in topological order, inputs first and `drop` last; edges that close a cycle (an ICMP error that is looked up
/// again) are ignored.
pub(super) fn nodes(specs: &[NodeSpec], edges: &[Vec<usize>]) -> Vec<usize> {
    fn visit(at: usize, edges: &[Vec<usize>], seen: &mut [bool], order: &mut Vec<usize>) {
        if core::mem::replace(&mut seen[at], true) {
            return;
        }
        for next in &edges[at] {
            visit(*next, edges, seen, order);
        }
        order.push(at);
    }
    let mut seen = vec![false; specs.len()];
    let mut order = Vec::with_capacity(specs.len());
    // Depth-first: what is finished first comes last. `drop` is finished first of all.
    if let Some(drop) = specs.iter().position(|spec| spec.name == "drop") {
        visit(drop, edges, &mut seen, &mut order);
    }
    for kind in [NodeKind::Output, NodeKind::Internal, NodeKind::Input] {
        // Outputs without successors sink to the end; internals and inputs are reached in order.
        let roots: Vec<usize> = (0..specs.len()).filter(|at| specs[*at].kind == kind).collect();
        if kind != NodeKind::Internal {
            roots.into_iter().for_each(|at| visit(at, edges, &mut seen, &mut order));
        }
    }
    for at in 0..specs.len() {
        visit(at, edges, &mut seen, &mut order);
    }
    order.reverse();
    order
}
