//! The reverse path filter of both IP versions (RFC 3704): does a route lead back to where a packet claims to be from?

use super::family::{Family, V4, V6};
use super::sources::Sources;
use super::{Fibs, NextHop, NextHopKind, NextHops};
use crate::interface::{Interface, Interfaces, Rpf};
use crate::tiered::{self, Tiered};
use core::fmt;
use core::net::IpAddr;
use graph::arc::{ArcPlace, Arcs};
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext};

graph::drops! {
    /// Why a packet isn't believed to be from where it claims.
    pub(crate) enum Drop {
        /// No route leads back to the source address.
        NoRouteBack => "no-route-back", Loss,
        /// The route back to the source address leads through another interface.
        WrongInterface => "wrong-interface", Loss,
        /// The source address is one of our own.
        OwnAddress => "own-address", Loss,
    }
}

/// VRFs that a source address is looked up in at most: as far as the lookup follows a destination.
const MAX_STEPS: usize = 8;

/// One worker's instance.
pub(crate) struct ReversePath<F: Family> {
    interfaces: Key<Interfaces>,
    fibs: Key<Fibs>,
    hops: Key<NextHops>,
    arcs: Key<Arcs>,
    place: ArcPlace,
    sources: Sources<F>,
}

impl<F: Family> ReversePath<F> {
    /// The node as a feature of `arc`.
    pub(crate) fn boxed(cx: &NodeContext<'_>, arc: &str) -> Box<dyn Node> {
        Box::new(Self {
            interfaces: cx.table(),
            fibs: cx.table(),
            hops: cx.table(),
            arcs: cx.table(),
            place: cx.arc(arc),
            sources: Sources::new(),
        })
    }
}

impl<F: Family> Node for ReversePath<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        tiered::run(self, ctx, frame);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        write!(out, "interface {} table {}", meta.rx_if, meta.table)
    }
}

impl<F: Family> Tiered for ReversePath<F> {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, _: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let mut at = 0;
        while let Some(first) = frame.slots.get(at) {
            let meta = ctx.packets.meta(*first);
            let (rx_if, table) = (meta.rx_if, meta.table);
            let end = at + self.sources.read(ctx.packets, &frame.slots[at..]);
            self.run(ctx, rx_if, table, &frame.slots[at..end], &mut frame.next[at..end]);
            at = end;
        }
    }
}

impl<F: Family> ReversePath<F> {
    /// Of packets of one interface, whose sources have been read.
    #[inline(always)]
    fn run(&mut self, ctx: &mut Ctx<'_>, rx_if: IfIndex, table: u16, slots: &[SlotId], next: &mut [u8]) {
        let tables = ctx.tables;
        let (fibs, hops) = (tables.get(self.fibs), tables.get(self.hops));
        let interface = tables.get(self.interfaces).get(rx_if);
        let way = self.place.way(tables.get(self.arcs), rx_if);
        let mut last = None;
        let sources = self.sources.look_up(fibs, table, slots.len());
        for ((slot, next), (source, id)) in slots.iter().zip(next).zip(sources) {
            let found = match last {
                Some((known, found)) if known == id => found,
                _ => verdict::<F>((fibs, hops), interface.rpf, rx_if, id, source),
            };
            // What a lookup in another VRF says of one source isn't what it says of the next.
            last = (!found.of_source).then_some((id, found));
            *next = match found.verdict {
                Ok(()) => way.next(ctx.packets.meta_mut(*slot)),
                // Our own addresses are nobody else's, whatever is allowed.
                Err(Drop::NoRouteBack | Drop::WrongInterface)
                    if is_allowed(interface, F::generic(source)) =>
                {
                    way.next(ctx.packets.meta_mut(*slot))
                }
                Err(reason) => ctx.drop(*slot, reason),
            };
        }
    }
}

/// What a route back says.
#[derive(Clone, Copy)]
struct Found {
    verdict: Result<(), Drop>,
    /// Of this source only: it was looked up in other VRFs.
    of_source: bool,
}

/// Where a route back leads, as far as one next hop tells.
enum Back {
    /// To the interface that the packet came in by.
    Here,
    /// To another one.
    Elsewhere,
    /// To what another VRF says.
    In(u16),
    /// To ourselves.
    Own,
    Nowhere,
}

