//! The feature that remembers flows, for both IP versions: what the interface of the split's ports sends first from another
//! port comes back to it.
//!
//! Whoever of the two interfaces has sent last has the flow: one that the other interface goes on with is forgotten.

use super::choice::{Splits, flow_of, ports_of, stay};
use crate::ip::{Fibs, NextHops};
use crate::session::tuple::Kind;
use crate::tiered::{self, Tiered};
use core::fmt;
use core::marker::PhantomData;
use graph::arc::{ArcPlace, Arcs};
use graph::engine::MAX_VECTOR;
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext, prefetch_read};
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
    addresses: Box<[F::Address; MAX_VECTOR]>,
    ids: Box<[u32; MAX_VECTOR]>,
    family: PhantomData<F>,
}

impl<F: Splits> Learn<F> {
    /// The node as a feature of `arc`.
    pub(super) fn boxed(cx: &NodeContext<'_>, arc: &str) -> Box<dyn Node> {
        Box::new(Self {
            fibs: cx.table(),
            hops: cx.table(),
            arcs: cx.table(),
            place: cx.arc(arc),
            addresses: Box::new([F::Address::default(); MAX_VECTOR]),
            ids: Box::new([0; MAX_VECTOR]),
            family: PhantomData,
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
            let mut end = at;
            for (slot, address) in frame.slots[at..].iter().zip(self.addresses.iter_mut()) {
                let meta = ctx.packets.meta(*slot);
                if meta.rx_if != rx_if || meta.table != table {
                    break;
                }
                *address = F::source(ctx.packets, *slot);
                end += 1;
            }
            self.learn(ctx, rx_if, table, &frame.slots[at..end], &mut counts);
            for (slot, next) in frame.slots[at..end].iter().zip(&mut frame.next[at..end]) {
                *next = self.place.next(arcs, rx_if, ctx.packets.meta_mut(*slot));
            }
            at = end;
        }
        for (counter, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            ctx.count(counter as u8, count);
        }
    }
}

impl<F: Splits> Learn<F> {
    /// Looks at the sources of packets of one interface, whose addresses are there: those that are a split's are its flows.
    #[inline(always)]
    fn learn(
        &mut self,
        ctx: &mut Ctx<'_>,
        rx_if: IfIndex,
        table: u16,
        slots: &[SlotId],
        counts: &mut [u64; Counter::SPECS.len()],
    ) {
        let hops = ctx.tables.get(self.hops);
        let Some(vrf) = ctx.tables.get(self.fibs).get(table) else { return };
        let (addresses, ids) = (&self.addresses[..slots.len()], &mut self.ids[..slots.len()]);
        F::fib(vrf).lookup_batch(addresses, ids, prefetch_read);
        let now = (ctx.now / 1_000_000_000) as u32;
        for (slot, id) in slots.iter().zip(&*self.ids) {
            let Some(hop) = hops.split(hops.get(*id)) else { continue };
            let split = &hop.split;
            if hops.get(hop.matching).tx_if == rx_if {
                let (key, mark) = flow_of::<F>(ctx.packets, *slot);
                let from = ports_of(&key, mark).0;
                if mark.kind != Kind::Flow || split.ports.has(IpProtocol(key.protocol()), from) {
                    continue;
                }
                match split.flows.note(&key, stay(&key), now) {
                    Noted::Known => {}
                    Noted::New => counts[Counter::Learned as usize] += 1,
                    Noted::Replaced => {
                        counts[Counter::Learned as usize] += 1;
                        counts[Counter::Evicted as usize] += 1;
                    }
                }
            } else if hops.get(hop.others).tx_if == rx_if {
                let (key, mark) = flow_of::<F>(ctx.packets, *slot);
                let forgotten = mark.kind == Kind::Flow && split.flows.forget(&key);
                counts[Counter::Forgotten as usize] += u64::from(forgotten);
            }
        }
    }
}
