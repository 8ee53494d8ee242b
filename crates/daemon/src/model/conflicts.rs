//! Rules that two objects break together.
//!
//! They are judged on the desired state as it would be, so that the order of objects has no part in it. The blame is
//! on the object that the batch brought; if it brought both, on the one whose name is later in the alphabet.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use api::v1::MemifMode;
use ipnet::IpNet;

use features::session::balance::control::{BackendConfig, VipConfig};

use super::spec::{Claim, InterfaceSpec, L2, MemifSpec, PortSpec, SocketName, TenantSpec};
use super::{Batch, Flaw, Key, Model, Name, NeighborKey, Refusal};

/// All conflicts in `model`, of which `batch` is already a part; ordered by object, one per object: the first rule that it
/// breaks.
pub fn check(model: &Model, batch: &Batch) -> Vec<Refusal> {
    let mut conflicts = Conflicts { model, batch, refusals: Vec::new() };
    conflicts.vrf_ids();
    // Two roles on one socket: that their ids collide is no news then.
    conflicts.socket_roles();
    conflicts.trust_groups();
    conflicts.punt_inject();
    conflicts.claims();
    conflicts.addresses();
    conflicts.vlans();
    conflicts.bridges();
    conflicts.cross_connects();
    conflicts.neighbors();
    conflicts.tenants();
    conflicts.nat_pools();
    conflicts.vips();
    conflicts.address_sets();
    conflicts.acls();
    conflicts.endpoints();
    conflicts.refusals.sort_by(|a, b| a.key.cmp(&b.key));
    conflicts.refusals.dedup_by(|a, b| a.key == b.key);
    conflicts.refusals
}

struct Conflicts<'a> {
    model: &'a Model,
    batch: &'a Batch,
    refusals: Vec<Refusal>,
}

impl<'a> Conflicts<'a> {
    fn interfaces(&self) -> impl Iterator<Item = &'a InterfaceSpec> + use<'a> {
        self.model.interfaces.values().map(|stored| &*stored.spec)
    }

    /// Blames `a` or `b`; `flaw` is given the name of the other.
    fn blame(&mut self, a: Key, b: Key, flaw: impl Fn(&Key) -> Flaw) {
        let (guilty, other) = match (self.batch.contains(&a), self.batch.contains(&b)) {
            (true, false) => (a, b),
            (false, true) => (b, a),
            _ if a > b => (a, b),
            _ => (b, a),
        };
        let flaw = flaw(&other);
        self.refusals.push(Refusal { key: guilty, flaw });
    }

    fn blame_interface(&mut self, a: &Name, b: &Name, flaw: impl Fn(&Key) -> Flaw) {
        self.blame(Key::Interface(a.clone()), Key::Interface(b.clone()), flaw);
    }

    fn vrf_ids(&mut self) {
        let mut ids = BTreeMap::new();
        for stored in self.model.vrfs.values() {
            let Some(id) = stored.spec.id else { continue };
            if let Some(other) = ids.insert(id, &stored.spec.name) {
                self.blame(Key::Vrf(stored.spec.name.clone()), Key::Vrf(other.clone()), |other| {
                    Flaw::new("id", format!("{id} is that of {other}")).remedy("take another number or none")
                });
            }
        }
    }

    /// No two interfaces may have the same socket and id, device, tags or file.
    fn claims(&mut self) {
        let mut claims = BTreeMap::<Claim, &Name>::new();
        for interface in self.interfaces() {
            for claim in interface.port.claims() {
                let field = claim_field(&claim);
                if let Some(other) = claims.insert(claim.clone(), &interface.name) {
                    self.blame_interface(&interface.name, other, |other| {
                        Flaw::new(field, format!("{claim} is already taken by {other}"))
                    });
                }
            }
        }
    }

