//! Pools of addresses for NAT, and what workers see of them.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use api::v1::NatPoolState;
use features::session::nat::{Blocks, Mappings, Pool, Prefixes};

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
                let blocks = blocks(after, before);
                drop(inventory);
                let pool = NatPool { spec: Arc::clone(after), figures, blocks };
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

/// A pool's blocks of ports: those that there were, as long as they are of the same ports. Others are nobody's yet, and what sessions have of those before ends.
fn blocks(spec: &NatPoolSpec, before: Option<&NatPool>) -> Option<Arc<Blocks>> {
    let size = spec.blocks?;
    let same = before.filter(|before| {
        let of = |spec: &NatPoolSpec| (spec.addresses.clone(), spec.ports.clone(), spec.blocks);
        of(&before.spec) == of(spec)
    });
    let there = same.and_then(|before| before.blocks.clone());
    there.or_else(|| Some(Arc::new(Blocks::new(&ranges(spec), &spec.ports, size))))
}

/// Its addresses in host byte order.
fn ranges(spec: &NatPoolSpec) -> Vec<RangeInclusive<u32>> {
    spec.addresses.iter().map(|range| range.first.to_bits()..=range.last.to_bits()).collect()
}

/// A pool as workers see it.
pub(super) fn compile(pool: &NatPool) -> Pool {
    let NatPool { spec, figures, blocks } = pool;
    Pool {
        name: spec.name.to_string().into(),
        addresses: ranges(spec),
        ports: spec.ports.clone(),
        deterministic: spec.deterministic.map(|hosts| hosts.to_bits()),
        blocks: blocks.clone(),
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
    let blocks = |figure: fn(&Blocks) -> u64| pool.blocks.as_deref().map_or(0, figure);
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
        block_size: spec.blocks.map_or(0, |blocks| blocks.ports.into()),
        blocks_per_host: spec.blocks.map_or(0, |blocks| blocks.per_host.into()),
        blocks: blocks(Blocks::len),
        blocks_taken: blocks(Blocks::taken),
    }
}
