//! Interfaces as they run.

use api::v1::{InterfaceCounters, InterfaceState, QueuePlacement};
use graph::port::IfIndex;
use ports::LinkState;

use super::super::port::Kind;
use super::super::registry::Entry;
use super::super::start::Shared;
use super::super::workers::Pool;
use super::baseline::Baseline;
use super::drops;
use crate::model::spec::{L2, PortSpec};

pub(super) fn all(shared: &Shared) -> Vec<InterfaceState> {
    let inventory = shared.directory.get();
    let baseline = shared.baseline();
    let all = inventory.registry.iter();
    let one = |(index, entry)| state(shared, &baseline, index, entry, inventory.mtu(&entry.spec));
    let mut list: Vec<_> = all.map(one).collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

fn state(shared: &Shared, baseline: &Baseline, index: IfIndex, entry: &Entry, mtu: u32) -> InterfaceState {
    let spec = &entry.spec;
    let (link_up, link_reason) = link(shared, index, entry);
    let (bridge, cross_connect) = match &spec.l2 {
        Some(L2::Bridge { name, .. }) => (name.to_string(), String::new()),
        Some(L2::CrossConnect(other)) => (String::new(), other.to_string()),
        None => (String::new(), String::new()),
    };
    let (host_name, netns) = match &spec.port {
        PortSpec::Tap(tap) => (tap.host_name.clone(), tap.netns.clone().unwrap_or_default()),
        PortSpec::AfPacket(port) => (port.host_interface.clone(), port.netns.clone().unwrap_or_default()),
        _ => (String::new(), String::new()),
    };
    let tunnel = match &spec.port {
        PortSpec::Tunnel(tunnel) => tunnel.to_string(),
        _ => String::new(),
    };
    let traffic = baseline.traffic(&shared.pool, index);
    let output = entry.port.as_ref().and_then(|port| port.output.as_ref()).map(|output| output.state());
    let output = output.unwrap_or_default();
    let (removals, last_removal) = shared.penalties.told(&spec.name);
    InterfaceState {
        name: spec.name.to_string(),
        index: index.into(),
        port: Kind::of(&spec.port).name.into(),
        admin_up: spec.admin_up,
        link_up,
        link_reason,
        mac: match super::super::compile::link_mode(spec) {
            features::interface::LinkMode::Ethernet => entry.mac.to_string(),
            features::interface::LinkMode::Ip => String::new(),
        },
        mtu,
        addresses: spec.addresses.iter().map(ToString::to_string).collect(),
        vrf: spec.vrf.to_string(),
        bridge,
        cross_connect,
        rx_mode: spec.rx_mode.into(),
        placement: placement(&shared.pool, index),
        counters: Some(InterfaceCounters {
            rx_packets: traffic.rx_packets,
            rx_bytes: traffic.rx_bytes,
            tx_packets: traffic.tx_packets,
            tx_bytes: traffic.tx_bytes,
            rx_drops: traffic.rx_drops,
            tx_drops: traffic.tx_drops,
            rx_errors: drops::malformed(shared, baseline, index),
            rx_unicast: traffic.rx_packets.saturating_sub(traffic.rx_multicast + traffic.rx_broadcast),
            rx_multicast: traffic.rx_multicast,
            rx_broadcast: traffic.rx_broadcast,
            tx_errors: traffic.tx_errors,
            tx_unicast: traffic.tx_packets.saturating_sub(traffic.tx_multicast + traffic.tx_broadcast),
            tx_multicast: traffic.tx_multicast,
            tx_broadcast: traffic.tx_broadcast,
        }),
        host_name,
        netns,
        link_ups: entry.link_ups,
        tunnel,
        output_suspensions: output.suspensions,
        last_output_suspension: output.last.map(|last| last.to_string()).unwrap_or_default(),
        removals,
        last_removal,
    }
}

fn placement(pool: &Pool, index: IfIndex) -> Vec<QueuePlacement> {
    let mut list = Vec::new();
    for worker in pool.workers() {
        let queues = pool.queues(worker.number()).into_iter().filter(|queue| queue.0 == index);
        list.extend(queues.map(|queue| QueuePlacement {
            queue: queue.1.into(),
            worker: worker.number() as u32,
            polling: !worker.counters().rounds.asleep(),
        }));
    }
    list.sort_by_key(|placement| placement.queue);
    list
}

/// Whether the other side is there, and if not, why.
pub(super) fn link(shared: &Shared, index: IfIndex, entry: &Entry) -> (bool, String) {
    match &entry.spec.port {
        PortSpec::Memif(memif) => match shared.memifs.links().get(index) {
            Some(state) if state.up.is_some() => (true, String::new()),
            Some(state) => {
                let nobody = || format!("no peer has connected to {} yet", memif.socket);
                (false, state.last_reason.clone().unwrap_or_else(nobody))
            }
            None => (false, "its socket is closed".into()),
        },
        _ => match entry.port.as_ref().map(|port| port.link.as_ref().map(|link| link.state())) {
            None => match shared.penalties.told(&entry.spec.name) {
                (1.., reason) => (false, format!("its port was taken away: {reason}")),
                _ => (false, "its port is closed".into()),
            },
            Some(_) if let Some(why) = suspended(entry) => (false, why),
            Some(None | Some(LinkState::Up)) => (true, String::new()),
            Some(Some(LinkState::Down)) => (false, "the device is down".into()),
            Some(Some(LinkState::Gone)) => (false, "the device is gone".into()),
        },
    }
}

/// Why nothing is sent by an interface for a while, although its device is up.
fn suspended(entry: &Entry) -> Option<String> {
    let state = entry.port.as_ref()?.output.as_ref()?.state();
    let last = state.last.filter(|_| state.suspended)?;
    Some(format!("output is suspended for {last}"))
}
