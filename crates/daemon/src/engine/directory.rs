//! What there is: interfaces, bridges, tenants and VRFs, for everybody who looks.
//!
//! It is changed under the engine's lock, in moments, and looked at without it: whoever looks gets all of it as it is at that
//! moment, may take as long as it likes, and holds nobody up.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use features::bridge::{Bridges, Moves};
use features::policer::Profile;
use features::session::Occupancy;
use features::session::acl::control::Placed;
use features::session::balance::Ledger;
use features::session::balance::control::PlacedVip;
use features::session::nat::{Blocks, Figures};
use features::session::redirect::Engine;

use super::policers::Users;
use super::registry::Registry;
use crate::model::Name;
use crate::model::spec::{BridgeSpec, InterfaceSpec, NatPoolSpec, PolicerSpec, TenantSpec};

/// All that there is, by name.
#[derive(Debug, Clone)]
pub(super) struct Inventory {
    /// Interfaces.
    pub(super) registry: Registry,
    /// Number and configuration of each bridge.
    pub(super) bridges: HashMap<Name, Bridge>,
    /// The bridges as workers see them.
    pub(super) published: Arc<Bridges>,
    /// Index of each VRF.
    pub(super) vrfs: HashMap<Name, u16>,
    /// Number, configuration and figures of each tenant.
    pub(super) tenants: HashMap<Name, Tenant>,
    /// Names of tenants by number, also of those that are gone, whose sessions may still be told of: until another has the number.
    pub(super) tenant_names: Arc<HashMap<u16, Arc<str>>>,
    /// Configuration and figures of each NAT pool.
    pub(super) nat_pools: HashMap<Name, NatPool>,
    /// Configuration of each policer, and whom it meters.
    pub(super) policers: HashMap<Name, Policer>,
    /// VIPs as workers see them, by name.
    pub(super) vips: BTreeMap<Arc<str>, Arc<PlacedVip>>,
    /// What their figures are read from.
    pub(super) ledger: Arc<Ledger>,
    /// Lists of rules, by name.
    pub(super) acls: BTreeMap<Arc<str>, Placed>,
}

/// A bridge as the engine keeps it.
#[derive(Debug, Clone)]
pub(super) struct Bridge {
    /// Its number.
    pub(super) index: u16,
    /// What it is.
    pub(super) spec: Arc<BridgeSpec>,
    /// Addresses that moved from one member to another.
    pub(super) moves: Moves,
}

/// A tenant as the engine keeps it.
#[derive(Debug, Clone)]
pub(super) struct Tenant {
    /// Its number, never 0.
    pub(super) index: u16,
    /// What it is.
    pub(super) spec: Arc<TenantSpec>,
    /// Its figures.
    pub(super) occupancy: Arc<Occupancy>,
    /// The engine that looks into its sessions, if it has one.
    pub(super) engine: Arc<Engine>,
    /// As workers see it, and since when it is by the policy that it is by (a count of changes); `None`: they don't yet.
    pub(super) seen: Option<(Arc<TenantSpec>, u64)>,
}

/// A NAT pool as the engine keeps it.
#[derive(Debug, Clone)]
pub(super) struct NatPool {
    /// What it is.
    pub(super) spec: Arc<NatPoolSpec>,
    /// Its figures.
    pub(super) figures: Arc<Figures>,
    /// Its blocks of ports, where hosts are given ports in blocks.
    pub(super) blocks: Option<Arc<Blocks>>,
}

/// A policer as the engine keeps it.
#[derive(Debug, Clone)]
pub(super) struct Policer {
    /// What it is.
    pub(super) spec: Arc<PolicerSpec>,
    /// The same as workers see it.
    pub(super) profile: Arc<Profile>,
    /// Those that it meters.
    pub(super) users: Users,
}

impl Inventory {
    /// MTU of an interface.
    pub(super) fn mtu(&self, spec: &InterfaceSpec) -> u32 {
        let parent = spec.parent().and_then(|parent| self.registry.get(self.registry.index(parent)?));
        spec.mtu(parent.map(|parent| &*parent.spec))
    }

    /// Index of a VRF; the default one's for a name that isn't there.
    pub(super) fn vrf_index(&self, name: &Name) -> u16 {
        self.vrfs.get(name).copied().unwrap_or(0)
    }

    /// Index of a bridge; 0, which none has, for a name that isn't there.
    pub(super) fn bridge_index(&self, name: &Name) -> u16 {
        self.bridges.get(name).map_or(0, |bridge| bridge.index)
    }
}

/// The inventory as it is now.
#[derive(Debug)]
pub(super) struct Directory(Mutex<Arc<Inventory>>);

impl Directory {
    /// Nothing but the default VRF.
    pub(super) fn new() -> Self {
        let vrfs = HashMap::from([(Name::default_vrf(), 0)]);
        let (registry, bridges, published, tenants, tenant_names) = Default::default();
        let (nat_pools, policers, vips, ledger, acls) = Default::default();
        let inventory = Inventory {
            registry,
            bridges,
            published,
            vrfs,
            tenants,
            tenant_names,
            nat_pools,
            policers,
            vips,
            ledger,
            acls,
        };
        Self(Mutex::new(Arc::new(inventory)))
    }

    /// All of it, as it is at this moment.
    pub(super) fn get(&self) -> Arc<Inventory> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes it, in a moment: the engine's lock is held. What others are looking at stays as it was for them.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Inventory) -> R) -> R {
        change(Arc::make_mut(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_keeps_what_was_there_and_holds_nobody_up() {
        let directory = Directory::new();
        let before = directory.get();
        let name = Name::new("blue").unwrap();
        directory.change(|inventory| inventory.vrfs.insert(name.clone(), 7));
        assert_eq!((before.vrf_index(&name), directory.get().vrf_index(&name)), (0, 7));
        drop(before);
        // Nobody looks: nothing is copied.
        let at = Arc::as_ptr(&directory.get());
        directory.change(|inventory| inventory.vrfs.remove(&name));
        assert_eq!(Arc::as_ptr(&directory.get()), at);
    }
}
