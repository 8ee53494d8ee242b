//! Packets as their session's own key has them, for who is to see both directions with the same addresses: as the session's initiator knows them.
//!
//! `balance` has translated what leaves before anybody else sees it, and `nat` translates behind all others. So on the way there, what leaves by `balance` is undone and what
//! comes in by `nat` is done already; on the way back, what leaves by `balance` is done again, and what came in by `nat` is done.

use super::super::tuple::transport_at;
use super::translation::{Translation, Unfit};
use super::{Address, Translations};
use graph::packet::{Packets, SlotId};
use tables::session::{Handle, Key};

/// What has to be done to have a packet look otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Apply { leaves: bool },
    Undo,
}

/// A packet of a session that is translated, and the side that it came from.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sided<'a> {
    pub(in super::super) session: Handle,
    pub(in super::super) key: &'a Key,
    pub(in super::super) from_high: bool,
}

impl Translations {
    /// Has the packet look as its session's own key has it, when all services before `nat` have seen it.
    pub(in super::super) fn take_back(
        &self,
        packets: &mut Packets,
        slot: SlotId,
        of: Sided<'_>,
    ) -> Result<(), Unfit> {
        self.change(packets, slot, of, |leaves, balanced| match (leaves, balanced) {
            (true, true) => Some(Change::Undo),
            (false, false) => Some(Change::Apply { leaves }),
            _ => None,
        })
    }

    /// Has one that looks so look again as those services have left it.
    pub(in super::super) fn do_again(
        &self,
        packets: &mut Packets,
        slot: SlotId,
        of: Sided<'_>,
    ) -> Result<(), Unfit> {
        let again = |leaves, balanced| (leaves && balanced).then_some(Change::Apply { leaves });
        self.change(packets, slot, of, again)
    }

    /// Whether [`Translations::take_back`] has done already what `nat` would do.
    pub(in super::super) fn is_done(&self, session: Handle, from_high: bool) -> bool {
        let done = |balanced: bool, near_is_high: bool| !balanced && from_high != near_is_high;
        match (self.v4.get(session), self.v6.get(session)) {
            (Some(one), _) => done(one.is_balanced(), one.near_is_high),
            (None, Some(one)) => done(one.is_balanced(), one.near_is_high),
            (None, None) => false,
        }
    }

    fn change(
        &self,
        packets: &mut Packets,
        slot: SlotId,
        of: Sided<'_>,
        which: impl Fn(bool, bool) -> Option<Change>,
    ) -> Result<(), Unfit> {
        match (self.v4.get(of.session), self.v6.get(of.session)) {
            (Some(one), _) => change(one, packets, slot, of, which),
            (None, Some(one)) => change(one, packets, slot, of, which),
            (None, None) => Ok(()),
        }
    }
}

fn change<A: Address>(
    translation: &Translation<A>,
    packets: &mut Packets,
    slot: SlotId,
    of: Sided<'_>,
    which: impl Fn(bool, bool) -> Option<Change>,
) -> Result<(), Unfit> {
    let leaves = of.from_high == translation.near_is_high;
    let Some(change) = which(leaves, translation.is_balanced()).filter(|_| !translation.direct) else {
        return Ok(());
    };
    let transport = transport_at(packets, slot, !of.key.is_v4());
    let (meta, area) = packets.parts_mut(slot);
    let packet = (&*meta, area);
    match (change, transport) {
        (Change::Apply { leaves }, Some(at)) => translation.apply::<false>(packet, at, of.key, leaves),
        (Change::Undo, Some(at)) => translation.apply::<true>(packet, at, of.key, true),
        (Change::Apply { leaves }, None) => translation.apply_to_later::<false>(packet, of.key, leaves),
        (Change::Undo, None) => translation.apply_to_later::<true>(packet, of.key, true),
    }
}
