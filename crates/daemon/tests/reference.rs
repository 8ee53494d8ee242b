//! `docs/reference/nodes.md` and the pages of single nodes beside it say what the nodes declare: written anew with `UPDATE_REFERENCE=1`,
//! else compared.

use std::fmt::Write;
use std::path::PathBuf;

use graph::NodeKind;
use graph::plan::{Plan, PlanNode};

const MADE: &str = "
<!-- Written by `UPDATE_REFERENCE=1 cargo test -p quiverd --test reference` from what the nodes declare; the same test
     compares. -->
";

const HEAD: &str = "
All nodes of the graph that `quiverd` runs. `quiver show graph` shows the same of a running daemon, `quiver show drops --explain`
the reasons that have occurred. Severities: **info** happens in a healthy network, **loss** deserves a look at network or
configuration, **invalid** means that a sender, or we, did something wrong.
";

/// The graph as production builds it.
fn plan() -> Plan {
    let nodes = [features::nodes(), ports::NODES.to_vec()].concat();
    Plan::resolve(&nodes, &features::arcs(), features::schema()).expect("production's graph can be built")
}

/// Pages of single nodes: what is behind `nodes-` in their names, and the first letters of those that they are about.
const PAGES: [(&str, core::ops::RangeInclusive<char>); 3] =
    [("a-h", 'a'..='h'), ("i", 'i'..='i'), ("j-z", 'j'..='z')];

/// The page that a node is on.
fn page(node: &str) -> &'static str {
    let page = PAGES.iter().find(|(_, letters)| node.starts_with(|first| letters.contains(&first)));
    page.expect("names of nodes begin with a letter").0
}

/// All pages: name and text.
fn render(plan: &Plan) -> Vec<(String, String)> {
    let mut out = format!("# Nodes, drop reasons, counters and arcs\n{MADE}{HEAD}");
    arcs(plan, &mut out);
    let mut nodes: Vec<&PlanNode> = plan.nodes.iter().collect();
    nodes.sort_by_key(|node| node.spec.name);
    out.push_str("\n## Nodes\n\n| node | what |\n|---|---|\n");
    for node in &nodes {
        let name = node.spec.name;
        let _ = writeln!(out, "| [`{name}`](nodes-{}.md#{name}) | {} |", page(name), node.spec.help);
    }
    let mut pages = vec![("nodes.md".to_string(), out)];
    for (name, letters) in PAGES {
        let title = if letters.start() == letters.end() { name.into() } else { name.replace('-', " to ") };
        let mut out = format!("# Nodes: {title}\n{MADE}\nAll of them: [nodes](nodes.md).\n");
        nodes
            .iter()
            .filter(|node| page(node.spec.name) == name)
            .for_each(|node| section(plan, node, &mut out));
        pages.push((format!("nodes-{name}.md"), out));
    }
    pages
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
    let _ = writeln!(out, "\n## {}\n\n{}\n", spec.name, spec.help);
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
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    for (name, now) in render(&plan()) {
        let path = folder.join(&name);
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = written.lines().zip(now.lines()).find(|(written, now)| written != now);
        assert!(
            written == now,
            "docs/reference/{name} isn't what the nodes declare (first difference: {differs:?}); write it anew: \
             UPDATE_REFERENCE=1 cargo test -p quiverd --test reference"
        );
    }
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
