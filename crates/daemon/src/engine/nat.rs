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
                // What a batch has taken away, or changed, comes back as it was when the batch is taken back.
                let inventory = self.directory.get();
                let there = inventory.nat_pools.get(&after.name).cloned();
                drop(inventory);
                let departed = self.departed_pools.get(&after.name);
                let known: Vec<NatPool> = there.iter().chain(departed).cloned().collect();
                let figures = known.first().map(|pool| Arc::clone(&pool.figures)).unwrap_or_default();
                let blocks = blocks(after, &known);
                let pool = NatPool { spec: Arc::clone(after), figures, blocks };
                if let Some(there) = there {
                    self.departed_pools.entry(after.name.clone()).or_insert(there);
                }
                self.directory.change(|inventory| inventory.nat_pools.insert(after.name.clone(), pool));
            }
            (Some(before), None) => {
                let gone = self.directory.change(|inventory| inventory.nat_pools.remove(&before.name));
                self.departed_pools.extend(gone.map(|pool| (before.name.clone(), pool)));
            }
            (None, None) => {}
        }
        // Tenants are compiled with their pools, and workers look through their sessions.
        self.tenants_changed = true;
        self.interfaces_changed = true;
        Ok(())
    }
}

/// A pool's blocks of ports: those that there were, as long as they are of the same ports. Others are nobody's yet, and what sessions have of those before ends.
fn blocks(spec: &NatPoolSpec, known: &[NatPool]) -> Option<Arc<Blocks>> {
    let size = spec.blocks?;
    let of = |spec: &NatPoolSpec| (spec.addresses.clone(), spec.ports.clone(), spec.blocks);
    let same = known.iter().find(|known| of(&known.spec) == of(spec));
    let there = same.and_then(|same| same.blocks.clone());
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
        without_block: pool.figures.without_block.load(Ordering::Relaxed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_the_same_ones_when_a_change_is_taken_back() {
        let pool = |last_port, known: &[NatPool]| {
            let api = api::v1::NatPool {
                name: "out".into(),
                addresses: vec!["192.0.2.1".into()],
                last_port,
                block_size: 64,
                ..api::v1::NatPool::default()
            };
            let spec = Arc::new(NatPoolSpec::parse(&api).unwrap());
            NatPool { blocks: blocks(&spec, known), figures: Arc::default(), spec }
        };
        let before = pool(2000, &[]);
        let changed = pool(3000, std::slice::from_ref(&before));
        let back = pool(2000, &[changed.clone(), before.clone()]);
        let same = |one: &NatPool, other: &NatPool| {
            Arc::ptr_eq(one.blocks.as_ref().unwrap(), other.blocks.as_ref().unwrap())
        };
        assert!(same(&before, &back) && !same(&before, &changed));
    }
}
