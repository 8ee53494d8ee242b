//! The feature that remembers flows, for both IP versions: what the interface of the split's ports sends first from another
//! port comes back to it.
//!
//! Whoever of the two interfaces has sent last has the flow: one that the other interface goes on with is forgotten.

use super::choice::{Splits, flow_of, ports_of, stay};
use super::split::PortSplit;
use crate::ip::sources::Sources;
use crate::ip::{Fibs, NextHops};
use crate::session::tuple::Kind;
use crate::tiered::{self, Tiered};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext};
use tables::recent::Noted;
use wire::IpProtocol;

graph::counters! {
    /// What is counted.
    pub(super) enum Counter {
        /// Flows that are remembered from now on.
        Learned => "learned",
        /// Flows that another had to make room for.
        Evicted => "evicted",
        /// Flows that the other interface goes on with.
        Forgotten => "forgotten",
    }
}

/// One worker's instance.
pub(super) struct Learn<F: Splits> {
    fibs: Key<Fibs>,
    hops: Key<NextHops>,
    arcs: Key<Arcs>,
    place: ArcPlace,
    sources: Sources<F>,
}

impl<F: Splits> Learn<F> {
    /// The node as a feature of `arc`.
    pub(super) fn boxed(cx: &NodeContext<'_>, arc: &str) -> Box<dyn Node> {
        Box::new(Self {
            fibs: cx.table(),
            hops: cx.table(),
            arcs: cx.table(),
            place: cx.arc(arc),
            sources: Sources::new(),
        })
    }
}

impl<F: Splits> Node for Learn<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        tiered::run(self, ctx, frame);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "interface {}", packets.meta(slot).rx_if)
    }
}

impl<F: Splits> Tiered for Learn<F> {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, _: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let arcs = ctx.tables.get(self.arcs);
        let mut counts = [0; Counter::SPECS.len()];
        let mut at = 0;
        while let Some(first) = frame.slots.get(at) {
            let meta = ctx.packets.meta(*first);
            let (rx_if, table) = (meta.rx_if, meta.table);
            let end = at + self.sources.read(ctx.packets, &frame.slots[at..]);
            self.learn(ctx, rx_if, table, &frame.slots[at..end], &mut counts);
            let way = self.place.way(arcs, rx_if);
            for (slot, next) in frame.slots[at..end].iter().zip(&mut frame.next[at..end]) {
                *next = way.next(ctx.packets.meta_mut(*slot));
            }
            at = end;
        }
        for (counter, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            ctx.count(counter as u8, count);
        }
    }
}

impl<F: Splits> Learn<F> {
    /// Looks at the sources of packets of one interface, which have been read: those that are a split's are its flows.
    #[inline(always)]
    fn learn(
        &mut self,
        ctx: &mut Ctx<'_>,
        rx_if: IfIndex,
        table: u16,
        slots: &[SlotId],
        counts: &mut [u64; Counter::SPECS.len()],
    ) {
        let (fibs, hops) = (ctx.tables.get(self.fibs), ctx.tables.get(self.hops));
        let now = (ctx.now / 1_000_000_000) as u32;
        let mut last: Option<(u32, Option<End<'_>>)> = None;
        for (slot, (_, id)) in slots.iter().zip(self.sources.look_up(fibs, table, slots.len())) {
            let end = match last {
                Some((known, end)) if known == id => end,
                _ => End::of(hops, id, rx_if),
            };
            last = Some((id, end));
            match end {
                None => {}
                Some(End::Matching(split)) => {
                    let (key, mark) = flow_of::<F>(ctx.packets, *slot);
                    let from = ports_of(&key, mark).0;
                    if mark.kind != Kind::Flow || split.ports.has(IpProtocol(key.protocol()), from) {
                        continue;
                    }
                    let noted = split.flows.note(&key, stay(&key), now);
                    counts[Counter::Learned as usize] += u64::from(noted != Noted::Known);
                    counts[Counter::Evicted as usize] += u64::from(noted == Noted::Replaced);
                }
                Some(End::Others(split)) => {
                    let (key, mark) = flow_of::<F>(ctx.packets, *slot);
                    let forgotten = mark.kind == Kind::Flow && split.flows.forget(&key);
                    counts[Counter::Forgotten as usize] += u64::from(forgotten);
                }
            }
        }
    }
}

/// Which of a split's two interfaces packets came in by.
#[derive(Clone, Copy)]
enum End<'t> {
    /// That of its ports.
    Matching(&'t PortSplit),
    /// The other one.
    Others(&'t PortSplit),
}

impl<'t> End<'t> {
    /// Of the split that next hop `id` is. `None`: it is none, or has another interface.
    #[inline(always)]
    fn of(hops: &'t NextHops, id: u32, rx_if: IfIndex) -> Option<Self> {
        let hop = hops.split(hops.get(id))?;
        let leads = |id| hops.get(id).tx_if == rx_if;
        if leads(hop.matching) {
            Some(Self::Matching(&hop.split))
        } else {
            leads(hop.others).then_some(Self::Others(&hop.split))
        }
    }
}
