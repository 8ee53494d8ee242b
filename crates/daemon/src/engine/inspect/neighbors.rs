//! Neighbours.

use api::v1::{NeighborPhase, NeighborState};
use features::neighbour::control::State;
use memory::clock::nanoseconds;

use super::super::start::Shared;

pub(super) fn all(shared: &Shared) -> Vec<NeighborState> {
    let inventory = shared.directory.get();
    let now = nanoseconds();
    let state = |view: features::neighbour::control::NeighbourView| NeighborState {
        interface: inventory.registry.name(view.key.interface),
        address: view.key.address.to_string(),
        mac: view.mac.map(|mac| mac.to_string()).unwrap_or_default(),
        phase: phase(view.state).into(),
        age_seconds: now.saturating_sub(view.since) as f64 / 1e9,
        waiting: view.waiting as u32,
    };
    let mut list: Vec<_> = shared.neighbours().iter().map(state).collect();
    list.sort_by(|a, b| (&a.interface, &a.address).cmp(&(&b.interface, &b.address)));
    list
}

fn phase(state: State) -> NeighborPhase {
    match state {
        State::Incomplete => NeighborPhase::Incomplete,
        State::Reachable => NeighborPhase::Reachable,
        State::Stale => NeighborPhase::Stale,
        State::Probe => NeighborPhase::Probe,
        State::Failed => NeighborPhase::Failed,
        State::Static => NeighborPhase::Static,
    }
}
