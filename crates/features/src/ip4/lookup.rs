//! `ip4-lookup`: finds a packet's next hop in the forwarding table of its VRF.
//!
//! Edges: by the next hop's kind to the children that attach themselves here under [`NextHopKind`] as key (`ip4-rewrite`,
//! `ip4-resolve`, `ip4-local`); no route, unreachable and prohibited destinations to `icmp4-error`; blackholes to `drop`.
//! Groups (equal-cost next hops, chosen by flow hash) and lookups in another VRF are followed here.

use crate::icmp::request_v4;
use crate::ip::{ECMP_SEED, Fibs, NextHopKind, NextHops};
use crate::tiered::{self, Tiered};
use core::fmt;
use graph::engine::MAX_VECTOR;
use graph::packet::{Flags, Packets, SlotId};
use graph::publish::Key;
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::flow::Ipv4Flow;
use wire::{Icmpv4Error, Ipv4Header};

graph::edges! {
    /// Where packets go besides the children.
    enum Next {
        Drop => "drop",
        IcmpError => "icmp4-error",
    }
}

graph::drops! {
    /// Why a packet finds no next hop.
    enum Drop {
        /// A packet made here has no route to its destination.
        NoRoute => "no-route", Warning,
        /// The route says to drop silently.
        Blackhole => "blackhole", Info,
        /// The VRF has no table: it has just been deleted.
        NoVrf => "no-vrf", Warning,
        /// Lookups in other VRFs or groups lead round and round.
        Loop => "loop", Error,
        /// Nothing in this graph handles next hops of this kind.
        Unhandled => "unhandled", Error,
    }
}

graph::counters! {
    /// Packets that got no further and whose senders are told.
    enum Counter {
        /// There is no route to the destination.
        NoRoute => "no-route",
        /// The route says that the destination is unreachable.
        Unreachable => "unreachable",
        /// The route says that the destination is administratively prohibited.
        Prohibited => "prohibited",
    }
}

/// Groups and VRFs that a packet is led through at most.
const MAX_STEPS: usize = 8;

struct Lookup {
    fibs: Key<Fibs>,
    hops: Key<NextHops>,
    /// Edge by next-hop kind, 0 where the kind isn't an ordinary child's.
    edges: [u8; 256],
    addresses: Box<[u32; MAX_VECTOR]>,
    ids: Box<[u32; MAX_VECTOR]>,
}

fn make(cx: &NodeContext<'_>) -> Box<dyn Node> {
    let mut edges = [0; 256];
    for (kind, edge) in cx.children() {
        edges[*kind as u8 as usize] = *edge;
    }
    Box::new(Lookup {
        fibs: cx.table(),
        hops: cx.table(),
        edges,
        addresses: Box::new([0; MAX_VECTOR]),
        ids: Box::new([0; MAX_VECTOR]),
    })
}

impl Node for Lookup {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        tiered::run(self, ctx, frame);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        write!(out, "table {} next hop {} flow hash {:#010x}", meta.table, meta.next_hop, meta.flow_hash)
    }
}

impl Tiered for Lookup {
    #[inline(always)]
    fn vector(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let mut at = 0;
        while let Some(first) = frame.slots.get(at) {
            // Packets of one VRF are looked up together: nearly always the whole vector.
            let table = ctx.packets.meta(*first).table;
            let mut count = 0;
            for (slot, address) in frame.slots[at..].iter().zip(self.addresses.iter_mut()) {
                let meta = ctx.packets.meta(*slot);
                if meta.table != table {
                    break;
                }
                let header = ctx.packets.header::<Ipv4Header>(*slot, meta.l3);
                *address = header.map_or(0, |header| u32::from_be_bytes(header.dst));
                count += 1;
            }
            let end = at + count;
            self.run(ctx, table, &frame.slots[at..end], &mut frame.next[at..end]);
            at = end;
        }
    }
}

