//! How a session is given a backend.

use super::super::acl;
use super::super::direct_return;
use super::super::entry::{Direction, Marks};
use super::super::events::What;
use super::super::kept::Kept;
use super::super::nat::Ports;
use super::super::sessions::Sessions;
use super::super::tenants::Tenants;
use super::super::translate::{Address, Address6, NOBODY, Translation};
use super::vips::{Asker, Backend, SourceNat, Vip};
use core::ops::RangeInclusive;
use tables::session::{Beside, Endpoint, Handle, Key};

/// Ports that clients are seen with, where they aren't seen with their own address.
const PORTS: RangeInclusive<u16> = 1024..=u16::MAX;
/// Ports that are tried.
const TRIES: usize = 512;
/// Ports that are looked at for one whose answers come to this worker.
const LOOKS: usize = 1 << 14;

/// Why a session has no backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The VIP isn't there for the client.
    Source,
    /// There is none that takes sessions.
    NoBackend,
    /// Answers wouldn't be told from another session's, or come to another worker.
    InUse,
}

/// A session that is to be given a backend.
struct Candidate {
    key: Key,
    client_is_high: bool,
    client: Endpoint,
}

impl Sessions {
    /// Gives a session whose responder is a VIP one of its backends.
    ///
    /// Its second key is that of the answers. It is this worker's without more ado: both say the same of [who the client is](super::Vips::client). Where
    /// they don't, or another session has it, the client is seen with an address of
    /// Quiver's and another port.
    #[cold]
    pub(super) fn balance(
        &mut self,
        tenants: &Tenants,
        worker: u32,
        index: u32,
        (vip, of): (&Vip, Key),
        now: u32,
    ) -> Result<(), Refused> {
        let Some((handle, key, session)) = self.table.visit(index) else { return Ok(()) };
        let (key, client_is_high) = (key, session.initiator_is_high());
        let (low, high) = key.endpoints();
        let client = if client_is_high { high } else { low };
        if !vip.admits(client.0) {
            return Err(Refused::Source);
        }
        let asker = Asker { context: key.context(), protocol: key.protocol(), endpoint: client, of, now };
        let backend = *tenants.vips.choose(vip, &asker).ok_or(Refused::NoBackend)?;
        let it = Candidate { key, client_is_high, client };
        let (alias, beyond) = if vip.direct {
            // Answers that come here all the same have the VIP's address, and find the session by its own key.
            (NOBODY, [client, backend.endpoint])
        } else {
            self.way_back(tenants, worker, (handle, &it), &backend, vip).ok_or(Refused::InUse)?
        };
        let translations = &mut self.translations;
        tenants.vips.open(&mut translations.books, worker);
        let account = backend.account;
        let noted = if key.is_v4() {
            note(&mut translations.v4, (handle, &it), beyond, account, alias, vip.direct)
        } else {
            note::<Address6>(&mut translations.v6, (handle, &it), beyond, account, alias, vip.direct)
        };
        if noted.is_none() {
            self.table.remove_alias(alias);
            return Err(Refused::InUse);
        }
        translations.books.take(account);
        if let Some(session) = self.table.get_mut(index) {
            session.marks.put(Marks::TRANSLATED, true);
        }
        if vip.direct {
            self.directed(tenants, handle, true);
        }
        self.tell(index, What::Translated);
        Ok(())
    }

    /// Gives a session the backend that it had, and has the client be seen by it as before.
    #[cold]
    pub(in super::super) fn bind_again(
        &mut self,
        tenants: &Tenants,
        worker: u32,
        index: u32,
        kept: &Kept,
    ) -> Option<()> {
        let (handle, key, session) = self.table.visit(index)?;
        let (key, client_is_high) = (key, session.initiator_is_high());
        let tenant = tenants.get(session.tenant)?;
        tenants.vips.open(&mut self.translations.books, worker);
        if !self.translations.books.hold(tenant, kept.account) {
            return None;
        }
        let alias = if kept.direct {
            NOBODY
        } else {
            let [client, backend] = kept.beyond;
            let (alias, seen_is_high) = Key::of(key.context(), key.protocol(), client, backend)?;
            if tenants.workers > 1 && tenants.owner(&alias) != worker {
                return None;
            }
            self.table.add_alias(handle, alias, seen_is_high != client_is_high).ok()?
        };
        let it = Candidate { key, client_is_high, client: kept.endpoints[0] };
        let translations = &mut self.translations;
        let noted = if key.is_v4() {
            note(&mut translations.v4, (handle, &it), kept.beyond, kept.account, alias, kept.direct)
        } else {
            note::<Address6>(
                &mut translations.v6,
                (handle, &it),
                kept.beyond,
                kept.account,
                alias,
                kept.direct,
            )
        };
        if noted.is_none() {
            self.table.remove_alias(alias);
            return None;
        }
        translations.books.take(kept.account);
        if let Some(session) = self.table.get_mut(index) {
            session.marks.put(Marks::TRANSLATED, true);
        }
        if kept.direct {
            self.directed(tenants, handle, true);
        }
        self.tell(index, What::Translated);
        Some(())
    }