    /// We can't listen on a socket and connect to it too, and it has one file.
    fn socket_roles(&mut self) {
        let mut roles = BTreeMap::<&SocketName, (&Name, &MemifSpec)>::new();
        for interface in self.interfaces() {
            let PortSpec::Memif(memif) = &interface.port else { continue };
            match roles.get(&memif.socket) {
                Some((other, first)) if first.role != memif.role => {
                    self.blame_interface(&interface.name, other, |other| {
                        Flaw::new("memif.role", format!("{other} has the other role on {}", memif.socket))
                            .remedy("give all interfaces of a socket the same role, or take another socket")
                    });
                }
                Some((other, first)) if first.access.file != memif.access.file => {
                    self.blame_interface(&interface.name, other, |other| {
                        let what = format!("mode or owner of {} are others at {other}", memif.socket);
                        Flaw::new("memif.socket_mode", what)
                            .remedy("give all interfaces of a socket the same, or take another socket")
                    });
                }
                Some(_) => {}
                None => {
                    roles.insert(&memif.socket, (&interface.name, memif));
                }
            }
        }
    }

    /// A trust group has buffers of one size.
    fn trust_groups(&mut self) {
        let mut groups = BTreeMap::<&str, (&Name, &MemifSpec)>::new();
        for interface in self.interfaces() {
            let PortSpec::Memif(memif) = &interface.port else { continue };
            if memif.trust_group.is_empty() {
                continue;
            }
            let (other, first) = *groups.entry(&memif.trust_group).or_insert((&interface.name, memif));
            if first.buffer_size != memif.buffer_size {
                self.blame_interface(&interface.name, other, |other| {
                    let what = format!("{other} has another size in trust group {}", memif.trust_group);
                    Flaw::new("memif.buffer_size", what)
                        .remedy("give all interfaces of a trust group the same, or take another group")
                });
            }
        }
    }

    /// What nothing takes goes to one interface of a VRF.
    fn punt_inject(&mut self) {
        let mut takers = BTreeMap::<&Name, &Name>::new();
        for interface in self.interfaces() {
            let PortSpec::Memif(memif) = &interface.port else { continue };
            if memif.mode == MemifMode::PuntInject
                && let Some(other) = takers.insert(&interface.vrf, &interface.name)
            {
                self.blame_interface(&interface.name, other, |other| {
                    Flaw::new("memif.mode", format!("{other} is punt-inject in the same VRF already"))
                        .remedy("take mode \"ip\", or another VRF")
                });
            }
        }
    }

    /// Within a VRF an address belongs to one interface, and so does a network. Link-local ones may be on all.
    fn addresses(&mut self) {
        let mut own = BTreeMap::<(&Name, IpAddr), &Name>::new();
        let mut networks = BTreeMap::<(&Name, IpNet), &Name>::new();
        for interface in self.interfaces() {
            for address in interface.addresses.iter().filter(|address| !is_link_local(address.addr())) {
                let ip = address.addr();
                if let Some(other) = own.insert((&interface.vrf, ip), &interface.name) {
                    self.blame_interface(&interface.name, other, |other| {
                        Flaw::new(
                            "addresses",
                            format!("{ip} is already an address of {other} in the same VRF"),
                        )
                        .remedy("take another address or another VRF")
                    });
                    continue;
                }
                let network = address.trunc();
                let key = (&interface.vrf, network);
                match networks.get(&key).copied() {
                    Some(other) if *other != interface.name => {
                        self.blame_interface(&interface.name, other, |other| {
                            Flaw::new(
                                "addresses",
                                format!("{network} is already the network of {other} in the same VRF"),
                            )
                            .remedy(format!(
                                "use a bridge for one network on several interfaces, or {}",
                                IpNet::from(ip)
                            ))
                        });
                    }
                    _ => {
                        networks.insert(key, &interface.name);
                    }
                }
            }
        }
    }

    /// A vlan needs a parent with Ethernet frames that is no vlan itself.
    fn vlans(&mut self) {
        for interface in self.interfaces() {
            let PortSpec::Vlan(vlan) = &interface.port else { continue };
            let Some(parent) = self.model.interfaces.get(&vlan.parent) else { continue };
            let (reason, remedy) = match &parent.spec.port {
                PortSpec::Vlan(_) => {
                    ("is a vlan itself", "name its parent, and give both outer_id and inner_id")
                }
                PortSpec::Loopback => {
                    ("is a loopback: no tagged frames come from it", "name another interface")
                }
                port if !port.is_ethernet() => {
                    ("carries IP packets without tags", "set its mode to ethernet or tap")
                }
                _ => continue,
            };
            self.blame_interface(&interface.name, &vlan.parent, |_| {
                Flaw::new("vlan.parent", format!("interface {} {reason}", vlan.parent)).remedy(remedy)
            });
        }
    }

