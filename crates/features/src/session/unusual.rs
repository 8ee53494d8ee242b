//! What becomes of packets that aren't simply one of their session's.

use super::entry::Flow;
use super::fragments::Pieces;
use super::input::{Counter, Drop, PASS, Rare, Verdict, identify};
use super::link::Link;
use super::room::Evicted;
use super::services::Chain;
use super::sessions::{NoRoom, Sessions};
use super::slow_path::{Case, SlowAction};
use super::tenants::{Place, Tenants};
use super::tuple::{Kind, Mark, begins_connection, tcp_flags};
use super::{acl, classes};
use core::marker::PhantomData;
use core::slice;
use graph::packet::{Flags, Packets, SlotId};
use graph::publish::Tables;
use graph::{IfIndex, prefetch_read};
use tables::session::{Key, Look, NONE, is_alias};
use wire::IpProtocol;

/// A worker's sessions as the packets of a vector meet them.
pub(super) struct There<'a, F> {
    pub(super) tenants: &'a Tenants,
    pub(super) sessions: &'a mut Sessions,
    pub(super) now: u64,
    pub(super) tick: u64,
    pub(super) worker: u32,
    pub(super) link: Link,
    pub(super) tables: &'a Tables,
    pub(super) family: PhantomData<F>,
    pub(super) counts: [u64; Counter::SPECS.len()],
    pub(super) evicted: Evicted,
}

/// What becomes of a packet, its session and the version of that.
pub(super) type Passage = (Verdict, Flow, u16);

