//! Sends a frame to all members of its bridge but the one it came from: the packet itself to one of them, copies with a
//! shared body to the others.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* of the members | all |
//! | `bvi-input` | to the bridge's routed leg |
//! | `drop` | see [`Drop`] |

use super::port::{Source, Target};
use super::table::Bridges;
use crate::interface::{Interfaces, fits};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Packets, SLOTS, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext, NodeSpec};

graph::edges! {
    /// Where a packet goes from here, besides the arc.
    pub enum Next { Drop => "drop", Bvi => "bvi-input" }
}

graph::drops! {
    /// Why a frame, or a copy for one of the members, goes no further.
    pub enum Drop {
        /// There is no other member that is up and not of the same split horizon group.
        NoMember => "no-member", Info,
        /// All packet slots of the worker are in use: a member didn't get its copy.
        NoSlot => "no-slot", Loss,
        /// The member that the frame came from has had as many copies made in this round as it may: a member didn't get its copy.
        Limited => "flood-limited", Loss,
        /// The frame is longer than a member's MTU allows: the member didn't get its copy.
        TooLong => "too-long", Loss,
    }
}

graph::counters! {
    /// What flooding did.
    pub enum Counter {
        /// Frames delivered to members, the original among them.
        Copies => "copies",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "bridge-flood",
    help: "Sends frames to all members of their bridge.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    starts: &[INTERFACE_OUTPUT],
    make: |cx: &NodeContext<'_>| {
        Box::new(BridgeFlood {
            bridges: cx.table(),
            interfaces: cx.table(),
            arcs: cx.table(),
            output: cx.arc(INTERFACE_OUTPUT),
            targets: Vec::new(),
            made: Made::default(),
        })
    },
    ..NodeSpec::EMPTY
};

struct BridgeFlood {
    bridges: Key<Bridges>,
    interfaces: Key<Interfaces>,
    arcs: Key<Arcs>,
    output: ArcPlace,
    /// Where frames of the interface at hand go.
    targets: Vec<Way>,
    made: Made,
}

/// Copies of one member's frames in a round, at most: a quarter of the slots. What a member floods leaves slots to others, and takes a worker less
/// than half a millisecond. A long frame counts as one more for each [`LONG`] bytes: no more than 2 MiB are copied.
const COPIES: usize = SLOTS / 4;
const LONG: u32 = 1024;

/// Copies that were made in the round at hand, by the member that the frames came from.
#[derive(Default)]
struct Made {
    /// When the round began.
    round: u64,
    by: Vec<(IfIndex, usize)>,
}

impl Made {
    /// The count of a member in the round that began at `now`.
    fn of(&mut self, now: u64, interface: IfIndex) -> &mut usize {
        if self.round != now {
            self.round = now;
            self.by.clear();
        }
        let at = self.by.iter().position(|(of, _)| *of == interface).unwrap_or_else(|| {
            self.by.push((interface, 0));
            self.by.len() - 1
        });
        &mut self.by[at].1
    }
}

/// What is kept of a target beyond the vector's tables: numbers only.
#[derive(Clone, Copy)]
struct Way {
    interface: IfIndex,
    edge: u8,
    limit: u32,
}

impl Node for BridgeFlood {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (bridges, interfaces) = (tables.get(self.bridges), tables.get(self.interfaces));
        let arcs = tables.get(self.arcs);
        let (mut rx_if, mut copies) = (0, 0);
        self.targets.clear();
        let mut left = 0;
        for (slot, next) in frame.slots.iter().zip(frame.next.iter_mut()) {
            let from = ctx.packets.meta(*slot).rx_if;
            if from != rx_if {
                self.keep(ctx.now, rx_if, left);
                rx_if = from;
                self.find(bridges, interfaces, arcs, rx_if);
                left = COPIES - *self.made.of(ctx.now, rx_if);
            }
            *next = self.flood(ctx, interfaces, *slot, &mut copies, &mut left);
        }
        self.keep(ctx.now, rx_if, left);
        ctx.count(Counter::Copies, copies);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        write!(out, "from interface {}, this one by interface {}", meta.rx_if, meta.tx_if)
    }
}

impl BridgeFlood {
    /// Fills `targets` with the members that frames of `rx_if` go to.
    fn find(&mut self, bridges: &Bridges, interfaces: &Interfaces, arcs: &Arcs, rx_if: IfIndex) {
        let source = Source::new(bridges, interfaces, rx_if);
        let members = source.bridge.members.iter().filter(|member| member.interface != rx_if);
        let targets = members.filter_map(|member| {
            let target = Target::new(interfaces, arcs, self.output, member.interface);
            let edge = if target.bvi { Next::Bvi.edge() } else { target.edge };
            let reached = edge != 0 && target.number == source.number && !target.split_from(&source);
            reached.then_some(Way { interface: target.interface, edge, limit: target.limit })
        });
        self.targets.clear();
        self.targets.extend(targets);
    }

    /// Notes how many copies may still be made for a member in the round.
    fn keep(&mut self, now: u64, interface: IfIndex, left: usize) {
        if interface != 0 {
            *self.made.of(now, interface) = COPIES - left;
        }
    }

    /// Sends the copies on their way and gives the edge of the packet itself. `left`: copies that may be made.
    #[inline]
    fn flood(
        &self,
        ctx: &mut Ctx<'_>,
        interfaces: &Interfaces,
        slot: SlotId,
        copies: &mut u64,
        left: &mut usize,
    ) -> u8 {
        let len = ctx.packets.meta(slot).len();
        let mut own: Option<Way> = None;
        let mut too_long = 0;
        for way in &self.targets {
            if len > way.limit && !fits(ctx.packets, slot, interfaces.get(way.interface)) {
                too_long += 1;
                continue;
            }
            if own.is_none() {
                own = Some(*way);
                continue;
            }
            let Some(rest) = left.checked_sub(1 + (len / LONG) as usize) else {
                ctx.count_drop(Drop::Limited);
                continue;
            };
            *left = rest;
            let Ok(copy) = ctx.duplicate(slot) else {
                ctx.count_drop(Drop::NoSlot);
                continue;
            };
            send(ctx, copy, *way);
            ctx.emit(way.edge, copy);
            *copies += 1;
        }
        // The packet itself counts as a drop when nobody gets it, so that one of the copies isn't counted here.
        for _ in usize::from(own.is_none())..too_long {
            ctx.count_drop(Drop::TooLong);
        }
        match own {
            Some(way) => {
                send(ctx, slot, way);
                *copies += 1;
                way.edge
            }
            None if too_long > 0 => ctx.drop(slot, Drop::TooLong),
            None => ctx.drop(slot, Drop::NoMember),
        }
    }
}

#[inline(always)]
fn send(ctx: &mut Ctx<'_>, slot: SlotId, way: Way) {
    let meta = ctx.packets.meta_mut(slot);
    meta.tx_if = way.interface;
    meta.arc = 0;
}
