//! Which port a standstill belongs to, and taking that port away.

use std::time::Instant;

use api::v1::MemifPeerMemory;
use graph::counters::PortCall;
use graph::port::{IfIndex, PortFault};
use graph::worker::{Event, EventSender};

use super::super::penalty::STALL;
use super::super::start::Shared;
use super::Standstill;
use crate::model::spec::PortSpec;

/// The interface whose port keeps the worker in a call.
///
/// A transmit queue reads the bodies of other interfaces' packets. A worker that sleeps there waits for a page, and which peer's page it is shows only where no more than one
/// peer can free pages.
pub(super) fn owner(shared: &Shared, call: Option<PortCall>, standstill: Standstill) -> Option<IfIndex> {
    let PortCall { interface, sends } = call?;
    // A thread that a debugger holds, or that gets no processor, is nobody's fault.
    if !matches!(standstill, Standstill::Loops | Standstill::Sleeps | Standstill::Uninterruptible) {
        return None;
    }
    let waits = matches!(standstill, Standstill::Sleeps | Standstill::Uninterruptible);
    if !(sends && waits) {
        return Some(interface);
    }
    let inventory = shared.directory.get();
    let mut unsealed = inventory.registry.iter().filter(|(_, entry)| can_free_pages(&entry.spec.port));
    match (unsealed.next(), unsealed.next()) {
        (Some((only, _)), None) => Some(only),
        _ => None,
    }
}

/// Whether the peer of a port can free pages that a worker touches.
pub(super) fn can_free_pages(port: &PortSpec) -> bool {
    matches!(port, PortSpec::Memif(memif) if memif.access.memory != MemifPeerMemory::Sealed)
}

/// Name of an interface.
pub(super) fn name(shared: &Shared, interface: IfIndex) -> Option<String> {
    Some(shared.directory.get().registry.get(interface)?.spec.name.to_string())
}

/// Takes the port of an interface away for what `reason` says. The engine's thread does it, so that nobody waits here for a lock. False where it has no port, or where
/// the queue to that thread is full: to be tried again.
pub(super) fn take_away(shared: &Shared, events: &EventSender, interface: IfIndex, reason: &str) -> bool {
    let inventory = shared.directory.get();
    let Some(entry) = inventory.registry.get(interface) else { return false };
    let Some(attachment) = entry.attachment else { return false };
    let fault = PortFault { kind: STALL, reason: reason.to_owned() };
    // Before the event: the engine checks penalties when it handles the event.
    shared.penalties.strike(&entry.spec, reason, Instant::now());
    if !events.send(Event::RxFault { interface, queue: 0, attachment, fault }) {
        shared.penalties.take_back(&entry.spec.name);
        return false;
    }
    tracing::error!(interface = %entry.spec.name, reason, "port taken away");
    true
}