impl Back {
    /// Of any next hop but a group.
    #[inline(always)]
    fn of(hops: &NextHops, hop: &NextHop, rx_if: IfIndex) -> Self {
        let here = match hop.kind {
            NextHopKind::LookupIn => return Self::In(hop.vrf),
            NextHopKind::Local => return Self::Own,
            // Good on its link only, which is the one the packet came by.
            NextHopKind::LinkLocal => true,
            // Either of the two has the address.
            NextHopKind::PortSplit => hops.splits_by(hop, rx_if),
            NextHopKind::Rewrite | NextHopKind::Glean | NextHopKind::Resolve => hop.tx_if == rx_if,
            NextHopKind::Group
            | NextHopKind::NoRoute
            | NextHopKind::Blackhole
            | NextHopKind::Unreachable
            | NextHopKind::Prohibit => return Self::Nowhere,
        };
        if here { Self::Here } else { Self::Elsewhere }
    }
}

fn verdict<F: Family>(
    (fibs, hops): (&Fibs, &NextHops),
    mode: Rpf,
    rx_if: IfIndex,
    mut id: u32,
    source: F::Address,
) -> Found {
    let mut refusal = Drop::NoRouteBack;
    if mode == Rpf::Off {
        return Found { verdict: Ok(()), of_source: false };
    }
    // Each VRF is asked once, however many ways lead there.
    let (mut vrfs, mut known, mut asked) = ([0; MAX_STEPS - 1], 0, 0);
    loop {
        let hop = hops.get(id);
        let mut leads_back = |hop: &NextHop| {
            match Back::of(hops, hop, rx_if) {
                Back::Here => return true,
                Back::Elsewhere if mode == Rpf::Loose => return true,
                Back::Own => refusal = Drop::OwnAddress,
                Back::Elsewhere if refusal != Drop::OwnAddress => refusal = Drop::WrongInterface,
                Back::In(vrf) if known < vrfs.len() && !vrfs[..known].contains(&vrf) => {
                    vrfs[known] = vrf;
                    known += 1;
                }
                Back::Elsewhere | Back::In(_) | Back::Nowhere => {}
            }
            false
        };
        // With several ways back each of them is right.
        let leads_back = match hop.kind {
            NextHopKind::Group => hops.members(hop).any(leads_back),
            _ => leads_back(hop),
        };
        let verdict = if leads_back { Ok(()) } else { Err(refusal) };
        if leads_back || asked == known {
            return Found { verdict, of_source: asked > 0 };
        }
        id = fibs.get(vrfs[asked]).map_or(0, |vrf| F::fib(vrf).lookup(source).0);
        asked += 1;
    }
}

/// Whether an interface's filter lets packets from `source` pass, whose routes are in VRF `table`.
///
/// # Errors
/// The drop reason of the filter, where it doesn't.
pub fn leads_back(
    (fibs, hops): (&Fibs, &NextHops),
    (index, interface): (IfIndex, &Interface),
    table: u16,
    source: IpAddr,
) -> Result<(), &'static str> {
    let vrf = fibs.get(table);
    let (mode, tables) = (interface.rpf, (fibs, hops));
    let found = match source {
        IpAddr::V4(address) => {
            let id = vrf.map_or(0, |vrf| V4::fib(vrf).lookup(address.to_bits()).0);
            verdict::<V4>(tables, mode, index, id, address.to_bits())
        }
        IpAddr::V6(address) => {
            let id = vrf.map_or(0, |vrf| V6::fib(vrf).lookup(address.to_bits()).0);
            verdict::<V6>(tables, mode, index, id, address.to_bits())
        }
    };
    match found.verdict {
        // As the node has it.
        Err(Drop::NoRouteBack | Drop::WrongInterface) if is_allowed(interface, source) => Ok(()),
        Err(reason) => Err(Drop::SPECS[reason as usize].name),
        Ok(()) => Ok(()),
    }
}

/// Whether packets from `source` pass without a route back.
fn is_allowed(interface: &Interface, source: IpAddr) -> bool {
    interface.allowed_sources.iter().any(|(first, last)| (*first..=*last).contains(&source))
}
