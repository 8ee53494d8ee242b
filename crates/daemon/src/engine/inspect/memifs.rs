//! memif connections.

use api::v1::{MemifQueue, MemifState};

use super::super::core::Core;
use super::super::memif::LinkState;
use crate::model::spec::{MemifSpec, PortSpec};

pub(super) fn all(core: &Core) -> Vec<MemifState> {
    let mut list: Vec<MemifState> = core
        .registry
        .iter()
        .filter_map(|(index, entry)| {
            let PortSpec::Memif(memif) = &entry.spec.port else { return None };
            let worker = |queue| placed(core, index, queue);
            Some(state(&entry.spec.name.to_string(), memif, core.memifs.state(index), worker))
        })
        .collect();
    list.sort_by(|a, b| a.interface.cmp(&b.interface));
    list
}

fn placed(core: &Core, index: u16, queue: u16) -> u32 {
    let worker = core.pool.workers().iter().find(|w| core.pool.queues(w.number()).contains(&(index, queue)));
    worker.map_or(0, |worker| worker.number() as u32)
}

fn state(name: &str, memif: &MemifSpec, link: Option<&LinkState>, worker: impl Fn(u16) -> u32) -> MemifState {
    let up = link.and_then(|link| link.up.as_ref());
    let queue = |rx: bool, at: usize, size: &u16| MemifQueue {
        rx,
        index: at as u32,
        ring_size: (*size).into(),
        buffer_size: up.and_then(|up| up.buffer_size).unwrap_or_default(),
        worker: if rx { worker(at as u16) } else { 0 },
        ..MemifQueue::default()
    };
    let mut queues = Vec::new();
    if let Some(up) = up {
        queues.extend(up.rx_rings.iter().enumerate().map(|(at, size)| queue(true, at, size)));
        queues.extend(up.tx_rings.iter().enumerate().map(|(at, size)| queue(false, at, size)));
    }
    MemifState {
        interface: name.into(),
        socket: memif.socket.to_string(),
        id: memif.id,
        role: memif.role.into(),
        mode: memif.mode.into(),
        connected: up.is_some(),
        peer_name: up.map(|up| up.peer.application.to_string()).unwrap_or_default(),
        peer_interface: up.map(|up| up.peer.interface.to_string()).unwrap_or_default(),
        peer_pid: 0,
        mapped_bytes: up.map_or(0, |up| up.mapped),
        queues,
        connects: link.map_or(0, |link| link.connects),
        disconnects: link.map_or(0, |link| link.disconnects),
        last_disconnect: link.and_then(|link| link.last_reason.clone()).unwrap_or_default(),
        last_disconnect_ns: link.and_then(|link| link.last_time_ns).unwrap_or_default(),
    }
}
