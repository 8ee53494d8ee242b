//! Rules that two objects break together.
//!
//! They are judged on the desired state as it would be, so that the order of objects has no part in it. The blame is
//! on the object that the batch brought; if it brought both, on the one whose name is later in the alphabet.

mod policers;
mod redirects;
mod sessions;
mod tunnels;
mod vips;

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::v1::MemifMode;
use ipnet::IpNet;

use super::spec::{Claim, InterfaceSpec, L2, MemifSpec, PortSpec, SocketName};
use super::{Batch, Flaw, Key, Model, Name, NeighborKey, Refusal};

/// All conflicts in `model`, of which `batch` is already a part; ordered by object, one per object: the first rule that it
/// breaks.
pub fn check(model: &Model, batch: &Batch) -> Vec<Refusal> {
    found(model, batch, |conflicts| {
        conflicts.all();
        conflicts.vips_beside_pools();
    })
}

/// The same of what is kept on disk: without [what versions before have accepted](accepted_before), for which none of it is to be left out.
pub fn check_kept(model: &Model, batch: &Batch) -> Vec<Refusal> {
    found(model, batch, Conflicts::all)
}

/// What a batch is refused for, but was not by versions before.
pub fn accepted_before(model: &Model, batch: &Batch) -> Vec<Refusal> {
    found(model, batch, Conflicts::vips_beside_pools)
}

fn found<'a>(model: &'a Model, batch: &'a Batch, look: impl FnOnce(&mut Conflicts<'a>)) -> Vec<Refusal> {
    let mut conflicts = Conflicts { model, batch, refusals: Vec::new() };
    look(&mut conflicts);
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
    fn all(&mut self) {
        self.vrf_ids();
        // Two roles on one socket: that their ids collide is no news then.
        self.socket_roles();
        self.trust_groups();
        self.punt_inject();
        self.claims();
        self.addresses();
        self.vlans();
        self.tunnels();
        self.bridges();
        self.cross_connects();
        self.neighbors();
        self.tenants();
        self.classes();
        self.nat_pools();
        self.policers();
        self.redirects();
        self.vips();
        self.address_sets();
        self.acls();
        self.endpoints();
    }

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
                Some((other, first)) if first.access.quota != memif.access.quota => {
                    let field = if first.access.quota.memory == memif.access.quota.memory {
                        "memif.socket_max_descriptors"
                    } else {
                        "memif.socket_max_memory"
                    };
                    self.blame_interface(&interface.name, other, |other| {
                        Flaw::new(field, format!("{other} has another for {}", memif.socket))
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
        for (bridge, leg) in bvis {
            let Some((stored, leg)) = self.model.bridges.get(bridge).zip(self.model.interfaces.get(leg))
            else {
                continue;
            };
            let mac = leg.spec.own_mac();
            if stored.spec.static_macs.iter().any(|fixed| fixed.mac == mac) {
                let (a, b) = (Key::Bridge(bridge.clone()), Key::Interface(leg.spec.name.clone()));
                self.blame(a, b, |other| match other {
                    Key::Interface(leg) => {
                        Flaw::new("static_macs", format!("{mac} is the address of the routed leg {leg}"))
                            .remedy("leave it out: the leg's own address is always there")
                    }
                    _ => Flaw::new("mac", format!("{mac} is among static_macs of {other}"))
                        .remedy("take another address"),
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

/// The field that claims something.
fn claim_field(claim: &Claim) -> &'static str {
    match claim {
        Claim::Memif(..) => "memif.id",
        Claim::Device(..) => "",
        Claim::File(_) => "pcap.tx_file",
        Claim::Tags(..) => "vlan.outer_id",
        Claim::Tunnel(..) => "",
    }
}

/// RFC 3927 and RFC 4291 §2.5.6: such addresses mean something on their link only.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
