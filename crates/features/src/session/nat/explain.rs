//! What a packet's session is translated to, or would be.

use super::super::explain::{Meeting, Meets, Object, shown};
use super::super::translate::{self, Address};
use super::bind::NoPort;
use super::exchange::{self, Exchange};
use super::{Drop, Way, sides, unfit, wish};
use std::sync::Arc;

/// What it would do.
pub(super) fn explain(meeting: &mut Meeting<'_>) -> Meets {
    if meeting.is_past {
        return meeting.passes("its session doesn't lead outside, or was there before");
    }
    let there = meeting.there.filter(|(_, session)| session.is_translated());
    if there.is_some() || meeting.balanced.is_some() {
        let Some((handle, _)) = there.filter(|_| meeting.balanced.is_none()) else {
            return meeting.passes("its session has a backend: it isn't translated here besides");
        };
        let object = meeting.tenant.nat.as_ref().map(|pool| Object::NatPool(Arc::clone(&pool.name)));
        let Some(replaced) = translate::explain(meeting, handle) else { return Meets::Passes };
        let [seen, asked] = replaced.beyond;
        let found = format!("its session is seen outside as {} to {}", shown(seen), shown(asked));
        if !replaced.fits {
            return meeting.drops(object, found, reason(Drop::Untranslated));
        }
        meeting.say(object, found);
        return Meets::Passes;
    }
    if !meeting.is_unanswered() {
        return meeting.passes("its session was there before: it keeps its addresses");
    }
    if meeting.key.is_v4() { begins(meeting) } else { begins6(meeting) }
}

/// The first packet of a session of IPv6.
fn begins6(meeting: &mut Meeting<'_>) -> Meets {
    let (known, tenant, packet) = (meeting.known, meeting.tenant, meeting.packet);
    let at = (packet.interface, packet.vrf);
    let object = tenant.nat.as_ref().map(|pool| Object::NatPool(Arc::clone(&pool.name)));
    match exchange::of(tenant, (&known.fibs, &known.hops), at, meeting.sides()) {
        Exchange::Keeps => meeting.passes("doesn't lead outside, or has no prefix that is exchanged"),
        Exchange::Nowhere => meeting.passes("no route leads to its destination now"),
        Exchange::Unmappable => {
            let found = "its prefix can't be exchanged so that checksums stay";
            meeting.drops(object, found, reason(Drop::Unmappable))
        }
        Exchange::Beyond(_) if unfit(packet.protocol.0, true).is_some() => {
            meeting.drops(object, AUTHENTICATED, reason(Drop::Authenticated))
        }
        Exchange::Beyond(beyond) => {
            meeting.ends = beyond;
            let found =
                format!("is seen outside as {} to {}, by its prefix", shown(beyond[0]), shown(beyond[1]));
            meeting.say(object, found);
            Meets::Passes
        }
    }
}

/// The first packet of a session.
fn begins(meeting: &mut Meeting<'_>) -> Meets {
    let (known, tenant, packet) = (meeting.known, meeting.tenant, meeting.packet);
    let ends = sides(&meeting.key, meeting.initiator_is_high);
    let at = (packet.interface, packet.vrf);
    let (leads, wish) = wish(tenant, (&known.fibs, &known.hops), at, meeting.key.protocol(), ends);
    match leads {
        Way::Outside => {}
        Way::Nowhere => return meeting.passes("no route leads to its destination now"),
        Way::Inside => return meeting.passes("doesn't lead to an interface outside: it keeps its addresses"),
    }
    if let Some(why) = unfit(packet.protocol.0, wish.source.is_some()) {
        let found = match why {
            Drop::NoPorts => "ESP has no ports, and the host isn't mapped as a whole",
            _ => AUTHENTICATED,
        };
        return meeting.drops(None, found, reason(why));
    }
    let Some(pool) = &tenant.nat else {
        return meeting.drops(None, "the tenant's pool isn't there", reason(Drop::NoPool));
    };
    let object = Some(Object::NatPool(Arc::clone(&pool.name)));
    let how = match (wish.source, wish.responder == ends[1]) {
        (Some(source), false) if source == ends[0] => "by a mapping of whom it asks",
        (Some(_), _) => "by a mapping",
        (None, false) => "by a mapping of whom it asks, and a port of the pool",
        (None, true) => "by a port of the pool",
    };
    let session = (meeting.key, meeting.initiator_is_high);
    match meeting.sessions.would_translate(&known.tenants, meeting.worker, session, (pool, wish)) {
        Ok(beyond) => {
            let beyond = beyond.map(|(address, port)| (address.ip(), port));
            meeting.ends = beyond;
            let found = format!("is seen outside as {} to {}, {how}", shown(beyond[0]), shown(beyond[1]));
            meeting.say(object, found);
            Meets::Passes
        }
        Err(NoPort::Exhausted) => {
            meeting.drops(object, "all ports are in use to that destination", reason(Drop::PoolExhausted))
        }
        Err(NoPort::NoBlock) => {
            meeting.drops(object, "has no block of ports left for the host", reason(Drop::NoBlock))
        }
        Err(NoPort::NoMore) => {
            let found = "all ports of the host's blocks are in use to that destination, and there is none more for it";
            meeting.drops(object, found, reason(Drop::NoBlock))
        }
        Err(NoPort::InUse) => {
            let found = "answers couldn't be told from those of another session";
            meeting.drops(object, found, reason(Drop::InUse))
        }
        Err(NoPort::NoShare) => meeting.drops(object, "has nothing for the host", reason(Drop::NoShare)),
    }
}

/// What is found of packets of AH.
const AUTHENTICATED: &str = "AH has its receiver refuse other addresses";

const fn reason(drop: Drop) -> &'static str {
    Drop::SPECS[drop as usize].name
}
