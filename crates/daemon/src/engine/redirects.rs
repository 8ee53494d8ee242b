//! Engines that look into tenants' sessions, and the heartbeats that go through them.

use std::sync::Arc;

use features::session::redirect::{Engine, Redirect, heartbeat_frame};
use memory::clock::nanoseconds;

use super::core::Core;
use super::directory::{Inventory, Tenant};
use crate::model::spec::TenantSpec;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// The engine of a tenant that changes, where it stays the same: it isn't taken to be away until it is heard of again.
pub(super) fn kept(before: &Tenant, after: &TenantSpec) -> Option<Arc<Engine>> {
    let interfaces = |spec: &TenantSpec| spec.redirect.as_ref().map(|redirect| redirect.interfaces.clone());
    (interfaces(&before.spec) == interfaces(after)).then(|| Arc::clone(&before.engine))
}

/// Where a tenant's sessions are sent, as workers see it.
pub(super) fn of_tenant(inventory: &Inventory, tenant: &Tenant) -> Option<Redirect> {
    let spec = tenant.spec.redirect.as_ref()?;
    Some(Redirect {
        interfaces: spec.interfaces.each_ref().map(|name| inventory.registry.index(name).unwrap_or_default()),
        on_failure: spec.on_failure,
        inspect_packets: spec.inspect_packets.into(),
        only_by_rules: spec.only_by_rules,
        reassemble: spec.reassemble,
        patience: patience(spec.away_after),
        engine: Arc::clone(&tenant.engine),
    })
}

fn patience(milliseconds: u32) -> u64 {
    u64::from(milliseconds) * NANOS_PER_MILLI
}

/// Whether a tenant's engine is there; `None` where it has none.
pub(super) fn is_there(tenant: &Tenant) -> Option<bool> {
    let spec = tenant.spec.redirect.as_ref()?;
    Some(tenant.engine.is_there(nanoseconds(), patience(spec.away_after)))
}

impl Core {
    /// Sends a heartbeat through every engine, each way.
    pub(super) fn beat_engines(&mut self) {
        let inventory = self.directory.get();
        for spec in inventory.tenants.values().filter_map(|tenant| tenant.spec.redirect.as_ref()) {
            let ends = spec.interfaces.each_ref().map(|name| {
                let index = inventory.registry.index(name)?;
                Some((index, inventory.registry.get(index)?.mac))
            });
            let [Some(one), Some(other)] = ends else { continue };
            let ways = if one.0 == other.0 { &[(one, other)][..] } else { &[(one, other), (other, one)] };
            for ((index, src), (_, dst)) in ways {
                self.frames.push(features::neighbour::frame(*index, heartbeat_frame(*src, *dst)));
            }
        }
    }
}
