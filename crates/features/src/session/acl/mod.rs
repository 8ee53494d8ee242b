//! The service `acl`: ordered rules say whether a session may be.
//!
//! | packet | what becomes of it |
//! |---|---|
//! | the first one of a session | lists of rules are asked about the session: those of its tenant, those for what its initiator's address begins, those for what is begun to its responder's (or to the backend that `balance` has chosen) |
//! | of a session that all of them let pass | passes, and the next one doesn't come here |
//! | of one that any of them denies | is dropped, and so are all others, before they come here |
//! | of one that all let pass, and none says `redirect` of | likewise, and no packet comes to `redirect`, where the tenant's engine is there for those alone |
//! | the first answer, where one of them says `permit` and not `reflect` | the lists of that place are asked about the answers, with source and destination exchanged |
//!
//! What was decided holds until tenants, rules, sets or endpoints change: then the next packet of a session is like the first one.
//!
//! * [`Acls`]: lists as workers see them; [`tables::classifier`] finds rules. [`control`]: the one who writes all that.

pub mod control;
pub(super) mod explain;
mod lists;

pub use lists::{Acl, Acls, Action, Asking, Explained, Met, Place, Question};

use super::entry::{Direction, Marks, Session};
use super::redirect;
use super::services::{SERVICES_ARC, Scopes, Service};
use super::serving::{Arrival, Entry, RESUMES, Serve, Serving, Verdict, Visit};
use super::sessions::Sessions;
use super::tenants::Tenant;
use super::translate::{NOBODY, Translations};
use super::tuple::{begins_connection, tcp_flags, transport_at};
use graph::packet::{Packets, SlotId};
use graph::{Feature, NodeSpec};
use lists::Places;
use std::sync::LazyLock;
use tables::session::{Beside, Handle, Key};
use wire::IpProtocol;

graph::edges! {
    /// Where packets go besides other services and their arc.
    enum Next {
        Drop => "drop",
    }
}

graph::drops! {
    /// Why a session's packets get no further.
    enum Drop {
        /// A rule of the tenant's lists denies the session, or none of them permits it.
        Denied => "denied", Loss,
        /// A rule for what the sender's address begins denies it, or none permits it.
        Egress => "egress-denied", Loss,
        /// A rule for what is begun to the receiver's address denies it, or none permits it.
        Ingress => "ingress-denied", Loss,
        /// The session is permitted and not reflected, and its answers are denied.
        Answers => "answers-denied", Loss,
    }
}

graph::counters! {
    /// What is counted besides drops.
    enum Counter {
        /// Sessions that may be.
        Admitted => "admitted",
        /// Sessions that may not.
        Denied => "denied",
        /// Sessions whose answers may not be.
        AnswersDenied => "answers-denied",
        /// Sessions that weren't asked about again after a change, as their tenant keeps those that were let pass.
        Kept => "kept",
    }
}

/// The service's declaration.
pub(super) const SERVICE: Service = Service {
    node: NodeSpec {
        name: "acl",
        help: "Asks ordered rules whether a session may be.",
        edges: Next::NAMES,
        drops: Drop::SPECS,
        counters: Counter::SPECS,
        // Rules speak of backends, not of VIPs, and of inside hosts, not of what they are seen as outside.
        features: &[Feature {
            arc: SERVICES_ARC,
            runs_before: &["nat"],
            runs_after: &["tcp-check", "l4-lifecycle", "balance"],
        }],
        resumes: RESUMES,
        make: |cx| Serving::boxed(cx, Filter::default()),
        ..NodeSpec::EMPTY
    },
    both_ways: true,
    errors: false,
    scopes: Scopes::All,
    any_key: false,
    asked_again: true,
    explain: explain::explain,
};

/// The service's number.
pub(super) fn number() -> u8 {
    static NUMBER: LazyLock<u8> =
        LazyLock::new(|| super::order().number(SERVICE.node.name).unwrap_or_default());
    *NUMBER
}