impl Lookup {
    #[inline(always)]
    fn run(&mut self, ctx: &mut Ctx<'_>, table: u16, slots: &[SlotId], next: &mut [u8]) {
        let tables = ctx.tables;
        let hops = tables.get(self.hops);
        let Some(vrf) = tables.get(self.fibs).get(table) else {
            for (slot, next) in slots.iter().zip(next) {
                *next = ctx.drop(*slot, Drop::NoVrf);
            }
            return;
        };
        vrf.v4.lookup_batch(&self.addresses[..slots.len()], &mut self.ids[..slots.len()]);
        let (mut last, mut edge) = (0, 0);
        for ((slot, id), next) in slots.iter().zip(self.ids.iter()).zip(next) {
            if *id != last {
                last = *id;
                edge = self.edges[hops.get(*id).kind as usize];
            }
            ctx.packets.meta_mut(*slot).next_hop = *id;
            *next = if edge != 0 { edge } else { self.unusual(ctx, *slot, *id, hops) };
        }
    }

    /// Groups, other VRFs, and routes that lead nowhere.
    #[inline(never)]
    fn unusual(&self, ctx: &mut Ctx<'_>, slot: SlotId, mut id: u32, hops: &NextHops) -> u8 {
        let fibs = ctx.tables.get(self.fibs);
        let mut hop = hops.get(id);
        for step in 0..MAX_STEPS {
            match hop.kind {
                NextHopKind::Group => {
                    let symmetric =
                        fibs.get(ctx.packets.meta(slot).table).is_some_and(|vrf| vrf.symmetric_hash);
                    // Bits that have chosen once would choose the same way in the next group: take others.
                    let hash = flow_hash(ctx.packets, slot, symmetric).rotate_right(8 * step as u32);
                    id = hops.choose(hop, hash);
                }
                NextHopKind::LookupIn => {
                    let Some(vrf) = fibs.get(hop.vrf) else { return ctx.drop(slot, Drop::NoVrf) };
                    let l3 = ctx.packets.meta(slot).l3;
                    let header = ctx.packets.header::<Ipv4Header>(slot, l3);
                    id = vrf.v4.lookup(header.map_or(0, |header| u32::from_be_bytes(header.dst))).0;
                    ctx.packets.meta_mut(slot).table = hop.vrf;
                }
                kind => return self.end(ctx, slot, id, kind),
            }
            hop = hops.get(id);
        }
        ctx.drop(slot, Drop::Loop)
    }

    fn end(&self, ctx: &mut Ctx<'_>, slot: SlotId, id: u32, kind: NextHopKind) -> u8 {
        let edge = self.edges[kind as usize];
        let meta = ctx.packets.meta_mut(slot);
        meta.next_hop = id;
        let (counter, error) = match kind {
            _ if edge != 0 => return edge,
            NextHopKind::Blackhole => return ctx.drop(slot, Drop::Blackhole),
            _ if meta.flags.has(Flags::LOCAL) => return ctx.drop(slot, Drop::NoRoute),
            NextHopKind::NoRoute => (Counter::NoRoute, Icmpv4Error::NetUnreachable),
            NextHopKind::Unreachable => (Counter::Unreachable, Icmpv4Error::HostUnreachable),
            NextHopKind::Prohibit => (Counter::Prohibited, Icmpv4Error::AdministrativelyProhibited),
            _ => return ctx.drop(slot, Drop::Unhandled),
        };
        request_v4(meta, error);
        ctx.count(counter, 1);
        Next::IcmpError.edge()
    }
}

/// The packet's flow hash, computed when first asked for; never 0.
#[inline(always)]
fn flow_hash(packets: &mut Packets, slot: SlotId, symmetric: bool) -> u32 {
    let meta = packets.meta(slot);
    if meta.flow_hash != 0 {
        return meta.flow_hash;
    }
    let head = packets.area(slot).get(meta.l3 as usize..meta.end as usize).unwrap_or_default();
    let hash = Ipv4Flow::of(head)
        .map_or(1, |flow| if symmetric { flow.symmetric_hash(ECMP_SEED) } else { flow.hash(ECMP_SEED) });
    let hash = hash.max(1);
    packets.meta_mut(slot).flow_hash = hash;
    hash
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-lookup",
    help: "Finds the next hop of IPv4 packets in the forwarding table of their VRF.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "inject", key: super::INJECT_KEY }],
    ends: &[super::UNICAST],
    make,
    ..NodeSpec::EMPTY
};
