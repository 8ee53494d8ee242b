//! The node that knows which session a fragment belongs to, for both IP versions.

use super::datagrams::{Datagrams, Later};
use super::piece::{Pieces, Ports};
use crate::bridge::Origins;
use crate::reassembly::owner_of_fragments;
use crate::session::tenants::Tenants;
use crate::session::tuple::Kind;
use core::fmt;
use core::marker::PhantomData;
use graph::packet::{Flags, Packets, SlotId};
use graph::publish::Key as Part;
use graph::{Ctx, Frame, Node, NodeContext};

graph::edges! {
    /// Where a packet goes from here. Behind the first are the version's own nodes that find sessions: of what comes in, and of what engines send back.
    pub(super) enum Next { Drop => "drop", Sessions => "ip4-session-input", Returned => "ip4-redirect-input" }
}

/// The same with the nodes of the other version.
pub(super) const NEXT6: &[&str] = &["drop", "ip6-session-input", "ip6-redirect-input"];

graph::drops! {
    /// Why a fragment gets no further.
    pub(super) enum Drop {
        /// The first fragment of its datagram ends before its ports do, or has none.
        NoPorts => "no-ports", Loss,
        /// The first fragment of its datagram didn't come in time: within two seconds.
        TimedOut => "timed-out", Loss,
        /// The interface has more fragments that wait for the first of theirs than may.
        TooMany => "too-many-waiting", Loss,
        /// Its headers can't be read.
        BadFragment => "bad-fragment", Invalid,
        /// All packet slots of the worker are in use.
        NoSlot => "no-slot", Loss,
        /// The worker that knows the datagram doesn't keep up with the fragments that others hand over to it.
        HandoverFull => "handover-full", Loss,
    }
}

graph::counters! {
    /// What is counted.
    pub(super) enum Counter {
        /// Fragments that came.
        Fragments => "fragments",
        /// Fragments that came before the first of their datagram, and waited.
        Waited => "waited",
        /// Fragments that another worker was given, because it knows their datagram.
        HandedOver => "handed-over",
    }
}

/// One worker's instance.
pub(super) struct Reassembly<F> {
    tenants: Part<Tenants>,
    origins: Origins,
    /// What comes in, and what engines send back: the same datagrams may be under way there a second time.
    datagrams: [Datagrams; 2],
    family: PhantomData<F>,
}

impl<F: Pieces> Reassembly<F> {
    /// The node.
    pub(super) fn boxed(cx: &NodeContext<'_>) -> Box<dyn Node> {
        let (tenants, origins) = (cx.table(), Origins::new(cx));
        Box::new(Self { tenants, origins, datagrams: Default::default(), family: PhantomData })
    }
}

impl<F: Pieces> Node for Reassembly<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        for slot in frame.slots {
            if let Err(reason) = self.fragment(ctx, *slot) {
                let edge = ctx.drop(*slot, reason);
                ctx.emit(edge, *slot);
            }
        }
        for datagrams in &mut self.datagrams {
            datagrams.next_line(ctx.now);
        }
        for (interface, fragments, for_room) in self.datagrams.iter_mut().flat_map(Datagrams::take_lost) {
            ctx.count_lost(interface, if for_room { Drop::TooMany } else { Drop::TimedOut }, fragments);
        }
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        match F::piece(packets, slot, 0) {
            Some(piece) => write!(out, "{} bytes from byte {}", piece.len, piece.offset),
            None => Ok(()),
        }
    }
}

impl<F: Pieces> Reassembly<F> {
    /// Takes a fragment: it goes on with its ports, waits, or is another worker's to know.
    fn fragment(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Result<(), Drop> {
        let (rx_if, origin) = (ctx.packets.meta(slot).rx_if, self.origins.of(ctx, slot));
        let tenants = ctx.tables.get(self.tenants);
        let (context, edge) = match tenants.engines.get(rx_if) {
            Some(side) => (side.context, Next::Returned.edge()),
            None => (tenants.place(rx_if).unwrap_or_default().context, Next::Sessions.edge()),
        };
        let piece = F::piece(ctx.packets, slot, context).ok_or(Drop::BadFragment)?;
        let owner = owner_of_fragments(&(piece.datagram, piece.from_high), ctx.workers());
        if owner != ctx.worker {
            ctx.hand_over(slot, owner, F::HANDOVER_PIECES).map_err(|_| Drop::HandoverFull)?;
            ctx.count(Counter::HandedOver, 1);
            return Ok(());
        }
        ctx.count(Counter::Fragments, 1);
        let datagrams = &mut self.datagrams[usize::from(edge == Next::Returned.edge())];
        if piece.offset == 0 {
            let (key, mark) = F::read(ctx.packets, slot, context);
            let said = (mark.kind == Kind::Flow).then(|| Ports::of(&key, mark.from_high));
            ctx.packets.meta_mut(slot).flags.set(Flags::FRAGMENT);
            ctx.emit(edge, slot);
            for packet in datagrams.first(&piece, origin, ctx.now, said) {
                let waited = packet.meta().rx_if;
                match (said, ctx.packets.adopt(&packet)) {
                    (Some(ports), Ok(slot)) => on(ctx, slot, ports, edge),
                    (None, _) => ctx.count_lost(waited, Drop::NoPorts, 1),
                    (_, Err(_)) => ctx.count_lost(waited, Drop::NoSlot, 1),
                }
            }
            return Ok(());
        }
        let packets = &*ctx.packets;
        match datagrams.later(&piece, origin, ctx.now, || packets.own(slot)) {
            Later::Known(ports) => on(ctx, slot, ports, edge),
            Later::NoPorts => return Err(Drop::NoPorts),
            Later::TooMany => return Err(Drop::TooMany),
            Later::Waits => ctx.count(Counter::Waited, 1),
        }
        Ok(())
    }
}

/// A later fragment goes on, with the ports of its datagram.
fn on(ctx: &mut Ctx<'_>, slot: SlotId, ports: Ports, edge: u8) {
    ports.put(ctx.packets.meta_mut(slot));
    ctx.emit(edge, slot);
}
