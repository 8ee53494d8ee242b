//! Packets that go to a neighbour which isn't their destination, the same for both IP versions: the next hop is looked up for the address that is
//! [noted](super::hold::note) before them.
//!
//! That has to be a neighbour's. A router would look at the destination, and send them somewhere else.

use super::RESOLVE_DIRECT;
use super::hold::{self, Holder, noted};
use crate::ip::family::{Family, Refusal, V4, V6};
use crate::ip::{Fibs, NextHop, NextHopKind, NextHops};
use core::fmt;
use core::marker::PhantomData;
use core::net::{IpAddr, Ipv6Addr};
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, DropSpec, Frame, GONE, Node, NodeContext};

graph::drops! {
    /// Why a packet isn't sent, besides those for which none is [held](hold::Drop).
    pub(super) enum Drop {
        /// No route leads to the neighbour by a link of ours: a router between would send the packet somewhere else.
        NotNeighbour => "not-a-neighbour", Loss,
        /// The VRF has no table: it has just been deleted.
        NoVrf => "no-vrf", Loss,
        /// Nobody has said whom it is for.
        NoNote => "no-note", Bug,
    }
}

/// Those for which none is held.
const HELD: usize = hold::DROPS.len();
/// Both, in the order of their numbers.
pub(super) const DROPS: [DropSpec; HELD + Drop::SPECS.len()] = {
    let mut all = [hold::DROPS[0]; HELD + Drop::SPECS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < HELD { hold::DROPS[at] } else { Drop::SPECS[at - HELD] };
        at += 1;
    }
    all
};

/// VRFs that a packet is led through at most.
const MAX_STEPS: usize = 8;

/// The way of a packet to a neighbour of that address, from VRF `table`: number of the next hop.
fn find(fibs: &Fibs, hops: &NextHops, mut table: u16, neighbour: IpAddr) -> Result<u32, Drop> {
    for _ in 0..MAX_STEPS {
        let vrf = fibs.get(table).ok_or(Drop::NoVrf)?;
        let id = match neighbour {
            IpAddr::V4(address) => V4::fib(vrf).lookup(address.to_bits()).0,
            IpAddr::V6(address) => V6::fib(vrf).lookup(address.to_bits()).0,
        };
        let hop = hops.get(id);
        match hop.kind {
            NextHopKind::LookupIn => table = hop.vrf,
            NextHopKind::Glean => return Ok(id),
            // Without a header, by an interface without neighbours: whoever is at its other end.
            NextHopKind::Rewrite if hop.header_len == 0 => return Ok(id),
            NextHopKind::Rewrite | NextHopKind::Resolve if hop.neighbour() == Some(neighbour) => {
                return Ok(id);
            }
            _ => break,
        }
    }
    Err(Drop::NotNeighbour)
}

/// The next hop of packets that go to a neighbour of that address, whatever their destination, from VRF `table`.
///
/// # Errors
/// The drop reason of `ip4-direct` and `ip6-direct`, where they go nowhere.
pub fn way(fibs: &Fibs, hops: &NextHops, table: u16, neighbour: IpAddr) -> Result<NextHop, &'static str> {
    let found = find(fibs, hops, table, neighbour);
    found.map(|id| *hops.get(id)).map_err(|reason| Drop::SPECS[reason as usize].name)
}

/// One worker's instance.
pub(super) struct Direct<F> {
    fibs: Key<Fibs>,
    hops: Key<NextHops>,
    holder: Holder,
    rewrite: u8,
    icmp_error: u8,
    family: PhantomData<F>,
}

impl<F: Family> Direct<F> {
    /// The node whose edges `rewrite` and `icmp_error` lead to those.
    pub(super) fn boxed(cx: &NodeContext<'_>, rewrite: u8, icmp_error: u8) -> Box<dyn Node> {
        let (fibs, hops) = (cx.table(), cx.table());
        Box::new(Self { fibs, hops, holder: Holder::new(cx), rewrite, icmp_error, family: PhantomData })
    }

    fn send(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> u8 {
        let tables = ctx.tables;
        let hops = tables.get(self.hops);
        let Some(note) = noted(ctx.packets, slot) else { return own(ctx, slot, Drop::NoNote) };
        let table = ctx.packets.meta(slot).table;
        let neighbour = Ipv6Addr::from(note).to_canonical();
        let id = match find(tables.get(self.fibs), hops, table, neighbour) {
            Ok(id) => id,
            Err(reason) => return own(ctx, slot, reason),
        };
        let hop = hops.get(id);
        ctx.packets.meta_mut(slot).next_hop = id;
        if hop.kind == NextHopKind::Rewrite {
            return self.rewrite;
        }
        // As the others that would have to wait.
        let header = ctx.packets.header::<F::Header>(slot, ctx.packets.meta(slot).data);
        if header.is_some_and(|header| F::hops(header) <= 1) {
            F::request(ctx.packets.meta_mut(slot), Refusal::HopsUsedUp);
            return ctx.refuse(slot, hold::Drop::HopsUsedUp, self.icmp_error);
        }
        self.holder.hold(ctx, slot, RESOLVE_DIRECT, hop.tx_if, note);
        GONE
    }
}

/// Drops a packet for a reason of the node's own.
fn own(ctx: &mut Ctx<'_>, slot: SlotId, reason: Drop) -> u8 {
    ctx.drop(slot, HELD as u8 + u8::from(reason))
}

impl<F: Family> Node for Direct<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        frame.each(|slot| self.send(ctx, slot));
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        match noted(packets, slot) {
            Some(note) => write!(out, "to {}", Ipv6Addr::from(note).to_canonical()),
            None => out.write_str("to nobody"),
        }
    }
}
