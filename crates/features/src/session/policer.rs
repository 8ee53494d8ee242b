//! The service `policer`: how much a tenant's sessions may send, in each direction, all together or each for itself.
//!
//! | packet | what becomes of it |
//! |---|---|
//! | of any session | is green, yellow or red, by the policer of its tenant and direction (RFC 2697, 2698, 4115) |
//! | green, yellow, red | passes, is marked by its DSCP, or is dropped, as the policer says of that colour |
//!
//! A vector is metered before its packets are looked at: those of one tenant that come together take their tokens at once.

use super::entry::Flow;
use super::explain::{Meeting, Meets, Object};
use super::services::{SERVICES_ARC, Scopes, Service};
use super::serving::{Oncoming, RESUMES, Serve, Serving, Verdict, Visit};
use crate::policer::{Action, Policed, colour, fates, mark};
use graph::engine::MAX_VECTOR;
use graph::{Feature, NodeSpec, prefetch_read};
use std::sync::Arc;
use tables::policer::{Colour, Credit};
use tables::session::Handle;

graph::edges! {
    /// Where packets go besides other services and their arc.
    enum Next {
        Drop => "drop",
    }
}

graph::drops! {
    /// Why a packet gets no further.
    enum Drop {
        /// It conforms to the tenant's policer, which drops what does.
        Conforming => "conforming", Loss,
        /// It exceeds the committed rate and burst of the tenant's policer.
        Exceeding => "exceeding", Loss,
        /// It violates the rates and bursts of the tenant's policer.
        Violating => "violating", Loss,
    }
}

graph::counters! {
    /// What is counted besides drops.
    enum Counter {
        /// Packets that were given another DSCP.
        Marked => "marked",
    }
}

/// The service's declaration.
pub(super) const SERVICE: Service = Service {
    node: NodeSpec {
        name: "policer",
        help: "Meters what a tenant's sessions send, and marks or drops what is too much.",
        edges: Next::NAMES,
        drops: Drop::SPECS,
        counters: Counter::SPECS,
        // What others drop takes no tokens.
        features: &[Feature {
            arc: SERVICES_ARC,
            runs_before: &["nat"],
            runs_after: &["tcp-check", "l4-lifecycle", "balance", "acl"],
        }],
        resumes: RESUMES,
        make: |cx| Serving::boxed(cx, Policer { colours: [Colour::Green; MAX_VECTOR] }),
        ..NodeSpec::EMPTY
    },
    both_ways: false,
    errors: false,
    scopes: Scopes::All,
    any_key: true,
    asked_again: true,
    explain,
};

/// Tokens of a session, by direction, and the versions of the policers that they are of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tokens {
    versions: [u32; 2],
    credit: [Credit; 2],
}

/// What it would do: which colour a packet has, tokens say when it comes.
fn explain(meeting: &mut Meeting<'_>) -> Meets {
    let Some(policed) = &meeting.tenant.policers[meeting.direction as usize] else {
        return meeting.passes("no policer for this direction");
    };
    let profile = &policed.profile;
    let tokens =
        if profile.per_session { "the session's own tokens" } else { "tokens of the whole direction" };
    meeting.say(
        Some(Object::Policer(Arc::clone(&profile.name))),
        format!("meters by {tokens}: {}", fates(profile)),
    );
    Meets::Passes
}

struct Policer {
    /// Of the vector's packets, by their places.
    colours: [Colour; MAX_VECTOR],
}

impl Serve for Policer {
    fn vector(&mut self, coming: Oncoming<'_>) {
        let Oncoming { packets, slots, sessions, tenants, now, .. } = coming;
        let mut policers: [Option<&Policed>; MAX_VECTOR] = [None; MAX_VECTOR];
        let mut bytes = [0; MAX_VECTOR];
        let mut places = [(Handle { index: 0, generation: 0 }, 0); MAX_VECTOR];
        self.colours[..slots.len()].fill(Colour::Green);
        for (at, slot) in slots.iter().enumerate() {
            let meta = packets.meta(*slot);
            let flow = Flow(meta.next_hop);
            // One that is gone is found out later.
            let Some((handle, _, session)) = sessions.table.visit(flow.session()) else { continue };
            let direction = session.direction(flow.is_from_high());
            let tenant = tenants.get(session.tenant);
            let Some(policed) = tenant.and_then(|tenant| tenant.policers[direction as usize].as_deref())
            else {
                continue;
            };
            (policers[at], bytes[at], places[at]) = (Some(policed), meta.len(), (handle, direction as usize));
            if policed.profile.per_session {
                sessions.tokens.soon(flow.session(), prefetch_read);
            }
            if policed.profile.is_aware {
                self.colours[at] = colour(packets.area(*slot), meta.l3.into(), meta.end.into());
            }
        }
        let mut from = 0;
        while from < slots.len() {
            let Some(policed) = policers[from] else {
                from += 1;
                continue;
            };
            let is_same =
                |other: &&Option<&Policed>| other.is_some_and(|other| core::ptr::eq(other, policed));
            let to = from + policers[from..slots.len()].iter().take_while(is_same).count();
            let (bytes, colours) = (&bytes[from..to], &mut self.colours[from..to]);
            let profile = &*policed.profile;
            if profile.per_session {
                policed.meter_each(bytes, colours, |at, bytes, before| {
                    let (handle, way) = places[from + at];
                    let Some((tokens, _)) = sessions.tokens.get_mut(handle) else { return before };
                    if tokens.versions[way] != profile.version {
                        tokens.versions[way] = profile.version;
                        tokens.credit[way] = Credit::full(&profile.meter, now);
                    }
                    tokens.credit[way].colour(&profile.meter, now, bytes, before)
                });
            } else {
                policed.meter(now, bytes, colours);
            }
            from = to;
        }
    }

    #[inline(always)]
    fn packet(&mut self, visit: &mut Visit<'_>) -> Verdict {
        let colour = self.colours[visit.at];
        let policed = visit.tenant().and_then(|tenant| tenant.policers[visit.direction as usize].as_ref());
        match policed.map_or(Action::Transmit, |policed| policed.profile.action(colour)) {
            Action::Transmit => Verdict::Next,
            Action::Mark(dscp) => {
                let (meta, area) = visit.packets.parts_mut(visit.slot);
                if mark(area, meta.l3.into(), meta.end.into(), dscp) {
                    visit.count(Counter::Marked);
                }
                Verdict::Next
            }
            Action::Drop => Verdict::Drop(
                match colour {
                    Colour::Green => Drop::Conforming,
                    Colour::Yellow => Drop::Exceeding,
                    Colour::Red => Drop::Violating,
                }
                .into(),
            ),
        }
    }

    fn fragment(&mut self, visit: &mut Visit<'_>) -> Verdict {
        self.packet(visit)
    }
}
