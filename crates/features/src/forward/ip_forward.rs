//! `ip-forward`: does at once to an ordinary packet what `ethernet-input`, `ip4-input`, `ip4-lookup` and `ip4-rewrite` (and
//! those of IPv6) do to it one after the other; hands on all others, untouched.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* | ordinary, to a neighbour whose link-layer address is known |
//! | `ethernet-input` | all others, and all where the interface has features on its unicast arc or a trace is on |
//!
//! Ordinary is what the four nodes have a fast way for: an untagged frame to the interface's own address, no options, a good
//! checksum, unicast, hops left, not above the MTU, and an Ethernet header without tags to be put in front.
//!
//! **Order.** Where a packet is for such a neighbour, and yet isn't ordinary, all that come behind it in its vector by the same interface go
//! the long way as well: no packet overtakes another one of its flow.

use super::lot::{Lots, Outlook};
use crate::ethernet::usual::ethertype;
use crate::interface::Interfaces;
use crate::ip::family::{V4, V6};
use crate::ip::{Fibs, NextHops};
use crate::tiered::{self, Tiered};
use crate::{ip4, ip6};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::{DEVICE_INPUT, INTERFACE_OUTPUT};
use graph::packet::{Packets, SlotId, Vector};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext, NodeSpec};
use wire::EtherType;

graph::edges! {
    /// Where packets go besides the arc.
    enum Next { Drop => "drop", LongWay => "ethernet-input" }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip-forward",
    help: "Forwards ordinary IP packets of interfaces without features in one step; all others go on, untouched.",
    edges: Next::NAMES,
    starts: &[INTERFACE_OUTPUT],
    ends: &[DEVICE_INPUT],
    make: |cx: &NodeContext<'_>| {
        Box::new(IpForward {
            interfaces: cx.table(),
            fibs: cx.table(),
            hops: cx.table(),
            arcs: cx.table(),
            output: cx.arc(INTERFACE_OUTPUT),
            v4: Lots::new(cx, ip4::UNICAST, "ip4-lookup"),
            v6: Lots::new(cx, ip6::UNICAST, "ip6-lookup"),
            closed: Vec::new(),
        })
    },
    ..NodeSpec::EMPTY
};

struct IpForward {
    interfaces: Key<Interfaces>,
    fibs: Key<Fibs>,
    hops: Key<NextHops>,
    arcs: Key<Arcs>,
    output: ArcPlace,
    v4: Lots<V4>,
    v6: Lots<V6>,
    /// Interfaces whose packets go the long way for the rest of the vector.
    closed: Vec<IfIndex>,
}

impl Node for IpForward {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        if ctx.traced {
            return frame.all(Next::LongWay.edge());
        }
        tiered::run(self, ctx, frame);
    }

    fn trace(&self, _: &Packets, _: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("node by node while a trace is on")
    }
}

impl Tiered for IpForward {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, simd: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (hops, arcs) = (tables.get(self.hops), tables.get(self.arcs));
        let outlook = Outlook {
            interfaces: tables.get(self.interfaces),
            fibs: tables.get(self.fibs),
            hops,
            tally: hops.tallies.of(ctx.worker),
            arcs,
            output: self.output,
        };
        self.v4.begin();
        self.v6.begin();
        self.closed.clear();
        let mut vector = Vector::new(frame.slots);
        let long = Next::LongWay.edge();
        while let Some(first) = vector.peek() {
            let (meta, area) = ctx.packets.parts_mut(first);
            let (rx_if, kind) = (meta.rx_if, ethertype(area));
            let lot = match kind {
                _ if self.closed.contains(&rx_if) => 0..0,
                EtherType::IPV4 => self.v4.gather(&outlook, ctx.packets, &mut vector, rx_if),
                EtherType::IPV6 => self.v6.gather(&outlook, ctx.packets, &mut vector, rx_if),
                // A tag with VLAN id 0 has a priority and nothing else: others of its flow may have none.
                _ if kind.is_vlan() => {
                    self.closed.push(rx_if);
                    0..0
                }
                _ => 0..0,
            };
            if lot.is_empty() {
                if let Some((at, _)) = vector.next() {
                    frame.next[at] = long;
                }
                continue;
            }
            let (part, next) = (vector.part(lot.clone()), &mut frame.next[lot]);
            let short = match kind {
                EtherType::IPV4 => self.v4.forward(simd, &outlook, ctx.packets, part, next, long),
                _ => self.v6.forward(simd, &outlook, ctx.packets, part, next, long),
            };
            if let Some(rest @ [_, ..]) = next.get_mut(short..) {
                rest.fill(long);
                self.closed.push(rx_if);
            }
        }
    }
}
