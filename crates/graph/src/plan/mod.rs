//! Nodes and arcs resolved into a graph: names become numbers, once, with readable errors.

mod error;
mod order;
mod resolve;

#[cfg(all(test, not(loom)))]
mod tests;

pub use error::PlanError;
pub use order::features;

use crate::arc::ArcPlace;
use crate::node::{DropSpec, NodeSpec};
use crate::publish::Schema;
use core::ops::Range;

/// A resolved graph, shared by all workers. Nodes are numbered in topological order: a round runs them from the
/// lowest pending number up, so that packets from several parents gather before a child runs.
#[derive(Debug)]
pub struct Plan {
    /// By node id.
    pub nodes: Vec<PlanNode>,
    /// By arc number.
    pub arcs: Vec<PlanArc>,
    /// The parts of the tables.
    pub schema: Schema,
    /// All drop reasons: node and declaration, by graph-wide id.
    pub drops: Vec<(u16, DropSpec)>,
    /// All declared counters: node and declaration, by graph-wide id.
    pub counters: Vec<(u16, crate::node::CounterSpec)>,
}

/// A node in its graph.
#[derive(Clone, Debug)]
pub struct PlanNode {
    /// Its declaration.
    pub spec: NodeSpec,
    /// Ids of the nodes its edges lead to, in edge order: declared edges, attached children, arc members.
    pub edges: Vec<u16>,
    /// Key and edge of each attached child.
    pub children: Vec<(u32, u8)>,
    /// Its places on arcs.
    pub arcs: Vec<ArcPlace>,
    /// Graph-wide ids of its drop reasons.
    pub drops: Range<u16>,
    /// Graph-wide ids of its counters.
    pub counters: Range<u16>,
}

/// An arc in its graph.
#[derive(Clone, Debug)]
pub struct PlanArc {
    /// Its name.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Members by number: features in the order that their declarations ask for, then the ends.
    pub members: Vec<u16>,
    /// How many of the members are features.
    pub features: usize,
}

impl Plan {
    /// Id of the node of that name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<u16> {
        self.nodes.iter().position(|node| node.spec.name == name).map(|id| id as u16)
    }

    /// Number of the arc of that name.
    #[must_use]
    pub fn arc(&self, name: &str) -> Option<u16> {
        self.arcs.iter().position(|arc| arc.name == name).map(|id| id as u16)
    }

    /// Member numbers for an interface that uses `features` (in any order) on arc `name` and then goes to `end`.
    ///
    /// # Errors
    /// [`PlanError::UnknownArc`], [`PlanError::NotAFeature`], [`PlanError::NotAnEnd`].
    pub fn chain(&self, name: &str, features: &[&str], end: &str) -> Result<Vec<u8>, PlanError> {
        let arc = self.arcs.iter().find(|arc| arc.name == name);
        let arc = arc.ok_or_else(|| PlanError::UnknownArc { arc: name.into() })?;
        let (on, ends) = arc.members.split_at(arc.features);
        let name_of = |id: &u16| self.nodes[*id as usize].spec.name;
        if let Some(unknown) = features.iter().find(|f| !on.iter().any(|id| name_of(id) == **f)) {
            return Err(PlanError::NotAFeature { arc: name.into(), node: (*unknown).into() });
        }
        let end_at = ends.iter().position(|id| name_of(id) == end);
        let end_at = end_at.ok_or_else(|| PlanError::NotAnEnd { arc: name.into(), node: end.into() })?;
        let picked = on.iter().enumerate().filter(|(_, id)| features.contains(&name_of(id)));
        Ok(picked.map(|(at, _)| at as u8).chain([(arc.features + end_at) as u8]).collect())
    }

    /// The graph in Graphviz's language, as `show graph --dot` prints it.
    #[must_use]
    pub fn dot(&self) -> String {
        let mut out =
            String::from("digraph quiver {\n  rankdir=LR;\n  node [shape=box, fontname=\"monospace\"];\n");
        for node in &self.nodes {
            let mut targets: Vec<u16> = node.edges.clone();
            targets.sort_unstable();
            targets.dedup();
            for target in
                targets.iter().map(|id| self.nodes[*id as usize].spec.name).filter(|name| *name != "drop")
            {
                out.push_str(&format!("  \"{}\" -> \"{target}\";\n", node.spec.name));
            }
        }
        out.push_str("}\n");
        out
    }
}
