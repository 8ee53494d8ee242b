//! Lists of rules as workers see them, and what they say of a session: a part of the tables.

use super::super::tuple::begins_connection;
use core::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tables::classifier::{Behind, Flow, Prefixes, Rules, Scratch};
use tables::session::{Directory, Endpoint, Key};
use wire::{IpProtocol, TcpFlags};

/// What becomes of a session that meets a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Packets of its initiator pass. Its answers do where a rule lets them: they are asked for in their own right.
    Permit,
    /// Packets of both sides pass.
    Reflect,
    /// None of its packets passes.
    Deny,
    /// Packets of both sides pass, by the tenant's engine if it has one.
    Redirect,
}

/// Sessions that a list was asked about.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// Those that met a rule, by its action.
    met: [AtomicU64; 4],
    /// Those that met one which leaves them to the next list.
    passed_on: AtomicU64,
    /// Those that met none.
    none: AtomicU64,
}

/// A list of rules.
#[derive(Debug)]
pub struct Acl {
    /// Its name.
    pub name: Arc<str>,
    pub(super) rules: Rules,
    /// What rules say; `None`: the next list says.
    pub(super) actions: Vec<Option<Action>>,
    /// Sessions that met each rule: the same through all versions of a rule.
    pub(super) hits: Vec<Arc<AtomicU64>>,
    /// Sessions that were asked about: the same through all versions of the list, whatever becomes of its rules.
    pub(super) asked: Arc<Outcomes>,
    /// What becomes of these; `None`: the next list says.
    pub(super) otherwise: Option<Action>,
}

impl Acl {
    /// Sessions that met a rule.
    #[must_use]
    pub fn hits(&self, rule: usize) -> u64 {
        self.hits.get(rule).map_or(0, |hits| hits.load(Ordering::Relaxed))
    }

    /// Sessions that met rules which say that, also such as aren't there any more.
    #[must_use]
    pub fn met(&self, action: Action) -> u64 {
        self.asked.met[action as usize].load(Ordering::Relaxed)
    }

    /// Sessions that met rules which leave them to the next list, likewise.
    #[must_use]
    pub fn passed_on(&self) -> u64 {
        self.asked.passed_on.load(Ordering::Relaxed)
    }

    /// Sessions that were asked about and met none.
    #[must_use]
    pub fn unmatched(&self) -> u64 {
        self.asked.none.load(Ordering::Relaxed)
    }

    /// A session met that rule, or none.
    pub(in super::super) fn count(&self, rule: Option<u32>) {
        let add = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        let Some(rule) = rule else {
            add(&self.asked.none);
            return;
        };
        if let Some(hits) = self.hits.get(rule as usize) {
            add(hits);
            add(self
                .action(rule as usize)
                .map_or(&self.asked.passed_on, |action| &self.asked.met[action as usize]));
        }
    }

    /// What becomes of sessions that meet a rule; `None`: the next list says.
    #[must_use]
    pub fn action(&self, rule: usize) -> Option<Action> {
        self.actions.get(rule).copied().flatten()
    }
}

/// Lists that are asked about what an endpoint's address begins, and about what is begun to it; by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bound {
    /// The endpoint that has the address.
    pub(super) owner: Arc<str>,
    pub(super) egress: Vec<u32>,
    pub(super) ingress: Vec<u32>,
}

/// Where lists are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Place {
    /// Those of the session's tenant.
    Tenant,
    /// Those for what the sender's address begins.
    Egress,
    /// Those for what is begun to the receiver's address.
    Ingress,
}

/// Some of these places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places(u8);

impl Places {
    pub(super) const ALL: Self = Self(0b111);

    pub(super) const fn has(self, place: Place) -> bool {
        self.0 >> place as u8 & 1 != 0
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn put(&mut self, place: Place) {
        self.0 |= 1 << place as u8;
    }

    /// The same ones, as packets the other way find them: who was the sender is the receiver.
    pub(super) const fn turned(self) -> Self {
        Self(self.0 & 1 | (self.0 & 2) << 1 | (self.0 & 4) >> 1)
    }
}

/// What lists are asked about: a session, or its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Address space.
    pub context: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Who sends: address and port.
    pub source: Endpoint,
    /// Who is to receive it.
    pub destination: Endpoint,
    /// TCP flags of the session's first segment.
    pub flags: u8,
    /// Type and code of an ICMP message.
    pub icmp: (u8, u8),
}

const SYN_ACK: TcpFlags = TcpFlags::SYN.union(TcpFlags::ACK);
/// Types of ICMP (RFC 792) and ICMPv6 (RFC 4443).
const ECHO: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO6: u8 = 128;
const ECHO6_REPLY: u8 = 129;

impl Question {
    /// About what comes back, as it usually does: with a SYN that acknowledges one, or an echo's reply.
    #[must_use]
    pub const fn turned(self) -> Self {
        let flags = if begins_connection(self.flags) { SYN_ACK.bits() } else { self.flags };
        let icmp = match (IpProtocol(self.protocol), self.icmp.0) {
            (IpProtocol::ICMP, ECHO) => (ECHO_REPLY, self.icmp.1),
            (IpProtocol::ICMPV6, ECHO6) => (ECHO6_REPLY, self.icmp.1),
            _ => self.icmp,
        };
        Self { source: self.destination, destination: self.source, flags, icmp, ..self }
    }
}