/// What is kept of a session that was asked about: 4 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Note {
    /// What rules may ask about its first packet: type and code of ICMP; or TCP flags, and those of the first answer that was asked about.
    first: (u8, u8),
    marks: u8,
    /// Where answers have to be asked about.
    permitted: Places,
}

impl Note {
    /// It was let pass.
    const ADMITTED: u8 = 1;
    /// So were its answers.
    const ANSWERS: u8 = 2;
    /// It was let pass at some time.
    const PASSED: u8 = 4;
    /// An answer was asked about.
    const ANSWERED: u8 = 8;
    /// It was let pass by the tenant's engine.
    const REDIRECTED: u8 = 16;

    /// What rules may ask about its answers; `own`: about the packet at hand, which is one of them.
    const fn of_answers(&mut self, own: (u8, u8), is_tcp: bool) -> (u8, u8) {
        if !is_tcp {
            return own;
        }
        if self.marks & Self::ANSWERED == 0 {
            self.marks |= Self::ANSWERED;
            self.first.1 = own.0;
        }
        (self.first.1, 0)
    }
}

#[derive(Default)]
struct Filter {
    asking: Asking,
}

impl Serve for Filter {
    const ENTERS: bool = true;

    #[inline(never)]
    fn enter(&mut self, arrival: &mut Arrival<'_>) -> Entry {
        let Sessions { table, acl: notes, translations, .. } = &mut *arrival.sessions;
        let Some((handle, key, session)) = table.visit(arrival.session) else { return Entry::Goes };
        let direction = session.direction(arrival.from_high);
        let Some(tenant) = arrival.tenants.get(session.tenant) else { return Entry::Goes };
        let Some((note, fresh)) = notes.get_mut(handle) else { return Entry::Refused(Drop::Denied.into()) };
        let me = arrival.me;
        // One that begins anew was asked about when it began before.
        if fresh || session.packets() == [1, 0] && session.chain[0].has(me) {
            *note = Note { first: first(arrival.packets, arrival.slot, &key), ..Note::default() };
        }
        let mut counted = None;
        if tenant.keep_sessions && note.marks & Note::ADMITTED != 0 && session.chain[0].has(me) {
            session.chain[0] = session.chain[0].without(me);
            if note.marks & Note::ANSWERS != 0 {
                session.retire(me);
            }
            spare(session, tenant, note);
            counted = Some(Counter::Kept);
        }
        let asked = Asked { acls: &arrival.tenants.acls, tenant, handle, key: &key, translations };
        if session.chain[0].has(me) {
            let decision = asked.decide(session, note.first, Places::ALL, false, &mut self.asking);
            if let Some(place) = decision.denied {
                // None of its packets has passed: others may have its ports. Both of its first two may have come in one vector.
                let begins = session.is_unanswered() || session.created == arrival.tick as u32;
                let unheard = note.marks & Note::PASSED == 0 && begins;
                let is_tcp = key.protocol() == IpProtocol::TCP.0;
                session.marks.put(Marks::YIELDS, unheard);
                session
                    .marks
                    .put(Marks::YIELDS_TO_SYN, unheard && is_tcp && !begins_connection(note.first.0));
                note.marks &= Note::PASSED | Note::ANSWERED;
                arrival.count(Counter::Denied.into());
                return Entry::Blocked(of_place(place).into());
            }
            note.permitted = decision.permitted;
            note.marks = note.marks & !Note::REDIRECTED | Note::ADMITTED | Note::PASSED;
            if decision.redirected {
                note.marks |= Note::REDIRECTED;
            }
            spare(session, tenant, note);
            session.chain[0] = session.chain[0].without(me);
            if decision.permitted.is_empty() {
                note.marks |= Note::ANSWERS;
                session.retire(me);
            }
            counted = Some(Counter::Admitted);
        }
        if direction == Direction::Reverse && session.chain[1].has(me) {
            let places = note.permitted.turned();
            let is_tcp = key.protocol() == IpProtocol::TCP.0;
            let own = note.of_answers(first(arrival.packets, arrival.slot, &key), is_tcp);
            let decision = asked.decide(session, own, places, true, &mut self.asking);
            if decision.denied.is_some() {
                arrival.count(Counter::AnswersDenied.into());
                return Entry::AnswersBlocked(Drop::Answers.into());
            }
            note.marks |= Note::ANSWERS;
            session.retire(me);
        }
        if let Some(counter) = counted {
            arrival.count(counter.into());
        }
        Entry::Passes
    }

