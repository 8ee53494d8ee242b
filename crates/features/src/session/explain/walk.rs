//! The way of a packet through sessions, as `input` and `serving` have it for one that is there.

use super::super::acl::explain::answer;
use super::super::acl::{Asking, Met};
use super::super::classes;
use super::super::entry::{Direction, Marks, Session};
use super::super::look::Seen;
use super::super::order;
use super::super::parser::{Parsed, by_number};
use super::super::services::Chain;
use super::super::sessions::Sessions;
use super::super::slow_path::{Case, SlowAction};
use super::super::sources::SourceLimit;
use super::super::tenants::{Tenant, Tenants};
use super::super::tuple::begins_connection;
use super::{Explained, Imagined, Known, Meeting, Meets, Object, Outcome, Step};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tables::session::{Handle, Key, is_alias};
use wire::IpProtocol;

/// A session as the packet would find it.
struct Found {
    index: u32,
    handle: Handle,
    key: Key,
    session: Session,
    from_high: bool,
    /// What it has decided about itself holds no more: something has changed since.
    renewed: bool,
}

impl Sessions {
    /// What a packet would meet. To be asked of the worker that has its flow ([`Tenants::owner`]), which is the one of this number.
    #[must_use]
    pub fn explain(&self, known: &Known, worker: u32, packet: &Imagined) -> Explained {
        let mut explained = Explained {
            steps: Vec::new(),
            tenant: None,
            session: None,
            outcome: Outcome::Passes,
            ends: [packet.source, packet.destination],
            direct: None,
        };
        explained.outcome =
            self.walk(known, worker, packet, &mut explained).unwrap_or_else(|outcome| outcome);
        explained
    }

    /// Second: where it ends before it has come to services.
    fn walk(
        &self,
        known: &Known,
        worker: u32,
        packet: &Imagined,
        to: &mut Explained,
    ) -> Result<Outcome, Outcome> {
        let (tenants, node) = (&*known.tenants, packet.node());
        let passes = |to: &mut Explained, found: &str| {
            to.steps.push(Step { node, object: None, found: found.into() });
            Err(Outcome::Passes)
        };
        let Some(place) = tenants.place(packet.interface) else {
            return passes(to, "the interface is no tenant's: nobody looks for a session");
        };
        let Some((key, from_high)) = packet.key(place) else {
            let why = format!("protocol {} has no sessions", packet.protocol.0);
            return self.untracked(known, place.tenant, (packet.node(), &why), to);
        };
        let parsed = Parsed::of(&key);
        if let Some(parsed) = parsed {
            let found = format!("found by the parser {}: {}", parsed.parser.name, parsed.text());
            to.steps.push(Step { node, object: None, found });
        } else if let Some(parser) = by_number(place.parser) {
            let found =
                format!("the parser {} doesn't recognise it: found by its addresses and ports", parser.name);
            to.steps.push(Step { node, object: None, found });
        }
        let is_syn =
            parsed.is_none() && packet.protocol == IpProtocol::TCP && begins_connection(packet.flags);
        let begins = tenants.get(place.tenant).is_some();
        let found = self.find_as(tenants, &key, from_high, (begins, is_syn));
        if found.is_none() && parsed.is_some() && from_high && begins {
            let why = "an answer begins no session, and nobody has asked";
            return self.untracked(known, place.tenant, (node, why), to);
        }
        let number = match &found {
            Some(found) => found.session.tenant,
            None if begins && parsed.is_some() => place.tenant,
            None if begins => class(tenants, place.tenant, (&key, from_high), packet, to),
            // From outside, hosts can be asked that are mapped.
            None if parsed.is_some() => 0,
            None => {
                let mapped = tenants.mapped.tenant(&key, from_high);
                let leads = |tenant: &Tenant| tenant.is_outside(packet.interface);
                if tenants.get(mapped).is_some_and(leads) { mapped } else { 0 }
            }
        };
        let Some(tenant) = tenants.get(number) else {
            return passes(to, "outside: no session has it, and it passes as it is");
        };
        to.tenant = Some(number);
        to.session = found.as_ref().and_then(|found| self.seen(found.index));
        to.steps.push(Step {
            node,
            object: Some(Object::Tenant(number)),
            found: of_session(&found, tenant, packet),
        });
        if found.is_none() {
            let limit = tenants.source_limit(number, &key, packet.interface);
            self.of_source((tenant, limit), (&key, from_high), node, to)?;
        }
        let (chain, direction) = match &found {
            Some(found) => {
                let direction = found.session.direction(found.from_high);
                let chains = self.chains_now(tenants, tenant, (&found.session, found.handle));
                (chains[direction as usize], direction)
            }
            None => (tenant.chain[0], Direction::Forward),
        };
        let initiator_is_high = found.as_ref().map_or(from_high, |found| found.session.initiator_is_high());
        let blocked = chain.block();
        let by = blocked.map(|reason| named(known, reason));
        let mut meeting = Meeting {
            known,
            sessions: self,
            worker,
            tenant,
            packet: *packet,
            key: found.as_ref().map_or(key, |found| found.key),
            initiator_is_high,
            direction,
            there: found.as_ref().map(|found| (found.handle, found.session)),
            is_past: false,
            ends: to.ends,
            balanced: None,
            direct: None,
            redirected: false,
            node,
            steps: &mut to.steps,
        };
        if let Some((node, reason)) = by {
            // Who has blocked it says why.
            let services = order().services().iter();
            if let Some(service) = services.clone().find(|service| service.node.name == node) {
                (meeting.node, meeting.is_past) = (node, true);
                (service.explain)(&mut meeting);
            }
            return Err(Outcome::Dropped { node, reason });
        }
        let outcome = services(&mut meeting, chain, tenant.chain[direction as usize]);
        (to.ends, to.direct) = (meeting.ends, meeting.direct);
        Ok(outcome)
    }

