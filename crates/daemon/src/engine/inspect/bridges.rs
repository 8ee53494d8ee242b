//! Bridges and the addresses that they know.

use api::v1::{BridgeState, MacEntry};
use features::bridge::Bridges;
use features::bridge::control::{Place, addresses};
use memory::clock::nanoseconds;

use super::super::core::{Bridge, Core};
use crate::model::spec::L2;

pub(super) fn all(core: &Core) -> Vec<BridgeState> {
    let bridges = core.publisher.current().get(core.keys.bridges);
    let mut list: Vec<_> = core.bridges.values().map(|bridge| state(core, bridges, bridge)).collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

fn state(core: &Core, bridges: &Bridges, bridge: &Bridge) -> BridgeState {
    let members = bridges.get(bridge.index).members.iter().map(|member| core.registry.name(member.interface));
    let is_bvi =
        |l2: &Option<L2>| matches!(l2, Some(L2::Bridge { name, bvi: true, .. }) if *name == bridge.spec.name);
    let bvi = core.registry.iter().find(|(_, entry)| is_bvi(&entry.spec.l2));
    let macs = addresses(&core.macs, bridge.index, nanoseconds()).into_iter().map(|address| MacEntry {
        mac: address.mac.to_string(),
        interface: match address.place {
            Place::Interface(index) => core.registry.name(index),
            Place::Blocked => String::new(),
        },
        r#static: address.age.is_none(),
        age_seconds: address.age.unwrap_or_default().into(),
    });
    BridgeState {
        name: bridge.spec.name.to_string(),
        members: members.collect(),
        bvi: bvi.map(|(_, entry)| entry.spec.name.to_string()).unwrap_or_default(),
        macs: macs.collect(),
        learn_limit: bridge.spec.learn_limit,
        moves: bridge.moves.get(),
    }
}