    fn packet(&mut self, _: &mut Visit<'_>) -> Verdict {
        Verdict::Next
    }
}

/// A session that was let pass, of which no rule has said `redirect`, doesn't visit an engine that is there for such alone.
fn spare(session: &mut Session, tenant: &Tenant, note: &Note) {
    let by_rules = tenant.redirect.as_ref().is_some_and(|redirect| redirect.only_by_rules);
    if by_rules && note.marks & Note::REDIRECTED == 0 {
        session.retire(redirect::number());
    }
}

const fn of_place(place: Place) -> Drop {
    match place {
        Place::Tenant => Drop::Denied,
        Place::Egress => Drop::Egress,
        Place::Ingress => Drop::Ingress,
    }
}

/// What rules may ask about a session's first packet: flags of a TCP segment, type and code of an ICMP message.
pub(super) fn first(packets: &Packets, slot: SlotId, key: &Key) -> (u8, u8) {
    let is_v6 = !key.is_v4();
    match IpProtocol(key.protocol()) {
        IpProtocol::TCP => (tcp_flags(packets, slot, is_v6), 0),
        IpProtocol::ICMP | IpProtocol::ICMPV6 => {
            let Some((at, _)) = transport_at(packets, slot, is_v6) else { return (0, 0) };
            let byte = |offset: usize| packets.area(slot).get(at + offset).copied().unwrap_or_default();
            (byte(0), byte(1))
        }
        _ => (0, 0),
    }
}

/// A session that is asked about.
struct Asked<'a> {
    acls: &'a Acls,
    tenant: &'a Tenant,
    handle: Handle,
    key: &'a Key,
    translations: &'a Translations,
}

/// What was decided about a session holds no more: it is another one that it leads to now.
pub(super) fn ask_again(session: &mut Session, handle: Handle, tenant: &Tenant, notes: &mut Beside<Note>) {
    for (chain, whole) in session.chain.iter_mut().zip(tenant.chain) {
        if chain.block().is_some() {
            *chain = whole;
        } else if whole.has(number()) {
            *chain = chain.with(number());
        }
    }
    if notes.get(handle).is_some()
        && let Some((note, _)) = notes.get_mut(handle)
    {
        // What its first packet was stays.
        *note = Note { first: note.first, ..Note::default() };
    }
}

impl Asked<'_> {
    /// What lists say of the session, or of its answers, of which a packet has these flags, or type and code. Those that decide count it.
    fn decide(
        &self,
        session: &Session,
        packet: (u8, u8),
        places: Places,
        answers: bool,
        asking: &mut Asking,
    ) -> lists::Decision {
        let (low, high) = self.key.endpoints();
        let (source, mut destination) = if session.initiator_is_high() { (high, low) } else { (low, high) };
        let balanced = |handle| {
            self.translations.owners(handle).filter(|owners| owners.account != NOBODY)?;
            self.translations.endpoints(handle)
        };
        if session.is_translated()
            && let Some([_, backend]) = balanced(self.handle)
        {
            destination = backend;
        }
        let is_tcp = self.key.protocol() == IpProtocol::TCP.0;
        let question = Question {
            context: self.key.context(),
            protocol: self.key.protocol(),
            source,
            destination,
            flags: if is_tcp { packet.0 } else { 0 },
            icmp: packet,
        };
        let question = if answers {
            Question { source: destination, destination: source, ..question }
        } else {
            question
        };
        self.acls.ask(&self.tenant.acls, &question, places, asking, |_, met| met.acl.count(met.rule))
    }
}
