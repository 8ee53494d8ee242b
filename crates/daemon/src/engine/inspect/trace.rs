//! Packet traces.

use std::sync::PoisonError;
use std::time::{SystemTime, UNIX_EPOCH};

use api::v1::{TraceShowResponse, TraceStep, TracedPacket};
use graph::NodeKind;
use graph::trace::{Budget, PacketTrace, TraceOrder};

use super::super::port::Kind;
use super::super::registry::Registry;
use super::super::start::Shared;
use crate::dataplane::InspectError;

pub(super) fn add(shared: &Shared, from: Option<&str>, count: u32) -> Result<(), InspectError> {
    let inventory = shared.directory.get();
    let plan = &shared.plan;
    let (nodes, interface) = match from {
        None => {
            let ids = 0..plan.nodes.len() as u16;
            (ids.filter(|id| plan.nodes[usize::from(*id)].spec.kind == NodeKind::Input).collect(), None)
        }
        Some(name) => match (plan.node(name), inventory.registry.find(name)) {
            (Some(node), _) => (vec![node], None),
            (None, Some(index)) => {
                let input = inventory.registry.get(index).and_then(|entry| Kind::of(&entry.spec.port).input);
                let node = input.and_then(|input| plan.node(input)).ok_or_else(|| {
                    InspectError::Invalid(format!(
                        "interface {name} has no port of its own: trace the one below it"
                    ))
                })?;
                (vec![node], Some(index))
            }
            (None, None) => {
                let text = format!("there is no node and no interface {name}: see `quiver show graph`");
                return Err(InspectError::NotFound(text));
            }
        },
    };
    shared.pool.trace(&TraceOrder { nodes, interface, budget: Budget::new(count) });
    Ok(())
}

pub(super) fn show(shared: &Shared, limit: u32) -> TraceShowResponse {
    let inventory = shared.directory.get();
    let mut traces: Vec<PacketTrace> = Vec::new();
    for worker in shared.pool.workers() {
        traces.extend(worker.traces().lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
    }
    traces.sort_by_key(|trace| trace.time);
    if limit > 0 {
        traces.truncate(limit as usize);
    }
    let offset = wall_clock_offset();
    let packets = traces
        .iter()
        .enumerate()
        .map(|(id, trace)| packet(&inventory.registry, id as u64 + 1, trace, offset))
        .collect();
    let remaining = shared.pool.untraced();
    TraceShowResponse { packets, remaining }
}

/// What to add to monotonic time to have nanoseconds since 1970.
pub(in super::super) fn wall_clock_offset() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    wall.saturating_sub(memory::clock::nanoseconds())
}

fn packet(registry: &Registry, id: u64, trace: &PacketTrace, offset: u64) -> TracedPacket {
    let steps = trace.steps.iter().map(|step| {
        let mut text = step.text.clone();
        if let Some(reason) = step.drop_reason {
            text = format!("{reason}{}{text}", if text.is_empty() { "" } else { ": " });
        }
        if let Some(next) = step.next {
            let gap = if text.is_empty() { "" } else { "\n" };
            text = format!("{text}{gap}-> {next}");
        }
        TraceStep { node: step.node.into(), offset_ns: step.offset, text }
    });
    TracedPacket {
        id,
        worker: trace.worker as u32,
        interface: registry.name(trace.rx_if),
        timestamp_ns: trace.time + offset,
        steps: steps.collect(),
    }
}
