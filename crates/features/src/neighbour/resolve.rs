//! Packets whose next hop has no link-layer address yet, the same for both IP versions.
//!
//! One that has passed as many routers as it may doesn't wait, and nobody is asked for: no neighbour would get it
//! (RFC 1812 section 5.2.1.2, RFC 8200 section 3).

use super::claim::octets;
use super::hold::{Drop, Holder};
use crate::ip::family::{Family, Refusal};
use crate::ip::{NextHopKind, NextHops};
use core::fmt;
use core::marker::PhantomData;
use graph::packet::{Flags, Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, Node, NodeContext};

/// One worker's instance.
pub(super) struct Resolve<F> {
    hops: Key<NextHops>,
    holder: Holder,
    /// Kind under which the control thread gets the packets.
    kind: &'static str,
    icmp_error: u8,
    family: PhantomData<F>,
}

impl<F: Family> Resolve<F> {
    /// The node whose packets go to the control thread under `kind`, and whose edge `icmp_error` leads to the ICMP error node.
    pub(super) fn boxed(cx: &NodeContext<'_>, kind: &'static str, icmp_error: u8) -> Box<dyn Node> {
        Box::new(Self { hops: cx.table(), holder: Holder::new(cx), kind, icmp_error, family: PhantomData })
    }
}

impl<F: Family> Node for Resolve<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let hops = ctx.tables.get(self.hops);
        for slot in frame.slots {
            let meta = ctx.packets.meta(*slot);
            let local = meta.flags.has(Flags::LOCAL);
            let hop = hops.get(meta.next_hop);
            let header = ctx.packets.header::<F::Header>(*slot, meta.data);
            if header.is_some_and(|header| F::hops(header) <= 1) && !local {
                F::request(ctx.packets.meta_mut(*slot), Refusal::HopsUsedUp);
                let edge = ctx.refuse(*slot, Drop::HopsUsedUp, self.icmp_error);
                ctx.emit(edge, *slot);
                continue;
            }
            let address = match header {
                Some(header) if hop.kind == NextHopKind::Glean => octets(F::generic(F::dst(header))),
                _ => hop.address,
            };
            self.holder.hold(ctx, *slot, self.kind, hop.tx_if, address);
        }
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        write!(out, "next hop {} on interface {}", meta.next_hop, meta.tx_if)
    }
}
