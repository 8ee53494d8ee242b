//! Engines beside Quiver that look into a tenant's sessions: an intrusion prevention system, for instance. How it is configured: `docs/redirect.md`.
//!
//! ```text
//!             ┌── redirect ──▶ redirect-output ──▶ interface a ──▶ engine ──▶ interface b ──▶ ip4-redirect-input ──▶ (services behind redirect, arc)
//! initiator ──┘                                                 (a bump in the wire)                                          └──▶ responder
//! ```
//!
//! * `service`: says which packets leave, and which pass without; `output`: gives them their Ethernet header.
//! * `whole`: the nodes that put fragments together before they leave, where the tenant wants that.
//! * `returns`: the nodes that find the sessions of what comes back. What passes those is behind the service, so nothing goes round.
//! * `heartbeat`: frames of our own that go the same way, by which is known whether the engine is there. A tap whose reader has died looks as before, and an engine
//!   that drops all it is sent may be doing what it is there for.

mod heartbeat;
mod ip4_redirect_input;
mod ip4_redirect_reassembly;
mod ip6_redirect_input;
mod ip6_redirect_reassembly;
mod note;
mod output;
mod returns;
mod service;
mod whole;

pub use heartbeat::frame as heartbeat_frame;
pub use note::Judgment;
pub(super) use note::Note;
pub(super) use service::SERVICE;
pub use service::{judged, number};

use core::sync::atomic::{AtomicU64, Ordering};
use graph::{IfIndex, NodeSpec};
use std::sync::Arc;

/// The folder's nodes besides the service.
pub(super) const NODES: [NodeSpec; 6] = [
    output::NODE,
    ip4_redirect_reassembly::NODE,
    ip6_redirect_reassembly::NODE,
    ip4_redirect_input::NODE,
    ip6_redirect_input::NODE,
    heartbeat::NODE,
];

/// What becomes of packets while the engine is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// They are dropped: nothing passes that wasn't looked into.
    #[default]
    Drop,
    /// They pass without.
    Pass,
}

/// What is known of an engine: the same through all versions of the tables.
#[derive(Debug, Default)]
pub struct Engine {
    /// When the last heartbeat came back, by the side that it came by (monotonic nanoseconds; 0: never).
    beats: [AtomicU64; 2],
}

impl Engine {
    /// A heartbeat has come back by that side.
    pub fn beat(&self, side: usize, now: u64) {
        if let Some(beat) = self.beats.get(side) {
            beat.store(now, Ordering::Relaxed);
        }
    }

    /// Whether heartbeats of both directions have come back within the last `patience` nanoseconds.
    #[must_use]
    pub fn is_there(&self, now: u64, patience: u64) -> bool {
        self.beats.iter().all(|beat| {
            let beat = beat.load(Ordering::Relaxed);
            beat != 0 && now.saturating_sub(beat) <= patience
        })
    }
}

/// Where a tenant's sessions go to be looked into.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// What initiators send leaves by the first and comes back by the second, and answers the other way round. The same one twice where the engine sends back by the
    /// interface that it was sent by; 0 where one isn't there.
    pub interfaces: [IfIndex; 2],
    /// What becomes of packets while the engine is away.
    pub on_failure: OnFailure,
    /// Packets of a session that the engine sees of each direction, at least; 0: all.
    pub inspect_packets: u64,
    /// Only sessions go there of which a rule says so, by the service `acl`.
    pub only_by_rules: bool,
    /// Packets in fragments are put together for it.
    pub reassemble: bool,
    /// After how many nanoseconds without a heartbeat the engine is taken to be away.
    pub patience: u64,
    /// The engine.
    pub engine: Arc<Engine>,
}

impl Redirect {
    /// Whether the engine can be sent something.
    pub(super) fn is_there(&self, now: u64) -> bool {
        !self.interfaces.contains(&0) && self.engine.is_there(now, self.patience)
    }
}

/// What comes in by an engine's interface.
#[derive(Clone, Debug)]
pub struct Side {
    /// Number of the tenant whose sessions the packets are.
    pub tenant: u16,
    /// Its address space.
    pub context: u16,
    /// The engine, and which sides of it the interface is.
    pub engine: (Arc<Engine>, [bool; 2]),
    /// What came in fragments is whole, and may be cut again.
    pub reassembled: bool,
}

/// All interfaces of engines, by index.
#[derive(Clone, Debug, Default)]
pub struct Sides(Vec<Option<Side>>);

impl Sides {
    /// What the interface is to an engine; `None`: nothing.
    #[must_use]
    pub fn get(&self, interface: IfIndex) -> Option<&Side> {
        self.0.get(usize::from(interface))?.as_ref()
    }

    /// The interfaces of a tenant's engine are there for that.
    pub fn add(&mut self, (tenant, context): (u16, u16), redirect: &Redirect) {
        for interface in redirect.interfaces.into_iter().filter(|index| *index != 0) {
            let at = usize::from(interface);
            if self.0.len() <= at {
                self.0.resize(at + 1, None);
            }
            let sides = redirect.interfaces.map(|side| side == interface);
            let (engine, reassembled) = ((Arc::clone(&redirect.engine), sides), redirect.reassemble);
            self.0[at] = Some(Side { tenant, context, engine, reassembled });
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_there_while_both_sides_hear_of_it() {
        let engine = Engine::default();
        assert!(!engine.is_there(0, 10), "it was never heard of");
        engine.beat(0, 100);
        assert!(!engine.is_there(100, 10), "one direction");
        engine.beat(1, 105);
        assert!(engine.is_there(110, 10));
        assert!(!engine.is_there(111, 10));
        // A worker's time may lie behind another's.
        assert!(engine.is_there(90, 10));
    }
}
