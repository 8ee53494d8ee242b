//! A worker's translations, beside its sessions.

use super::super::balance::Books;
use super::super::entry::{Flow, Session};
use super::super::nat::{self, Binding, Pools};
use super::super::serving::Ahead;
use super::super::tenants::{Tenant, Tenants};
use super::{Address, Address6, End, NOBODY, Translation};
use core::net::IpAddr;
use graph::prefetch_read;
use tables::session::{Beside, Endpoint, Handle, Key, SessionTable};

/// A worker's translations.
#[derive(Debug, Default)]
pub(in super::super) struct Translations {
    pub(in super::super) v4: Beside<Translation<u32>>,
    pub(in super::super) v6: Beside<Translation<Address6>>,
    /// Pools that ports are of.
    pub(in super::super) pools: Pools,
    /// Backends that have sessions.
    pub(in super::super) books: Books,
}

impl Translations {
    /// Bytes of memory that they take.
    pub(in super::super) fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes()
    }

    /// Has that of a packet's session fetched, if it has one, and then the figures of its backend.
    #[inline(always)]
    pub(in super::super) fn fetch(&self, flow: Flow, ahead: Ahead) {
        let session = flow.session();
        match (ahead, flow.is_v6()) {
            (Ahead::First, true) => self.v6.soon(session, prefetch_read),
            (Ahead::First, false) => self.v4.soon(session, prefetch_read),
            (Ahead::Then, true) => self.fetch_figures(self.v6.peek(session)),
            (Ahead::Then, false) => self.fetch_figures(self.v4.peek(session)),
        }
    }

    #[inline(always)]
    fn fetch_figures<A: Address>(&self, translation: Option<&Translation<A>>) {
        if let Some(translation) = translation.filter(|translation| translation.is_balanced()) {
            self.books.soon(translation.account, prefetch_read);
        }
    }

    /// Near side and far one of a session, as they are seen beyond.
    pub(in super::super) fn endpoints(&self, session: Handle) -> Option<[Endpoint; 2]> {
        let v4 = self.v4.get(session).map(Translation::endpoints);
        v4.or_else(|| self.v6.get(session).map(Translation::endpoints))
    }

    /// Whether the near side is the higher endpoint of the session's key.
    pub(in super::super) fn near_is_high(&self, session: Handle) -> Option<bool> {
        let v4 = self.v4.get(session).map(|one| one.near_is_high);
        v4.or_else(|| self.v6.get(session).map(|one| one.near_is_high))
    }

    /// The backend's address of a session whose packets go there as they are, and whether the near side is the higher endpoint of the session's key.
    pub(in super::super) fn direct(&self, session: Handle) -> Option<(IpAddr, bool)> {
        fn of<A: Address>(one: &Translation<A>) -> Option<(IpAddr, bool)> {
            one.direct.then(|| (one.endpoints()[1].0, one.near_is_high))
        }
        match self.v4.get(session) {
            Some(v4) => of(v4),
            None => self.v6.get(session).and_then(of),
        }
    }

    /// Pool, backend and second key of a session that is translated.
    pub(in super::super) fn owners(&self, session: Handle) -> Option<Owners> {
        let v4 = self.v4.get(session).map(Owners::of);
        v4.or_else(|| self.v6.get(session).map(Owners::of))
    }

    /// Whether new sessions may begin with the session's backend; also where it has none.
    #[cold]
    pub(in super::super) fn takes(&self, session: Handle) -> bool {
        self.owners(session).is_none_or(|owners| owners.account == NOBODY || self.books.takes(owners.account))
    }

    /// The session's port and backend are given back, and it isn't found by its second key any more. How it is seen is still known.
    #[cold]
    pub(in super::super) fn release(
        &mut self,
        table: &mut SessionTable<Session>,
        session: Handle,
    ) -> Binding {
        let Some(owners) = self.owners(session) else { return Binding::default() };
        table.remove_alias(owners.alias);
        self.books.give(owners.account);
        let known = &self.v4;
        self.pools.give(owners.pool, || near_as_seen(table, known, session))
    }

    /// What is said of the port that the session has of a pool.
    #[cold]
    pub(in super::super) fn binding(&self, table: &SessionTable<Session>, session: Handle) -> Binding {
        let owners = self.owners(session);
        owners
            .map(|owners| self.pools.binding(owners.pool, || near_as_seen(table, &self.v4, session)))
            .unwrap_or_default()
    }

    /// Whether the session may go on as it is translated, now that its tenant or who serves it has changed.
    #[cold]
    pub(in super::super) fn holds(
        &self,
        tenants: &Tenants,
        tenant: &Tenant,
        key: &Key,
        session: Handle,
    ) -> bool {
        match self.owners(session) {
            Some(owners) if owners.account != NOBODY => self.books.hold(tenant, owners.account),
            Some(_) if key.is_v4() => {
                self.v4.get(session).is_some_and(|one| nat::holds(tenants, tenant, key, one))
            }
            Some(_) => {
                let exchanged = self.v6.get(session);
                exchanged
                    .is_some_and(|one| nat::holds_exchanged(tenant, key, one.near_is_high, one.endpoints()))
            }
            None => false,
        }
    }
}

/// The near side of a session of IPv4, and how it is seen beyond.
fn near_as_seen(
    table: &SessionTable<Session>,
    known: &Beside<Translation<u32>>,
    session: Handle,
) -> Option<(u32, End<u32>)> {
    let one = known.get(session)?;
    let (low, high) = table.key(session.index)?.v4_endpoints();
    Some((if one.near_is_high { high.0 } else { low.0 }, one.beyond()[0]))
}

/// Who has to know when a translation goes.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Owners {
    pub(in super::super) pool: u16,
    pub(in super::super) account: u32,
    pub(in super::super) alias: u32,
}

impl Owners {
    fn of<A: Address>(translation: &Translation<A>) -> Self {
        Self { pool: translation.pool, account: translation.account, alias: translation.alias }
    }
}
