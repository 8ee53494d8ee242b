//! Cutting packets that are too big for their next hop, the same for both IP versions. What a fragment's headers are is a
//! version's own: [`Cuts`].

use super::cut::pieces;
use crate::ip::family::Family;
use crate::ip::{Lane, NextHops, has_headroom};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Meta, Offload, Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, Node, NodeContext};

graph::drops! {
    /// Why a packet can't be cut.
    pub(super) enum Drop {
        /// The MTU of the next hop has no room for headers and 8 bytes.
        MtuTooSmall => "mtu-too-small", Invalid,
        /// All packet slots of the worker are in use.
        NoSlot => "no-slot", Loss,
        /// The headers aren't whole, aren't what is cut here, or there is no room before them; or the packet is a fragment that
        /// goes beyond the longest packet there can be.
        BadPacket => "bad-packet", Invalid,
        /// The interface to leave by is down.
        InterfaceDown => "interface-down", Loss,
    }
}

graph::counters! {
    /// What is counted.
    pub(super) enum Counter {
        /// Packets that were cut.
        Fragmented => "fragmented",
        /// Fragments made of them.
        Fragments => "fragments",
    }
}

/// How packets of an IP version are cut.
pub(super) trait Cuts: Family {
    /// What is kept from one packet to the next.
    type State: Default + Send;

    /// The headers of a packet's fragments.
    type Headers;

    /// Takes a hop from the packet where it isn't our own, and finds out what its fragments' headers will be.
    fn begin(
        state: &mut Self::State,
        packets: &mut Packets,
        slot: SlotId,
        lane: &Lane<'_>,
    ) -> Result<Self::Headers, Drop>;

    /// Bytes of headers: in the packet itself, in its first fragment, in the later ones.
    fn lens(headers: &Self::Headers) -> [usize; 3];

    /// The headers of the fragment with bytes `from..to` of the payload, behind which more come or not.
    fn of_fragment(headers: &mut Self::Headers, from: usize, to: usize, more: bool) -> &[u8];

    /// Writes where the fragment begins whose headers `head` starts with.
    fn describe(head: &[u8], out: &mut dyn fmt::Write) -> fmt::Result;
}

/// One worker's instance.
pub(super) struct Fragment<F: Cuts> {
    hops: Key<NextHops>,
    arcs: Key<Arcs>,
    place: ArcPlace,
    state: F::State,
}

impl<F: Cuts> Fragment<F> {
    /// The node.
    pub(super) fn boxed(cx: &NodeContext<'_>) -> Box<dyn Node> {
        let place = cx.arc(INTERFACE_OUTPUT);
        Box::new(Self { hops: cx.table(), arcs: cx.table(), place, state: F::State::default() })
    }
}

impl<F: Cuts> Node for Fragment<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (hops, arcs) = (tables.get(self.hops), tables.get(self.arcs));
        frame.each(|slot| {
            let lane = Lane::new(hops, arcs, self.place, ctx.packets.meta(slot).next_hop);
            match self.cut(ctx, slot, &lane, hops) {
                Ok(()) => lane.edge,
                Err(reason) => ctx.drop(slot, reason),
            }
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        let head = packets.area(slot).get(meta.l3 as usize..meta.end as usize);
        F::describe(head.unwrap_or_default(), out)
    }
}

impl<F: Cuts> Fragment<F> {
    /// Cuts the packet. All fragments but the last are sent from here; `slot` becomes the last one.
    fn cut(&mut self, ctx: &mut Ctx<'_>, slot: SlotId, lane: &Lane<'_>, hops: &NextHops) -> Result<(), Drop> {
        if lane.mtu == 0 {
            return Err(Drop::InterfaceDown);
        }
        if !has_headroom(ctx.packets.meta(slot)) {
            return Err(Drop::BadPacket);
        }
        let mut headers = F::begin(&mut self.state, ctx.packets, slot, lane)?;
        let [len, first, later] = F::lens(&headers);
        let (whole, area) = (*ctx.packets.meta(slot), *ctx.packets.area(slot));
        let in_head = area.get(whole.data as usize + len..whole.end as usize).ok_or(Drop::BadPacket)?;
        let payload = in_head.len() + whole.body_len() as usize;
        let room = |headers| (lane.mtu as usize).saturating_sub(headers);
        let all = || pieces(payload, room(first), room(later)).ok_or(Drop::MtuTooSmall);
        let count = all()?.count();
        if count > ctx.packets.free() + 1 {
            return Err(Drop::NoSlot);
        }
        let mut sent = 0;
        for (from, to) in all()? {
            let last = to == payload;
            let target = if last { slot } else { ctx.packets.take(whole.rx_if).map_err(|_| Drop::NoSlot)? };
            let bytes = F::of_fragment(&mut headers, from, to, !last);
            let head = in_head.get(from..to.min(in_head.len())).unwrap_or_default();
            write_head(ctx.packets, target, &whole, bytes, head).ok_or(Drop::BadPacket)?;
            let body = (from.max(in_head.len()) - in_head.len(), (to - from) - head.len());
            ctx.packets.share_body(slot, target, body.0 as u32, body.1 as u32);
            let (meta, area) = ctx.packets.parts_mut(target);
            sent += meta.len();
            if !lane.send(meta, area) {
                return Err(Drop::BadPacket);
            }
            if !last {
                ctx.emit(lane.edge, target);
            }
        }
        hops.count(hops.tallies.of(ctx.worker), lane.id, count, sent);
        ctx.count(Counter::Fragmented, 1);
        ctx.count(Counter::Fragments, count as u64);
        Ok(())
    }
}

/// Writes a fragment's headers and the part of its payload that lies in the head, where the whole packet's header lay,
/// and what else is known of the whole packet. `None`: there is no room for them, as headers grow by one of the fragment's own.
fn write_head(
    packets: &mut Packets,
    target: SlotId,
    whole: &Meta,
    header: &[u8],
    payload: &[u8],
) -> Option<()> {
    let (meta, area) = packets.parts_mut(target);
    let start = whole.data as usize;
    let end = start + header.len() + payload.len();
    let (first, second) = area.get_mut(start..end)?.split_at_mut_checked(header.len())?;
    first.copy_from_slice(header);
    second.copy_from_slice(payload);
    (meta.data, meta.end, meta.l2, meta.l3) = (whole.data, end as u16, whole.data, whole.data);
    meta.l4 = 0;
    (meta.table, meta.next_hop, meta.flow_hash) = (whole.table, whole.next_hop, whole.flow_hash);
    (meta.flags, meta.offload, meta.trace) = (whole.flags, Offload::default(), whole.trace);
    meta.decapsulated = whole.decapsulated;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::packet::HEAD_AREA;

    #[test]
    fn a_head_that_its_headers_leave_no_room_for_is_refused() {
        let mut packets = Packets::new();
        let slot = packets.take(1).unwrap();
        let before = *packets.meta(slot);
        let room = HEAD_AREA - usize::from(before.data);
        for (headers, len, fits) in [(48, room - 48, true), (48, room - 47, false), (room + 1, 0, false)] {
            let (headers, payload) = (vec![7; headers], vec![9; len]);
            let written = write_head(&mut packets, slot, &before, &headers, &payload);
            assert_eq!(written.is_some(), fits, "{len}");
            if fits {
                assert_eq!(packets.head(slot), [headers, payload].concat());
            }
        }
        assert_eq!(usize::from(packets.meta(slot).end), HEAD_AREA, "as the last that fits has left it");
    }
}
