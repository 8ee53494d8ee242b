//! Taking back what a batch changed.

use super::spec::{
    AclSpec, AddressSetSpec, BridgeSpec, EndpointSpec, InterfaceSpec, NatPoolSpec, NeighborSpec, PolicerSpec,
    TenantSpec, VipSpec, VrfSpec,
};
use super::{Key, Model, Name, NeighborKey, RouteKey, Stored, StoredRoute};
use api::v1::object::Object;

/// What a batch changed, in order: enough to take it back and to say what it was.
#[derive(Debug)]
pub struct Undo {
    /// Generation before.
    pub(super) generation: u64,
    pub(super) replaced: Vec<Replaced>,
    /// Objects put in that were there already, equal.
    pub unchanged: u64,
    /// Objects taken out.
    pub deleted: u64,
}

/// What was there before an object was put in or taken out; `None`: nothing.
#[derive(Debug)]
pub(super) enum Replaced {
    Vrf(Name, Option<Stored<VrfSpec>>),
    Bridge(Name, Option<Stored<BridgeSpec>>),
    Interface(Name, Option<Stored<InterfaceSpec>>),
    Neighbor(NeighborKey, Option<Stored<NeighborSpec>>),
    Route(RouteKey, Option<StoredRoute>),
    Tenant(Name, Option<Stored<TenantSpec>>),
    NatPool(Name, Option<Stored<NatPoolSpec>>),
    Policer(Name, Option<Stored<PolicerSpec>>),
    Vip(Name, Option<Stored<VipSpec>>),
    Acl(Name, Option<Stored<AclSpec>>),
    AddressSet(Name, Option<Stored<AddressSetSpec>>),
    Endpoint(Name, Option<Stored<EndpointSpec>>),
}

impl Undo {
    /// Nothing was changed.
    pub fn nothing(generation: u64) -> Self {
        Self { generation, replaced: Vec::new(), unchanged: 0, deleted: 0 }
    }

    /// Notes a change; `None` is an object that was there already.
    pub(super) fn note(&mut self, replaced: Option<Replaced>) {
        match replaced {
            Some(replaced) => self.replaced.push(replaced),
            None => self.unchanged += 1,
        }
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.replaced.is_empty()
    }

    /// Number of objects that changed.
    pub fn len(&self) -> usize {
        self.replaced.len()
    }

    /// Objects that changed, each as it is now; of a set of addresses that is large what changes of it. `None`: it is gone.
    pub fn changed_objects<'a>(
        &'a self,
        model: &'a Model,
    ) -> impl Iterator<Item = (Key, Option<Object>)> + 'a {
        self.replaced.iter().map(|replaced| {
            let part = match replaced {
                Replaced::AddressSet(name, Some(old)) => {
                    model.address_sets.get(name).and_then(|new| new.spec.since(&old.spec))
                }
                _ => None,
            };
            let key = replaced.key();
            let object = part.map(Object::AddressSet).or_else(|| model.object(&key));
            (key, object)
        })
    }

    /// What changed, as [`Model::weight`] counts it.
    pub fn weight(&self, model: &Model) -> usize {
        let one = |replaced: &Replaced| match replaced {
            Replaced::Acl(name, _) => model.acls.get(name).map_or(0, |new| new.spec.config.rules.len()),
            Replaced::AddressSet(name, old) => match (model.address_sets.get(name), old) {
                (Some(new), Some(old)) => new.spec.changes_since(&old.spec),
                (Some(new), None) => new.spec.members.len(),
                (None, _) => 0,
            },
            _ => 0,
        };
        self.replaced.iter().map(|replaced| 1 + one(replaced)).sum()
    }

    /// Objects that changed, in no particular order.
    pub fn changed(&self) -> impl Iterator<Item = Key> + '_ {
        self.replaced.iter().map(Replaced::key)
    }

    /// Routes that changed.
    pub fn changed_routes(&self) -> impl Iterator<Item = &RouteKey> + '_ {
        self.replaced.iter().filter_map(|replaced| match replaced {
            Replaced::Route(key, _) => Some(key),
            _ => None,
        })
    }
}

impl Replaced {
    pub(super) fn key(&self) -> Key {
        match self {
            Self::Vrf(name, _) => Key::Vrf(name.clone()),
            Self::Bridge(name, _) => Key::Bridge(name.clone()),
            Self::Interface(name, _) => Key::Interface(name.clone()),
            Self::Neighbor(key, _) => Key::Neighbor(key.clone()),
            Self::Route(key, _) => Key::Route(key.clone()),
            Self::Tenant(name, _) => Key::Tenant(name.clone()),
            Self::NatPool(name, _) => Key::NatPool(name.clone()),
            Self::Policer(name, _) => Key::Policer(name.clone()),
            Self::Vip(name, _) => Key::Vip(name.clone()),
            Self::Acl(name, _) => Key::Acl(name.clone()),
            Self::AddressSet(name, _) => Key::AddressSet(name.clone()),
            Self::Endpoint(name, _) => Key::Endpoint(name.clone()),
        }
    }
}
