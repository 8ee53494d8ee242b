//! VIPs, and what workers see of them.

use std::sync::Arc;

use api::v1::{VipBackendState, VipState};
use features::session::balance::Ledger;
use features::session::balance::control::{Placed, PlacedVip};
use features::session::order;

use super::core::Core;
use super::directory::Inventory;
use super::start::Shared;
use crate::dataplane::{Change, InspectError};
use crate::model::Flaw;
use crate::model::spec::{VipSpec, api_algorithm, api_clients, api_protocol, api_source_nat, api_state};

/// The service that looks at them.
const BALANCE: &str = "balance";

impl Core {
    /// A VIP comes, changes or goes.
    pub(super) fn vip(&mut self, change: &Change<VipSpec>) -> Result<(), Flaw> {
        let after = change.after.as_ref().map(|spec| spec.config.clone());
        if let Some(spec) = change.either() {
            self.balancer.set(&spec.name.to_string(), after);
        }
        Ok(())
    }

    /// Whoever looks sees the VIPs that workers are about to see; these look through their sessions where some may end by that, or begin.
    pub(super) fn take_vips(&mut self) {
        if !self.balancer.is_changed() {
            return;
        }
        let changed = self.balancer.publish();
        self.tenant_changes += u64::from(changed.revisit);
        self.directory.change(|inventory| {
            for (name, vip) in changed.vips {
                match vip {
                    Some(vip) => inventory.vips.insert(name, vip),
                    None => inventory.vips.remove(&name),
                };
            }
            inventory.ledger = changed.ledger;
        });
    }
}

/// Calls `each` with the VIP of that name, or with all of them, until it returns false.
pub(super) fn each(
    shared: &Shared,
    name: &str,
    each: &mut dyn FnMut(VipState) -> bool,
) -> Result<(), InspectError> {
    let inventory = shared.directory.get();
    if name.is_empty() {
        // One after the other: with their backends they may be millions.
        let _ = inventory.vips.iter().all(|(name, vip)| each(state(&inventory, name, vip)));
        return Ok(());
    }
    let (name, vip) = inventory
        .vips
        .get_key_value(name)
        .ok_or_else(|| InspectError::NotFound(format!("there is no VIP {name} in force")))?;
    each(state(&inventory, name, vip));
    Ok(())
}

fn state(inventory: &Inventory, name: &Arc<str>, vip: &PlacedVip) -> VipState {
    let (config, ledger) = (&vip.config, &inventory.ledger);
    let (address, port) = config.endpoint;
    let users = inventory.tenants.values().filter(|tenant| {
        tenant.spec.context == config.context
            && order().is_on(tenant.spec.scope, tenant.spec.chain[0], BALANCE)
    });
    let mut tenants: Vec<String> = users.map(|tenant| tenant.spec.name.to_string()).collect();
    tenants.sort();
    let figures = vip.figures(ledger);
    VipState {
        name: name.to_string(),
        context: config.context.into(),
        address: address.to_string(),
        protocol: api_protocol(config.protocol).into(),
        port: port.into(),
        algorithm: api_algorithm(config.algorithm).into(),
        affinity_seconds: config.affinity,
        source_nat: api_source_nat(config.source_nat).into(),
        backends: vip.backends.iter().filter_map(|one| backend(one, ledger)).collect(),
        sessions: figures.sessions,
        created: figures.created,
        refused: vip.refused(),
        packets: figures.packets[0],
        bytes: figures.bytes[0],
        answer_packets: figures.packets[1],
        answer_bytes: figures.bytes[1],
        tenants,
        direct_server_return: config.direct,
    }
}

/// One that leaves is one no more when it has no sessions, whether somebody has noticed or not.
fn backend(backend: &Placed, ledger: &Ledger) -> Option<VipBackendState> {
    let (config, figures) = (&backend.config, backend.figures(ledger));
    let (address, port) = config.endpoint;
    let there = !backend.leaving || figures.sessions > 0;
    there.then(|| VipBackendState {
        address: address.to_string(),
        port: port.into(),
        weight: config.weight,
        state: api_state(config.state).into(),
        leaving: backend.leaving,
        sessions: figures.sessions,
        created: figures.created,
        packets: figures.packets[0],
        bytes: figures.bytes[0],
        answer_packets: figures.packets[1],
        answer_bytes: figures.bytes[1],
        clients: api_clients(config.clients).into(),
    })
}
