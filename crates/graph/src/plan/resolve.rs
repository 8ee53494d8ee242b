//! From declarations to numbers.

use super::error::PlanError;
use super::{Plan, PlanArc, PlanNode, order};
use crate::arc::{ArcPlace, ArcSpec, Arcs};
use crate::node::NodeSpec;
use crate::nodes;
use crate::publish::Schema;
use std::collections::HashMap;

impl Plan {
    /// Resolves a graph of these nodes and arcs. The engine's own nodes (`drop`, `inject`, `handover`), the `device-input`
    /// and `interface-output` arcs and the [`Arcs`] part are added.
    ///
    /// # Errors
    /// [`PlanError`] names the node and what is wrong with it.
    pub fn resolve(specs: &[NodeSpec], arcs: &[ArcSpec], mut schema: Schema) -> Result<Self, PlanError> {
        schema.part::<Arcs>();
        let device = ArcSpec { name: nodes::DEVICE_INPUT, help: "Packets as their port received them." };
        let output = ArcSpec { name: nodes::INTERFACE_OUTPUT, help: "Packets on their way out by `tx_if`." };
        let arcs: Vec<ArcSpec> = [device, output].into_iter().chain(arcs.iter().copied()).collect();
        let specs: Vec<NodeSpec> =
            [nodes::DROP, nodes::INJECT, nodes::HANDOVER].into_iter().chain(specs.iter().copied()).collect();
        let names = names(&specs)?;
        let members = arcs.iter().map(|arc| members(arc, &specs)).collect::<Result<Vec<_>, _>>()?;
        let drafts = (0..specs.len())
            .map(|at| draft(at, &specs, &names, &arcs, &members))
            .collect::<Result<Vec<_>, _>>()?;
        let onward: Vec<Vec<usize>> = drafts.iter().map(|draft| draft.onward.clone()).collect();
        let order = order::nodes(&specs, &onward);
        let mut ids = vec![0u16; specs.len()];
        order.iter().enumerate().for_each(|(id, at)| ids[*at] = id as u16);
        let mut plan =
            Self { nodes: Vec::new(), arcs: Vec::new(), schema, drops: Vec::new(), counters: Vec::new() };
        for (id, at) in order.iter().enumerate() {
            let (spec, draft) = (specs[*at], &drafts[*at]);
            let (drop, counter) = (plan.drops.len() as u16, plan.counters.len() as u16);
            plan.drops.extend(spec.drops.iter().map(|reason| (id as u16, *reason)));
            plan.counters.extend(spec.counters.iter().map(|counter| (id as u16, *counter)));
            plan.nodes.push(PlanNode {
                spec,
                edges: draft.edges.iter().map(|target| ids[*target]).collect(),
                children: draft.children.clone(),
                arcs: draft.places.clone(),
                drops: drop..plan.drops.len() as u16,
                counters: counter..plan.counters.len() as u16,
            });
        }
        plan.arcs = arcs
            .iter()
            .zip(members)
            .map(|(arc, (features, ends))| PlanArc {
                name: arc.name,
                help: arc.help,
                features: features.len(),
                members: features.iter().chain(&ends).map(|at| ids[*at]).collect(),
            })
            .collect();
        Ok(plan)
    }
}

/// A node whose edges are positions in the list of declarations.
struct NodeDraft {
    edges: Vec<usize>,
    /// Those that packets can take: not those to places of an arc that lie behind them.
    onward: Vec<usize>,
    children: Vec<(u32, u8)>,
    places: Vec<ArcPlace>,
}

fn names(specs: &[NodeSpec]) -> Result<HashMap<&'static str, usize>, PlanError> {
    let mut names = HashMap::new();
    for (at, spec) in specs.iter().enumerate() {
        if names.insert(spec.name, at).is_some() {
            return Err(PlanError::Twice { node: spec.name.into() });
        }
        if !spec.drops.is_empty() && spec.edges.first() != Some(&"drop") {
            return Err(PlanError::FirstEdge { node: spec.name.into() });
        }
    }
    Ok(names)
}

type Members = (Vec<usize>, Vec<usize>);

fn members(arc: &ArcSpec, specs: &[NodeSpec]) -> Result<Members, PlanError> {
    let ends = (0..specs.len()).filter(|at| specs[*at].ends.contains(&arc.name)).collect();
    Ok((order::features(arc.name, specs)?, ends))
}

fn draft(
    at: usize,
    specs: &[NodeSpec],
    names: &HashMap<&str, usize>,
    arcs: &[ArcSpec],
    members: &[Members],
) -> Result<NodeDraft, PlanError> {
    let spec = &specs[at];
    let mut edges = Vec::new();
    for target in spec.edges {
        let dangling = || PlanError::DanglingEdge { node: spec.name.into(), target: (*target).into() };
        edges.push(*names.get(target).ok_or_else(dangling)?);
    }
    let mut children: Vec<(u32, u8)> = Vec::new();
    for (child, other) in specs.iter().enumerate() {
        for attach in other.attach {
            if !names.contains_key(attach.parent) {
                return Err(PlanError::NoParent { node: other.name.into(), parent: attach.parent.into() });
            }
            if attach.parent != spec.name {
                continue;
            }
            if let Some(taken) = children.iter().find(|taken| taken.0 == attach.key) {
                return Err(PlanError::KeyTaken {
                    parent: spec.name.into(),
                    key: attach.key,
                    first: specs[edges[taken.1 as usize]].name.into(),
                    second: other.name.into(),
                });
            }
            children.push((attach.key, edges.len().min(255) as u8));
            edges.push(child);
        }
    }
    let mut places = Vec::new();
    if let Some(unknown) = spec.ends.iter().find(|end| !arcs.iter().any(|arc| arc.name == **end)) {
        return Err(PlanError::UnknownArc { arc: (*unknown).into() });
    }
    let mut onward = edges.clone();
    let starts = spec.starts.iter().map(|arc| (*arc, None));
    let features = spec.features.iter().map(|feature| (feature.arc, Some(spec.name)));
    let resumes = spec.resumes.iter().map(|resume| (resume.arc, Some(resume.after)));
    for (name, after) in starts.chain(features).chain(resumes) {
        let arc = arcs.iter().position(|arc| arc.name == name);
        let arc = arc.ok_or_else(|| PlanError::UnknownArc { arc: name.into() })?;
        places.push(ArcPlace { arc: arc as u16, base: edges.len().min(255) as u8 });
        let (features, ends) = &members[arc];
        let passed = features.iter().position(|at| Some(specs[*at].name) == after).map_or(0, |at| at + 1);
        onward.extend(features[passed..].iter().chain(ends));
        edges.extend(features.iter().chain(ends));
    }
    if edges.len() > 255 {
        return Err(PlanError::TooManyEdges { node: spec.name.into(), edges: edges.len() });
    }
    Ok(NodeDraft { edges, onward, children, places })
}
