//! The service `redirect`: has an engine beside Quiver look into sessions.
//!
//! | packet | what becomes of it |
//! |---|---|
//! | of a session of which the engine has seen enough, or was judged | passes, and those behind it don't come here |
//! | while the engine is away | passes or is dropped, as the tenant says |
//! | a fragment, where the engine is to see packets whole | goes to a node that puts them together, and from there to the engine |
//! | any other, also a fragment | goes to the engine |

use super::OnFailure;
use super::note::Note;
use crate::session::Sessions;
use crate::session::entry::{Flow, Session};
use crate::session::explain::{Meeting, Meets, Object};
use crate::session::services::{SERVICES_ARC, Scopes, Service};
use crate::session::serving::{Ahead, Oncoming, RESUMES, Serve, Serving, Verdict, Visit};
use crate::session::tenants::TICK_BITS;
use crate::session::translate::Sided;
use crate::session::tuple::{TCP_OFFSET, icmp_error_at, transport_at};
use graph::packet::{Flags, Gso, Packets, SlotId};
use graph::plan::Plan;
use graph::{Feature, NodeSpec, prefetch_read};
use std::sync::LazyLock;
use wire::{Header, UdpHeader};

graph::edges! {
    /// Where packets go besides other services and their arc.
    enum Next {
        Drop => "drop",
        Output => "redirect-output",
        Whole4 => "ip4-redirect-reassembly",
        Whole6 => "ip6-redirect-reassembly",
    }
}

graph::drops! {
    /// Why a packet gets no further.
    enum Drop {
        /// The engine is away, and nothing of the tenant's passes without it.
        EngineAway => "engine-away", Loss,
        /// The session was judged: the rest of it is dropped.
        Judged => "judged", Loss,
        /// There is no memory for what has to be known of the session.
        NoMemory => "no-memory", Loss,
        /// Its addresses or ports aren't those that packets of its session have on that side.
        Untranslated => "untranslated", Invalid,
    }
}

graph::counters! {
    /// What is counted.
    enum Counter {
        /// Packets that went to an engine as they were, fragments among them.
        Sent => "sent",
        /// Packets that passed without, since the engine was away.
        PassedAway => "passed-engine-away",
        /// Directions of sessions of which the engine sees no more.
        Left => "left",
    }
}

/// The service's declaration.
pub(in crate::session) const SERVICE: Service = Service {
    node: NodeSpec {
        name: "redirect",
        help: "Sends sessions through an engine beside Quiver, which looks into them.",
        edges: Next::NAMES,
        drops: Drop::SPECS,
        counters: Counter::SPECS,
        // What others drop isn't worth its time.
        features: &[Feature {
            arc: SERVICES_ARC,
            runs_before: &["nat"],
            runs_after: &["tcp-check", "l4-lifecycle", "balance", "acl", "policer"],
        }],
        resumes: RESUMES,
        make: |cx| Serving::boxed(cx, Redirecting { now: 0 }),
        ..NodeSpec::EMPTY
    },
    both_ways: true,
    errors: false,
    scopes: Scopes::DEFAULT,
    any_key: false,
    asked_again: true,
    explain,
};

/// The service's number.
#[must_use]
pub fn number() -> u8 {
    static NUMBER: LazyLock<u8> =
        LazyLock::new(|| crate::session::order().number(SERVICE.node.name).unwrap_or_default());
    *NUMBER
}

/// Why packets of sessions are dropped that were judged so (graph-wide id); `None` where the graph is without the service.
#[must_use]
pub fn judged(plan: &Plan) -> Option<u16> {
    let at = plan.drops.iter().position(|(node, spec)| {
        spec.name == Drop::SPECS[Drop::Judged as usize].name
            && plan.nodes[usize::from(*node)].spec.name == SERVICE.node.name
    })?;
    Some(at as u16)
}

/// What it would do.
fn explain(meeting: &mut Meeting<'_>) -> Meets {
    let (way, tenant) = (meeting.direction as usize, meeting.tenant);
    let Some(redirect) = &tenant.redirect else { return meeting.passes("no engine") };
    if meeting.is_past && meeting.session().is_some_and(Session::is_blocked) {
        return meeting.drops(
            None,
            "it was judged that the rest of its session is dropped",
            reason(Drop::Judged),
        );
    }
    if redirect.only_by_rules && !meeting.redirected {
        return meeting.passes("no rule says that the engine looks into its session");
    }
    let note = meeting.there.and_then(|(handle, _)| meeting.sessions.redirected.get(handle).copied());
    let note = note.unwrap_or_default();
    let seen = meeting.session().map_or(0, |session| session.packets()[way]);
    let enough = if note.is_allowed(tenant.policy) {
        Some("it was judged that the rest of its session passes without the engine".to_owned())
    } else if redirect.inspect_packets != 0 && seen >= redirect.inspect_packets {
        Some(format!("the engine has seen {} packets", redirect.inspect_packets))
    } else {
        None
    };
    let now = meeting.known.now;
    let waits = !meeting.is_past && note.waits(way, now >> TICK_BITS);
    match enough {
        Some(why) if waits => {
            meeting.say(None, format!("{why}, and still has some of it, which is waited for"))
        }
        Some(why) => return meeting.passes(why),
        None => {}
    }
    match redirect.on_failure {
        _ if redirect.is_there(now) => {}
        OnFailure::Drop => {
            return meeting.drops(None, "the engine is away (on_failure is drop)", reason(Drop::EngineAway));
        }
        OnFailure::Pass => {
            return meeting.passes("the engine is away, and it passes without (on_failure is pass)");
        }
    }
    let by = Object::Interface(redirect.interfaces[way]);
    meeting.say(Some(by), "goes to the engine by that interface, and on where it is sent back");
    Meets::Passes
}

