//! The node that finds the sessions of what an engine sends back, for both IP versions.
//!
//! Packets are counted at their session when they come in at first; here they go on behind the service that has sent them there.

use super::service;
use crate::session::Sessions;
use crate::session::entry::Flow;
use crate::session::fragments::{self, Pieces};
use crate::session::input::of_later;
use crate::session::nat;
use crate::session::onward::Onward;
use crate::session::services::Chain;
use crate::session::tenants::{TICK_BITS, Tenants};
use crate::session::translate::Sided;
use crate::session::tuple::{Kind, Mark};
use core::fmt;
use core::marker::PhantomData;
use graph::arc::Arcs;
use graph::engine::MAX_VECTOR;
use graph::locals::LocalKey;
use graph::packet::{Flags, Packets, SlotId};
use graph::publish::Key as Part;
use graph::{Ctx, Frame, GONE, Node, NodeContext, prefetch_read};
use tables::session::{Key, Look};
use wire::ipv6::{Ipv6Header, walk};

graph::drops! {
    /// Why a packet of an engine gets no further.
    pub(super) enum Drop {
        /// It belongs to no session that is sent to this engine: that is over, or the engine has made or changed the packet.
        NoSession => "no-session", Loss,
        /// It can't be translated again as it was before the engine has seen it.
        Untranslated => "untranslated", Invalid,
        /// The worker that has the flow doesn't keep up with the packets that others hand over to it.
        HandoverFull => "handover-full", Loss,
    }
}

graph::counters! {
    /// What is counted.
    pub(super) enum Counter {
        /// Packets of sessions that came back.
        Returned => "returned",
        /// Packets of flows that are another worker's: they were handed over to it.
        HandedOver => "handed-over",
    }
}

/// One worker's instance.
pub(super) struct Returns<F> {
    tenants: Part<Tenants>,
    arcs: Part<Arcs>,
    sessions: LocalKey<Sessions>,
    onward: Onward,
    /// The number of the service that has sent them away.
    service: u8,
    /// Key under which the node takes packets that other workers hand over.
    handover: u32,
    /// The edge of fragments of datagrams that aren't known yet.
    fragments: u8,
    looks: Box<[Look<Mark>; MAX_VECTOR]>,
    family: PhantomData<F>,
}

impl<F: Pieces> Returns<F> {
    /// The node as a feature of `arc`.
    pub(super) fn boxed(cx: &NodeContext<'_>, arc: &str, (handover, fragments): (u32, u8)) -> Box<dyn Node> {
        Box::new(Self {
            tenants: cx.table(),
            arcs: cx.table(),
            sessions: cx.local(),
            onward: Onward::of_input(cx, arc),
            service: service::number(),
            handover,
            fragments,
            looks: Box::new([Look::new(Key::NONE, Mark::default()); MAX_VECTOR]),
            family: PhantomData,
        })
    }
}