    /// What its source has already, where a session begins with it.
    fn of_source(
        &self,
        (tenant, limit): (&Tenant, Option<SourceLimit>),
        (key, from_high): (&Key, bool),
        node: &'static str,
        to: &mut Explained,
    ) -> Result<(), Outcome> {
        let Some(limit) = limit else {
            if tenant.source_limit.is_some() && !key.is_parsed() {
                let found = "its source isn't counted: many are behind this interface".into();
                to.steps.push(Step { node, object: to.tenant.map(Object::Tenant), found });
            }
            return Ok(());
        };
        let sources = &tenant.occupancy.sources;
        let there = sources.sessions(sources.of(key, from_high, &limit));
        let drops = tenant.slow_path.drops(Case::Overflow);
        let (room, outcome) = match (there < limit.sessions, drops) {
            (true, _) => ("", Ok(())),
            (false, true) => (": it is dropped", Err(Outcome::Dropped { node, reason: "source-quota" })),
            (false, false) => {
                (": it passes without a session (slow_path.overflow is pass)", Err(Outcome::Passes))
            }
        };
        let found = format!("its source has {there} of {}{room}", limit.sessions);
        to.steps.push(Step { node, object: to.tenant.map(Object::Tenant), found });
        outcome
    }

    /// A packet that can have no session.
    fn untracked(
        &self,
        known: &Known,
        tenant: u16,
        (node, why): (&'static str, &str),
        to: &mut Explained,
    ) -> Result<Outcome, Outcome> {
        let found = |passes: &str| format!("{why}: {passes}");
        let Some(its) = known.tenants.get(tenant) else {
            to.steps.push(Step { node, object: None, found: found("it passes as it is") });
            return Err(Outcome::Passes);
        };
        to.tenant = Some(tenant);
        let (passes, outcome) = match its.slow_path.action(Case::UnknownProtocol) {
            SlowAction::Drop => {
                ("slow_path.unknown_protocol is drop", Outcome::Dropped { node, reason: "protocol" })
            }
            SlowAction::Pass | SlowAction::Handle => ("slow_path.unknown_protocol is pass", Outcome::Passes),
        };
        to.steps.push(Step { node, object: Some(Object::Tenant(tenant)), found: found(passes) });
        Err(outcome)
    }

    /// The session that a packet is found to be one of, unless it begins it anew.
    fn find_as(
        &self,
        tenants: &Tenants,
        key: &Key,
        from_high: bool,
        (begins, is_syn): (bool, bool),
    ) -> Option<Found> {
        let number = self.table.find(key, self.table.hash(key))?;
        let (index, turned) = if is_alias(number) { self.table.aliased(number)? } else { (number, false) };
        let (handle, own) = self.table.handle(index).zip(self.table.key(index))?;
        let session = *self.table.get(index)?;
        let from_high = from_high != turned;
        let renewed = session.epoch != tenants.generation as u16;
        if renewed && !self.outlives(tenants, index) {
            return None;
        }
        let anew = session.marks.has(Marks::YIELDS_TO_SYN) && is_syn
            || self.yields(&session, session.direction(from_high), handle);
        if session.is_blocked() && begins && anew && !renewed {
            return None;
        }
        Some(Found { index, handle, key: own, session, from_high, renewed })
    }

    /// The session of that number.
    fn seen(&self, index: u32) -> Option<Seen> {
        let mut seen = self.look(&Default::default(), index, 1).0;
        seen.pop()
    }
}

/// Whose a session is that begins at that tenant's interface with the packet: lists that are asked are told.
fn class(
    tenants: &Tenants,
    owner: u16,
    (key, from_high): (&Key, bool),
    packet: &Imagined,
    to: &mut Explained,
) -> u16 {
    let said = if packet.protocol == IpProtocol::TCP { (packet.flags, 0) } else { packet.icmp };
    let question = classes::question(key, from_high, said);
    let tell = |met: Met<'_>| {
        let object = Object::Acl(Arc::clone(&met.acl.name), met.rule);
        let found = format!("whose it is: {}", answer(&met));
        to.steps.push(Step { node: packet.node(), object: Some(object), found });
    };
    let of = |owner: &Tenant| owner.class(tenants, &question, &mut Asking::default(), tell);
    tenants.get(owner).and_then(of).unwrap_or(owner)
}

