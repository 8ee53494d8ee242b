//! Learns where a frame's source is, looks its destination up and sends it there.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* of a member | unicast whose destination is known |
//! | `bridge-flood` | broadcast, multicast, unicast whose destination isn't known |
//! | `bvi-input` | for the bridge's routed leg |
//! | `bridge-answer` | broadcast and multicast, where the bridge answers ARP for the neighbours of its BVI |
//! | `drop` | see [`Drop`] |

use super::keys::{Destinations, Machine, Numbers};
use super::learner::{Learning, NOWHERE, Sources};
use super::port::{Source, Target};
use super::table::{BLOCKED, Bridges, tick};
use crate::interface::{Interfaces, fits, received_by_group};
use crate::tiered::{self, Tiered};
use core::fmt;
use core::ops::Range;
use graph::arc::{ArcPlace, Arcs};
use graph::engine::MAX_VECTOR;
use graph::nodes::{DEVICE_INPUT, INTERFACE_OUTPUT};
use graph::packet::{Meta, Packets, SlotId, Vector};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext, NodeSpec};
use tables::mac::{MacKey, Seen};
use wire::{EthernetHeader, Header, MacAddr};

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
        /// Frames whose source was not learned because as many addresses as may be are learned at the member.
        MemberLimited => "member-limit",
        /// Frames with an address of another member that didn't take it: the address has moved too often and is held where it is.
        Held => "held",
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
            sources: Sources::new(),
            destinations: Destinations::new(),
            steps: [Step::Lookup; MAX_VECTOR],
        })
    },
    ..NodeSpec::EMPTY
};

/// How many keys ahead the address table's lines are asked for: as long as memory takes, and few enough not to push one another out of the
/// first cache.
const AHEAD: usize = 64;

struct BridgeInput {
    bridges: Key<Bridges>,
    interfaces: Key<Interfaces>,
    arcs: Key<Arcs>,
    output: ArcPlace,
    sources: Sources,
    destinations: Destinations,
    /// By place in the vector: what is to be done. Kept here so that it needn't be cleared.
    steps: [Step; MAX_VECTOR],
}

/// What is to be done with a frame once its header has been read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Lookup,
    Flood,
    Answer,
    Refuse(Drop),
}

impl Node for BridgeInput {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        tiered::run(self, ctx, frame);
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

impl Tiered for BridgeInput {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, simd: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let hardware = Machine(simd);
        self.headers(ctx, frame.slots);
        let bridges = ctx.tables.get(self.bridges);
        match bridges.macs() {
            Some(macs) => {
                let (steps, destinations) = (&mut self.steps, &self.destinations);
                let refuse = |places: Range<usize>, reason| steps[places].fill(Step::Refuse(reason));
                let learning = Learning { ctx, slots: frame.slots, bridges, macs };
                let (homes, seen, wanted) = (macs.homes(), self.sources.seen(), destinations.keys());
                // Asks for what is needed as the `at`-th: first all sources, then all destinations.
                let soon = |at: usize| match seen.get(at) {
                    Some(seen) => homes.soon(seen.key, hardware),
                    None => wanted.get(at - seen.len()).iter().for_each(|key| homes.soon(**key, hardware)),
                };
                (0..AHEAD).for_each(soon);
                self.sources.learn(
                    &learning,
                    tick(ctx.now),
                    hardware,
                    #[inline(always)]
                    |at| soon(at + AHEAD),
                    refuse,
                );
                self.destinations.look_up(macs, AHEAD, hardware);
            }
            None => self.destinations.find_none(),
        }
        self.decide(ctx, frame);
    }
}

impl BridgeInput {
    /// Reads the headers: notes who is to be learned and what is to be looked up.
    #[inline(always)]
    fn headers(&mut self, ctx: &mut Ctx<'_>, slots: &[SlotId]) {
        let tables = ctx.tables;
        let (bridges, interfaces) = (tables.get(self.bridges), tables.get(self.interfaces));
        let mut source = Source::new(bridges, interfaces, 0);
        let (sources, destinations) = (&mut self.sources, &mut self.destinations);
        let (mut seen, mut wanted) = (Numbers::new(), Numbers::new());
        let mut vector = Vector::new(slots);
        let mut at = 0;
        loop {
            // From one station to another, behind the member that the packet before came from.
            let usual = vector.stretch(
                ctx.packets,
                #[inline(always)]
                |meta, area| {
                    let head = area.get(meta.data as usize..meta.end as usize).unwrap_or_default();
                    let Ok((header, _)) = EthernetHeader::parse(head) else { return false };
                    let (src, dst) = (header.src, header.dst);
                    if !source.learns || meta.rx_if != source.interface {
                        return false;
                    }
                    if dst.is_multicast() || !src.is_unicast() {
                        return false;
                    }
                    let key = MacKey::new(source.number, src.0);
                    sources.note(&mut seen, Seen { key, interface: source.seen_at }, at);
                    destinations.note(&mut wanted, MacKey::new(source.number, dst.0), at);
                    at += 1;
                    true
                },
            );
            self.steps[usual].fill(Step::Lookup);
            let Some((_, slot)) = vector.next() else { break };
            let meta = ctx.packets.meta(slot);
            if meta.rx_if != source.interface {
                source = Source::new(bridges, interfaces, meta.rx_if);
                seen.renew();
            }
            let (mut src_key, mut dst_key) = (MacKey::NONE, MacKey::NONE);
            self.steps[at] = match ctx.packets.header::<EthernetHeader>(slot, meta.data) {
                None => Step::Refuse(Drop::Truncated),
                Some(header) => {
                    let (src, dst) = (header.src, header.dst);
                    if dst.is_multicast() {
                        received_by_group(ctx.counters, ctx.packets.meta_mut(slot), dst);
                    }
                    if source.learns && src.is_unicast() {
                        src_key = MacKey::new(source.number, src.0);
                    }
                    let step = first_step(&source, src, dst);
                    if step == Step::Lookup {
                        dst_key = MacKey::new(source.number, dst.0);
                    }
                    step
                }
            };
            let interface = if src_key == MacKey::NONE { NOWHERE } else { source.seen_at };
            sources.note(&mut seen, Seen { key: src_key, interface }, at);
            destinations.note(&mut wanted, dst_key, at);
            at += 1;
        }
        sources.end(&seen);
        destinations.end(&wanted);
    }

