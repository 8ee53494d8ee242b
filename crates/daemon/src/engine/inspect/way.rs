//! What `explain` asks of a packet's way besides sessions and routes: its addresses where it comes in, and port splits.

use api::v1::{ExplainResponse, ExplainStep, ExplainVerdict};
use features::interface::Interfaces;
use features::ip::{Arrived, Followed, NextHop, NextHops, arrives};
use features::port_split::{ByPort, Decided, decide};
use features::session::explain::Imagined;
use graph::port::IfIndex;

use super::super::directory::Inventory;
use super::super::start::Shared;
use super::explain::{dropped, leaves, step};

/// What becomes of a packet whose addresses say by themselves that it isn't routed. `None`: they don't.
pub(super) fn arrival(
    shared: &Shared,
    answer: &mut ExplainResponse,
    packet: &Imagined,
) -> Option<ExplainResponse> {
    let (source, destination) = (packet.source.0, packet.destination.0);
    let node = if source.is_ipv4() { "ip4-input" } else { "ip6-input" };
    match arrives(source, destination) {
        Arrived::Routed => None,
        Arrived::Local => {
            let mut answer = std::mem::take(answer);
            let found = format!("{destination} is for all on the link: it isn't routed");
            answer.steps.push(step(node, None, found));
            answer.verdict = ExplainVerdict::Local.into();
            answer.out_interface.clone_from(&answer.interface);
            Some(leaves(answer, packet))
        }
        Arrived::Dropped(reason) => Some(dropped(shared, std::mem::take(answer), packet, (node, reason))),
    }
}

/// Where a packet goes whose look-up has ended at `hop`, where that is a port split.
pub(super) fn by_port(
    inventory: &Inventory,
    (hops, interfaces): (&NextHops, &Interfaces),
    packet: &Followed,
    hop: &NextHop,
) -> Option<Decided> {
    // As workers see it: they have a queue to send by.
    let has_queues = |index| inventory.registry.get(index).is_some_and(|entry| entry.attachment.is_some());
    let is_connected = |index: IfIndex| interfaces.carrier(index).is_none_or(has_queues);
    decide(hops, hop, (packet.protocol, packet.ends[1].1), is_connected)
}

/// The step at a port split.
pub(super) fn at_split(
    inventory: &Inventory,
    node: &str,
    packet: &Followed,
    decided: &Decided,
) -> ExplainStep {
    let (port, name) = (packet.ends[1].1, inventory.registry.name(decided.interface));
    let found = match (decided.by, decided.hop) {
        (ByPort::Matching, _) => format!("port {port} is the split's: by {name}"),
        (ByPort::Others, _) => "it has no port of the split's: it goes where others go".into(),
        (ByPort::NobodyThere, hop) => {
            let who = match decided.interface {
                0 => "the interface of the split's ports leads nowhere".into(),
                _ => format!("nobody is connected to {name}"),
            };
            let then = if hop == Err("no-peer") { "it goes nowhere else" } else { "it goes where others go" };
            format!("port {port} is the split's, but {who}: {then}")
        }
    };
    step(node, None, found)
}
