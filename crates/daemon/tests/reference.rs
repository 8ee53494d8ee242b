//! `docs/reference/nodes.md` says what the nodes declare: written anew with `UPDATE_REFERENCE=1`, else compared.

use std::fmt::Write;
use std::path::PathBuf;

use graph::NodeKind;
use graph::plan::{Plan, PlanNode};

const HEAD: &str = "# Nodes, drop reasons, counters and arcs

<!-- Written by `UPDATE_REFERENCE=1 cargo test -p quiverd --test reference` from what the nodes declare; the same test
     compares. -->

All nodes of the graph that `quiverd` runs. `quiver show graph` shows the same of a running daemon, `quiver show drops --explain`
the reasons that have occurred. Severities: **info** happens in a healthy network, **loss** deserves a look at network or
configuration, **invalid** means that a sender, or we, did something wrong.
";

/// The graph as production builds it.
fn plan() -> Plan {
    let nodes = [features::nodes(), ports::NODES.to_vec()].concat();
    Plan::resolve(&nodes, &features::arcs(), features::schema()).expect("production's graph can be built")
}

fn render(plan: &Plan) -> String {
    let mut out = HEAD.to_string();
    arcs(plan, &mut out);
    let mut nodes: Vec<&PlanNode> = plan.nodes.iter().collect();
    nodes.sort_by_key(|node| node.spec.name);
    out.push_str("\n## Nodes\n\n| node | what |\n|---|---|\n");
    for node in &nodes {
        let name = node.spec.name;
        let _ = writeln!(out, "| [`{name}`](#{name}) | {} |", node.spec.help);
    }
    for node in &nodes {
        section(plan, node, &mut out);
    }
    out
}

fn arcs(plan: &Plan, out: &mut String) {
    out.push_str("\n## Arcs\n\n| arc | what | features, in order | ends |\n|---|---|---|---|\n");
    for arc in &plan.arcs {
        let names: Vec<&str> = arc.members.iter().map(|id| plan.nodes[usize::from(*id)].spec.name).collect();
        let (features, ends) = names.split_at(arc.features);
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", arc.name, arc.help, list(features), list(ends));
    }
}

fn section(plan: &Plan, node: &PlanNode, out: &mut String) {
    let spec = &node.spec;
    let _ = writeln!(out, "\n### {}\n\n{}\n", spec.name, spec.help);
    let kind = match spec.kind {
        NodeKind::Input => "input: called every round, brings packets in",
        NodeKind::Internal => "internal",
        NodeKind::Output => "output: packets end here",
    };
    out.push_str(kind);
    let mut line = |title: &str, names: &[&str]| {
        if !names.is_empty() {
            let _ = write!(out, " · {title}: {}", list(names));
        }
    };
    let children: Vec<&str> = node
        .children
        .iter()
        .map(|(_, edge)| plan.nodes[usize::from(node.edges[usize::from(*edge)])].spec.name)
        .collect();
    let parents: Vec<&str> = spec.attach.iter().map(|attach| attach.parent).collect();
    let features: Vec<&str> = spec.features.iter().map(|feature| feature.arc).collect();
    line("next", spec.edges);
    line("children", &unique(children));
    line("attached to", &unique(parents));
    line("begins arc", spec.starts);
    line("feature of arc", &features);
    let resumed: Vec<&str> = spec.resumes.iter().map(|resume| resume.arc).collect();
    line("can end arc", spec.ends);
    line("goes on along arc", &resumed);
    out.push('\n');
    if !spec.drops.is_empty() {
        out.push_str("\n| drop reason | severity | meaning |\n|---|---|---|\n");
        for reason in spec.drops {
            let severity = reason.severity.name();
            let _ = writeln!(out, "| `{}` | {severity} | {} |", reason.name, reason.help);
        }
    }
    if !spec.counters.is_empty() {
        out.push_str("\n| counter | counts |\n|---|---|\n");
        for counter in spec.counters {
            let _ = writeln!(out, "| `{}` | {} |", counter.name, counter.help);
        }
    }
}

fn unique(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names.dedup();
    names
}

fn list(names: &[&str]) -> String {
    match names {
        [] => "–".into(),
        names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}

#[test]
fn the_reference_of_nodes_is_current() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/nodes.md");
    let now = render(&plan());
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    let differs = written.lines().zip(now.lines()).find(|(written, now)| written != now);
    assert!(
        written == now,
        "docs/reference/nodes.md isn't what the nodes declare (first difference: {differs:?}); write it anew: \
         UPDATE_REFERENCE=1 cargo test -p quiverd --test reference"
    );
}

#[test]
fn every_node_drop_and_counter_is_explained_in_sentences() {
    let plan = plan();
    let drops = plan.drops.iter().map(|(node, drop)| (node, drop.name, drop.help));
    let counters = plan.counters.iter().map(|(node, counter)| (node, counter.name, counter.help));
    for (node, name, help) in drops.chain(counters) {
        let node = plan.nodes[usize::from(*node)].spec.name;
        assert!(help.len() > 10 && help.ends_with('.'), "{node} {name}: {help:?}");
        assert!(!help.contains('|'), "{node} {name} would break the table: {help:?}");
    }
    for node in &plan.nodes {
        assert!(node.spec.help.ends_with('.'), "{}: {:?}", node.spec.name, node.spec.help);
    }
}
