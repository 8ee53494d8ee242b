//! The graph itself.

use api::v1::{GraphArc, GraphNode, GraphNodeKind, GraphResponse};
use features::session::order;
use graph::NodeKind;

use super::super::start::Shared;

pub(super) fn response(shared: &Shared) -> GraphResponse {
    let name = |id: &u16| shared.plan.nodes[usize::from(*id)].spec.name.to_string();
    let nodes = shared.plan.nodes.iter().map(|node| GraphNode {
        name: node.spec.name.into(),
        kind: match node.spec.kind {
            NodeKind::Input => GraphNodeKind::Input,
            NodeKind::Internal => GraphNodeKind::Internal,
            NodeKind::Output => GraphNodeKind::Output,
        }
        .into(),
        edges: node.edges.iter().map(name).collect(),
        help: node.spec.help.into(),
        tier: shared.tier.name().into(),
        scopes: order().scopes_of(node.spec.name).into_iter().map(Into::into).collect(),
    });
    let arcs = shared.plan.arcs.iter().map(|arc| GraphArc {
        name: arc.name.into(),
        features: arc.members.iter().take(arc.features).map(name).collect(),
    });
    GraphResponse { nodes: nodes.collect(), arcs: arcs.collect() }
}
