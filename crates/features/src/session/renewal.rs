//! What becomes of sessions when something has changed since they were looked at: tenants, rules, VIPs, pools.
//!
//! | decided of a session | holds until |
//! |---|---|
//! | by a service that [is asked again](super::services::Service::asked_again): what rules, VIPs and pools say of it | anything changes |
//! | by any other: that it leaves the session, puts another one on its chains, has its packets dropped; an engine's judgment | its tenant does ([`Tenant::policy`]) |

use super::direct_return;
use super::entry::{Marks, Room, Session};
use super::services::Chain;
use super::session_stats;
use super::sessions::Sessions;
use super::tcp_check::{self, Track};
use super::tenants::{Tenant, Tenants};
use super::translate::Translations;
use tables::session::Handle;

/// Whether the session's packets go to their backend as they are, so that answers aren't seen.
fn is_direct(session: &Session, handle: Handle, translations: &Translations) -> bool {
    session.is_translated() && translations.direct(handle).is_some()
}

/// Both chains of a session about which no service has decided anything but how it is translated.
#[cold]
pub(super) fn whole(
    tenant: &Tenant,
    session: &Session,
    handle: Handle,
    translations: &Translations,
) -> [Chain; 2] {
    if is_direct(session, handle, translations) {
        direct_return::on(tenant.chain, tenant)
    } else {
        tenant.chain
    }
}

/// Whether `session-stats` is on those chains.
#[cold]
fn is_noted(chains: [Chain; 2]) -> bool {
    let number = super::order().number(session_stats::SERVICE.node.name);
    number.is_some_and(|it| chains.iter().any(|chain| chain.block().is_none() && chain.has(it)))
}

impl Sessions {
    /// A session has its chain of other tenants than there are now: it takes over theirs, [but for what holds](Self::chains_now). Where its packets haven't passed
    /// `tcp-check` and do from now on, nothing is known of its connection any more; likewise of `session-stats`, or where they don't pass it from now on.
    /// `None` where its tenant is gone, doesn't translate any more as its packets are translated, or isn't that any more whose sessions begin where it began.
    #[cold]
    pub(super) fn renew(&mut self, tenants: &Tenants, index: u32) -> Option<()> {
        if !self.outlives(tenants, index) {
            return None;
        }
        let (handle, _, session) = self.table.visit(index)?;
        let (before, tenant) = (*session, tenants.get(session.tenant)?);
        let chain = self.chains_now(tenants, tenant, (&before, handle));
        if !tenants.holds_since(tenant, before.epoch) {
            self.decided.reset(handle);
        }
        let session = self.table.get_mut(index)?;
        session.epoch = tenants.generation as u16;
        if chain[0].block().is_some() {
            return Some(());
        }
        if let Some(check) = super::order().number(tcp_check::SERVICE.node.name)
            && !session.is_blocked()
            && !session.chain[0].has(check)
            && chain[0].has(check)
        {
            session.marks.put(Marks::UNCHECKED, true);
            let direct = is_direct(session, handle, &self.translations);
            if (direct || self.tcp.get(handle).is_some())
                && let Some((track, _)) = self.tcp.get_mut(handle)
            {
                *track = Track::default();
                track.answers_elsewhere(direct);
            }
        }
        session.marks.put(Marks::YIELDS, false);
        session.marks.put(Marks::YIELDS_TO_SYN, false);
        // What it hasn't seen all along says nothing of what comes now.
        if !(is_noted(session.chain) && is_noted(chain)) {
            self.stats.reset(handle);
        }
        session.chain = chain;
        if session.marks.list() == Some(Room::Blocked) {
            self.unlink(index);
            self.link(index);
        }
        self.count_source(tenants, index);
        Some(())
    }

    /// Both chains of a session as its next packet finds them: its tenant's, without the services that have left it and with those that were put there, or none as
    /// its packets are dropped, where that holds.
    pub(super) fn chains_now(
        &self,
        tenants: &Tenants,
        tenant: &Tenant,
        (session, handle): (&Session, Handle),
    ) -> [Chain; 2] {
        if session.epoch == tenants.generation as u16 {
            return session.chain;
        }
        let whole = whole(tenant, session, handle, &self.translations);
        if !tenants.holds_since(tenant, session.epoch) {
            return whole;
        }
        let decided = self.decided.get(handle).copied().unwrap_or_default();
        if decided.block().is_some() {
            return if session.is_blocked() { session.chain } else { whole };
        }
        let all = whole.map(|chain| chain.with_all(decided));
        // A service that leaves a session leaves both of its chains; one that rules have closed doesn't say any more which have.
        let left = all.iter().zip(session.chain).filter(|(_, chain)| chain.block().is_none());
        let left = left.fold(Chain::default(), |left, (all, chain)| left.with_all(all.without_all(chain)));
        let left = left.without_all(super::order().asked_again(tenant.scope));
        all.map(|chain| chain.without_all(left))
    }

    /// Whether a session whose tenants have changed goes on: whether [`Sessions::renew`] would have it.
    pub(super) fn outlives(&self, tenants: &Tenants, index: u32) -> bool {
        let (Some(handle), Some(key), Some(session)) =
            (self.table.handle(index), self.table.key(index), self.table.get(index))
        else {
            return false;
        };
        let Some(tenant) = tenants.get(session.tenant) else { return false };
        let is_anothers = self.begun.get(handle).is_some_and(|at| tenants.is_anothers(*at, session.tenant));
        let translated = session.marks.has(Marks::TRANSLATED);
        let found = key.parsed_by().is_none_or(|(parser, _)| parser == tenant.parser);
        !is_anothers && found && (!translated || self.translations.holds(tenants, tenant, &key, handle))
    }
}
