//! Learns where a frame's source is, looks its destination up and sends it there.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* of a member | unicast whose destination is known |
//! | `bridge-flood` | broadcast, multicast, unicast whose destination isn't known |
//! | `bvi-input` | for the bridge's routed leg |
//! | `bridge-answer` | broadcast and multicast, where the bridge answers ARP for the neighbours of its BVI |
//! | `drop` | see [`Drop`] |

use super::learner::Learner;
use super::port::{Source, Target};
use super::table::{BLOCKED, Bridges, tick};
use crate::interface::{Interfaces, fits, received_by_group};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::engine::MAX_VECTOR;
use graph::nodes::{DEVICE_INPUT, INTERFACE_OUTPUT};
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, Node, NodeContext, NodeSpec};
use tables::mac::{MacKey, NO_INTERFACE};
use wire::{EthernetHeader, MacAddr};

graph::edges! {
    /// Where a packet goes from here, besides the arc.
    pub enum Next { Drop => "drop", Flood => "bridge-flood", Bvi => "bvi-input", Answer => "bridge-answer" }
}

graph::drops! {
    /// Why a frame goes no further.
    pub enum Drop {
        /// The interface is not a member of a bridge that exists.
        NoBridge => "no-bridge", Loss,
        /// The frame ends within its Ethernet header.
        Truncated => "truncated", Invalid,
        /// The source address is a group or zero: no station has such an address.
        BadSource => "bad-source", Invalid,
        /// The source address is configured at another member: the sender isn't who it pretends to be.
        StaticElsewhere => "static-elsewhere", Loss,
        /// The destination is reserved for the link itself (spanning tree, pause, LLDP; IEEE 802.1Q, 8.6.3).
        LinkLocal => "link-local", Info,
        /// The destination is behind the member that the frame came from.
        SamePort => "same-port", Info,
        /// The destination is behind a member of the same split horizon group.
        SplitHorizon => "split-horizon", Info,
        /// Frames to this address are dropped by configuration.
        Blocked => "blocked", Info,
        /// The bridge doesn't flood broadcast and multicast.
        FloodOff => "flood-off", Info,
        /// The destination isn't known and the bridge doesn't flood such frames.
        UnknownUnicast => "unknown-unicast", Info,
        /// The bridge doesn't forward unicast.
        ForwardOff => "forward-off", Info,
        /// The member that the destination is behind is administratively down.
        MemberDown => "member-down", Loss,
        /// The frame is longer than the MTU of the member that the destination is behind.
        TooLong => "too-long", Loss,
    }
}

graph::counters! {
    /// What learning did.
    pub enum Counter {
        /// Addresses learned.
        Learned => "learned",
        /// Addresses seen at another member than before. Many of them: a loop, or one address used twice.
        Moved => "moved",
        /// Frames whose source was not learned because the bridge has as many addresses as it may.
        Limited => "learn-limit",
        /// Frames whose source was not learned because the address table has no room for it.
        Full => "table-full",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "bridge-input",
    help: "Learns source addresses and forwards by destination address.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    starts: &[INTERFACE_OUTPUT],
    ends: &[DEVICE_INPUT],
    make: |cx: &NodeContext<'_>| {
        Box::new(BridgeInput {
            bridges: cx.table(),
            interfaces: cx.table(),
            arcs: cx.table(),
            output: cx.arc(INTERFACE_OUTPUT),
            keys: [MacKey::default(); MAX_VECTOR],
            found: [NO_INTERFACE; MAX_VECTOR],
            steps: [Ok(Step::Lookup); MAX_VECTOR],
        })
    },
    ..NodeSpec::EMPTY
};

struct BridgeInput {
    bridges: Key<Bridges>,
    interfaces: Key<Interfaces>,
    arcs: Key<Arcs>,
    output: ArcPlace,
    /// Destinations of the vector, and what was found of them: kept here so that they needn't be cleared.
    keys: [MacKey; MAX_VECTOR],
    found: [u32; MAX_VECTOR],
    steps: [Result<Step, Drop>; MAX_VECTOR],
}

/// What is to be done with a frame once its header has been read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Lookup,
    Flood,
    Answer,
}

impl Node for BridgeInput {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let lookups = self.sources(ctx, frame.slots);
        self.destinations(ctx, frame, lookups);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        match packets.header::<EthernetHeader>(slot, meta.data) {
            Some(header) => {
                write!(
                    out,
                    "{} > {} {} from interface {}",
                    header.src, header.dst, header.ethertype, meta.rx_if
                )
            }
            None => write!(out, "{} bytes from interface {}", meta.len(), meta.rx_if),
        }
    }
}

