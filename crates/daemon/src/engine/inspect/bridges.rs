//! Bridges and the addresses that they know.

use api::v1::{BridgeMemberState, BridgeState, MacEntry};
use features::bridge::control::{Address, Place, addresses};
use graph::port::IfIndex;
use memory::clock::nanoseconds;
use tables::mac::MacTable;

use super::super::compile;
use super::super::directory::{Bridge, Inventory};
use super::super::start::Shared;
use crate::model::spec::L2;

pub(super) fn all(shared: &Shared) -> Vec<BridgeState> {
    let inventory = shared.directory.get();
    let mut known = addresses(&shared.macs, nanoseconds());
    let each = inventory.bridges.values().map(|bridge| {
        let known = known.remove(&bridge.index).unwrap_or_default();
        state(&inventory, &shared.macs, bridge, known)
    });
    let mut list: Vec<_> = each.collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

fn state(inventory: &Inventory, table: &MacTable, bridge: &Bridge, known: Vec<Address>) -> BridgeState {
    let registry = &inventory.registry;
    let published = inventory.published.get(bridge.index);
    let members = published.members.iter().map(|member| registry.name(member.interface));
    let is_bvi =
        |l2: &Option<L2>| matches!(l2, Some(L2::Bridge { name, bvi: true, .. }) if *name == bridge.spec.name);
    let bvi = registry.iter().find(|(_, entry)| is_bvi(&entry.spec.l2));
    let macs = known.into_iter().map(|address| MacEntry {
        mac: address.mac.to_string(),
        interface: match address.place {
            Place::Interface(index) => registry.name(index),
            Place::Blocked => String::new(),
        },
        r#static: address.age.is_none(),
        age_seconds: address.age.unwrap_or_default().into(),
        contender: address.contender.map(|index| registry.name(index)).unwrap_or_default(),
    });
    let config = compile::bridge(inventory, bridge);
    let learning =
        || published.members.iter().map(|member| member.interface).filter(|index| *index != published.bvi);
    let count = learning().count();
    let state_of = |index: IfIndex| BridgeMemberState {
        name: registry.name(index),
        macs: table.member_len(index.into()),
        max_macs: config.max_macs_of(index, count),
        refused_moves: table.refused_moves(index.into()).into(),
    };
    let mut learning: Vec<_> = learning().filter(|_| bridge.spec.learn).map(state_of).collect();
    learning.sort_by(|a, b| a.name.cmp(&b.name));
    BridgeState {
        name: bridge.spec.name.to_string(),
        members: members.collect(),
        bvi: bvi.map(|(_, entry)| entry.spec.name.to_string()).unwrap_or_default(),
        macs: macs.collect(),
        learn_limit: bridge.spec.learn_limit,
        moves: bridge.moves.get(),
        learning,
    }
}