/// A list was asked.
#[derive(Clone, Copy, Debug)]
pub struct Met<'a> {
    /// Which.
    pub acl: &'a Acl,
    /// The rule that the session met; `None`: none.
    pub rule: Option<u32>,
    /// What it says; `None`: the next list is asked.
    pub action: Option<Action>,
}

/// What all of them say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// Where it is denied, if it is.
    pub(super) denied: Option<Place>,
    /// Where it is permitted, and answers have to be asked about.
    pub(super) permitted: Places,
    /// An engine is to look into it.
    pub(super) redirected: bool,
}

/// What is needed for asking, to be used again.
#[derive(Debug, Default)]
pub struct Asking {
    scratch: Scratch,
}

/// All lists, sets of addresses, and whose addresses are asked about.
#[derive(Clone, Debug, Default)]
pub struct Acls {
    pub(super) lists: Arc<Vec<Option<Arc<Acl>>>>,
    pub(super) prefixes: Prefixes,
    pub(super) endpoints: Directory<Arc<Bound>>,
}

/// What stands for an address of an endpoint.
pub(super) fn host(context: u16, address: IpAddr) -> Key {
    Key::of_endpoint(context, 0, (address, 0))
}

impl Acls {
    /// Number of different prefixes of rules and sets.
    #[must_use]
    pub const fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Asks the lists at some places, in order, until one denies. `met` is told of each, and where.
    pub(super) fn ask(
        &self,
        tenant: &[u32],
        question: &Question,
        places: Places,
        asking: &mut Asking,
        mut met: impl FnMut(Place, Met<'_>),
    ) -> Decision {
        let Question { context, source, destination, .. } = *question;
        let bound = |(address, _): Endpoint| match self.endpoints.is_empty() {
            true => None,
            false => self.endpoints.get(&host(context, address)),
        };
        let at = |place| match place {
            Place::Tenant => tenant,
            Place::Egress => bound(source).map_or(&[][..], |bound| &bound.egress),
            Place::Ingress => bound(destination).map_or(&[][..], |bound| &bound.ingress),
        };
        let mut decision = Decision::default();
        let mut behind = None;
        for place in [Place::Tenant, Place::Egress, Place::Ingress] {
            let lists = if places.has(place) { at(place) } else { &[] };
            if lists.is_empty() {
                continue;
            }
            let behind = &*behind.get_or_insert_with(|| {
                [source.0, destination.0].map(|address| self.prefixes.behind(address))
            });
            match self.of_lists(lists, (question, behind), asking, &mut |list: Met<'_>| met(place, list)) {
                Action::Deny => {
                    decision.denied = Some(place);
                    break;
                }
                Action::Permit => decision.permitted.put(place),
                Action::Reflect => {}
                Action::Redirect => decision.redirected = true,
            }
        }
        decision
    }

    /// What the first of these lists says that says anything; behind all of them, it is denied.
    fn of_lists(
        &self,
        lists: &[u32],
        (question, [sources, destinations]): (&Question, &[Behind<'_>; 2]),
        asking: &mut Asking,
        met: &mut impl FnMut(Met<'_>),
    ) -> Action {
        let is_icmp = matches!(IpProtocol(question.protocol), IpProtocol::ICMP | IpProtocol::ICMPV6);
        let ports = match is_icmp {
            true => (0, u16::from_be_bytes([question.icmp.0, question.icmp.1])),
            false => (question.source.1, question.destination.1),
        };
        for number in lists {
            let Some(Some(acl)) = self.lists.get(*number as usize) else { continue };
            let flow = Flow {
                sources,
                destinations,
                protocol: question.protocol,
                source_port: ports.0,
                port: ports.1,
                flags: question.flags,
            };
            let rule = acl.rules.first(&flow, &mut asking.scratch);
            let action = match rule {
                Some(rule) => acl.action(rule as usize),
                None => acl.otherwise,
            };
            met(Met { acl, rule, action });
            if let Some(action) = action {
                return action;
            }
        }
        Action::Deny
    }

    /// The place of the first of these lists that lets a session pass, whatever else is asked about it. `met` is told of each that is asked.
    pub(in super::super) fn first_that_lets_pass(
        &self,
        lists: impl Iterator<Item = u32>,
        question: &Question,
        asking: &mut Asking,
        mut met: impl FnMut(Met<'_>),
    ) -> Option<usize> {
        let behind = [question.source.0, question.destination.0].map(|address| self.prefixes.behind(address));
        let mut lists = lists;
        lists.position(|list| {
            let action = self.of_lists(&[list], (question, &behind), asking, &mut met);
            action != Action::Deny
        })
    }

    /// What would become of a session, and of its answers: nothing is counted. `met` is told of each list that is asked, and where; third: whether about the answers.
    pub fn explain(
        &self,
        tenant: &[u32],
        question: &Question,
        mut met: impl FnMut(Place, Met<'_>, bool),
    ) -> Explained {
        let mut asking = Asking::default();
        let first =
            self.ask(tenant, question, Places::ALL, &mut asking, |place, list| met(place, list, false));
        if let Some(place) = first.denied {
            return Explained::Denied(place);
        }
        if first.permitted.is_empty() {
            return Explained::Passes;
        }
        let again =
            self.ask(tenant, &question.turned(), first.permitted.turned(), &mut asking, |place, list| {
                met(place, list, true)
            });
        again.denied.map_or(Explained::Passes, Explained::AnswersDenied)
    }
}

/// What becomes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explained {
    /// Packets of both sides pass.
    Passes,
    /// None does.
    Denied(Place),
    /// Those of the initiator do.
    AnswersDenied(Place),
}
