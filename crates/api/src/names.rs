//! How objects are named.

use std::fmt;
use std::net::IpAddr;

use crate::text::Words;
use crate::v1::{
    Acl, AddressSet, Bridge, Config, Endpoint, Interface, Kind, NatPool, Neighbor, Object, ObjectRef,
    Policer, Route, Tenant, Vip, Vrf, interface::Port, object,
};

/// Name of the VRF that always exists and is meant where none is named.
pub const DEFAULT_VRF: &str = "default";

/// Something with a kind and a name.
pub trait Named {
    /// What it is.
    const KIND: Kind;

    /// Its name, unique within its kind.
    fn object_name(&self) -> String;

    /// Kind and name together.
    fn object_ref(&self) -> ObjectRef {
        ObjectRef { kind: Self::KIND.into(), name: self.object_name() }
    }
}

impl Named for Vrf {
    const KIND: Kind = Kind::Vrf;
    fn object_name(&self) -> String {
        self.name.clone()
    }
}

impl Named for Bridge {
    const KIND: Kind = Kind::Bridge;
    fn object_name(&self) -> String {
        self.name.clone()
    }
}

impl Named for Interface {
    const KIND: Kind = Kind::Interface;
    fn object_name(&self) -> String {
        self.name.clone()
    }
}

impl Named for Route {
    const KIND: Kind = Kind::Route;
    fn object_name(&self) -> String {
        let vrf = if self.vrf.is_empty() { DEFAULT_VRF } else { &self.vrf };
        format!("{vrf}/{}", canonical(&self.prefix))
    }
}

impl Named for Neighbor {
    const KIND: Kind = Kind::Neighbor;
    fn object_name(&self) -> String {
        format!("{}/{}", self.interface, canonical(&self.address))
    }
}

impl Named for Tenant {
    const KIND: Kind = Kind::Tenant;
    fn object_name(&self) -> String {
        self.name.clone()
    }
}

impl Named for NatPool {
    const KIND: Kind = Kind::NatPool;
    fn object_name(&self) -> String {
        self.name.clone()
    }
}

impl Named for Policer {
    const KIND: Kind = Kind::Policer;
    fn object_name(&self) -> String {
        self.name.clone()
    }
}

impl Named for Vip {
    const KIND: Kind = Kind::Vip;
    fn object_name(&self) -> String {
        self.name.clone()
    }
}

impl Named for Acl {
    const KIND: Kind = Kind::Acl;
    fn object_name(&self) -> String {
        self.name.clone()
    }
}

impl Named for AddressSet {
    const KIND: Kind = Kind::AddressSet;
    fn object_name(&self) -> String {
        self.name.clone()
    }
}

impl Named for Endpoint {
    const KIND: Kind = Kind::Endpoint;
    fn object_name(&self) -> String {
        self.name.clone()
    }
}

impl ObjectRef {
    /// Names an object.
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into() }
    }

    /// Names one as somebody has spelled it: a route's prefix and a neighbour's address in their [canonical form](canonical).
    pub fn spelled(kind: Kind, name: &str) -> Self {
        match name.split_once('/') {
            Some((place, address)) if matches!(kind, Kind::Route | Kind::Neighbor) => {
                Self::new(kind, format!("{place}/{}", canonical(address)))
            }
            _ => Self::new(kind, name),
        }
    }
}

/// An address or a prefix as everybody writes it (RFC 5952); what is none stays as it is.
pub fn canonical(text: &str) -> String {
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    match (address.parse::<IpAddr>(), length) {
        (Ok(address), Some(length)) => format!("{address}/{length}"),
        (Ok(address), None) => address.to_string(),
        (Err(_), _) => text.to_owned(),
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind().word(), self.name)
    }
}

