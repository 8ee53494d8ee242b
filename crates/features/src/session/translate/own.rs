//! ICMP errors that are made here about packets that were translated before: too large for the next link, time used up.

use super::super::entry::Marks;
use super::super::sessions::Sessions;
use super::super::tenants::Tenants;
use super::super::tuple::{Kind, Tuple};
use super::{Address, Translation};
use crate::ip::family::{V4, V6};
use graph::locals::LocalKey;
use graph::packet::{Packets, SlotId};
use graph::publish::Key as Part;
use graph::{Ctx, NodeContext};
use tables::session::{Key, NONE};

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

    /// An error is to be sent about an IPv4 packet that a session of this worker may have had translated: whom it is for knows only what he
    /// has sent.
    pub(crate) fn translate4(&self, ctx: &mut Ctx<'_>, slot: SlotId) {
        self.translate::<V4>(ctx, slot);
    }

    /// Likewise, about an IPv6 packet.
    pub(crate) fn translate6(&self, ctx: &mut Ctx<'_>, slot: SlotId) {
        self.translate::<V6>(ctx, slot);
    }

    fn translate<F: Tuple>(&self, ctx: &mut Ctx<'_>, slot: SlotId) {
        let (tenants, interface) = (ctx.tables.get(self.tenants), ctx.packets.meta(slot).rx_if);
        // What an engine has sent back was a tenant's before.
        let of_engine = || tenants.engines.get(interface).map(|side| side.context);
        let Some(context) = tenants.place(interface).map(|place| place.context).or_else(of_engine) else {
            return;
        };
        let sessions = ctx.locals.get(self.sessions);
        let (key, mark) = F::read(ctx.packets, slot, context);
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
        let from_high = mark.from_high != turned;
        if F::IS_V6 {
            if let Some(translation) = sessions.translations.v6.get(handle) {
                apply(translation, ctx.packets, slot, &own, from_high);
            }
        } else if let Some(translation) = sessions.translations.v4.get(handle) {
            apply(translation, ctx.packets, slot, &own, from_high);
        }
    }
}

fn apply<A: Address>(
    translation: &Translation<A>,
    packets: &mut Packets,
    slot: SlotId,
    key: &Key,
    from_high: bool,
) {
    if translation.direct {
        // The packet left as it came.
        return;
    }
    let (meta, area) = packets.parts_mut(slot);
    let leaves = from_high == translation.near_is_high;
    // Where it doesn't fit, it is an error about something else. What is made here has its message right behind the header.
    let _ = translation.apply_to_error((meta, area), meta.l4.into(), key, leaves, true);
}
