//! Which backend a packet's session has, or would be given.

use super::super::entry::Direction;
use super::super::explain::{Meeting, Meets, Object, shown};
use super::super::tenants::TICK_BITS;
use super::super::translate::{self, NOBODY};
use super::bind::Refused;
use super::vips::{Algorithm, Vip};
use super::{Drop, TRIALS};
use tables::session::{Endpoint, Handle, Key};

/// What it would do.
pub(super) fn explain(meeting: &mut Meeting<'_>) -> Meets {
    if meeting.is_past {
        return meeting.passes("its session isn't meant for a VIP, or was there before");
    }
    let [_, responder] = meeting.sides();
    let (context, protocol) = (meeting.key.context(), meeting.key.protocol());
    let of = Key::of_endpoint(context, protocol, responder);
    let object = Object::Vip(context, protocol, responder);
    let tenants = meeting.tenants();
    let vip = tenants.vips.get(&of).map(|vip| &**vip);
    let translations = &meeting.sessions.translations;
    let account = |handle| translations.owners(handle).map_or(NOBODY, |owners| owners.account);
    if let Some((handle, session)) = meeting.there.filter(|(_, session)| session.is_translated()) {
        if account(handle) == NOBODY {
            return meeting.passes("`nat` translates its session");
        }
        let gives_up = session.is_within(TRIALS) && !translations.takes(handle);
        if !gives_up {
            return kept(meeting, handle, object);
        }
    }
    match vip.filter(|_| meeting.is_unanswered()) {
        None => {
            // ESP and AH have no ports.
            let at = if meeting.key.spi().is_some() { responder.0.to_string() } else { shown(responder) };
            meeting.passes(format!("{at} is no VIP: it passes as it is"))
        }
        Some(vip) => given(meeting, (vip, of), object),
    }
}

/// A packet of a session that has a backend.
fn kept(meeting: &mut Meeting<'_>, handle: Handle, object: Object) -> Meets {
    let translations = &meeting.sessions.translations;
    if let Some((address, near_is_high)) = translations.direct(handle) {
        meeting.balanced = translations.endpoints(handle);
        let initiates = matches!(meeting.direction, Direction::Forward);
        if initiates == (meeting.initiator_is_high == near_is_high) {
            meeting.direct = Some(address);
        }
        let found =
            format!("its session has the backend {address}, which answers past Quiver: it passes as it is");
        meeting.say(Some(object), found);
        return Meets::Passes;
    }
    let Some(replaced) = translate::explain(meeting, handle) else { return Meets::Passes };
    let [client, backend] = replaced.beyond;
    meeting.balanced = Some(replaced.beyond);
    let found = format!("its session has the backend {}{}", shown(backend), seen_as(meeting, client));
    if !replaced.fits {
        return meeting.drops(Some(object), found, reason(Drop::Untranslated));
    }
    meeting.say(Some(object), found);
    Meets::Passes
}

/// The first packet of a session to a VIP.
fn given(meeting: &mut Meeting<'_>, (vip, of): (&Vip, Key), object: Object) -> Meets {
    let seconds = (meeting.known.now >> TICK_BITS << TICK_BITS) / 1_000_000_000;
    let session = (meeting.key, meeting.initiator_is_high);
    let given =
        meeting.sessions.would_balance(meeting.tenants(), meeting.worker, session, (vip, of), seconds as u32);
    match given {
        Ok((beyond, kept)) => {
            let [client, backend] = beyond;
            let how = match (kept, vip.algorithm) {
                (true, _) => "which the client had last",
                (false, Algorithm::Maglev) => "by the hash of the client",
                (false, Algorithm::LeastFlows) => "which has fewest sessions for its weight now",
            };
            if vip.direct {
                (meeting.balanced, meeting.direct) = (Some(beyond), Some(backend.0));
                let found = format!("is given the backend {}, {how}; it goes there as it is", shown(backend));
                meeting.say(Some(object), found);
                return Meets::Passes;
            }
            let found = format!("is given the backend {}, {how}{}", shown(backend), seen_as(meeting, client));
            (meeting.ends, meeting.balanced) = (beyond, Some(beyond));
            meeting.say(Some(object), found);
            Meets::Passes
        }
        Err(Refused::Source) => {
            meeting.drops(Some(object), "isn't there for the client's address", reason(Drop::Source))
        }
        Err(Refused::NoBackend) => {
            let drop = if vip.rejects { Drop::Rejected } else { Drop::NoBackend };
            meeting.drops(Some(object), "has no backend that takes sessions", reason(drop))
        }
        Err(Refused::InUse) => {
            let found = "answers couldn't be told from those of another session";
            meeting.drops(Some(object), found, reason(Drop::InUse))
        }
    }
}

/// As whom the backend sees the client, where that isn't as it is.
fn seen_as(meeting: &Meeting<'_>, client: Endpoint) -> String {
    let [own, _] = meeting.sides();
    if client == own { String::new() } else { format!(", and sees the client as {}", shown(client)) }
}

const fn reason(drop: Drop) -> &'static str {
    Drop::SPECS[drop as usize].name
}
