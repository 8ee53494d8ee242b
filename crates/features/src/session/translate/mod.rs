//! Sessions whose packets look otherwise on their far side: what `nat` and `balance` have in common.
//!
//! * [`Translation`]: what is replaced by what, and what that does to checksums; `address`: what differs between IP versions; `edit`,
//!   `sctp`: changing words of a packet with its checksums.
//! * [`Translations`]: a worker's, beside its sessions.
//! * [`OwnErrors`]: ICMP errors that are made here about packets that were translated before.
//!
//! The way back is a second key of the session in the same table ([`tables::session::SessionTable::add_alias`]): what is in use is what is
//! found.

mod address;
mod edit;
mod own;
mod sctp;
mod translation;

pub(super) use address::{Address, Address6, End};
pub(crate) use own::OwnErrors;
pub(super) use translation::{NOBODY, Translation, Unfit};

use super::balance::Books;
use super::entry::{Flow, Session};
use super::lifecycle::Step;
use super::nat::Pools;
use super::serving::Visit;
use super::tenants::{Tenant, Tenants};
use super::tuple::{icmp_error_at, transport_at};
use graph::packet::{HEAD_AREA, Meta};
use tables::session::{Beside, Endpoint, Handle, Key, SessionTable};
use wire::IpProtocol;

/// A worker's translations.
#[derive(Debug, Default)]
pub(super) struct Translations {
    pub(super) v4: Beside<Translation<u32>>,
    pub(super) v6: Beside<Translation<Address6>>,
    /// Pools that ports are of.
    pub(super) pools: Pools,
    /// Backends that have sessions.
    pub(super) books: Books,
}

impl Translations {
    /// Bytes of memory that they take.
    pub(super) fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes()
    }

    /// Fetches that of a packet's session, if it has one.
    #[inline(always)]
    pub(super) fn touch(&self, flow: Flow) -> u32 {
        if flow.is_v6() { self.v6.touch(flow.session()) } else { self.v4.touch(flow.session()) }
    }

    /// Near side and far one of a session, as they are seen beyond.
    pub(super) fn endpoints(&self, session: Handle) -> Option<[Endpoint; 2]> {
        let v4 = self.v4.get(session).map(Translation::endpoints);
        v4.or_else(|| self.v6.get(session).map(Translation::endpoints))
    }

    /// Pool, backend and second key of a session that is translated.
    pub(super) fn owners(&self, session: Handle) -> Option<Owners> {
        let v4 = self.v4.get(session).map(Owners::of);
        v4.or_else(|| self.v6.get(session).map(Owners::of))
    }

    /// The session's port and backend are given back, and it isn't found by its second key any more.
    #[cold]
    pub(super) fn release(&mut self, table: &mut SessionTable<Session>, session: Handle) {
        let Some(owners) = self.owners(session) else { return };
        table.remove_alias(owners.alias);
        self.pools.give(owners.pool);
        self.books.give(owners.account);
    }

    /// Whether the session may go on as it is translated, now that its tenant or who serves it has changed.
    #[cold]
    pub(super) fn holds(&self, tenants: &Tenants, tenant: &Tenant, key: &Key, session: Handle) -> bool {
        match self.owners(session) {
            Some(owners) if owners.account != NOBODY => self.books.hold(tenant, owners.account),
            Some(_) => self.v4.get(session).is_some_and(|one| super::nat::holds(tenants, tenant, key, one)),
            None => false,
        }
    }
}

/// Who has to know when a translation goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owners {
    pub(super) pool: u16,
    pub(super) account: u32,
    pub(super) alias: u32,
}

impl Owners {
    fn of<A: Address>(translation: &Translation<A>) -> Self {
        Self { pool: translation.pool, account: translation.account, alias: translation.alias }
    }
}

/// What was done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// It goes on as it is: another service translates the session, or nobody does.
    Nothing,
    /// It was translated on its way from the near side.
    Out,
    /// It was translated on its way to the near side.
    In,
    /// It is an ICMP error, and was translated with the packet that it quotes.
    Error,
}

/// Translates a packet at its session, where that has a backend or has none, as the service that asks is.
#[inline(always)]
pub(super) fn packet(visit: &mut Visit<'_>, balanced: bool) -> Result<Done, Unfit> {
    let translations = visit.translations;
    if visit.is_v6 {
        let Some(translation) = translations.v6.get(visit.handle) else { return Ok(Done::Nothing) };
        one(visit, translation, balanced)
    } else {
        let Some(translation) = translations.v4.get(visit.handle) else { return Ok(Done::Nothing) };
        one(visit, translation, balanced)
    }
}

#[inline(always)]
fn one<A: Address>(
    visit: &mut Visit<'_>,
    translation: &Translation<A>,
    balanced: bool,
) -> Result<Done, Unfit> {
    if translation.is_balanced() != balanced {
        return Ok(Done::Nothing);
    }
    let leaves = visit.from_high == translation.near_is_high;
    if let Some(at) = icmp_error_at(visit.packets, visit.slot, visit.is_v6) {
        visit.step = Step::Doubted;
        let packet = visit.packets.parts_mut(visit.slot);
        return error(translation, packet, at, visit.key, leaves).map(|()| Done::Error);
    }
    let transport = if visit.is_v6 || visit.protocol() == IpProtocol::SCTP {
        transport_at(visit.packets, visit.slot, visit.is_v6).ok_or(Unfit::Short)?
    } else {
        // Whether it is a fragment matters to SCTP alone.
        (visit.packets.meta(visit.slot).l4.into(), false)
    };
    let packet = visit.packets.parts_mut(visit.slot);
    if balanced {
        visit.translations.books.note(translation.account, leaves, packet.0.len());
    }
    translation.apply((packet.0, packet.1), transport, visit.key, leaves)?;
    Ok(if leaves { Done::Out } else { Done::In })
}

#[inline(never)]
fn error<A: Address>(
    translation: &Translation<A>,
    packet: (&mut Meta, &mut [u8; HEAD_AREA]),
    at: usize,
    key: &Key,
    leaves: bool,
) -> Result<(), Unfit> {
    translation.apply_to_error((packet.0, packet.1), at, key, leaves, false)
}
