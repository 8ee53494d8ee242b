//! What the nodes of local delivery share.

use graph::NodeContext;
use graph::packet::{Flags, OwnedPacket, Packets, SlotId};

/// A node's children by their 8-bit key (IP protocol, ICMP type): the edge to each, 0 where there is none.
pub(crate) fn edges(cx: &NodeContext<'_>) -> [u8; 256] {
    let mut edges = [0; 256];
    for (key, edge) in cx.children() {
        if let Some(place) = edges.get_mut(*key as usize) {
            *place = *edge;
        }
    }
    edges
}

/// A packet of these bytes, from the IP header on, that came in as `like` did; its transport header is `l4` bytes from
/// its start. `None` where no slot is free.
pub(super) fn adopt(packets: &mut Packets, like: SlotId, bytes: Vec<u8>, l4: u16) -> Option<SlotId> {
    let like = *packets.meta(like);
    let slot = packets.adopt(&OwnedPacket::new(like.rx_if, bytes)).ok()?;
    let meta = packets.meta_mut(slot);
    let private = meta.flags.has(Flags::PRIVATE_BODY);
    (meta.l2, meta.l3, meta.l4) = (meta.data, meta.data, meta.data + l4);
    (meta.table, meta.flags, meta.trace) = (like.table, like.flags, like.trace);
    meta.flags.clear(Flags::PRIVATE_BODY);
    if private {
        meta.flags.set(Flags::PRIVATE_BODY);
    }
    Some(slot)
}
