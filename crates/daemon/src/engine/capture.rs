//! Captures: packets as they are received, sent or dropped, for whoever looks on.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::v1::{CaptureDirection, CaptureLink, CaptureRequest, CaptureResponse, CapturedPacket};
use features::interface::LinkMode;
use graph::plan::Plan;
use ports::wrap::capture::{CaptureOptions, CaptureReader, Seen};
use tokio::sync::mpsc;

use super::compile::link_mode;
use super::registry::Registry;
use super::start::Shared;
use crate::dataplane::{Capture, InspectError};

/// Answers that may wait for the client: what they have isn't part of the memory that captures have a share of.
const BACKLOG: usize = 1;
/// Packets of one answer, and their bytes.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 256 << 10;

/// Begins a capture.
///
/// # Errors
/// [`InspectError::NotFound`] for an interface that isn't there, [`InspectError::Busy`] where there is no thread or no room for another capture.
pub(super) fn start(shared: &Arc<Shared>, request: &CaptureRequest) -> Result<Capture, InspectError> {
    let interfaces = interfaces(shared, &request.interfaces)?;
    let all = !(request.rx || request.tx || request.drop);
    let options = CaptureOptions {
        interfaces,
        received: all || request.rx,
        sent: all || request.tx,
        dropped: all || request.drop,
        count: request.count,
        snap_len: request.snap_length,
    };
    let reader = shared.captures.start(options).map_err(|error| InspectError::Busy(error.to_string()))?;
    let (answers, capture) = mpsc::channel(BACKLOG);
    let shared = Arc::clone(shared);
    std::thread::Builder::new()
        .name("capture".into())
        .spawn(move || carry(&shared, reader, &answers))
        .map_err(|error| InspectError::Busy(format!("no thread for the capture: {error}")))?;
    Ok(capture)
}

fn interfaces(shared: &Shared, names: &[String]) -> Result<Option<BTreeSet<u16>>, InspectError> {
    if names.is_empty() {
        return Ok(None);
    }
    let inventory = shared.directory.get();
    let index = |name: &String| {
        let missing =
            || InspectError::NotFound(format!("there is no interface {name}: see `quiver show interface`"));
        inventory.registry.find(name).ok_or_else(missing)
    };
    names.iter().map(index).collect::<Result<_, _>>().map(Some)
}

/// Carries packets from the workers to the client until one of them ends.
fn carry(shared: &Shared, mut reader: CaptureReader, answers: &mpsc::Sender<CaptureResponse>) {
    while let Some(first) = next(&mut reader, answers) {
        let (mut packets, mut bytes) = (vec![first], 0);
        while packets.len() < BATCH && bytes < BATCH_BYTES {
            let Some(packet) = reader.try_recv() else { break };
            bytes += packet.bytes.len();
            packets.push(packet);
        }
        let answer = CaptureResponse { packets: named(shared, packets), missed: reader.missed() };
        // The client is gone: the capture ends with the reader.
        if answers.blocking_send(answer).is_err() {
            return;
        }
    }
}

/// The next packet; none when the capture is over or nobody listens any more.
fn next(
    reader: &mut CaptureReader,
    answers: &mpsc::Sender<CaptureResponse>,
) -> Option<ports::wrap::capture::CapturedPacket> {
    loop {
        if let Some(packet) = reader.try_recv() {
            return Some(packet);
        }
        if reader.ended() || answers.is_closed() {
            return None;
        }
        // A pause that nobody notices in a capture, and that lets the thread end soon after its client.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Packets as clients know them. What the engine is asked for is asked once for all.
fn named(shared: &Shared, packets: Vec<ports::wrap::capture::CapturedPacket>) -> Vec<CapturedPacket> {
    let inventory = shared.directory.get();
    packets.into_iter().map(|one| packet(&shared.plan, &inventory.registry, one)).collect()
}

fn packet(plan: &Plan, registry: &Registry, packet: ports::wrap::capture::CapturedPacket) -> CapturedPacket {
    let entry = registry.get(packet.interface);
    let link = match entry.map(|entry| link_mode(&entry.spec)) {
        Some(LinkMode::Ip) => CaptureLink::Ip,
        _ => CaptureLink::Ethernet,
    };
    let (direction, drop) = match packet.seen {
        Seen::Received => (CaptureDirection::Rx, None),
        Seen::Sent => (CaptureDirection::Tx, None),
        Seen::Dropped { reason } => (CaptureDirection::Drop, plan.drops.get(usize::from(reason))),
    };
    let node = drop.map(|(node, _)| plan.nodes[usize::from(*node)].spec.name.to_string());
    CapturedPacket {
        timestamp_ns: packet.timestamp_ns,
        interface: registry.name(packet.interface),
        direction: direction.into(),
        link: link.into(),
        original_length: packet.original_len,
        data: packet.bytes.into_vec(),
        drop_node: node.unwrap_or_default(),
        drop_reason: drop.map(|(_, spec)| spec.name.to_string()).unwrap_or_default(),
        worker: packet.worker as u32,
    }
}