    /// One routed leg per bridge, and no Ethernet address twice.
    fn bridges(&mut self) {
        let mut bvis = BTreeMap::new();
        let mut macs = BTreeMap::new();
        for interface in self.interfaces() {
            let Some(L2::Bridge { name, bvi, .. }) = &interface.l2 else { continue };
            if *bvi && let Some(other) = bvis.insert(name, &interface.name) {
                self.blame_interface(&interface.name, other, |other| {
                    Flaw::new("bridge.bvi", format!("{other} is already the routed leg of bridge {name}"))
                        .remedy("put its addresses on that one")
                });
            }
            if let Some(mac) = interface.mac
                && let Some(other) = macs.insert((name, mac), &interface.name)
            {
                self.blame_interface(&interface.name, other, |other| {
                    Flaw::new("mac", format!("{mac} is already the address of {other} in bridge {name}"))
                        .remedy("take another address or none")
                });
            }
        }
    }

    /// Cross-connects join pairs: whoever is named is free for it.
    fn cross_connects(&mut self) {
        let mut named_by = BTreeMap::<&Name, &Name>::new();
        for interface in self.interfaces() {
            let Some(L2::CrossConnect(name)) = &interface.l2 else { continue };
            if let Some(first) = named_by.insert(name, &interface.name) {
                self.blame_interface(&interface.name, first, |first| {
                    Flaw::new("cross_connect", format!("{name} is already cross-connected to {first}"))
                        .remedy("use a bridge to join more than two")
                });
            }
            let Some(other) = self.model.interfaces.get(name) else { continue };
            let reason = match &other.spec.l2 {
                Some(L2::CrossConnect(back)) if *back == interface.name => None,
                Some(L2::CrossConnect(third)) => Some(format!("is cross-connected to {third}")),
                Some(L2::Bridge { name, .. }) => Some(format!("is a member of bridge {name}")),
                None if !other.spec.addresses.is_empty() => Some("has addresses: it is routed".into()),
                None if matches!(other.spec.port, PortSpec::Loopback) => {
                    Some("is a loopback: it has no wire".into())
                }
                None => None,
            };
            let reason = reason.or_else(|| {
                let same = other.spec.port.is_ethernet() == interface.port.is_ethernet();
                (!same).then(|| {
                    "carries IP packets where this one carries Ethernet frames, or the reverse".into()
                })
            });
            if let Some(reason) = reason {
                self.blame_interface(&interface.name, name, |_| {
                    Flaw::new(
                        "cross_connect",
                        format!("joins {} and {name}, but {name} {reason}", interface.name),
                    )
                    .remedy("change one of the two")
                });
            }
        }
    }

    /// An interface is one tenant's, and its packets belong to one address space.
    fn tenants(&mut self) {
        let mut owners = BTreeMap::<&Name, &Name>::new();
        let mut contexts = BTreeMap::<&Name, (&Name, u16)>::new();
        for (name, stored) in &self.model.tenants {
            for interface in &stored.spec.interfaces {
                if let Some(other) = owners.insert(interface, name) {
                    self.blame(Key::Tenant(name.clone()), Key::Tenant(other.clone()), |other| {
                        Flaw::new("interfaces", format!("interface {interface} is already {other}'s"))
                            .remedy("leave it out here or there")
                    });
                }
            }
            let context = stored.spec.context;
            for interface in stored.spec.all_interfaces() {
                let (other, first) = *contexts.entry(interface).or_insert((name, context));
                if first != context {
                    self.blame(Key::Tenant(name.clone()), Key::Tenant(other.clone()), |other| {
                        let what = format!("{other} has interface {interface} in another context");
                        Flaw::new("context", what)
                            .remedy("give tenants that share an interface the same context")
                    });
                }
            }
        }
    }

