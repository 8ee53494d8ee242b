//! The interface that a packet originates from, as limits count it: behind a bridge's routed leg, the member.

use super::table::Bridges;
use crate::interface::{Interfaces, Layer2};
use graph::packet::{Flags, SlotId};
use graph::publish::Key;
use graph::{Ctx, IfIndex, NodeContext};
use tables::mac::MacKey;
use wire::EthernetHeader;

/// Finds the origins of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origins {
    interfaces: Key<Interfaces>,
    bridges: Key<Bridges>,
}

impl Origins {
    /// For a node of this graph.
    pub(crate) fn new(cx: &NodeContext<'_>) -> Self {
        Self { interfaces: cx.table(), bridges: cx.table() }
    }

    /// The interface that the packet in `slot` came in by. If that is the routed leg of a bridge, the member that the frame's
    /// source address was learned at: pods in one bridge have limits of their own. The leg itself where nothing was learned.
    pub(crate) fn of(&self, ctx: &Ctx<'_>, slot: SlotId) -> IfIndex {
        let meta = ctx.packets.meta(slot);
        if meta.flags.has(Flags::FROM_BVI) {
            self.member(ctx, slot).unwrap_or(meta.rx_if)
        } else {
            meta.rx_if
        }
    }

    #[cold]
    fn member(&self, ctx: &Ctx<'_>, slot: SlotId) -> Option<IfIndex> {
        let meta = ctx.packets.meta(slot);
        let Layer2::Bridge { bridge, .. } = ctx.table(self.interfaces).get(meta.rx_if).layer2 else {
            return None;
        };
        let frame = ctx.packets.header::<EthernetHeader>(slot, meta.l2)?;
        let found = ctx.table(self.bridges).macs()?.lookup(MacKey::new(bridge, frame.src.0))?;
        IfIndex::try_from(found).ok()
    }
}
