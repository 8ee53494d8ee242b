//! Takes the Ethernet header off frames of routed interfaces and hands them to the network layers; sorts frames with
//! VLAN tags to their sub-interfaces, and frames of bridged and cross-connected interfaces to where those go.
//!
//! | edge | packets |
//! |---|---|
//! | *child by ethertype* | routed: to our address or a group; current header is what follows the Ethernet header |
//! | `bridge-input` | of a bridge member; current header is the Ethernet header, without the sub-interface's tags |
//! | `cross-connect` | of a cross-connected interface; likewise |
//! | `drop` | see [`Drop`] |

use super::ethertypes::Ethertypes;
use super::usual::Usual;
use crate::interface::{Direction, Interface, Interfaces, Layer2, Tally, VlanTags, received_by_group};
use crate::tiered::{self, Tiered};
use crate::vlan::tags;
use core::fmt;
use graph::counters::WorkerCounters;
use graph::nodes::DEVICE_INPUT;
use graph::packet::{Flags, HEAD_AREA, Meta, Packets, SlotId, Vector};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext, NodeSpec};
use wire::{EtherType, EthernetHeader, Header, MacAddr};

graph::edges! {
    /// Where a packet goes from here, besides the children.
    pub enum Next { Drop => "drop", Bridge => "bridge-input", CrossConnect => "cross-connect" }
}

graph::drops! {
    /// Why a frame goes no further.
    pub enum Drop {
        /// The frame ends within its Ethernet header or VLAN tags.
        Truncated => "truncated", Invalid,
        /// The frame is for another station: its destination is neither our address nor a group.
        WrongMac => "wrong-mac", Info,
        /// No sub-interface of the interface has the frame's VLAN tags.
        UnknownVlan => "unknown-vlan", Info,
        /// The sub-interface of the frame's VLAN tags is administratively down.
        SubInterfaceDown => "sub-interface-down", Loss,
        /// The frame has a length instead of an ethertype (IEEE 802.3 with LLC: spanning tree, IS-IS).
        Llc => "llc", Info,
        /// No feature takes packets of the frame's ethertype.
        UnknownEthertype => "unknown-ethertype", Info,
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ethernet-input",
    help: "Sorts Ethernet frames by interface, VLAN tags and ethertype.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    ends: &[DEVICE_INPUT],
    make: |cx: &NodeContext<'_>| {
        Box::new(EthernetInput { interfaces: cx.table(), ethertypes: Ethertypes::new(cx) })
    },
    ..NodeSpec::EMPTY
};

struct EthernetInput {
    interfaces: Key<Interfaces>,
    ethertypes: Ethertypes,
}

impl Node for EthernetInput {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        tiered::run(self, ctx, frame);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        let frame = packets.area(slot).get(meta.l2 as usize..meta.end as usize).unwrap_or_default();
        let Ok((header, _)) = EthernetHeader::parse(frame) else {
            return write!(out, "{} bytes, interface {}", meta.len(), meta.rx_if);
        };
        write!(out, "{} > {} {}", header.src, header.dst, header.ethertype)?;
        if let Some(tagged) = tags::read(frame).filter(|_| header.ethertype.is_vlan()) {
            write!(out, " {} {}", tagged.vlan, tagged.ethertype)?;
        }
        write!(out, " interface {}", meta.rx_if)
    }
}

impl Tiered for EthernetInput {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, simd: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let (tables, counters) = (ctx.tables, ctx.counters);
        let interfaces = tables.get(self.interfaces);
        let mut walk = Walk {
            ethertypes: &self.ethertypes,
            interfaces,
            counters,
            rx: Rx::new(interfaces, 0),
            tally: Tally::default(),
            usual: Usual::NONE,
        };
        let mut vector = Vector::new(frame.slots);
        loop {
            let usual = walk.usual;
            let stretch = vector.stretch(
                ctx.packets,
                #[inline(always)]
                |meta, area| usual.take(simd, meta, area),
            );
            frame.next[stretch].fill(usual.edge);
            let Some((at, slot)) = vector.next() else { break };
            let (meta, area) = ctx.packets.parts_mut(slot);
            frame.next[at] = match walk.first_of_its_kind(meta, area) {
                Ok(edge) => edge,
                Err(reason) => ctx.drop(slot, reason),
            };
        }
        walk.tally.flush(counters, Direction::Rx);
    }
}

/// Bytes of the header without tags.
const HEADER: u16 = EthernetHeader::LEN as u16;

/// What frames of an interface are there for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Route,
    Bridge,
    CrossConnect,
}

impl Use {
    #[inline(always)]
    fn of(interface: &Interface) -> Self {
        match interface.layer2 {
            // What a bridge sends to its BVI is routed.
            Layer2::None | Layer2::Bridge { bvi: true, .. } => Self::Route,
            Layer2::Bridge { .. } => Self::Bridge,
            Layer2::CrossConnect { .. } => Self::CrossConnect,
        }
    }
}

/// What is kept of an interface from one packet to the next.
struct Rx<'t> {
    index: IfIndex,
    entry: &'t Interface,
    usage: Use,
    mac: MacAddr,
    vrf: u16,
    /// The tags looked up last, and what they led to.
    last: (VlanTags, Option<IfIndex>),
}

impl<'t> Rx<'t> {
    #[inline(always)]
    fn new(interfaces: &'t Interfaces, index: IfIndex) -> Self {
        let entry = interfaces.get(index);
        let last = (VlanTags::default(), None);
        Self { index, entry, usage: Use::of(entry), mac: entry.mac, vrf: entry.vrf, last }
    }