    /// An address is one pool's, and a pool's packets belong to one address space.
    fn nat_pools(&mut self) {
        let pools: Vec<_> = self.model.nat_pools.iter().collect();
        for (at, (name, stored)) in pools.iter().enumerate() {
            let spec = &stored.spec;
            for (other, before) in &pools[..at] {
                let mut pairs = spec
                    .addresses
                    .iter()
                    .flat_map(|span| before.spec.addresses.iter().map(move |earlier| (span, earlier)));
                if spec.context == before.spec.context
                    && let Some((span, earlier)) = pairs.find(|(span, earlier)| span.overlaps(**earlier))
                {
                    self.blame(Key::NatPool((*name).clone()), Key::NatPool((*other).clone()), |other| {
                        let what = format!("{span} and {earlier} overlap, of which one is {other}'s");
                        Flaw::new("addresses", what).remedy("give each address to one pool")
                    });
                }
            }
        }
        for (name, stored) in &self.model.tenants {
            let pool = stored.spec.nat_pool.as_ref().and_then(|pool| self.model.nat_pools.get(pool));
            let Some(pool) = pool.filter(|pool| pool.spec.context != stored.spec.context) else { continue };
            self.blame(Key::Tenant(name.clone()), Key::NatPool(pool.spec.name.clone()), |other| {
                Flaw::new("context", format!("{other} has another context, and they belong together"))
                    .remedy("give a pool and the tenants that use it the same context")
            });
        }
    }

    /// Clients ask one VIP at a place, and neither Quiver itself nor another VIP answers for it.
    fn vips(&mut self) {
        type Place = (u16, u8, (IpAddr, u16));
        if self.model.vips.is_empty() {
            return;
        }
        let place = |config: &VipConfig, endpoint| -> Place { (config.context, config.protocol, endpoint) };
        let mut places = HashMap::<Place, &Name>::new();
        for (name, stored) in &self.model.vips {
            let config = &stored.spec.config;
            if let Some(other) = places.insert(place(config, config.endpoint), name) {
                let (address, port) = config.endpoint;
                self.blame(Key::Vip(name.clone()), Key::Vip(other.clone()), |other| {
                    Flaw::new("address", format!("{address} port {port} is {other}'s already"))
                        .remedy("take another address, port or protocol, or give that one these backends")
                });
            }
        }
        for (name, stored) in &self.model.vips {
            let config = &stored.spec.config;
            let other = |backend: &BackendConfig| places.get(&place(config, backend.endpoint));
            let Some((index, other)) =
                config.backends.iter().enumerate().find_map(|(at, one)| Some((at, *other(one)?)))
            else {
                continue;
            };
            let asked = Key::Vip(other.clone());
            self.blame(Key::Vip(name.clone()), asked.clone(), |other| match *other == asked {
                true => {
                    Flaw::new(format!("backends[{index}].address"), format!("that is where {other} is asked"))
                        .remedy("name those who answer for it")
                }
                false => Flaw::new("address", format!("it is a backend of {other}"))
                    .remedy("take another address, port or protocol"),
            });
        }
        let addresses: BTreeMap<IpAddr, Vec<(&Name, u16)>> =
            self.model.vips.iter().fold(BTreeMap::new(), |mut all, (name, stored)| {
                let config = &stored.spec.config;
                all.entry(config.endpoint.0).or_insert_with(Vec::new).push((name, config.context));
                all
            });
        for interface in self.interfaces() {
            let owns = interface.addresses.iter().filter_map(|own| addresses.get(&own.addr()));
            for (name, context) in owns.flatten() {
                let tenants = || self.model.tenants.values().map(|stored| &stored.spec);
                let its =
                    |tenant: &&Arc<TenantSpec>| tenant.all_interfaces().any(|one| *one == interface.name);
                // One that is in other address spaces alone has nothing to do with it.
                let elsewhere = tenants().any(|tenant| its(&tenant) && tenant.context != *context)
                    && !tenants().any(|tenant| its(&tenant) && tenant.context == *context);
                if elsewhere {
                    continue;
                }
                let vip = Key::Vip((*name).clone());
                let text = vip.to_string();
                self.blame(vip, Key::Interface(interface.name.clone()), |other| match other {
                    Key::Vip(_) => Flaw::new("addresses", format!("one of them is that of {text}"))
                        .remedy("take another one, or another one for the VIP"),
                    _ => Flaw::new("address", format!("it is an own address of {other}"))
                        .remedy("take an address that no interface has"),
                });
            }
        }
    }