impl BridgeInput {
    /// Reads the headers, learns the sources and notes what is to be looked up: `keys`, as many as it returns.
    #[inline(always)]
    fn sources(&mut self, ctx: &mut Ctx<'_>, slots: &[SlotId]) -> usize {
        let tables = ctx.tables;
        let (bridges, interfaces) = (tables.get(self.bridges), tables.get(self.interfaces));
        let mut learner = Learner::new(bridges.macs(), tick(ctx.now));
        let mut source = Source::new(bridges, interfaces, 0);
        let mut lookups = 0;
        for (slot, step) in slots.iter().zip(&mut self.steps) {
            let meta = ctx.packets.meta(*slot);
            if meta.rx_if != source.interface {
                source = Source::new(bridges, interfaces, meta.rx_if);
            }
            *step = match ctx.packets.header::<EthernetHeader>(*slot, meta.data) {
                None => Err(Drop::Truncated),
                Some(header) => {
                    let (src, dst) = (header.src, header.dst);
                    if dst.is_multicast() {
                        received_by_group(ctx.counters, ctx.packets.meta_mut(*slot), dst);
                    }
                    let checked = learner.learn(ctx, &source, src).and_then(|()| first_step(&source, dst));
                    if let (Ok(Step::Lookup), Some(key)) = (checked, self.keys.get_mut(lookups)) {
                        *key = MacKey::new(source.number, dst.0);
                        lookups += 1;
                    }
                    checked
                }
            };
        }
        lookups
    }

    /// Looks the destinations up and decides.
    #[inline(always)]
    fn destinations(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>, lookups: usize) {
        let tables = ctx.tables;
        let (bridges, interfaces) = (tables.get(self.bridges), tables.get(self.interfaces));
        let arcs = tables.get(self.arcs);
        let n = lookups.min(MAX_VECTOR);
        match bridges.macs() {
            Some(macs) => macs.lookup_batch(&self.keys[..n], &mut self.found[..n]),
            None => self.found[..n].fill(NO_INTERFACE),
        }
        let mut found = self.found[..n].iter().copied();
        let mut source = Source::new(bridges, interfaces, 0);
        let mut target = Target::new(interfaces, arcs, self.output, 0);
        for ((slot, next), step) in frame.slots.iter().zip(frame.next.iter_mut()).zip(&self.steps) {
            let meta = ctx.packets.meta_mut(*slot);
            if meta.rx_if != source.interface {
                source = Source::new(bridges, interfaces, meta.rx_if);
            }
            let decision = match *step {
                Err(reason) => Err(reason),
                Ok(Step::Flood) => Ok(Next::Flood.edge()),
                Ok(Step::Answer) => Ok(Next::Answer.edge()),
                Ok(Step::Lookup) => {
                    let found = found.next().unwrap_or(NO_INTERFACE);
                    // What isn't known leads to interface 0, which is no member of anything.
                    let known = u16::try_from(found).unwrap_or(0);
                    if known != target.interface {
                        target = Target::new(interfaces, arcs, self.output, known);
                    }
                    meta.tx_if = known;
                    meta.arc = 0;
                    let long = meta.len() > target.limit;
                    match forward(&source, &target) {
                        _ if found == BLOCKED => Err(Drop::Blocked),
                        Ok(_) if long && !fits(ctx.packets, *slot, target.entry) => Err(Drop::TooLong),
                        decision => decision,
                    }
                }
            };
            *next = match decision {
                Ok(edge) => edge,
                Err(reason) => ctx.drop(*slot, reason),
            };
        }
    }
}

/// What the destination alone says.
#[inline(always)]
fn first_step(source: &Source<'_>, dst: MacAddr) -> Result<Step, Drop> {
    if !dst.is_multicast() {
        return Ok(Step::Lookup);
    }
    if dst.to_u64() & !0xf == 0x0180_c200_0000 {
        return Err(Drop::LinkLocal);
    }
    // The BVI's own questions are for the neighbours themselves.
    if source.bridge.answer && !source.bvi {
        return Ok(Step::Answer);
    }
    if source.bridge.flood { Ok(Step::Flood) } else { Err(Drop::FloodOff) }
}

/// The edge for a frame from `source` whose destination is behind `target`.
#[inline(always)]
fn forward(source: &Source<'_>, target: &Target<'_>) -> Result<u8, Drop> {
    if target.number != source.number {
        // Not known, or what is known is of a time when the interface was a member.
        return if source.bridge.flood_unknown_unicast {
            Ok(Next::Flood.edge())
        } else {
            Err(Drop::UnknownUnicast)
        };
    }
    if target.interface == source.interface {
        return Err(Drop::SamePort);
    }
    if target.split_from(source) {
        return Err(Drop::SplitHorizon);
    }
    if !source.bridge.forward {
        return Err(Drop::ForwardOff);
    }
    if target.bvi {
        return Ok(Next::Bvi.edge());
    }
    if target.edge == 0 { Err(Drop::MemberDown) } else { Ok(target.edge) }
}
