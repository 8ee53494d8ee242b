//! What a node is, and how it declares itself.

use crate::context::{Ctx, Frame};
use crate::locals::LocalKey;
use crate::plan::Plan;
use crate::publish::Key;
use core::fmt;
use memory::packet::{Packets, SlotId};
use memory::simd::Tier;

/// A step of the graph: takes a vector, decides one next edge for each packet.
///
/// One instance per worker: state needs no lock. What workers share is in the published tables.
pub trait Node: Send {
    /// Works on the packets of `frame` and writes the number of an edge into `frame.next` for each.
    ///
    /// Further packets made on the way (copies, fragments, answers) leave by [`Ctx::emit`]. An input node gets an empty
    /// frame once per round and emits what it received.
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>);

    /// Writes what a trace shows of this node for a packet that it has just worked on. The engine adds the node's
    /// name, the next node and the drop reason. Called for traced packets only.
    ///
    /// # Errors
    /// Those of `out`.
    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let _ = (packets, slot, out);
        Ok(())
    }

    /// The queues that this node drives, where it is one that does; see [`crate::nodes`].
    fn queues(&mut self) -> Option<&mut crate::port::RxQueues> {
        None
    }

    /// Whether there is work left for it in the next round that no packet will bring: the worker doesn't sleep then. Asked of
    /// input nodes.
    fn busy(&self) -> bool {
        false
    }

    /// Where the control thread sends packets for this node, where it is `inject`.
    fn injector(&self) -> Option<std::sync::mpsc::Sender<crate::nodes::Injection>> {
        None
    }
}

/// Place of a node in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Called once per round without packets; brings packets in.
    Input,
    /// Called when packets are pending for it.
    Internal,
    /// As `Internal`, and packets end here (transmitted, dropped, punted): its edges are those of failure.
    Output,
}

/// How bad a drop is: what an operator should look at. The API's `DropSeverity` has the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Expected in a healthy network (split horizon, unknown multicast).
    Info,
    /// Somebody wanted the packet; the network or configuration deserves a look (no route, interface down, congestion).
    Loss,
    /// A sender did something wrong (bad checksum, malformed header).
    Invalid,
    /// Our own fault: no packet and no configuration may lead here.
    Bug,
}

impl Severity {
    /// Lower-case name, as in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Loss => "loss",
            Self::Invalid => "invalid",
            Self::Bug => "bug",
        }
    }
}

/// A declared drop reason; made by [`drops!`](crate::drops).
#[derive(Clone, Copy, Debug)]
pub struct DropSpec {
    /// Short name, unique in its node: lower case, words joined by `-`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// How bad it is.
    pub severity: Severity,
}

/// A declared counter; made by [`counters!`](crate::counters).
#[derive(Clone, Copy, Debug)]
pub struct CounterSpec {
    /// Short name, unique in its node.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
}

/// A child's place at its parent: the parent gets an edge to the child and is told the key (an ethertype, an IP
/// protocol, a next-hop kind) that leads there. No parent knows its children by name.
#[derive(Clone, Copy, Debug)]
pub struct Attach {
    /// Name of the parent node.
    pub parent: &'static str,
    /// What the parent tells packets apart by.
    pub key: u32,
}

/// A node's place on a feature arc.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Name of the arc.
    pub arc: &'static str,
    /// Features of the arc that come after this one. Names that aren't in the graph are allowed and ignored.
    pub runs_before: &'static [&'static str],
    /// Features of the arc that come before this one. Names that aren't in the graph are allowed and ignored.
    pub runs_after: &'static [&'static str],
}

/// An arc that packets go on along from a node that is no place on it: a feature of the arc has sent them there.
#[derive(Clone, Copy, Debug)]
pub struct Resume {
    /// Name of the arc.
    pub arc: &'static str,
    /// The feature that sends them.
    pub after: &'static str,
}

/// Everything a node declares. One `const NODE: NodeSpec` per file.
#[derive(Clone, Copy)]
pub struct NodeSpec {
    /// Name, unique in the graph: lower case, words joined by `-`.
    pub name: &'static str,
    /// One sentence: what it does.
    pub help: &'static str,
    /// Its place in a round.
    pub kind: NodeKind,
    /// Names of the nodes its edges lead to: `Next::NAMES`.
    pub edges: &'static [&'static str],
    /// Its drop reasons: `Drop::SPECS`.
    pub drops: &'static [DropSpec],
    /// Its counters: `Counter::SPECS`.
    pub counters: &'static [CounterSpec],
    /// Parents it attaches itself to.
    pub attach: &'static [Attach],
    /// Feature arcs that begin at this node.
    pub starts: &'static [&'static str],
    /// Feature arcs that can end at this node.
    pub ends: &'static [&'static str],
    /// Arcs on which it is a feature.
    pub features: &'static [Feature],
    /// Arcs that packets go on along from here.
    pub resumes: &'static [Resume],
    /// Makes an instance for one worker.
    pub make: fn(&NodeContext<'_>) -> Box<dyn Node>,
}

