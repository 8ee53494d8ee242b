//! The service `first-packets`, in a scope of its own, `quic`: tells by its counter how many sessions have sent a hundred packets.
//!
//! It does little, and shows what a scope is: tenants of scope `quic` name this one and those of every scope, and others can't name it.

use features::session::Direction;
use features::session::explain::{Meeting, Meets};
use features::session::service::{Custom, Packet, RESUMES, SERVICES_ARC, Scopes, Service, Verdict, node};
use graph::{Feature, NodeSpec};

graph::edges! {
    /// Where packets go besides other services and their arc.
    enum Next {
        Drop => "drop",
    }
}

graph::counters! {
    /// What is counted.
    enum Counter {
        /// Sessions that have sent a hundred packets.
        Hundred => "hundred",
    }
}

/// The service's declaration.
pub const SERVICE: Service = Service {
    node: NodeSpec {
        name: "first-packets",
        help: "Counts sessions that have sent a hundred packets.",
        edges: Next::NAMES,
        counters: Counter::SPECS,
        features: &[Feature { arc: SERVICES_ARC, runs_before: &[], runs_after: &["policer"] }],
        resumes: RESUMES,
        make: |cx| node(cx, FirstPackets),
        ..NodeSpec::EMPTY
    },
    scopes: Scopes::Of(&["quic"]),
    any_key: true,
    explain,
    ..Service::EMPTY
};

const ENOUGH: u64 = 100;

struct FirstPackets;

impl Custom for FirstPackets {
    fn packet(&mut self, packet: &mut Packet<'_, '_>) -> Verdict {
        if packet.session().packets()[Direction::Forward as usize] >= ENOUGH {
            packet.count(Counter::Hundred);
            packet.leave_session();
        }
        Verdict::Next
    }

    fn fragment(&mut self, packet: &mut Packet<'_, '_>) -> Verdict {
        self.packet(packet)
    }
}

/// What `quiver explain` says.
fn explain(meeting: &mut Meeting<'_>) -> Meets {
    meeting.passes("waits for the session's hundredth packet")
}