const fn reason(drop: Drop) -> &'static str {
    Drop::SPECS[drop as usize].name
}

struct Redirecting {
    /// Monotonic nanoseconds.
    now: u64,
}

/// As how many packets the engine sees one: a super-frame is cut on its way there.
#[inline(always)]
fn pieces(packets: &Packets, slot: SlotId, is_v6: bool) -> u32 {
    if packets.meta(slot).offload.gso == Gso::None { 1 } else { segments(packets, slot, is_v6) }
}

#[cold]
fn segments(packets: &Packets, slot: SlotId, is_v6: bool) -> u32 {
    let meta = packets.meta(slot);
    let Some((at, _)) = transport_at(packets, slot, is_v6) else { return 1 };
    let header = match meta.offload.gso {
        Gso::Tcp4 | Gso::Tcp6 => {
            packets.area(slot).get(at + TCP_OFFSET).map_or(0, |octet| usize::from(octet >> 4) * 4)
        }
        _ => UdpHeader::LEN,
    };
    let headers = (at + header).saturating_sub(meta.l3.into()) as u32;
    meta.len().saturating_sub(headers).div_ceil(u32::from(meta.offload.gso_size).max(1)).max(1)
}

impl Serve for Redirecting {
    #[inline(always)]
    fn fetch(sessions: &Sessions, flow: Flow, ahead: Ahead) {
        if ahead == Ahead::First {
            sessions.redirected.soon(flow.session(), prefetch_read);
        }
    }

    fn vector(&mut self, coming: Oncoming<'_>) {
        self.now = coming.now;
    }

    fn packet(&mut self, visit: &mut Visit<'_>) -> Verdict {
        if visit.session.is_translated() && icmp_error_at(visit.packets, visit.slot, visit.is_v6).is_some() {
            return Verdict::Next;
        }
        let packets = pieces(visit.packets, visit.slot, visit.is_v6);
        self.sees::<false>(visit, packets)
    }

    fn fragment(&mut self, visit: &mut Visit<'_>) -> Verdict {
        self.sees::<true>(visit, 1)
    }
}

impl Redirecting {
    /// What becomes of a packet that the engine sees as so many. `LATER`: it is a fragment, and not the first one.
    #[inline(always)]
    fn sees<const LATER: bool>(&self, visit: &mut Visit<'_>, packets: u32) -> Verdict {
        let Some(tenant) = visit.tenant() else { return Verdict::Next };
        let Some(redirect) = &tenant.redirect else { return Verdict::Next };
        let way = visit.direction as usize;
        let Some((note, _)) = visit.redirected.get_mut(visit.handle) else {
            return Verdict::Drop(Drop::NoMemory.into());
        };
        let note: &mut Note = note;
        let enough = (tenant.policy, redirect.inspect_packets);
        if note.leaves(visit.session, way, enough, self.now >> TICK_BITS) {
            visit.session.retire_from(visit.direction, visit.me);
            visit.count(Counter::Left);
            return Verdict::Next;
        }
        if !redirect.is_there(self.now) {
            return match redirect.on_failure {
                OnFailure::Drop => Verdict::Drop(Drop::EngineAway.into()),
                OnFailure::Pass => {
                    visit.count(Counter::PassedAway);
                    Verdict::Next
                }
            };
        }
        if visit.session.is_translated() {
            // The engine sees both sides as the initiator knows them.
            let of = Sided { session: visit.handle, key: visit.key, from_high: visit.from_high };
            if visit.translations.take_back(visit.packets, visit.slot, of).is_err() {
                return Verdict::Drop(Drop::Untranslated.into());
            }
        }
        let meta = visit.packets.meta_mut(visit.slot);
        meta.tx_if = redirect.interfaces[way];
        meta.next_hop = redirect.interfaces[1 - way].into();
        if redirect.reassemble && meta.flags.has(Flags::FRAGMENT) {
            // All of them come back as one packet, if they do.
            note.go(way, u32::from(!LATER));
            return Verdict::To(if visit.is_v6 { Next::Whole6.edge() } else { Next::Whole4.edge() });
        }
        note.go(way, packets);
        visit.count(Counter::Sent);
        Verdict::To(Next::Output.edge())
    }
}
