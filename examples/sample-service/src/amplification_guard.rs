//! The service `amplification-guard`: who answers datagrams by far more than was asked for is cut off.
//!
//! A sender can lie about its address. So a server that answers a few bytes by many can be used to flood somebody else, and QUIC allows
//! three times as many bytes as have come, until the address is known to be the sender's (RFC 9000 section 8.1). This holds all UDP services to that.
//!
//! | packet | what becomes of it |
//! |---|---|
//! | of another protocol than UDP | passes, and the session's packets don't come here any more |
//! | from the initiator | passes |
//! | to the initiator, with the others at most three times what it has sent | passes |
//! | beyond that, a fragment, too | is dropped, and so are all others of the session, until it has been silent for the tenant's `blocked_seconds` |

use features::session::Direction;
use features::session::explain::{Meeting, Meets};
use features::session::service::{Custom, Packet, RESUMES, SERVICES_ARC, Service, Verdict, node};
use graph::{Feature, NodeSpec};
use wire::IpProtocol;

graph::edges! {
    /// Where packets go besides other services and their arc.
    enum Next {
        Drop => "drop",
    }
}

graph::drops! {
    /// Why a packet gets no further.
    enum Drop {
        /// The responder has sent more than three times what it was sent: it can be used to flood others.
        Amplified => "amplified", Loss,
    }
}

graph::counters! {
    /// What is counted besides drops.
    enum Counter {
        /// Sessions that were cut off.
        CutOff => "cut-off",
    }
}

/// The service's declaration.
pub const SERVICE: Service = Service {
    node: NodeSpec {
        name: "amplification-guard",
        help: "Cuts sessions off whose responder sends more than three times what it is sent.",
        edges: Next::NAMES,
        drops: Drop::SPECS,
        counters: Counter::SPECS,
        // What is denied anyway isn't looked at; and it says what it does of backends and inside hosts.
        features: &[Feature { arc: SERVICES_ARC, runs_before: &["nat"], runs_after: &["acl"] }],
        resumes: RESUMES,
        make: |cx| node(cx, Guard),
        ..NodeSpec::EMPTY
    },
    any_key: true,
    explain,
    ..Service::EMPTY
};

/// Bytes of answers for each byte of what was asked (RFC 9000 section 8.1).
const FACTOR: u64 = 3;

/// One worker's instance: it keeps nothing of its own.
struct Guard;

impl Custom for Guard {
    fn packet(&mut self, packet: &mut Packet<'_, '_>) -> Verdict {
        if packet.protocol() != IpProtocol::UDP {
            packet.leave_session();
            return Verdict::Next;
        }
        // The packet at hand is among them.
        let [asked, answered] = packet.session().bytes();
        if packet.direction() == Direction::Reverse && answered > FACTOR * asked {
            packet.count(Counter::CutOff);
            return Verdict::Block(Drop::Amplified.into());
        }
        Verdict::Next
    }

    fn fragment(&mut self, packet: &mut Packet<'_, '_>) -> Verdict {
        self.packet(packet)
    }
}

/// What `quiver explain` says.
fn explain(meeting: &mut Meeting<'_>) -> Meets {
    if meeting.packet().protocol != IpProtocol::UDP {
        return meeting.passes("no UDP: it passes");
    }
    let [asked, answered] = meeting.session().map_or([0; 2], |session| session.bytes());
    meeting.passes(format!("{asked} bytes were sent and {answered} answered: {FACTOR} times as many may be"))
}
