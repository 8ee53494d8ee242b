//! `ip6-nd-proxy`: finds neighbour solicitations that were sent to an address we stand in for, instead of to its group:
//! a neighbour looks whether it is still there (RFC 4861 section 7.3). They would be forwarded and lost.
//!
//! | edge | packets |
//! |---|---|
//! | `ip6-nd` | such solicitations |
//! | *arc `ip6-unicast`* | all others |
//!
//! A feature for interfaces with IPv6 addresses among their proxy ranges.

use crate::interface::Interfaces;
use core::fmt;
use core::net::IpAddr;
use graph::arc::{ArcPlace, Arcs};
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Feature, Frame, Node, NodeContext, NodeSpec};
use wire::{Icmpv6Type, IpProtocol, Ipv6Header};

graph::edges! {
    /// Where a packet goes from here, besides the arc.
    pub enum Next { Drop => "drop", Nd => "ip6-nd" }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-nd-proxy",
    help: "Finds neighbour solicitations sent to addresses that an interface stands in for.",
    edges: Next::NAMES,
    features: &[Feature { arc: crate::ip6::UNICAST, runs_before: &[], runs_after: &["ip6-rpf"] }],
    make: |cx: &NodeContext<'_>| {
        Box::new(Ip6NdProxy { interfaces: cx.table(), arcs: cx.table(), place: cx.arc(crate::ip6::UNICAST) })
    },
    ..NodeSpec::EMPTY
};

struct Ip6NdProxy {
    interfaces: Key<Interfaces>,
    arcs: Key<Arcs>,
    place: ArcPlace,
}

impl Node for Ip6NdProxy {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let (interfaces, arcs) = (ctx.tables.get(self.interfaces), ctx.tables.get(self.arcs));
        frame.each(|slot| {
            if is_for_proxy(ctx.packets, slot, interfaces) {
                return Next::Nd.edge();
            }
            let meta = ctx.packets.meta_mut(slot);
            let rx_if = meta.rx_if;
            self.place.next(arcs, rx_if, meta)
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        match packets.header::<Ipv6Header>(slot, packets.meta(slot).l3) {
            Some(header) => write!(out, "{} hop limit {}", header.next_header, header.hop_limit),
            None => Ok(()),
        }
    }
}

/// Whether the packet is a neighbour solicitation of this link, to an address of the interface's proxy ranges.
#[inline(always)]
pub(crate) fn is_for_proxy(packets: &Packets, slot: SlotId, interfaces: &Interfaces) -> bool {
    let meta = packets.meta(slot);
    let Some(header) = packets.header::<Ipv6Header>(slot, meta.l3) else { return false };
    if (header.hop_limit != 255) | (header.next_header != IpProtocol::ICMPV6) {
        return false;
    }
    let kind = packets.header::<Icmpv6Type>(slot, meta.l4);
    let dst = IpAddr::V6(header.dst());
    let ranges = &interfaces.get(meta.rx_if).proxy_ranges;
    kind == Some(&Icmpv6Type::NEIGHBOR_SOLICITATION)
        && ranges.iter().any(|(first, last)| (*first..=*last).contains(&dst))
}