impl<F: Pieces> There<'_, F> {
    /// Takes a packet of session `index` into account, and says what it passes. `None` where that isn't the packet's, or the
    /// session's tenant is gone.
    #[inline(always)]
    pub(super) fn of_session(
        &mut self,
        index: u32,
        look: &Look<Mark>,
        bytes: u32,
    ) -> Option<(Chain, Flow, u16)> {
        let from_high = look.mark.from_high;
        let (chain, version) = self.sessions.packet(
            self.tenants,
            (index, &look.key, F::IS_V6),
            (from_high, bytes),
            self.tick,
        )?;
        Some((chain, Flow::new(index, F::IS_V6, from_high), version))
    }

    /// The same of a packet whose key a parser has given: it has all words, also of packets of IPv4.
    #[inline(never)]
    pub(super) fn of_parsed(&mut self, look: &Look<Mark>, bytes: u32) -> Option<(Chain, Flow, u16)> {
        let from_high = look.mark.from_high;
        let found = (look.session, &look.key, true);
        let (chain, version) = self.sessions.packet(self.tenants, found, (from_high, bytes), self.tick)?;
        Some((chain, Flow::new(look.session, F::IS_V6, from_high), version))
    }

    /// A packet that isn't simply one of its session's: the first of a flow, or one of none.
    #[inline(never)]
    pub(super) fn unusual(&mut self, packets: &Packets, slot: SlotId, look: &Look<Mark>) -> Passage {
        let meta = packets.meta(slot);
        let (interface, bytes) = (meta.rx_if, meta.len());
        let place = self.tenants.place(interface).unwrap_or_default();
        let mut found = *look;
        found.session = self.sessions.table.find(&look.key, look.hash).unwrap_or(NONE);
        if found.session == NONE && look.session != NONE {
            // A packet before this one in the vector may have ended the session that it was one of, and whose own key it has since.
            (found.key, found.mark) = identify::<F>(packets, slot, place);
            found.hash = self.sessions.table.hash(&found.key);
            found.session = self.sessions.table.find(&found.key, found.hash).unwrap_or(NONE);
        }
        if is_alias(found.session) {
            self.sessions.table.by_own_keys(slice::from_mut(&mut found), prefetch_read, Mark::turn);
        }
        let (look, mark) = (&found, found.mark);
        let found = if is_alias(look.session) { NONE } else { look.session };
        if found == NONE
            && matches!(mark.kind, Kind::Flow | Kind::Parsed | Kind::First | Kind::Later | Kind::Error)
            && let Some(owner) = self.elsewhere(&look.key)
        {
            return (Verdict::Rare(Rare::HandOver(owner)), Flow::NONE, 0);
        }
        let (case, counter, reason) = match mark.kind {
            Kind::Link if self.link.ends_here(self.tables, packets, slot) => return (PASS, Flow::NONE, 0),
            Kind::Error if found != NONE => {
                if let Some(tenant) = self.session_drops(found, Case::RelatedErrors) {
                    return (Verdict::Rare(Rare::Drop(Drop::RelatedError, tenant)), Flow::NONE, 0);
                }
                if meta.flags.has(Flags::FRAGMENT)
                    && let Some(tenant) = self.session_drops(found, Case::Fragments)
                {
                    return (Verdict::Rare(Rare::Drop(Drop::Fragment, tenant)), Flow::NONE, 0);
                }
                self.counts[Counter::RelatedErrors as usize] += 1;
                return match self.sessions.related(self.tenants, found, mark.from_high, bytes) {
                    Some((chain, version)) => {
                        (Verdict::Pass(chain), Flow::new(found, F::IS_V6, mark.from_high), version)
                    }
                    None => {
                        let tenant = self.sessions.table.get(found).map_or(0, |session| session.tenant);
                        (Verdict::Rare(Rare::Drop(Drop::UndecidedError, tenant)), Flow::NONE, 0)
                    }
                };
            }
            Kind::Flow | Kind::Parsed | Kind::First | Kind::Later => {
                if matches!(mark.kind, Kind::First | Kind::Later)
                    && let Some(tenant) = self.session_drops(found, Case::Fragments)
                {
                    return (Verdict::Rare(Rare::Drop(Drop::Fragment, tenant)), Flow::NONE, 0);
                }
                if let Some((chain, flow, version)) = self.of_session(found, look, bytes) {
                    return (Verdict::Pass(chain), flow, version);
                }
                let mut look = *look;
                if found != NONE {
                    let is_tcp = look.key.protocol() == IpProtocol::TCP.0;
                    let is_syn = is_tcp && begins_connection(tcp_flags(packets, slot, F::IS_V6));
                    let begins = self.tenants.get(place.tenant).is_some();
                    let packet = (mark.from_high, bytes);
                    if let Some((chain, version)) =
                        self.sessions.stays(self.tenants, found, packet, (begins, is_syn))
                    {
                        return (Verdict::Pass(chain), Flow::new(found, F::IS_V6, mark.from_high), version);
                    }
                    // Of a tenant that is gone, or denied, and this one begins it anew. It may have been found by another key.
                    let end = self.sessions.why_not(self.tenants, found);
                    self.sessions.end(found, end);
                    (look.key, look.mark) = identify::<F>(packets, slot, place);
                    look.hash = self.sessions.table.hash(&look.key);
                }
                return match self.first((place, interface), (packets, slot), &look) {
                    Ok(passage) => passage,
                    Err((reason, tenant)) => (Verdict::Rare(Rare::Drop(reason, tenant)), Flow::NONE, 0),
                };
            }
            Kind::Error => (Case::UnrelatedErrors, Counter::Errors, Drop::UnrelatedError),
            Kind::Fragment => (Case::Fragments, Counter::Fragments, Drop::Fragment),
            Kind::Protocol | Kind::Link => (Case::UnknownProtocol, Counter::Protocols, Drop::Protocol),
            Kind::Short => (Case::TooShort, Counter::Short, Drop::TooShort),
        };
        let passed = match self.tenants.get(place.tenant).map(|tenant| tenant.slow_path.action(case)) {
            // From outside, whose it is isn't known before its datagram is; and where one tenant's outside is another's inside, that one doesn't say for both.
            _ if case == Case::Fragments && self.tenants.is_outside(interface) => {
                return (Verdict::Rare(Rare::Fragment), Flow::NONE, 0);
            }
            Some(SlowAction::Drop) => {
                return (Verdict::Rare(Rare::Drop(reason, place.tenant)), Flow::NONE, 0);
            }
            Some(SlowAction::Handle) | None if case == Case::Fragments => {
                return (Verdict::Rare(Rare::Fragment), Flow::NONE, 0);
            }
            Some(_) => counter,
            None => Counter::Outside,
        };
        self.counts[passed as usize] += 1;
        (PASS, Flow::NONE, 0)
    }

    /// The tenant of session `index`, where that has such packets dropped.
    fn session_drops(&self, index: u32, case: Case) -> Option<u16> {
        let number = self.sessions.table.get(index)?.tenant;
        self.tenants.get(number).filter(|tenant| tenant.slow_path.drops(case)).map(|_| number)
    }

    /// The worker that has the flow, where that is another one.
    #[inline(always)]
    fn elsewhere(&self, key: &Key) -> Option<u32> {
        (self.tenants.workers > 1).then(|| self.tenants.owner(key)).filter(|owner| *owner != self.worker)
    }

    /// A flow's first packet here: its session, or why it has none, and whose it would be.
    fn first(
        &mut self,
        (place, interface): (Place, IfIndex),
        (packets, slot): (&Packets, SlotId),
        look: &Look<Mark>,
    ) -> Result<Passage, (Drop, u16)> {
        let mut number = place.tenant;
        let mut tenant = self.tenants.get(number);
        let is_parsed = look.mark.kind == Kind::Parsed;
        if let Some(owner) = tenant.filter(|owner| !owner.classes.is_empty() && !is_parsed) {
            // A later fragment has nothing of a transport header.
            let is_later = look.mark.kind == Kind::Later;
            let said = if is_later { (0, 0) } else { acl::first(packets, slot, &look.key) };
            let question = classes::question(&look.key, look.mark.from_high, said);
            let asking = &mut self.sessions.asking;
            if let Some(class) = owner.class(self.tenants, &question, asking, |met| met.acl.count(met.rule)) {
                (number, tenant) = (class, self.tenants.get(class));
            }
        }
        if tenant.is_none() && !is_parsed {
            // From outside, hosts can be asked that are mapped.
            number = self.tenants.mapped.tenant(&look.key, look.mark.from_high);
            tenant = self.tenants.get(number).filter(|tenant| tenant.is_outside(interface));
        }
        let Some(tenant) = tenant else {
            // It is nobody's.
            self.counts[Counter::Outside as usize] += 1;
            return Ok((PASS, Flow::NONE, 0));
        };
        if is_parsed && look.mark.from_high {
            // What a parser calls an answer begins nothing: nobody has asked.
            if tenant.slow_path.drops(Case::UnknownProtocol) {
                return Err((Drop::Protocol, number));
            }
            self.counts[Counter::Protocols as usize] += 1;
            return Ok((PASS, Flow::NONE, 0));
        }
        if matches!(look.mark.kind, Kind::First | Kind::Later) {
            match tenant.slow_path.action(Case::Fragments) {
                SlowAction::Drop => return Err((Drop::Fragment, number)),
                // It was handled because its interface is another tenant's outside, and is that one's no more than others.
                SlowAction::Pass if number == place.tenant => {
                    self.counts[Counter::Fragments as usize] += 1;
                    return Ok((PASS, Flow::NONE, 0));
                }
                SlowAction::Pass | SlowAction::Handle => {}
            }
        }
        if tenant.early_syn_drop
            && look.key.protocol() == IpProtocol::TCP.0
            && look.mark.kind != Kind::Later
            && begins_connection(tcp_flags(packets, slot, F::IS_V6))
            && self.sessions.drops_early(self.tenants, (number, tenant), look.hash, self.tick)
        {
            tenant.occupancy.refused.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
            return Err((Drop::EarlySyn, number));
        }
        let flow = (look.key, look.hash, look.mark.from_high);
        let at = (number, interface);
        let begun = self.sessions.begin_within(self.tenants, at, tenant, flow, self.now, &mut self.evicted);
        let (session, new) = match begun {
            Ok(begun) => begun,
            Err(why) => {
                tenant.occupancy.refused.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
                if tenant.slow_path.action(Case::Overflow) == SlowAction::Pass {
                    self.counts[Counter::Overflow as usize] += 1;
                    return Ok((PASS, Flow::NONE, 0));
                }
                let reason = match why {
                    NoRoom::Quota => Drop::Quota,
                    NoRoom::Table => Drop::TableFull,
                    NoRoom::Rate => Drop::Rate,
                    NoRoom::Source => Drop::SourceQuota,
                };
                return Err((reason, number));
            }
        };
        self.counts[Counter::Created as usize] += u64::from(new);
        let passage = self.of_session(session, look, packets.meta(slot).len());
        Ok(passage
            .map_or((PASS, Flow::NONE, 0), |(chain, flow, version)| (Verdict::Pass(chain), flow, version)))
    }
}
