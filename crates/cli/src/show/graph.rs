//! `show graph`.

use std::fmt::Write;

use api::text::Words;
use api::v1::{GraphNodeKind, GraphRequest, GraphResponse};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::{Column, Paint, Table};

/// Nodes and edges.
#[derive(Debug)]
pub(super) struct Graph {
    /// In the language of Graphviz.
    pub(super) dot: bool,
}

impl View for Graph {
    type Answer = GraphResponse;

    async fn fetch(&self, client: &mut Client) -> Result<GraphResponse, Error> {
        client.graph(GraphRequest {}).await.doing("show graph")
    }

    fn table(
        &self,
        answer: &GraphResponse,
        _before: Option<Before<'_, GraphResponse>>,
        paint: Paint,
    ) -> String {
        if self.dot { dot(answer) } else { list(answer, paint) }
    }
}

/// Nodes with their successors, then the arcs.
fn list(graph: &GraphResponse, paint: Paint) -> String {
    let mut table = Table::new([
        Column::left("NODE"),
        Column::left("KIND"),
        Column::left("TIER").optional(),
        Column::left("NEXT"),
        Column::left("WHAT IT DOES"),
    ]);
    for node in &graph.nodes {
        table.row([
            (&node.name).into(),
            node.kind().word().into(),
            (&node.tier).into(),
            if node.edges.is_empty() { "-".into() } else { node.edges.join(" ").into() },
            (&node.help).into(),
        ]);
    }
    let mut text = table.render(paint);
    if !graph.arcs.is_empty() {
        let mut arcs = Table::new([Column::left("ARC"), Column::left("FEATURES IN ORDER")]);
        for arc in &graph.arcs {
            arcs.row([(&arc.name).into(), arc.features.join(" -> ").into()]);
        }
        text.push('\n');
        text.push_str(&arcs.render(paint));
    }
    text
}

/// The language of Graphviz.
fn dot(graph: &GraphResponse) -> String {
    let mut text =
        String::from("digraph quiver {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for node in &graph.nodes {
        let style = match node.kind() {
            GraphNodeKind::Input => ", style=filled, fillcolor=palegreen",
            GraphNodeKind::Output => ", style=filled, fillcolor=lightblue",
            GraphNodeKind::Internal | GraphNodeKind::Unspecified => "",
        };
        let _ = writeln!(text, "  {} [tooltip={}{style}];", quoted(&node.name), quoted(&node.help));
    }
    for node in &graph.nodes {
        for edge in &node.edges {
            let _ = writeln!(text, "  {} -> {};", quoted(&node.name), quoted(edge));
        }
    }
    text.push_str("}\n");
    text
}

/// A string of Graphviz.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use api::v1::{GraphArc, GraphNode};

    use super::*;

    fn graph() -> GraphResponse {
        let node = |name: &str, kind: GraphNodeKind, edges: &[&str], help: &str| GraphNode {
            name: name.into(),
            kind: kind.into(),
            edges: edges.iter().map(ToString::to_string).collect(),
            help: help.into(),
            tier: "avx2".into(),
            scopes: Vec::new(),
        };
        GraphResponse {
            nodes: vec![
                node("memif-input", GraphNodeKind::Input, &["ethernet-input", "drop"], "polls memif"),
                node("drop", GraphNodeKind::Internal, &[], "counts \"dropped\" packets"),
            ],
            arcs: vec![GraphArc {
                name: "ip4-unicast".into(),
                features: vec!["rpf".into(), "ip4-lookup".into()],
            }],
        }
    }

    #[test]
    fn nodes_and_arcs() {
        assert_eq!(
            Graph { dot: false }.table(&graph(), None, Paint::new(false)),
            "NODE         KIND      TIER  NEXT                 WHAT IT DOES\n\
             memif-input  input     avx2  ethernet-input drop  polls memif\n\
             drop         internal  avx2  -                    counts \"dropped\" packets\n\
             \n\
             ARC          FEATURES IN ORDER\n\
             ip4-unicast  rpf -> ip4-lookup\n"
        );
    }

    #[test]
    fn graphviz() {
        assert_eq!(
            Graph { dot: true }.table(&graph(), None, Paint::new(false)),
            "digraph quiver {\n\
             \x20 rankdir=LR;\n\
             \x20 node [shape=box, fontname=\"sans-serif\"];\n\
             \x20 \"memif-input\" [tooltip=\"polls memif\", style=filled, fillcolor=palegreen];\n\
             \x20 \"drop\" [tooltip=\"counts \\\"dropped\\\" packets\"];\n\
             \x20 \"memif-input\" -> \"ethernet-input\";\n\
             \x20 \"memif-input\" -> \"drop\";\n\
             }\n"
        );
    }
}
