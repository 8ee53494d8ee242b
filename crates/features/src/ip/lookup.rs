//! The lookup of both IP versions: destination address to next hop to edge.

use super::family::{Family, Refusal};
use super::{Fibs, LinkLocals, NextHopKind, NextHops};
use crate::tiered::{self, Tiered};
use core::fmt;
use core::marker::PhantomData;
use graph::engine::MAX_VECTOR;
use graph::packet::{Field, Flags, HEAD_AREA, Meta, Packets, Shape, SlotId, Vector};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Ctx, Frame, Node, NodeContext, prefetch_read};

graph::drops! {
    /// Why a packet finds no next hop.
    pub(crate) enum Drop {
        /// There is no route to the destination; the sender is told.
        NoRoute => "no-route", Loss,
        /// The route says that the destination is unreachable; the sender is told.
        Unreachable => "unreachable", Info,
        /// The route says that the destination is administratively prohibited; the sender is told.
        Prohibited => "prohibited", Info,
        /// The route says to drop silently.
        Blackhole => "blackhole", Info,
        /// The VRF has no table: it has just been deleted.
        NoVrf => "no-vrf", Loss,
        /// Lookups in other VRFs or groups lead round and round.
        Loop => "loop", Invalid,
        /// A packet to another's link-local address must not leave its link (RFC 4291 section 2.5.6, RFC 3927 section 7).
        LinkLocal => "link-local", Loss,
        /// Nothing in this graph handles next hops of this kind.
        Unhandled => "unhandled", Bug,
    }
}

/// Groups and VRFs that a packet is led through at most.
pub(crate) const MAX_STEPS: usize = 8;

/// One worker's instance.
pub(crate) struct Lookup<F: Family> {
    fibs: Key<Fibs>,
    hops: Key<NextHops>,
    link_locals: Key<LinkLocals>,
    /// Edge by next-hop kind, 0 where the kind isn't a child's.
    edges: [u8; 256],
    icmp_error: u8,
    addresses: Box<[F::Address; MAX_VECTOR]>,
    ids: Box<[u32; MAX_VECTOR]>,
    family: PhantomData<F>,
}

impl<F: Family> Lookup<F> {
    /// The node whose edge `icmp_error` leads to the ICMP error node.
    pub(crate) fn boxed(cx: &NodeContext<'_>, icmp_error: u8) -> Box<dyn Node> {
        let mut edges = [0; 256];
        for (kind, edge) in cx.children() {
            edges[*kind as u8 as usize] = *edge;
        }
        Box::new(Self {
            fibs: cx.table(),
            hops: cx.table(),
            link_locals: cx.table(),
            edges,
            icmp_error,
            addresses: Box::new([F::Address::default(); MAX_VECTOR]),
            ids: Box::new([0; MAX_VECTOR]),
            family: PhantomData,
        })
    }
}

impl<F: Family> Node for Lookup<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        tiered::run(self, ctx, frame);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        write!(out, "table {} next hop {}", meta.table, meta.next_hop)?;
        if meta.flow_hash != 0 { write!(out, " flow hash {:#010x}", meta.flow_hash) } else { Ok(()) }
    }
}

impl<F: Family> Tiered for Lookup<F> {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, simd: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let mut vector = Vector::new(frame.slots);
        while let Some(first) = vector.peek() {
            // Packets of one VRF are looked up together: nearly always the whole vector.
            let Meta { table, l3, .. } = *ctx.packets.meta(first);
            let shape = shape(table, l3, F::HEADER);
            let mut addresses = self.addresses.iter_mut();
            let mut stretch = vector.stretch(
                ctx.packets,
                #[inline(always)]
                |meta, area| match F::destination_at(area, l3) {
                    Some(destination) if shape.fits(simd, meta) => {
                        addresses.next().map(|address| *address = destination).is_some()
                    }
                    _ => false,
                },
            );
            if stretch.is_empty()
                && let Some((at, slot)) = vector.next()
            {
                // Its header isn't whole in the head.
                self.addresses[0] = F::destination(ctx.packets, slot);
                stretch = at..at + 1;
            }
            let next = &mut frame.next[stretch.clone()];
            self.run(ctx, table, vector.part(stretch), next);
        }
    }
}

/// Of packets with forwarding table `table` whose network headers begin at `l3` and have `len` bytes or more.
#[inline(never)]
fn shape(table: u16, l3: u16, len: u16) -> Shape {
    Shape::ANY
        .expect(Field::Table, table..=table)
        .expect(Field::L3, l3..=l3)
        .expect(Field::End, l3 + len..=HEAD_AREA as u16)
}