    /// Decides by what was found.
    #[inline(always)]
    fn decide(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (bridges, interfaces) = (tables.get(self.bridges), tables.get(self.interfaces));
        let arcs = tables.get(self.arcs);
        let mut source = Source::new(bridges, interfaces, 0);
        let mut target = Target::new(interfaces, arcs, self.output, 0);
        let (steps, destinations) = (&self.steps, &self.destinations);
        let mut way = Way::NONE;
        let mut vector = Vector::new(frame.slots);
        let mut at = 0;
        loop {
            let usual = vector.stretch(
                ctx.packets,
                #[inline(always)]
                |meta, _| {
                    let is_lookup = steps[at % MAX_VECTOR] == Step::Lookup;
                    let like = is_lookup && way.takes(meta, destinations.found(at));
                    if like {
                        (meta.tx_if, meta.arc) = (way.to, 0);
                        at += 1;
                    }
                    like
                },
            );
            frame.next[usual].fill(way.edge);
            let Some((_, slot)) = vector.next() else { break };
            let meta = ctx.packets.meta_mut(slot);
            if meta.rx_if != source.interface {
                source = Source::new(bridges, interfaces, meta.rx_if);
            }
            let decision = match steps[at] {
                Step::Refuse(reason) => Err(reason),
                Step::Flood => Ok(Next::Flood.edge()),
                Step::Answer => Ok(Next::Answer.edge()),
                Step::Lookup => {
                    let found = destinations.found(at);
                    // What isn't known leads to interface 0, which is no member of anything.
                    let known = u16::try_from(found).unwrap_or(0);
                    if known != target.interface {
                        target = Target::new(interfaces, arcs, self.output, known);
                    }
                    (meta.tx_if, meta.arc) = (known, 0);
                    let long = meta.len() > target.limit;
                    match forward(&source, &target) {
                        _ if found == BLOCKED => Err(Drop::Blocked),
                        Ok(_) if long && !fits(ctx.packets, slot, target.entry) => Err(Drop::TooLong),
                        Ok(edge) => {
                            let (from, to, limit) = (source.interface, known, target.limit);
                            way = Way { from, found, to, limit, edge };
                            Ok(edge)
                        }
                        decision => decision,
                    }
                }
            };
            frame.next[at] = match decision {
                Ok(edge) => edge,
                Err(reason) => ctx.drop(slot, reason),
            };
            at += 1;
        }
    }
}

/// What frames of one member went through whose destination was behind another.
#[derive(Clone, Copy)]
struct Way {
    from: IfIndex,
    /// What was found of their destination, and the member that this means.
    found: u32,
    to: IfIndex,
    /// Longest frame for which this was decided.
    limit: u32,
    edge: u8,
}

impl Way {
    /// Nobody's: no frame is that short.
    const NONE: Self = Self { from: 0, found: 0, to: 0, limit: 0, edge: 0 };

    #[inline(always)]
    fn takes(&self, meta: &Meta, found: u32) -> bool {
        found == self.found && meta.rx_if == self.from && meta.len() <= self.limit
    }
}

/// What the addresses alone say.
#[inline(always)]
fn first_step(source: &Source<'_>, src: MacAddr, dst: MacAddr) -> Step {
    if !source.bridge.exists {
        return Step::Refuse(Drop::NoBridge);
    }
    if !src.is_unicast() {
        return Step::Refuse(Drop::BadSource);
    }
    if !dst.is_multicast() {
        return Step::Lookup;
    }
    if dst.to_u64() & !0xf == 0x0180_c200_0000 {
        return Step::Refuse(Drop::LinkLocal);
    }
    // The BVI's own questions are for the neighbours themselves.
    if source.bridge.answer && !source.bvi {
        return Step::Answer;
    }
    if source.bridge.flood { Step::Flood } else { Step::Refuse(Drop::FloodOff) }
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
