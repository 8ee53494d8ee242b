//! Sessions: who speaks with whom, in both directions, and what is done with their packets.
//!
//! * [`tenants`]: what configuration says, as workers see it. An interface is a tenant's (sessions begin there) or outside
//!   (answers come from there); `classes`: whose sessions are that begin at one.
//! * `tuple`: what a packet's session is found by; [`parser`]: what else it may be, `gtpu`: tunnels; `input`: the nodes that find or begin the sessions of a vector;
//!   `early`: SYNs that are dropped when they are seen first; `fragments`: the nodes that know which session a fragment belongs to; `expire`: the node that ends them; `reset`: the one that refuses connections.
//! * [`SlowPath`]: what is done with packets that aren't simply one of a session's.
//! * [`Sessions`]: one worker's, without locks; `room`: which of them go for others, `owed`: also for those of other workers; [`Session`]: one of them; `look`: seeing and ending them from outside; `kept`: those that outlive the process; `events`: hearing of them;
//!   [`explain`]: what a packet would meet.
//! * `traffic`: what tenants' sessions have sent, `fill`: how full a worker's table is; `noted`: sums of what `session-stats` has seen; [`services`]: what a session's packets pass, `order`: in declared order, `scopes`: in sets of their own; `serving`: what all of them have in common; `onward`: the ways to them and back; `lifecycle`,
//!   `one_sided`, `tcp_check`, `session_stats`, [`nat`], [`balance`], [`acl`], `policer`, [`redirect`], `direct_return`: the services; `translate`: what `nat` and `balance` have in common; [`service`]: what those are made of that are written elsewhere.

pub mod acl;
pub mod balance;
mod classes;
mod direct_return;
mod dropped;
mod due;
mod early;
mod entry;
mod events;
mod expire;
pub mod explain;
mod fill;
pub(crate) mod fragments;
mod gtpu;
mod input;
mod ip4_session_input;
mod ip6_session_input;
mod kept;
mod lifecycle;
mod link;
mod look;
pub mod nat;
mod noted;
mod one_sided;
mod onward;
mod order;
mod owed;
pub mod parser;
mod policer;
pub mod redirect;
mod renewal;
mod reset;
mod restart;
mod room;
mod scopes;
mod serve;
pub mod service;
pub mod services;
mod serving;
mod session_stats;
mod sessions;
mod slow_path;
mod sources;
mod tcp_check;
pub mod tenants;
#[cfg(test)]
mod tests;
mod traffic;
mod translate;
pub(crate) mod tuple;
mod unusual;

pub use classes::Class;
pub use entry::{Direction, Session, State};
pub use events::{End, Event, Kinds, Watcher, What, watch};
pub use fill::Fill;
pub use kept::Kept;
pub use look::{Filter, Seen};
pub use noted::{Noted, SideSums};
pub use session_stats::SideStats;
pub use sessions::Sessions;
pub use slow_path::{CASES, Case, SlowAction, SlowPath};
pub use sources::{MOST as MOST_PER_SOURCE, SourceLimit};
pub use tcp_check::TcpState;
pub use tenants::{Midstream, Occupancy, Place, Tenant, Tenants};
pub use traffic::Traffic;
pub(crate) use translate::OwnErrors;
pub use tuple::has_sessions;

use graph::NodeSpec;
use services::{Order, Service};
use std::sync::OnceLock;

/// This folder's nodes besides services.
pub const NODES: &[NodeSpec] = &[
    ip4_session_input::NODE,
    ip6_session_input::NODE,
    fragments::NODES[0],
    fragments::NODES[1],
    expire::NODE,
    reset::NODE,
    redirect::NODES[0],
    redirect::NODES[1],
    redirect::NODES[2],
    redirect::NODES[3],
    redirect::NODES[4],
    redirect::NODES[5],
];

/// The services that are here.
pub const SERVICES: &[Service] = &[
    lifecycle::SERVICE,
    one_sided::SERVICE,
    tcp_check::SERVICE,
    session_stats::SERVICE,
    balance::SERVICE,
    acl::SERVICE,
    policer::SERVICE,
    redirect::SERVICE,
    nat::SERVICE,
    direct_return::SERVICE,
];

/// All services in their order: those of [`SERVICES`], and those that were [added](service::add).
///
/// # Panics
/// If declarations of [`SERVICES`] contradict each other: a mistake that every test finds.
#[must_use]
pub fn order() -> &'static Order {
    ORDER.get_or_init(|| match Order::resolve(SERVICES) {
        Ok(order) => order,
        Err(error) => panic!("{error}"),
    })
}

static ORDER: OnceLock<Order> = OnceLock::new();