impl NodeSpec {
    /// A declaration of nothing, to fill by struct update: `NodeSpec { name: .., ..NodeSpec::EMPTY }`.
    pub const EMPTY: Self = Self {
        name: "",
        help: "",
        kind: NodeKind::Internal,
        edges: &[],
        drops: &[],
        counters: &[],
        attach: &[],
        starts: &[],
        ends: &[],
        features: &[],
        resumes: &[],
        make: |_| unreachable!("a node declares how it is made"),
    };
}

impl fmt::Debug for NodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeSpec")
            .field("name", &self.name)
            .field("edges", &self.edges)
            .finish_non_exhaustive()
    }
}

/// What a node can ask for when it is made.
#[derive(Debug)]
pub struct NodeContext<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) node: usize,
    /// The instruction-set tier the graph is built for.
    pub tier: Tier,
    /// Number of the worker, from 0.
    pub worker: usize,
}

impl NodeContext<'_> {
    /// The children that have attached themselves to this node: key and edge of each.
    #[must_use]
    pub fn children(&self) -> &[(u32, u8)] {
        &self.plan.nodes[self.node].children
    }

    /// First edge of the block that leads to the members of arc `name`: the edge to a member is this plus the
    /// member's number. For nodes that start the arc, are features of it or resume it.
    ///
    /// # Panics
    /// If the node has declared none of these: a mistake in the node's file, found when the first graph is built.
    #[must_use]
    pub fn arc(&self, name: &str) -> crate::arc::ArcPlace {
        self.plan.nodes[self.node]
            .arcs
            .iter()
            .find(|place| self.plan.arcs[place.arc as usize].name == name)
            .copied()
            .unwrap_or_else(|| panic!("node {} is not on arc {name}", self.plan.nodes[self.node].spec.name))
    }

    /// Number of the arc of that name, for nodes that look at [`Arcs::chain`](crate::arc::Arcs::chain) without being on it.
    #[must_use]
    pub fn arc_number(&self, name: &str) -> Option<u16> {
        self.plan.arc(name)
    }

    /// Number of the member of arc `arc` that is called `name`, if there is one.
    #[must_use]
    pub fn member(&self, arc: &str, name: &str) -> Option<u8> {
        let arc = self.plan.arcs.iter().find(|other| other.name == arc)?;
        let at = arc.members.iter().position(|id| self.plan.nodes[usize::from(*id)].spec.name == name)?;
        Some(at as u8)
    }

    /// Names of an arc's features by number, in their order.
    #[must_use]
    pub fn features(&self, arc: &str) -> Vec<&'static str> {
        let arc = self.plan.arcs.iter().find(|other| other.name == arc);
        let features = arc.into_iter().flat_map(|arc| &arc.members[..arc.features]);
        features.map(|id| self.plan.nodes[usize::from(*id)].spec.name).collect()
    }

    /// How many edges this node has.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.plan.nodes[self.node].edges.len()
    }

    /// This node's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.plan.nodes[self.node].spec.name
    }

    /// Graph-wide id of another node's drop reason, for packets that are dropped on its behalf.
    #[must_use]
    pub fn drop_of(&self, node: &str, reason: &str) -> Option<u16> {
        let at = self.plan.drops.iter().position(|(id, spec)| {
            spec.name == reason && self.plan.nodes[usize::from(*id)].spec.name == node
        })?;
        Some(at as u16)
    }

    /// Key of what this worker's nodes share.
    ///
    /// # Panics
    /// If no such part was declared to [`Plan::resolve`]: a mistake that shows when the first graph is built.
    #[must_use]
    pub fn local<T: 'static>(&self) -> LocalKey<T> {
        self.plan
            .schema
            .local_key()
            .unwrap_or_else(|| panic!("no worker's part {} was declared", core::any::type_name::<T>()))
    }

    /// Key of a part of the tables. The part exists, in its default state, from the beginning.
    ///
    /// # Panics
    /// If no such part was declared to [`Plan::resolve`]: a mistake that shows when the first graph is built.
    #[must_use]
    pub fn table<T: Send + Sync + 'static>(&self) -> Key<T> {
        self.plan
            .schema
            .key()
            .unwrap_or_else(|| panic!("no table part {} was declared", core::any::type_name::<T>()))
    }
}

/// Removes the space that `///` leaves before the text.
#[must_use]
pub const fn trim(text: &'static str) -> &'static str {
    match text.as_bytes() {
        [b' ', ..] => text.split_at(1).1,
        _ => text,
    }
}