impl<F: Pieces> Node for Returns<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (tenants, arcs) = (tables.get(self.tenants), tables.get(self.arcs));
        let (tick, mut returned, mut handed_over) = (ctx.now >> TICK_BITS, 0, 0);
        let looks = &mut self.looks[..frame.slots.len()];
        for (slot, look) in frame.slots.iter().zip(looks.iter_mut()) {
            let side = tenants.engines.get(ctx.packets.meta(*slot).rx_if);
            (look.key, look.mark) = read::<F>(ctx.packets, *slot, side.map_or(0, |side| side.context));
        }
        ctx.locals.get(self.sessions).table.hashes(looks, prefetch_read);
        for ((slot, next), look) in frame.slots.iter().zip(frame.next.iter_mut()).zip(looks.iter()) {
            let sessions = ctx.locals.get(self.sessions);
            let back = back::<F>(sessions, tenants, ctx.packets, *slot, (look, self.service, tick));
            *next = if let Some(Err(Unfit)) = back {
                ctx.drop(*slot, Drop::Untranslated)
            } else if let Some(Ok((chain, flow, version))) = back {
                returned += 1;
                let version = if look.mark.kind == Kind::Later { of_later(version) } else { version };
                let was_in_parts = F::IS_V6 && was_in_parts(tenants, ctx.packets, *slot);
                let meta = ctx.packets.meta_mut(*slot);
                meta.flags.set(if was_in_parts { Flags::MAY_BE_CUT } else { Flags::NONE });
                (meta.next_hop, meta.tx_if) = (flow.0, version);
                self.onward.edge(chain, F::IS_V6, arcs, meta)
            } else if let Some(owner) = elsewhere(tenants, look, ctx.worker as u32) {
                match ctx.hand_over(*slot, owner as usize, self.handover) {
                    Ok(()) => {
                        handed_over += 1;
                        GONE
                    }
                    Err(_) => ctx.drop(*slot, Drop::HandoverFull),
                }
            } else if look.mark.kind == Kind::Fragment {
                self.fragments
            } else {
                ctx.drop(*slot, Drop::NoSession)
            };
        }
        ctx.count(Counter::Returned, returned);
        ctx.count(Counter::HandedOver, handed_over);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "session {}", Flow(packets.meta(slot).next_hop).session())
    }
}

/// What a packet is to sessions.
#[inline(always)]
fn read<F: Pieces>(packets: &Packets, slot: SlotId, context: u16) -> (Key, Mark) {
    if let Some((key, from_high)) = F::quick(packets.meta(slot), packets.area(slot), context) {
        return (key, Mark { kind: Kind::Flow, from_high });
    }
    fragments::seen::<F>(packets, slot, context, F::read(packets, slot, context))
}

/// The worker that has the flow, where that is another one.
fn elsewhere(tenants: &Tenants, look: &Look<Mark>, worker: u32) -> Option<u32> {
    (is_flow(look) && tenants.workers > 1).then(|| tenants.owner(&look.key)).filter(|owner| *owner != worker)
}

/// Whether an IPv6 packet has been put together from fragments before it went to the engine: it still has their header.
#[inline(always)]
fn was_in_parts(tenants: &Tenants, packets: &Packets, slot: SlotId) -> bool {
    let meta = packets.meta(slot);
    let header = packets.header::<Ipv6Header>(slot, meta.l3);
    header.is_some_and(|header| header.next_header.is_extension())
        && tenants.engines.get(meta.rx_if).is_some_and(|side| side.reassembled)
        && walk(packets.head(slot)).is_ok_and(|upper| upper.fragment.is_some())
}

/// Whether it is a packet of a flow, or a part of one that has no ports.
const fn is_flow(look: &Look<Mark>) -> bool {
    matches!(look.mark.kind, Kind::Flow | Kind::Later)
}

/// A packet isn't what its session's are.
struct Unfit;

/// What a packet still passes, its session and the version of that, if it is one of a session that goes to this engine.
fn back<F: Pieces>(
    sessions: &mut Sessions,
    tenants: &Tenants,
    packets: &mut Packets,
    slot: SlotId,
    (look, service, tick): (&Look<Mark>, u8, u64),
) -> Option<Result<(Chain, Flow, u16), Unfit>> {
    if !is_flow(look) {
        return None;
    }
    let side = tenants.engines.get(packets.meta(slot).rx_if)?;
    let index = sessions.table.find(&look.key, look.hash)?;
    let from_high = look.mark.from_high;
    let (mut chain, version) =
        sessions.returned(tenants, (index, &look.key, F::IS_V6), (side.tenant, from_high), service, tick)?;
    let (handle, key, session) = sessions.table.visit(index)?;
    if session.is_translated() && chain.block().is_none() {
        let of = Sided { session: handle, key: &key, from_high };
        if sessions.translations.do_again(packets, slot, of).is_err() {
            return Some(Err(Unfit));
        }
        if sessions.translations.is_done(handle, from_high) {
            chain = chain.without(nat::number());
        }
    }
    Some(Ok((chain, Flow::new(index, F::IS_V6, from_high), version)))
}
