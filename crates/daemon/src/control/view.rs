//! Looking at the desired state without holding up changes.

use std::sync::{Arc, Weak};

use api::v1::{Kind, Object};

use crate::model::{Key, Model, Readiness, RouteKey, Standing};

/// The desired state of one generation and where its objects stand.
#[derive(Debug, Clone)]
pub struct View {
    pub(super) model: Model,
    pub(super) readiness: Arc<Readiness>,
}

/// How many objects stand where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// In force.
    pub applied: usize,
    /// Waiting, in whole or in part.
    pub pending: usize,
    /// Refused by the system at present.
    pub failed: usize,
}

impl View {
    /// Its generation.
    pub fn generation(&self) -> u64 {
        self.model.generation
    }

    /// Recognises this state of things later, without keeping it.
    pub fn stamp(&self) -> Weak<Readiness> {
        Arc::downgrade(&self.readiness)
    }

    /// Whether it is still the state of things that gave `stamp`.
    pub fn is_of(&self, stamp: &Weak<Readiness>) -> bool {
        stamp.ptr_eq(&Arc::downgrade(&self.readiness))
    }

    /// One object; `None` if there is none of that name.
    pub fn get(&self, key: &Key) -> Option<Object> {
        let object = self.model.object(key)?;
        let standing = self.readiness.standing(&self.model, key)?;
        let generation = self.model.changed_in(key)?;
        Some(Object { object: Some(object), status: Some(standing.to_api(generation)) })
    }

    /// Calls `each` with every object of a kind, or of all kinds, ordered by kind and name, until it returns false.
    pub fn each(&self, kind: Option<Kind>, mut each: impl FnMut(Object) -> bool) {
        for key in
            self.small_keys().filter(|key| kind.is_none_or(|kind| kind == key.kind()) && !comes_last(key))
        {
            if self.get(&key).is_some_and(|object| !each(object)) {
                return;
            }
        }
        if kind.is_none_or(|kind| kind == Kind::Route) {
            for (vrf, table) in &self.model.routes {
                for (prefix, _) in table.sorted() {
                    let key = Key::Route(RouteKey { vrf: vrf.clone(), prefix });
                    if self.get(&key).is_some_and(|object| !each(object)) {
                        return;
                    }
                }
            }
        }
        let last = self.small_keys().filter(comes_last);
        for key in last.filter(|key| kind.is_none_or(|kind| kind == key.kind())) {
            if self.get(&key).is_some_and(|object| !each(object)) {
                return;
            }
        }
    }

    /// How many objects of each kind stand where; kinds without objects are left out.
    pub fn census(&self) -> Vec<(Kind, Census)> {
        let mut counts = std::collections::BTreeMap::<Kind, Census>::new();
        let mut count = |kind, standing: Option<Standing>| {
            let census = counts.entry(kind).or_default();
            match standing {
                Some(Standing::Ready) => census.applied += 1,
                Some(Standing::Partial(_) | Standing::Pending(_)) | None => census.pending += 1,
                Some(Standing::Failed(_)) => census.failed += 1,
            }
        };
        for key in self.small_keys() {
            count(key.kind(), self.readiness.standing(&self.model, &key));
        }
        for (vrf, table) in &self.model.routes {
            for (prefix, route) in &table.routes {
                let key = RouteKey { vrf: vrf.clone(), prefix: *prefix };
                count(Kind::Route, self.readiness.route_standing(&key, &route.paths));
            }
        }
        counts.into_iter().collect()
    }

    /// Keys of all objects but routes.
    fn small_keys(&self) -> impl Iterator<Item = Key> + '_ {
        (self.model.vrfs.keys().cloned().map(Key::Vrf))
            .chain(self.model.bridges.keys().cloned().map(Key::Bridge))
            .chain(self.model.interfaces.keys().cloned().map(Key::Interface))
            .chain(self.model.neighbors.keys().cloned().map(Key::Neighbor))
            .chain(self.model.tenants.keys().cloned().map(Key::Tenant))
            .chain(self.model.nat_pools.keys().cloned().map(Key::NatPool))
            .chain(self.model.policers.keys().cloned().map(Key::Policer))
            .chain(self.model.vips.keys().cloned().map(Key::Vip))
            .chain(self.model.acls.keys().cloned().map(Key::Acl))
            .chain(self.model.address_sets.keys().cloned().map(Key::AddressSet))
            .chain(self.model.endpoints.keys().cloned().map(Key::Endpoint))
    }
}

/// Whether objects of the kind come behind the routes.
fn comes_last(key: &Key) -> bool {
    !matches!(key, Key::Vrf(_) | Key::Bridge(_) | Key::Interface(_) | Key::Route(_))
}
