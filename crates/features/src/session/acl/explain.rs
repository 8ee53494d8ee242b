//! Which rules a packet's session would meet.

use super::super::entry::Direction;
use super::super::explain::{Meeting, Meets, Object};
use super::{Action, Drop, Explained, Met, Place, Question, of_place};
use std::sync::Arc;
use wire::IpProtocol;

/// Asks the rules as they are now; also where the service has decided about the session before, since they are why.
pub(super) fn explain(meeting: &mut Meeting<'_>) -> Meets {
    let [source, responder] = meeting.sides();
    // Rules speak of backends.
    let destination = meeting.balanced.map_or(responder, |[_, backend]| backend);
    let first = meeting.there.and_then(|(handle, _)| meeting.sessions.acl.get(handle));
    let packet = meeting.packet();
    let is_tcp = packet.protocol == IpProtocol::TCP;
    let own = if is_tcp { (packet.flags, 0) } else { packet.icmp };
    let (flags, icmp) = match first.map_or(own, |note| note.first) {
        (flags, _) if is_tcp => (flags, (0, 0)),
        icmp => (0, icmp),
    };
    let question = Question {
        context: meeting.key.context(),
        protocol: packet.protocol.0,
        source,
        destination,
        flags,
        icmp,
    };
    if meeting.is_past {
        meeting.say(None, "asked at an earlier packet; what rules say now:");
    }
    let tenants = meeting.tenants();
    let (mut met, mut redirected) = (Vec::new(), false);
    let explained = tenants.acls.explain(&meeting.tenant.acls, &question, |place, list, answers| {
        redirected |= list.action == Some(Action::Redirect) && !answers;
        met.push((Object::Acl(Arc::clone(&list.acl.name), list.rule), said(place, &list, answers)));
    });
    if met.is_empty() {
        return meeting.passes("no list is asked");
    }
    for (object, found) in met {
        meeting.say(Some(object), found);
    }
    meeting.redirected = redirected;
    match (explained, meeting.direction) {
        (Explained::Denied(place), _) => Meets::Drops(reason(of_place(place))),
        (Explained::AnswersDenied(_), Direction::Reverse) => Meets::Drops(reason(Drop::Answers)),
        _ => Meets::Passes,
    }
}

fn reason(drop: Drop) -> &'static str {
    Drop::SPECS[drop as usize].name
}

/// Whose list it is, and what it says.
fn said(place: Place, met: &Met<'_>, answers: bool) -> String {
    let whose = match place {
        Place::Tenant => "tenant",
        Place::Egress => "egress of the sender",
        Place::Ingress => "ingress of the receiver",
    };
    let about = if answers { ", for answers" } else { "" };
    format!("{whose}{about}: {}", answer(met))
}

/// What a list says.
pub(in super::super) fn answer(met: &Met<'_>) -> String {
    let action = match met.action {
        Some(Action::Permit) => "permit",
        Some(Action::Reflect) => "reflect",
        Some(Action::Deny) => "deny",
        Some(Action::Redirect) => "redirect",
        None => "next list",
    };
    let which = if met.rule.is_some() { "" } else { "no rule is met, " };
    format!("{which}{action}")
}