/// What there is of a session, in words.
fn of_session(found: &Option<Found>, tenant: &Tenant, packet: &Imagined) -> String {
    let Some(found) = found else {
        let (there, most) = (tenant.occupancy.sessions.load(Ordering::Relaxed), tenant.max_sessions);
        let waits =
            tenant.early_syn_drop && packet.protocol == IpProtocol::TCP && begins_connection(packet.flags);
        let room = match (there < most, tenant.slow_path.drops(Case::Overflow)) {
            (true, _) => "",
            (false, true) if waits => {
                ": dropped when it is seen first (early_syn_drop); where it is repeated, one has to make room for it"
            }
            (false, true) => ": one has to make room for it, or it is dropped",
            (false, false) => {
                ": one has to make room for it, or it passes without (slow_path.overflow is pass)"
            }
        };
        return format!("begins a session, with {there} of {most} there{room}");
    };
    let side = match found.session.direction(found.from_high) {
        Direction::Forward => "from the initiator",
        Direction::Reverse => "to the initiator",
    };
    let state = if found.session.is_blocked() { "blocked" } else { found.session.state.name() };
    let again = if found.renewed { "; something has changed since: services decide anew" } else { "" };
    format!("of a session, {side}, {state}{again}")
}

/// Node and name of a drop reason (graph-wide id).
fn named(known: &Known, reason: u16) -> (&'static str, &'static str) {
    let drop = known.plan.drops.get(usize::from(reason));
    drop.map_or(("", ""), |(node, spec)| (known.plan.nodes[usize::from(*node)].spec.name, spec.name))
}

/// The services that the packet passes of those that the tenant has.
fn services(meeting: &mut Meeting<'_>, chain: Chain, all: Chain) -> Outcome {
    for (number, service) in order().of(meeting.tenant.scope) {
        if !chain.has(number) && !all.has(number) {
            continue;
        }
        (meeting.node, meeting.is_past) = (service.node.name, !chain.has(number));
        match (service.explain)(meeting) {
            Meets::Drops(reason) if !meeting.is_past => {
                return Outcome::Dropped { node: service.node.name, reason };
            }
            _ => {}
        }
    }
    Outcome::Passes
}