    #[inline(always)]
    fn sub_interface(&mut self, tags: VlanTags) -> Option<IfIndex> {
        if tags != self.last.0 {
            self.last = (tags, self.entry.sub_interfaces.get(tags));
        }
        self.last.1
    }
}

/// One way through a vector.
struct Walk<'t> {
    ethertypes: &'t Ethertypes,
    interfaces: &'t Interfaces,
    counters: &'t WorkerCounters,
    rx: Rx<'t>,
    tally: Tally,
    /// What the packets behind this one will most likely be, too.
    usual: Usual,
}

impl Walk<'_> {
    /// A packet that isn't like the one before it.
    #[inline(never)]
    fn first_of_its_kind(&mut self, meta: &mut Meta, area: &mut [u8; HEAD_AREA]) -> Result<u8, Drop> {
        let (rx_if, untagged) = (meta.rx_if, Usual::untagged(meta, area));
        let edge = self.packet(meta, area)?;
        if let Some(ethertype) = untagged {
            let routed = self.rx.usage == Use::Route;
            let mac = routed.then_some(self.rx.mac);
            self.usual.learn(rx_if, mac, self.rx.vrf, ethertype, edge);
        }
        Ok(edge)
    }

    #[inline(always)]
    fn packet(&mut self, meta: &mut Meta, area: &mut [u8; HEAD_AREA]) -> Result<u8, Drop> {
        if meta.rx_if != self.rx.index {
            self.rx = Rx::new(self.interfaces, meta.rx_if);
        }
        let head = area.get(meta.data as usize..meta.end as usize).unwrap_or_default();
        let (header, _) = EthernetHeader::parse(head).map_err(|_| Drop::Truncated)?;
        let (dst, ethertype) = (header.dst, header.ethertype);
        if ethertype.is_vlan() {
            return self.tagged(meta, area, dst);
        }
        match self.rx.usage {
            Use::Route => self.route(meta, dst, self.rx.mac, self.rx.vrf, HEADER, ethertype),
            Use::Bridge => Ok(self.pass(meta, dst, Next::Bridge)),
            Use::CrossConnect => Ok(self.pass(meta, dst, Next::CrossConnect)),
        }
    }

    /// A frame that is passed on as it is.
    #[inline(always)]
    fn pass(&self, meta: &mut Meta, dst: MacAddr, next: Next) -> u8 {
        if dst.is_multicast() {
            received_by_group(self.counters, meta, dst);
        }
        next.edge()
    }

    /// A frame with tags: of a sub-interface, or of an interface whose frames are passed on as they are.
    fn tagged(&mut self, meta: &mut Meta, area: &mut [u8; HEAD_AREA], dst: MacAddr) -> Result<u8, Drop> {
        let head = area.get(meta.data as usize..meta.end as usize).unwrap_or_default();
        let tagged = tags::read(head).ok_or(Drop::Truncated)?;
        let header = HEADER + tagged.len;
        let has_vlan = tagged.vlan.outer != 0;
        let Some(sub) = self.rx.sub_interface(tagged.vlan).filter(|_| has_vlan) else {
            return match self.rx.usage {
                Use::Route if has_vlan => Err(Drop::UnknownVlan),
                Use::Route => self.route(meta, dst, self.rx.mac, self.rx.vrf, header, tagged.ethertype),
                Use::Bridge => Ok(self.pass(meta, dst, Next::Bridge)),
                Use::CrossConnect => Ok(self.pass(meta, dst, Next::CrossConnect)),
            };
        };
        if dst.is_multicast() {
            received_by_group(self.counters, meta, dst);
            // By the sub-interface it hasn't been received yet.
            meta.flags.clear(Flags::GROUP);
        }
        let entry = self.interfaces.get(sub);
        meta.rx_if = sub;
        self.tally.add(self.counters, Direction::Rx, sub, meta.len() - u32::from(tagged.len));
        if !entry.up {
            return Err(Drop::SubInterfaceDown);
        }
        let edge = match Use::of(entry) {
            Use::Route => return self.route(meta, dst, entry.mac, entry.vrf, header, tagged.ethertype),
            Use::Bridge => self.pass(meta, dst, Next::Bridge),
            Use::CrossConnect => self.pass(meta, dst, Next::CrossConnect),
        };
        tags::pop(meta, area, tagged.len);
        Ok(edge)
    }

    /// Takes `header` bytes off and finds who takes the rest. The caller has seen that they are there.
    #[inline(always)]
    fn route(
        &self,
        meta: &mut Meta,
        dst: MacAddr,
        mac: MacAddr,
        vrf: u16,
        header: u16,
        ethertype: EtherType,
    ) -> Result<u8, Drop> {
        // A packet that comes from a bridge has been here before.
        meta.flags.clear(Flags::OUR_MAC);
        meta.flags.clear(Flags::GROUP);
        if dst == mac {
            meta.flags.set(Flags::OUR_MAC);
        } else if dst.is_multicast() {
            received_by_group(self.counters, meta, dst);
        } else {
            return Err(Drop::WrongMac);
        }
        meta.l2 = meta.data;
        meta.data += header;
        meta.l3 = meta.data;
        meta.table = vrf;
        match self.ethertypes.edge(ethertype) {
            0 if ethertype.is_length() => Err(Drop::Llc),
            0 => Err(Drop::UnknownEthertype),
            edge => Ok(edge),
        }
    }
}