    /// Sets that rules name are there.
    fn address_sets(&mut self) {
        for (name, stored) in &self.model.acls {
            let there = |set: &str| self.model.address_sets.contains_key(set);
            let Some(missing) = stored.spec.sets.iter().find(|used| !there(&used.name)) else { continue };
            let Ok(set) = Name::new(&missing.name) else { continue };
            let at = format!("rules[{}].{}", missing.rule, missing.field);
            let set = Key::AddressSet(set);
            self.blame(Key::Acl(name.clone()), set.clone(), |other| refers(&at, other, *other == set));
        }
    }

    /// Lists that tenants and endpoints name are there.
    fn acls(&mut self) {
        let mut missing = Vec::new();
        let mut look = |user: &dyn Fn() -> Key, field: &str, lists: &[Arc<str>]| {
            let absent =
                lists.iter().enumerate().find(|(_, list)| !self.model.acls.contains_key::<str>(list));
            if let Some((index, list)) = absent {
                missing.push((user(), format!("{field}[{index}]"), Arc::clone(list)));
            }
        };
        for (name, stored) in &self.model.tenants {
            look(&|| Key::Tenant(name.clone()), "acls", &stored.spec.acls);
        }
        for (name, stored) in &self.model.endpoints {
            look(&|| Key::Endpoint(name.clone()), "ingress_acls", &stored.spec.config.ingress);
            look(&|| Key::Endpoint(name.clone()), "egress_acls", &stored.spec.config.egress);
        }
        for (user, field, list) in missing {
            let Ok(list) = Name::new(&list) else { continue };
            let list = Key::Acl(list);
            self.blame(user, list.clone(), |other| refers(&field, other, *other == list));
        }
    }

    /// An address is one endpoint's.
    fn endpoints(&mut self) {
        let mut owners = HashMap::<(u16, IpAddr), &Name>::new();
        for (name, stored) in &self.model.endpoints {
            let config = &stored.spec.config;
            for address in &config.addresses {
                if let Some(other) = owners.insert((config.context, *address), name) {
                    self.blame(Key::Endpoint(name.clone()), Key::Endpoint(other.clone()), |other| {
                        Flaw::new("addresses", format!("{address} is already {other}'s"))
                            .remedy("give each address to one endpoint, or take another context")
                    });
                }
            }
        }
    }

    /// A neighbour is somebody else, on a link with Ethernet addresses.
    fn neighbors(&mut self) {
        for key in self.model.neighbors.keys() {
            let NeighborKey { interface, address } = key;
            let Some(stored) = self.model.interfaces.get(interface) else { continue };
            let reason = if !stored.spec.port.is_ethernet() {
                format!("interface {interface} has no Ethernet: it needs no neighbours")
            } else if stored.spec.addresses.iter().any(|own| own.addr() == *address) {
                format!("{address} is the own address of interface {interface}")
            } else {
                continue;
            };
            let (a, b) = (Key::Neighbor(key.clone()), Key::Interface(interface.clone()));
            let neighbor = a.clone();
            self.blame(a, b, |other| match other {
                Key::Interface(_) => Flaw::new("address", reason.clone()),
                _ => Flaw::new("", format!("contradicts {neighbor}: {reason}"))
                    .remedy("delete the neighbour in the same batch"),
            });
        }
    }
}

/// What is wrong where an object refers in a field to one that isn't there, or goes: `other` is that one (`missing`), or whoever refers to it.
fn refers(field: &str, other: &Key, missing: bool) -> Flaw {
    if missing {
        return Flaw::new(field, format!("there is no {other}"))
            .remedy("add it in the same batch, or leave it out here");
    }
    Flaw::new("", format!("{other} refers to it")).remedy("change that one in the same batch")
}

/// The field that claims something.
fn claim_field(claim: &Claim) -> &'static str {
    match claim {
        Claim::Memif(..) => "memif.id",
        Claim::Device(..) => "",
        Claim::File(_) => "pcap.tx_file",
        Claim::Tags(..) => "vlan.outer_id",
    }
}

/// RFC 3927 and RFC 4291 §2.5.6: such addresses mean something on their link only.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