impl Config {
    /// The names of all objects, by kind, each kind in the order of its list.
    pub fn object_refs(&self) -> impl Iterator<Item = ObjectRef> + '_ {
        (self.vrfs.iter().map(Named::object_ref))
            .chain(self.bridges.iter().map(Named::object_ref))
            .chain(self.interfaces.iter().map(Named::object_ref))
            .chain(self.routes.iter().map(Named::object_ref))
            .chain(self.neighbors.iter().map(Named::object_ref))
            .chain(self.tenants.iter().map(Named::object_ref))
            .chain(self.nat_pools.iter().map(Named::object_ref))
            .chain(self.policers.iter().map(Named::object_ref))
            .chain(self.vips.iter().map(Named::object_ref))
            .chain(self.acls.iter().map(Named::object_ref))
            .chain(self.address_sets.iter().map(Named::object_ref))
            .chain(self.endpoints.iter().map(Named::object_ref))
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.vrfs.len()
            + self.bridges.len()
            + self.interfaces.len()
            + self.routes.len()
            + self.neighbors.len()
            + self.tenants.len()
            + self.nat_pools.len()
            + self.policers.len()
            + self.vips.len()
            + self.acls.len()
            + self.address_sets.len()
            + self.endpoints.len()
    }

    /// Whether there is no object at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends one object; its status is dropped, as is an object of a kind this version doesn't know.
    pub fn push(&mut self, object: Object) {
        match object.object {
            Some(object::Object::Vrf(vrf)) => self.vrfs.push(vrf),
            Some(object::Object::Bridge(bridge)) => self.bridges.push(bridge),
            Some(object::Object::Interface(interface)) => self.interfaces.push(interface),
            Some(object::Object::Route(route)) => self.routes.push(route),
            Some(object::Object::Neighbor(neighbor)) => self.neighbors.push(neighbor),
            Some(object::Object::Tenant(tenant)) => self.tenants.push(tenant),
            Some(object::Object::NatPool(pool)) => self.nat_pools.push(pool),
            Some(object::Object::Policer(policer)) => self.policers.push(policer),
            Some(object::Object::Vip(vip)) => self.vips.push(vip),
            Some(object::Object::Acl(acl)) => self.acls.push(acl),
            Some(object::Object::AddressSet(address_set)) => self.address_sets.push(address_set),
            Some(object::Object::Endpoint(endpoint)) => self.endpoints.push(endpoint),
            None => {}
        }
    }

    /// Appends all objects of `other`.
    pub fn extend(&mut self, other: Self) {
        self.vrfs.extend(other.vrfs);
        self.bridges.extend(other.bridges);
        self.interfaces.extend(other.interfaces);
        self.routes.extend(other.routes);
        self.neighbors.extend(other.neighbors);
        self.tenants.extend(other.tenants);
        self.nat_pools.extend(other.nat_pools);
        self.policers.extend(other.policers);
        self.vips.extend(other.vips);
        self.acls.extend(other.acls);
        self.address_sets.extend(other.address_sets);
        self.endpoints.extend(other.endpoints);
    }
}

impl Object {
    /// Kind and name; `None` for a kind this version doesn't know.
    pub fn object_ref(&self) -> Option<ObjectRef> {
        Some(match self.object.as_ref()? {
            object::Object::Vrf(vrf) => vrf.object_ref(),
            object::Object::Bridge(bridge) => bridge.object_ref(),
            object::Object::Interface(interface) => interface.object_ref(),
            object::Object::Route(route) => route.object_ref(),
            object::Object::Neighbor(neighbor) => neighbor.object_ref(),
            object::Object::Tenant(tenant) => tenant.object_ref(),
            object::Object::NatPool(pool) => pool.object_ref(),
            object::Object::Policer(policer) => policer.object_ref(),
            object::Object::Vip(vip) => vip.object_ref(),
            object::Object::Acl(acl) => acl.object_ref(),
            object::Object::AddressSet(address_set) => address_set.object_ref(),
            object::Object::Endpoint(endpoint) => endpoint.object_ref(),
        })
    }
}

impl Port {
    /// The word that stands for this kind of port in text: "memif", "tap"…
    pub fn word(&self) -> &'static str {
        match self {
            Self::Memif(_) => "memif",
            Self::Tap(_) => "tap",
            Self::AfPacket(_) => "af_packet",
            Self::Pcap(_) => "pcap",
            Self::Generator(_) => "generator",
            Self::Sink(_) => "sink",
            Self::Loopback(_) => "loopback",
            Self::Vlan(_) => "vlan",
            Self::Vxlan(_) => "vxlan",
            Self::Geneve(_) => "geneve",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_kind_and_place() {
        let route = Route { prefix: "10.0.0.0/8".into(), ..Route::default() };
        assert_eq!(route.object_ref().to_string(), "route default/10.0.0.0/8");
        let neighbor =
            Neighbor { interface: "pod-a".into(), address: "10.0.0.2".into(), ..Neighbor::default() };
        assert_eq!(neighbor.object_ref().to_string(), "neighbor pod-a/10.0.0.2");
    }

    #[test]
    fn a_config_survives_being_taken_apart_and_put_together() {
        let config = Config {
            vrfs: vec![Vrf { name: "red".into(), ..Vrf::default() }],
            routes: vec![Route { vrf: "red".into(), prefix: "::/0".into(), ..Route::default() }],
            ..Config::default()
        };
        let mut again = Config::default();
        for vrf in config.vrfs.clone() {
            again.push(Object { object: Some(object::Object::Vrf(vrf)), status: None });
        }
        for route in config.routes.clone() {
            again.push(Object { object: Some(object::Object::Route(route)), status: None });
        }
        assert_eq!(config, again);
        assert_eq!(
            again.object_refs().map(|name| name.to_string()).collect::<Vec<_>>(),
            ["vrf red", "route red/::/0"]
        );
    }
}
