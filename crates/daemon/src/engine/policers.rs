//! Policers, who is metered by them, and what workers see of that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::v1::{PolicerHits, PolicerState, PolicerUser};
use features::policer::{Figures, Policed, Policers, Profile};
use graph::port::IfIndex;
use tables::policer::Meter;

use super::core::Core;
use super::directory::{Inventory, Policer};
use super::start::Shared;
use crate::dataplane::Change;
use crate::model::spec::{PolicerSpec, TenantSpec};
use crate::model::{Flaw, Name};

/// Who is metered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum User {
    /// What a tenant's sessions send; `true`: what they are sent.
    Tenant(Name, bool),
    /// What an interface receives.
    Interface(Name),
}

/// Those that a policer meters, the same through all versions of the inventory.
pub(super) type Users = Arc<Mutex<BTreeMap<User, Arc<Policed>>>>;

impl Core {
    /// A policer comes, changes or goes.
    pub(super) fn policer(&mut self, change: &Change<PolicerSpec>) -> Result<(), Flaw> {
        match (&change.before, &change.after) {
            (_, Some(after)) => {
                let meter = Meter::new(&after.rates).map_err(|error| Flaw::new("cir", error.to_string()))?;
                // One that a batch has taken away comes back when the batch is taken back.
                let departed = self.departed_policers.remove(&after.name);
                let inventory = self.directory.get();
                let before = inventory.policers.get(&after.name).or(departed.as_ref());
                let users = before.map(|policer| Arc::clone(&policer.users)).unwrap_or_default();
                drop(inventory);
                self.policer_changes = self.policer_changes.wrapping_add(1).max(1);
                let profile = Arc::new(Profile {
                    name: after.name.to_string().into(),
                    meter,
                    actions: after.actions,
                    is_aware: after.is_aware,
                    per_session: after.per_session,
                    version: self.policer_changes,
                });
                let policer = Policer { spec: Arc::clone(after), profile, users };
                self.directory.change(|inventory| inventory.policers.insert(after.name.clone(), policer));
            }
            (Some(before), None) => {
                let gone = self.directory.change(|inventory| inventory.policers.remove(&before.name));
                self.departed_policers.extend(gone.map(|policer| (before.name.clone(), policer)));
            }
            (None, None) => {}
        }
        // Tenants are compiled with their policers.
        self.tenants_changed = true;
        self.interfaces_changed = true;
        Ok(())
    }
}

impl Policer {
    /// Somebody whom it meters: with the tokens that he has by this version, or full buckets, and the figures that he has by any.
    fn user(&self, user: User) -> Arc<Policed> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let before = users.get(&user);
        if let Some(policed) = before.filter(|policed| Arc::ptr_eq(&policed.profile, &self.profile)) {
            return Arc::clone(policed);
        }
        let hits = before.map(|policed| Arc::clone(&policed.hits)).unwrap_or_default();
        let policed = Arc::new(Policed::new(&self.profile, hits, memory::clock::nanoseconds()));
        users.insert(user, Arc::clone(&policed));
        policed
    }
}

/// The policers of a tenant's directions, as workers see them.
pub(super) fn of_tenant(inventory: &Inventory, spec: &TenantSpec) -> [Option<Arc<Policed>>; 2] {
    [false, true].map(|reverse| {
        let policer = inventory.policers.get(spec.policers[usize::from(reverse)].as_ref()?)?;
        Some(policer.user(User::Tenant(spec.name.clone(), reverse)))
    })
}

/// The interfaces that are metered, as workers see them.
pub(super) fn compile(inventory: &Inventory, policers: &mut Policers) {
    policers.clear();
    for (index, entry) in inventory.registry.iter() {
        let named = entry.spec.policer.as_ref().and_then(|name| inventory.policers.get(name));
        if let Some(policer) = named {
            let policed = policer.user(User::Interface(entry.spec.name.clone()));
            policers.set(index, policed, entry.spec.port.is_ethernet());
        }
    }
}

/// Who isn't metered any more, is forgotten with his figures.
pub(super) fn forget(inventory: &Inventory) {
    for (name, policer) in &inventory.policers {
        let names = |user: &User| match user {
            User::Tenant(tenant, reverse) => {
                let tenant = inventory.tenants.get(tenant);
                tenant.and_then(|tenant| tenant.spec.policers[usize::from(*reverse)].as_ref())
            }
            User::Interface(interface) => {
                let entry =
                    inventory.registry.index(interface).and_then(|index| inventory.registry.get(index));
                entry.and_then(|entry| entry.spec.policer.as_ref())
            }
        };
        let mut users = policer.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|user, _| names(user) == Some(name));
    }
}

/// Whether an interface is metered.
pub(super) fn meters(inventory: &Inventory, index: IfIndex) -> bool {
    let entry = inventory.registry.get(index);
    let name = entry.and_then(|entry| entry.spec.policer.as_ref());
    name.is_some_and(|name| inventory.policers.contains_key(name))
}

/// All policers, ordered by name.
pub(super) fn policers(shared: &Shared) -> Vec<PolicerState> {
    let inventory = shared.directory.get();
    let mut list: Vec<_> = inventory.policers.values().collect();
    list.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    list.into_iter().map(state).collect()
}

fn state(policer: &Policer) -> PolicerState {
    let users = policer.users.lock().unwrap_or_else(PoisonError::into_inner);
    let users = users.iter().map(|(user, policed)| {
        let Figures { packets, bytes } = policed.hits.figures();
        let hits = |at: usize| Some(PolicerHits { packets: packets[at], bytes: bytes[at] });
        let (tenant, reverse, interface) = match user {
            User::Tenant(tenant, reverse) => (tenant.to_string(), *reverse, String::new()),
            User::Interface(interface) => (String::new(), false, interface.to_string()),
        };
        PolicerUser { tenant, reverse, interface, green: hits(0), yellow: hits(1), red: hits(2) }
    });
    PolicerState { policer: Some(policer.spec.to_api()), users: users.collect() }
}
