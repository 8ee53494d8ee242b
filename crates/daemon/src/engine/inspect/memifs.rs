//! memif connections.

use std::time::SystemTime;

use ::memif::ring::RingGauge;
use api::v1::{
    MemifFaults, MemifHandshake, MemifHeldRegion, MemifProcess, MemifQueue, MemifRefusals, MemifRefused,
    MemifRole, MemifSocket, MemifState,
};

use super::super::memif::{Away, LinkState, Process, Reasons, TurnedAway, UnderWay};
use super::super::start::Shared;
use super::super::workers::Pool;
use crate::held;
use crate::model::spec::{MemifSpec, PortSpec, SocketName};

pub(super) fn all(shared: &Shared) -> Vec<MemifState> {
    let inventory = shared.directory.get();
    let links = shared.memifs.links();
    let list: Vec<(MemifState, Option<UnderWay>)> = inventory
        .registry
        .iter()
        .filter_map(|(index, entry)| {
            let PortSpec::Memif(memif) = &entry.spec.port else { return None };
            let worker = |queue| placed(&shared.pool, index, queue);
            let under_way = match memif.role {
                MemifRole::Server => links.handshakes(&memif.socket, Some(memif.id)).into_iter().next(),
                MemifRole::Client | MemifRole::Unspecified => None,
            };
            Some((state(&entry.spec.name.to_string(), memif, links.get(index), worker), under_way))
        })
        .collect();
    drop(links);
    let shown = |(state, under_way): (_, Option<_>)| MemifState {
        handshake: under_way.as_ref().map(handshake),
        ..state
    };
    let mut list: Vec<_> = list.into_iter().map(shown).collect();
    list.sort_by(|a, b| a.interface.cmp(&b.interface));
    list
}

fn placed(pool: &Pool, index: u16, queue: u16) -> u32 {
    let worker = pool.workers().iter().find(|w| pool.queues(w.number()).contains(&(index, queue)));
    worker.map_or(0, |worker| worker.number() as u32)
}

fn state(name: &str, memif: &MemifSpec, link: Option<&LinkState>, worker: impl Fn(u16) -> u32) -> MemifState {
    let up = link.and_then(|link| link.up.as_ref());
    let queue = |rx: bool, at: usize, ring: &RingGauge| {
        let counters = ring.counters();
        MemifQueue {
            rx,
            index: at as u32,
            ring_size: ring.size().descriptors().into(),
            buffer_size: ring.buffer_size().unwrap_or_default(),
            filled: ring.filled().into(),
            interrupts: counters.signals,
            polling: ring.polling(),
            worker: if rx { worker(at as u16) } else { 0 },
            packets: counters.packets,
            bytes: counters.bytes,
            full: counters.full,
        }
    };
    let mut queues = Vec::new();
    if let Some(up) = up {
        queues.extend(up.rx.iter().enumerate().map(|(at, ring)| queue(true, at, ring)));
        queues.extend(up.tx.iter().enumerate().map(|(at, ring)| queue(false, at, ring)));
    }
    let process = up.map(|up| process(&up.process)).unwrap_or_default();
    MemifState {
        interface: name.into(),
        socket: memif.socket.to_string(),
        id: memif.id,
        role: memif.role.into(),
        mode: memif.mode.into(),
        connected: up.is_some(),
        peer_name: up.map(|up| up.peer.application.to_string()).unwrap_or_default(),
        peer_interface: up.map(|up| up.peer.interface.to_string()).unwrap_or_default(),
        peer_pid: process.pid,
        peer_uid: process.uid,
        peer_gid: process.gid,
        peer_process: process.name,
        mapped_bytes: up.map_or(0, |up| up.mapped),
        queues,
        connects: link.map_or(0, |link| link.connects),
        disconnects: link.map_or(0, |link| link.disconnects),
        last_disconnect: link.and_then(|link| link.last_reason.clone()).unwrap_or_default(),
        last_disconnect_ns: link.and_then(|link| link.last_time).map_or(0, ns),
        refusals: link.map(|link| refusals(&link.refusals.reasons)).unwrap_or_default(),
        last_refused: link.and_then(|link| refused(&link.refusals)),
        handshake: None,
        faults: link.map_or(0, |link| link.faults.values().sum()),
        fault_reasons: link.map(|link| faults(&link.faults)).unwrap_or_default(),
        held_regions: held::regions(name).map(|(peer, since)| held_region(peer, since)).collect(),
        max_ring_size: memif.ring().descriptors().into(),
    }
}

fn held_region(peer: Option<u32>, since: SystemTime) -> MemifHeldRegion {
    MemifHeldRegion { peer_pid: peer.unwrap_or_default(), since_ns: ns(since) }
}

/// Nanoseconds since 1970.
fn ns(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

fn process(process: &Process) -> MemifProcess {
    let Process { pid, name, owner } = process.clone();
    let (uid, gid) = owner.unzip();
    MemifProcess { pid: pid.unwrap_or_default(), uid, gid, name: name.unwrap_or_default() }
}

fn refused(away: &TurnedAway) -> Option<MemifRefused> {
    away.last.as_ref().map(|Away { peer, reason, time }| MemifRefused {
        peer: Some(process(peer)),
        reason: (*reason).into(),
        time_ns: ns(*time),
    })
}

fn faults(counts: &Reasons) -> Vec<MemifFaults> {
    counts.iter().map(|(reason, count)| MemifFaults { reason: (*reason).into(), count: *count }).collect()
}

fn refusals(counts: &Reasons) -> Vec<MemifRefusals> {
    counts.iter().map(|(reason, count)| MemifRefusals { reason: (*reason).into(), count: *count }).collect()
}

fn handshake(under_way: &UnderWay) -> MemifHandshake {
    let UnderWay { peer, count, .. } = under_way;
    MemifHandshake {
        peer: Some(process(&Process::of(*peer))),
        count: *count,
        since_ns: ns(under_way.since()),
    }
}

/// Sockets at which strangers were turned away, or are in the middle of a handshake.
pub(super) fn sockets(shared: &Shared) -> Vec<MemifSocket> {
    let links = shared.memifs.links();
    let socket = |socket: &SocketName| {
        let away = links.strangers(socket);
        let state = MemifSocket {
            socket: socket.to_string(),
            refusals: away.map(|away| refusals(&away.reasons)).unwrap_or_default(),
            last_refused: away.and_then(refused),
            handshakes: Vec::new(),
        };
        (state, links.handshakes(socket, None))
    };
    let all: Vec<_> = links.sockets().into_iter().map(socket).collect();
    drop(links);
    let shown = |(state, under_way): (_, Vec<_>)| MemifSocket {
        handshakes: under_way.iter().map(handshake).collect(),
        ..state
    };
    all.into_iter().map(shown).collect()
}
