//! ICMP errors that are made here about packets that were translated before: too large for the next link, time used up.

use super::super::entry::Marks;
use super::super::sessions::Sessions;
use super::super::tenants::Tenants;
use super::super::tuple::{Kind, Tuple};
use crate::ip::family::V4;
use graph::locals::LocalKey;
use graph::packet::SlotId;
use graph::publish::Key as Part;
use graph::{Ctx, NodeContext};
use tables::session::NONE;

/// For a node that makes such errors.
pub(crate) struct OwnErrors {
    tenants: Part<Tenants>,
    sessions: LocalKey<Sessions>,
}

impl OwnErrors {
    /// Of that node.
    pub(crate) fn new(cx: &NodeContext<'_>) -> Self {
        Self { tenants: cx.table(), sessions: cx.local() }
    }

    /// An error is to be sent about a packet that a session of this worker may have had translated: whom it is for knows only what he has sent.
    pub(crate) fn translate(&self, ctx: &mut Ctx<'_>, slot: SlotId) {
        let Some(place) = ctx.tables.get(self.tenants).place(ctx.packets.meta(slot).rx_if) else { return };
        let sessions = ctx.locals.get(self.sessions);
        let (key, mark) = V4::read(ctx.packets, slot, place.context);
        if mark.kind != Kind::Error {
            return;
        }
        let hash = sessions.table.hash(&key);
        let found = sessions.table.find(&key, hash).unwrap_or(NONE);
        let (found, turned) = sessions.table.aliased(found).unwrap_or((found, false));
        let Some((handle, own, session)) = sessions.table.visit(found) else { return };
        if !session.marks.has(Marks::TRANSLATED) {
            return;
        }
        if let Some(translation) = sessions.nat.get(handle) {
            let leaves = (mark.from_high != turned) == translation.inside_is_high;
            let (meta, area) = ctx.packets.parts_mut(slot);
            // Where it doesn't fit, it is an error about something else.
            let _ = translation.apply_to_error((meta, area), own, leaves, true);
        }
    }
}
