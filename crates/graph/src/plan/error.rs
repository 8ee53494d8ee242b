//! What can be wrong with a graph.

/// Why a graph can't be built. All of these are mistakes in declarations, found when the graph is first resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Two nodes have the same name.
    #[error("node {node} is declared twice: rename one of them")]
    Twice {
        /// The name.
        node: String,
    },
    /// An edge leads to a node that isn't there.
    #[error(
        "node {node} has an edge to {target}, which is not in the graph: add {target} or correct the name"
    )]
    DanglingEdge {
        /// The node with the edge.
        node: String,
        /// The name it gives.
        target: String,
    },
    /// A node attaches itself to a parent that isn't there.
    #[error(
        "node {node} attaches itself to {parent}, which is not in the graph: add {parent} or correct the name"
    )]
    NoParent {
        /// The child.
        node: String,
        /// The name it gives.
        parent: String,
    },
    /// Two children want the same key of a parent.
    #[error("{first} and {second} both attach themselves to {parent} under key {key:#x}: only one can")]
    KeyTaken {
        /// The parent.
        parent: String,
        /// The key.
        key: u32,
        /// One child.
        first: String,
        /// The other child.
        second: String,
    },
    /// A name that is no arc.
    #[error("there is no feature arc {arc}")]
    UnknownArc {
        /// The name.
        arc: String,
    },
    /// The order that features of an arc declare has a cycle.
    #[error("the features of arc {arc} can't be ordered: {cycle} (see their runs_before and runs_after)")]
    Cycle {
        /// The arc.
        arc: String,
        /// The cycle, `a before b before a`.
        cycle: String,
    },
    /// A node needs more than 255 edges.
    #[error("node {node} has {edges} edges: at most 255 are possible")]
    TooManyEdges {
        /// The node.
        node: String,
        /// How many it has.
        edges: usize,
    },
    /// A node that drops doesn't have `drop` as its edge 0.
    #[error("node {node} declares drop reasons, so its first edge has to lead to drop")]
    FirstEdge {
        /// The node.
        node: String,
    },
    /// Not a feature of that arc.
    #[error("{node} is not a feature of arc {arc}")]
    NotAFeature {
        /// The arc.
        arc: String,
        /// The node.
        node: String,
    },
    /// Not an end of that arc.
    #[error("{node} is not an end of arc {arc}")]
    NotAnEnd {
        /// The arc.
        arc: String,
        /// The node.
        node: String,
    },
}
