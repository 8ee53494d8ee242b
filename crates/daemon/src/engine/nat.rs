//! Pools of addresses for NAT, and what workers see of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use api::v1::NatPoolState;
use features::session::nat::{Mappings, Pool, Prefixes};

use super::core::Core;
use super::directory::{Inventory, NatPool};
use super::start::Shared;
use crate::dataplane::Change;
use crate::model::Flaw;
use crate::model::spec::NatPoolSpec;

impl Core {
    /// A pool comes, changes or goes.
    pub(super) fn nat_pool(&mut self, change: &Change<NatPoolSpec>) -> Result<(), Flaw> {
        match (&change.before, &change.after) {
            (_, Some(after)) => {
                // One that a batch has taken away comes back when the batch is taken back.
                let departed = self.departed_pools.remove(&after.name);
                let inventory = self.directory.get();
                let before = inventory.nat_pools.get(&after.name).or(departed.as_ref());
                let figures = before.map(|pool| Arc::clone(&pool.figures)).unwrap_or_default();
                drop(inventory);
                let pool = NatPool { spec: Arc::clone(after), figures };
                self.directory.change(|inventory| inventory.nat_pools.insert(after.name.clone(), pool));
            }
            (Some(before), None) => {
                let gone = self.directory.change(|inventory| inventory.nat_pools.remove(&before.name));
                self.departed_pools.extend(gone.map(|pool| (before.name.clone(), pool)));
            }
            (None, None) => {}
        }
        // Tenants are compiled with their pools, and workers look through their sessions.
        self.tenant_changes += 1;
        self.interfaces_changed = true;
        Ok(())
    }
}

/// A pool as workers see it.
pub(super) fn compile(pool: &NatPool) -> Pool {
    let NatPool { spec, figures } = pool;
    Pool {
        name: spec.name.to_string().into(),
        addresses: spec.addresses.iter().map(|range| range.first.to_bits()..=range.last.to_bits()).collect(),
        ports: spec.ports.clone(),
        deterministic: spec.deterministic.map(|hosts| hosts.to_bits()),
        mappings: Mappings::new(&spec.mappings),
        prefixes: Prefixes::new(&spec.prefixes),
        figures: Arc::clone(figures),
    }
}

/// All pools, ordered by name.
pub(super) fn pools(shared: &Shared) -> Vec<NatPoolState> {
    let inventory = shared.directory.get();
    let mut list: Vec<_> = inventory.nat_pools.values().map(|pool| state(&inventory, pool)).collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

fn state(inventory: &Inventory, pool: &NatPool) -> NatPoolState {
    let (spec, compiled) = (&pool.spec, compile(pool));
    let users = inventory.tenants.values().filter(|tenant| tenant.spec.nat_pool.as_ref() == Some(&spec.name));
    let mut tenants: Vec<String> = users.map(|tenant| tenant.spec.name.to_string()).collect();
    tenants.sort();
    NatPoolState {
        name: spec.name.to_string(),
        addresses: spec.addresses.iter().map(ToString::to_string).collect(),
        first_port: (*spec.ports.start()).into(),
        last_port: (*spec.ports.end()).into(),
        context: spec.context.into(),
        deterministic: spec.deterministic.map(|hosts| hosts.to_string()).unwrap_or_default(),
        ports_per_host: compiled.ports_per_host().unwrap_or_default(),
        tenants,
        size: compiled.size(),
        translations: pool.figures.translations(),
        created: pool.figures.created.load(Ordering::Relaxed),
        exhausted: pool.figures.exhausted.load(Ordering::Relaxed),
        mappings: spec.to_api().mappings,
        prefixes: spec.to_api().prefixes,
    }
}
