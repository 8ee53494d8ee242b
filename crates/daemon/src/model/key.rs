//! What identifies an object.

use std::fmt;
use std::net::IpAddr;

use api::names::DEFAULT_VRF;
use api::text::Words as _;
use api::v1::{Kind, ObjectRef};
use ipnet::IpNet;

use super::{Flaw, Name, fields};

/// Identifies a route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteKey {
    /// VRF it belongs to.
    pub vrf: Name,
    /// Destination; bits beyond the length are zero.
    pub prefix: IpNet,
}

/// Identifies a static neighbour.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NeighborKey {
    /// Interface it is behind.
    pub interface: Name,
    /// Its address.
    pub address: IpAddr,
}

/// Identifies an object of any kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A virtual routing table.
    Vrf(Name),
    /// A bridge.
    Bridge(Name),
    /// An interface.
    Interface(Name),
    /// A route.
    Route(RouteKey),
    /// A static neighbour.
    Neighbor(NeighborKey),
    /// A tenant.
    Tenant(Name),
    /// A pool of addresses for NAT.
    NatPool(Name),
    /// A policer.
    Policer(Name),
    /// A VIP.
    Vip(Name),
    /// A list of rules.
    Acl(Name),
    /// A set of addresses.
    AddressSet(Name),
    /// An endpoint.
    Endpoint(Name),
}

impl Key {
    /// What kind of object it identifies.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Vrf(_) => Kind::Vrf,
            Self::Bridge(_) => Kind::Bridge,
            Self::Interface(_) => Kind::Interface,
            Self::Route(_) => Kind::Route,
            Self::Neighbor(_) => Kind::Neighbor,
            Self::Tenant(_) => Kind::Tenant,
            Self::NatPool(_) => Kind::NatPool,
            Self::Policer(_) => Kind::Policer,
            Self::Vip(_) => Kind::Vip,
            Self::Acl(_) => Kind::Acl,
            Self::AddressSet(_) => Kind::AddressSet,
            Self::Endpoint(_) => Kind::Endpoint,
        }
    }

    /// The name a client uses.
    pub fn name(&self) -> String {
        match self {
            Self::Vrf(name)
            | Self::Bridge(name)
            | Self::Interface(name)
            | Self::Tenant(name)
            | Self::NatPool(name)
            | Self::Policer(name)
            | Self::Vip(name)
            | Self::Acl(name)
            | Self::AddressSet(name)
            | Self::Endpoint(name) => name.to_string(),
            Self::Route(route) => format!("{}/{}", route.vrf, route.prefix),
            Self::Neighbor(neighbor) => format!("{}/{}", neighbor.interface, neighbor.address),
        }
    }

    /// What a client uses.
    pub fn to_api(&self) -> ObjectRef {
        ObjectRef::new(self.kind(), self.name())
    }

    /// Reads what a client sent. A route without VRF ("10.0.0.0/8") is one of the default VRF.
    ///
    /// # Errors
    /// [`Flaw`] if there is no such kind or the name can't be one of the kind.
    pub fn parse(object: &ObjectRef) -> Result<Self, Flaw> {
        let text = object.name.as_str();
        match Kind::try_from(object.kind).unwrap_or_default() {
            Kind::Vrf => Ok(Self::Vrf(fields::name("name", text)?)),
            Kind::Bridge => Ok(Self::Bridge(fields::name("name", text)?)),
            Kind::Interface => Ok(Self::Interface(fields::name("name", text)?)),
            Kind::Tenant => Ok(Self::Tenant(fields::name("name", text)?)),
            Kind::NatPool => Ok(Self::NatPool(fields::name("name", text)?)),
            Kind::Policer => Ok(Self::Policer(fields::name("name", text)?)),
            Kind::Vip => Ok(Self::Vip(fields::name("name", text)?)),
            Kind::Acl => Ok(Self::Acl(fields::name("name", text)?)),
            Kind::AddressSet => Ok(Self::AddressSet(fields::name("name", text)?)),
            Kind::Endpoint => Ok(Self::Endpoint(fields::name("name", text)?)),
            Kind::Route => {
                let (vrf, prefix) = match text.split_once('/') {
                    Some((vrf, rest)) if rest.contains('/') => (vrf, rest),
                    _ => (DEFAULT_VRF, text),
                };
                Ok(Self::Route(RouteKey {
                    vrf: fields::name("name", vrf)?,
                    prefix: fields::network("name", prefix)?,
                }))
            }
            Kind::Neighbor => {
                let (interface, address) = text.split_once('/').ok_or_else(|| {
                    Flaw::new("name", format!("{text:?} names no neighbour"))
                        .remedy("write interface/address, for example \"pod-a/10.0.0.2\"")
                })?;
                Ok(Self::Neighbor(NeighborKey {
                    interface: fields::name("name", interface)?,
                    address: fields::address("name", address)?,
                }))
            }
            Kind::Unspecified => Err(Flaw::new("kind", "is missing or unknown to this version")
                .remedy(format!("take one of: {}", Kind::WORDS.join(", ")))),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind().word(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_the_name_it_gives() {
        for (kind, name) in [
            (Kind::Vrf, "red"),
            (Kind::Bridge, "lan"),
            (Kind::Interface, "uplink.100"),
            (Kind::Route, "default/10.0.0.0/8"),
            (Kind::Route, "red/::/0"),
            (Kind::Neighbor, "pod-a/10.0.0.2"),
            (Kind::Neighbor, "pod-a/fd00::2"),
            (Kind::Tenant, "red"),
            (Kind::NatPool, "out"),
            (Kind::Policer, "out"),
            (Kind::Vip, "web"),
            (Kind::Acl, "web"),
            (Kind::AddressSet, "web"),
            (Kind::Endpoint, "web"),
        ] {
            let object = ObjectRef::new(kind, name);
            assert_eq!(Key::parse(&object).unwrap().to_api(), object);
        }
        let short = Key::parse(&ObjectRef::new(Kind::Route, "10.0.0.0/8")).unwrap();
        assert_eq!(short.name(), "default/10.0.0.0/8");
    }

    #[test]
    fn what_can_name_nothing_is_refused() {
        for (kind, name) in [
            (Kind::Unspecified, "x"),
            (Kind::Interface, "a b"),
            (Kind::Route, "default"),
            (Kind::Route, "default/10.0.0.1/8"),
            (Kind::Neighbor, "10.0.0.2"),
            (Kind::Neighbor, "pod-a/10.0.0"),
        ] {
            assert!(Key::parse(&ObjectRef::new(kind, name)).is_err(), "{name}");
        }
    }
}