    /// The session's backend takes no more, and hasn't answered: by a packet of `bytes`, the session is to be given another, about which nobody was asked yet. For whoever looks on it is another session:
    /// what was sent to the one isn't counted as sent to the other, and who was seen how has an end.
    #[cold]
    pub(super) fn forsake(&mut self, tenants: &Tenants, index: u32, bytes: u32, tick: u64) {
        self.now_is(tick);
        self.tell_forsaken(index, bytes);
        self.count_anew(index, (Direction::Forward, bytes), tick);
        let Some((handle, _, session)) = self.table.visit(index) else { return };
        session.marks.put(Marks::TRANSLATED, false);
        if let Some(tenant) = tenants.get(session.tenant) {
            acl::ask_again(session, handle, tenant, &mut self.acl);
        }
        self.directed(tenants, handle, false);
        self.translations.release(&mut self.table, handle);
        self.tell_anew(index);
    }

    /// From now on the session's answers go past us, or don't any more: other services follow it.
    fn directed(&mut self, tenants: &Tenants, handle: Handle, direct: bool) {
        let Some(session) = self.table.get_mut(handle.index) else { return };
        session.chain = match tenants.get(session.tenant) {
            Some(tenant) if direct => direct_return::on(session.chain, tenant),
            _ => direct_return::off(session.chain),
        };
        if self.tcp.get(handle).is_some()
            && let Some((track, _)) = self.tcp.get_mut(handle)
        {
            track.answers_elsewhere(direct);
        }
    }

    /// A key for the answers, by which the session is found from now on: its number, and how client and backend are seen there.
    fn way_back(
        &mut self,
        tenants: &Tenants,
        worker: u32,
        (handle, it): (Handle, &Candidate),
        backend: &Backend,
        vip: &Vip,
    ) -> Option<(u32, [Endpoint; 2])> {
        // Nobody can foresee where the search begins (RFC 6056).
        let start = self.table.hash(&it.key).rotate_left(16);
        it.way_back(tenants, worker, start, (vip, backend), |alias, turned| {
            self.table.add_alias(handle, alias, turned).ok()
        })
    }

    /// How a session that began now would be seen: client and backend, and whether the client had that backend before.
    ///
    /// # Errors
    /// [`Refused`] as [`Sessions::balance`].
    pub(super) fn would_balance(
        &self,
        tenants: &Tenants,
        worker: u32,
        (key, client_is_high): (Key, bool),
        (vip, of): (&Vip, Key),
        now: u32,
    ) -> Result<([Endpoint; 2], bool), Refused> {
        let (low, high) = key.endpoints();
        let client = if client_is_high { high } else { low };
        if !vip.admits(client.0) {
            return Err(Refused::Source);
        }
        let asker = Asker { context: key.context(), protocol: key.protocol(), endpoint: client, of, now };
        let (backend, kept) = tenants.vips.would_choose(vip, &asker).ok_or(Refused::NoBackend)?;
        if vip.direct {
            return Ok(([client, backend.endpoint], kept));
        }
        let it = Candidate { key, client_is_high, client };
        let start = self.table.hash(&key).rotate_left(16);
        let free = |alias: Key, _| self.table.find(&alias, self.table.hash(&alias)).is_none().then_some(());
        let (_, seen) = it.way_back(tenants, worker, start, (vip, backend), free).ok_or(Refused::InUse)?;
        Ok((seen, kept))
    }
}

impl Candidate {
    /// How client and backend are seen beyond: the first way whose key is this worker's and that `take` gives. `take` is told the key and whether its endpoints are
    /// turned.
    fn way_back<T>(
        &self,
        tenants: &Tenants,
        worker: u32,
        start: u32,
        (vip, backend): (&Vip, &Backend),
        mut take: impl FnMut(Key, bool) -> Option<T>,
    ) -> Option<(T, [Endpoint; 2])> {
        let itself = self.client.0 == backend.endpoint.0;
        let (own, other) = match vip.source_nat(backend, self.client.0) {
            SourceNat::Always => (false, true),
            SourceNat::Never => (true, false),
            SourceNat::Hairpin => (!itself, true),
        };
        let own = own.then_some(self.client);
        let others = Ports::new(&PORTS, self.client.1, start).take(LOOKS).filter(|_| other);
        let seen = own.into_iter().chain(others.map(|port| (vip.source, port)));
        let mut tries = 0;
        for seen in seen {
            let (alias, seen_is_high) =
                Key::of(self.key.context(), self.key.protocol(), seen, backend.endpoint)?;
            if tenants.workers > 1 && tenants.owner(&alias) != worker {
                continue;
            }
            if let Some(taken) = take(alias, seen_is_high != self.client_is_high) {
                return Some((taken, [seen, backend.endpoint]));
            }
            tries += 1;
            if tries == TRIES {
                break;
            }
        }
        None
    }
}

/// Notes how a session is seen by its backend.
fn note<A: Address>(
    known: &mut Beside<Translation<A>>,
    (handle, it): (Handle, &Candidate),
    beyond: [Endpoint; 2],
    account: u32,
    alias: u32,
    direct: bool,
) -> Option<()> {
    let [client, backend] = beyond.map(|(address, port)| Some((A::of(address)?, port)));
    let (translation, _) = known.get_mut(handle)?;
    *translation = Translation::new(&it.key, it.client_is_high, [client?, backend?]);
    (translation.account, translation.alias, translation.direct) = (account, alias, direct);
    Some(())
}