impl<F: Family> Lookup<F> {
    /// Looks up the packets of `part`, whose addresses are there.
    #[inline(always)]
    fn run(&mut self, ctx: &mut Ctx<'_>, table: u16, mut part: Vector<'_>, next: &mut [u8]) {
        let tables = ctx.tables;
        let hops = tables.get(self.hops);
        let Some(vrf) = tables.get(self.fibs).get(table) else {
            for (at, slot) in part {
                next[at] = ctx.drop(slot, Drop::NoVrf);
            }
            return;
        };
        let count = next.len();
        let (addresses, ids) = (&self.addresses[..count], &mut self.ids[..count]);
        match addresses {
            // A vector is often a burst to one destination, and then one lookup does.
            [first, rest @ ..] if rest.iter().fold(true, |all, address| all & (address == first)) => {
                ids.fill(F::fib(vrf).lookup(*first).0);
            }
            _ => F::fib(vrf).lookup_batch(addresses, ids, prefetch_read),
        }
        let edges = &self.edges;
        let (mut last, mut edge, mut usual) = (0, edges[hops.get(0).kind as usize], true);
        let mut decided = ids.iter().zip(next.iter_mut());
        part.stretch(
            ctx.packets,
            #[inline(always)]
            |meta, _| {
                let Some((id, next)) = decided.next() else { return false };
                if *id != last {
                    last = *id;
                    edge = edges[hops.get(*id).kind as usize];
                }
                usual &= edge != 0;
                meta.next_hop = *id;
                *next = edge;
                true
            },
        );
        if !usual {
            for (slot, next) in part.slots().iter().zip(next).filter(|(_, next)| **next == 0) {
                let id = ctx.packets.meta(*slot).next_hop;
                *next = self.unusual(ctx, *slot, id, hops);
            }
        }
    }

    /// Groups, other VRFs, link-local destinations, and routes that lead nowhere.
    #[inline(never)]
    fn unusual(&self, ctx: &mut Ctx<'_>, slot: SlotId, mut id: u32, hops: &NextHops) -> u8 {
        let fibs = ctx.tables.get(self.fibs);
        for step in 0..MAX_STEPS {
            let hop = hops.get(id);
            match hop.kind {
                NextHopKind::Group => {
                    let symmetric =
                        fibs.get(ctx.packets.meta(slot).table).is_some_and(|vrf| vrf.symmetric_hash);
                    id = hops.choose_at(hop, flow_hash::<F>(ctx.packets, slot, symmetric), step);
                }
                NextHopKind::LookupIn => {
                    let Some(vrf) = fibs.get(hop.vrf) else { return ctx.drop(slot, Drop::NoVrf) };
                    id = F::fib(vrf).lookup(F::destination(ctx.packets, slot)).0;
                    ctx.packets.meta_mut(slot).table = hop.vrf;
                }
                NextHopKind::LinkLocal => {
                    let meta = ctx.packets.meta(slot);
                    let (scope, local) = (meta.rx_if, meta.flags.has(Flags::LOCAL));
                    let address = F::scoped(F::destination(ctx.packets, slot));
                    id = address.map_or(0, |address| ctx.table(self.link_locals).get(scope, address));
                    if !local && hops.get(id).kind != NextHopKind::Local {
                        return ctx.drop(slot, Drop::LinkLocal);
                    }
                }
                kind => return self.end(ctx, slot, id, kind),
            }
        }
        ctx.drop(slot, Drop::Loop)
    }

    fn end(&self, ctx: &mut Ctx<'_>, slot: SlotId, id: u32, kind: NextHopKind) -> u8 {
        let edge = self.edges[kind as usize];
        let meta = ctx.packets.meta_mut(slot);
        meta.next_hop = id;
        let (reason, refusal) = match kind {
            _ if edge != 0 => return edge,
            NextHopKind::Blackhole => return ctx.drop(slot, Drop::Blackhole),
            _ if meta.flags.has(Flags::LOCAL) => return ctx.drop(slot, Drop::NoRoute),
            NextHopKind::NoRoute => (Drop::NoRoute, Refusal::NoRoute),
            NextHopKind::Unreachable => (Drop::Unreachable, Refusal::Unreachable),
            NextHopKind::Prohibit => (Drop::Prohibited, Refusal::Prohibited),
            _ => return ctx.drop(slot, Drop::Unhandled),
        };
        F::request(meta, refusal);
        ctx.refuse(slot, reason, self.icmp_error)
    }
}

/// The packet's flow hash, computed when first asked for; never 0.
#[inline(always)]
fn flow_hash<F: Family>(packets: &mut Packets, slot: SlotId, symmetric: bool) -> u32 {
    let meta = packets.meta(slot);
    if meta.flow_hash != 0 {
        return meta.flow_hash;
    }
    let head = packets.area(slot).get(meta.l3 as usize..meta.end as usize).unwrap_or_default();
    let hash = F::flow_hash(head, symmetric).max(1);
    packets.meta_mut(slot).flow_hash = hash;
    hash
}
