//! Interfaces.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use api::v1::{BridgePort, Fault, Interface, ReversePathFilter, RxMode};
use ipnet::IpNet;

use super::bridge::max_macs;
use super::{IpRange, PortSpec};
use crate::model::stable_mac::stable_mac;
use crate::model::{Flaw, Mac, Name, fields};

/// RFC 8200 §5.
const MIN_IPV6_MTU: u32 = 1280;
const MILLION: u32 = 1_000_000;

/// An interface; see [`Interface`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceSpec {
    /// Unique name.
    pub name: Name,
    /// Where packets come from and go to.
    pub port: PortSpec,
    /// Whether packets may pass.
    pub admin_up: bool,
    /// Ethernet address; `None`: chosen by the dataplane, stable for the name.
    pub mac: Option<Mac>,
    /// Largest IP packet in bytes, without the Ethernet header; `None`: its port's, see [`Self::mtu`].
    pub mtu: Option<u32>,
    /// How receive queues are served.
    pub rx_mode: RxMode,
    /// Damage done on purpose.
    pub fault: Option<FaultSpec>,
    /// Bridged or cross-connected; `None`: routed.
    pub l2: Option<L2>,
    /// VRF it routes in.
    pub vrf: Name,
    /// Own addresses with the length of the connected network, in the order they were given.
    pub addresses: Vec<IpNet>,
    /// Check of source addresses.
    pub rpf: ReversePathFilter,
    /// Foreign addresses that are answered for.
    pub proxy_arp: Vec<IpRange>,
    /// Sources that the reverse path filter lets pass besides.
    pub allowed_sources: Vec<IpRange>,
    /// What meters all that it receives.
    pub policer: Option<Name>,
}

/// What is done with frames instead of routing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum L2 {
    /// Member of a bridge.
    Bridge {
        /// Name of the bridge.
        name: Name,
        /// It is the routed leg of the bridge.
        bvi: bool,
        /// Members of the same group other than 0 don't reach each other.
        split_horizon_group: u32,
        /// Addresses learned at it at most; `None`: as the bridge says.
        max_macs: Option<u32>,
    },
    /// Everything goes to, and comes from, this interface.
    CrossConnect(Name),
}

/// Damage done on purpose to received packets; figures are packets per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultSpec {
    /// Dropped.
    pub drop_ppm: u32,
    /// With one bit turned over.
    pub corrupt_ppm: u32,
    /// Delivered twice.
    pub duplicate_ppm: u32,
    /// Cut to a random length.
    pub truncate_ppm: u32,
    /// Exchanged with their successor.
    pub reorder_ppm: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl InterfaceSpec {
    /// Its Ethernet address: the one it was given, or what follows from its name and this host.
    pub fn own_mac(&self) -> Mac {
        let chosen = || match &self.port {
            // Both ends of a tunnel may well have one name, and they meet in one network.
            PortSpec::Tunnel(tunnel) => stable_mac(&format!("{} {}", self.name, tunnel.local)),
            _ => stable_mac(&self.name.to_string()),
        };
        self.mac.unwrap_or_else(chosen)
    }

    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(interface: &Interface) -> Result<Self, Flaw> {
        let name = fields::name("name", &interface.name)?;
        let port = PortSpec::parse(interface.port.as_ref(), &name)?;
        let spec = Self {
            admin_up: interface.admin_up.unwrap_or(true),
            mac: fields::optional_station("mac", &interface.mac)?,
            mtu: mtu(interface.mtu, &port)?,
            rx_mode: fields::choice("rx_mode", interface.rx_mode, RxMode::Adaptive)?,
            fault: interface.fault.as_ref().map(FaultSpec::parse).transpose()?.flatten(),
            l2: L2::parse(interface)?,
            vrf: fields::vrf("vrf", &interface.vrf)?,
            addresses: addresses(&interface.addresses)?,
            rpf: fields::choice("rpf", interface.rpf, ReversePathFilter::Off)?,
            proxy_arp: ranges("proxy_arp", &interface.proxy_arp)?,
            allowed_sources: ranges("allowed_sources", &interface.allowed_sources)?,
            policer: fields::optional_name("policer", &interface.policer)?,
            port,
            name,
        };
        spec.check_port()?;
        spec.check_layers()?;
        Ok(spec)
    }

    /// The canonical form.
    pub fn to_api(&self) -> Interface {
        let (bridge, cross_connect) = match &self.l2 {
            Some(L2::Bridge { name, bvi, split_horizon_group, max_macs }) => {
                let port = BridgePort {
                    name: name.to_string(),
                    bvi: *bvi,
                    split_horizon_group: *split_horizon_group,
                    max_macs: *max_macs,
                };
                (Some(port), String::new())
            }
            Some(L2::CrossConnect(other)) => (None, other.to_string()),
            None => (None, String::new()),
        };
        Interface {
            name: self.name.to_string(),
            port: Some(self.port.to_api(&self.name)),
            admin_up: if self.admin_up { None } else { Some(false) },
            mac: self.mac.map(|mac| mac.to_string()).unwrap_or_default(),
            mtu: self.mtu.unwrap_or_default(),
            addresses: self.addresses.iter().map(ToString::to_string).collect(),
            vrf: if self.vrf == Name::default_vrf() { String::new() } else { self.vrf.to_string() },
            bridge,
            cross_connect,
            rpf: match self.rpf {
                ReversePathFilter::Off => ReversePathFilter::Unspecified.into(),
                rpf => rpf.into(),
            },
            proxy_arp: self.proxy_arp.iter().map(ToString::to_string).collect(),
            allowed_sources: self.allowed_sources.iter().map(ToString::to_string).collect(),
            policer: self.policer.as_ref().map(ToString::to_string).unwrap_or_default(),
            rx_mode: match self.rx_mode {
                RxMode::Adaptive => RxMode::Unspecified.into(),
                mode => mode.into(),
            },
            fault: self.fault.map(FaultSpec::to_api),
        }
    }

    /// Largest IP packet in bytes, without the Ethernet header, where `parent` is the interface that it is a VLAN of. Tags take room in a
    /// tunnel as all that goes in does: where nobody says another, a VLAN of one has the tunnel's less its tags.
    pub fn mtu(&self, parent: Option<&Self>) -> u32 {
        self.mtu.unwrap_or_else(|| match (&self.port, parent) {
            (PortSpec::Vlan(vlan), Some(parent)) if matches!(parent.port, PortSpec::Tunnel(_)) => {
                parent.mtu(None).saturating_sub(vlan.tag_len())
            }
            _ => self.port.default_mtu(),
        })
    }

    /// The interface that it is a VLAN of.
    pub fn parent(&self) -> Option<&Name> {
        match &self.port {
            PortSpec::Vlan(vlan) => Some(&vlan.parent),
            _ => None,
        }
    }

    /// What is wrong with so small an MTU.
    pub fn too_small(&self, mtu: u32) -> Option<Flaw> {
        let has_ipv6 = self.addresses.iter().any(|address| address.addr().is_ipv6());
        (mtu < MIN_IPV6_MTU && has_ipv6).then(|| {
            Flaw::new("mtu", format!("{mtu} is too small for IPv6"))
                .remedy(format!("take at least {MIN_IPV6_MTU} (RFC 8200 §5)"))
        })
    }

    /// The networks that are directly connected through it: (network, own address).
    pub fn networks(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.addresses.iter().map(IpNet::trunc)
    }

    /// Fields that the kind of port rules out.
    fn check_port(&self) -> Result<(), Flaw> {
        if !self.port.is_ethernet() {
            if self.mac.is_some() {
                return Err(
                    Flaw::new("mac", "has no meaning for a port without Ethernet").remedy("leave it out")
                );
            }
            if matches!(self.l2, Some(L2::Bridge { .. })) {
                return Err(Flaw::new("bridge", "takes Ethernet frames, but this port carries IP packets")
                    .remedy("set the port's mode to ethernet or tap, or leave the bridge out"));
            }
            if !self.proxy_arp.is_empty() {
                return Err(Flaw::new("proxy_arp", "has no meaning for a port without Ethernet")
                    .remedy("leave it out"));
            }
        }
        match (&self.port, &self.l2) {
            (PortSpec::Vlan(vlan), _) if self.policer.is_some() => {
                Err(Flaw::new("policer", "meters whole ports, and this is a sub-interface")
                    .remedy(format!("name it at {}, or at the tenant whose interface this is", vlan.parent)))
            }
            (PortSpec::Loopback, l2) if self.policer.is_some() && l2.is_none() => {
                Err(Flaw::new("policer", "has no meaning for a loopback: nothing comes in by it")
                    .remedy("leave it out"))
            }
            (PortSpec::Loopback, Some(L2::Bridge { bvi: false, .. })) => Err(Flaw::new(
                "bridge.bvi",
                "is not set, but a loopback can only be the routed leg of a bridge",
            )
            .remedy("set bvi = true")),
            (PortSpec::Loopback, Some(L2::CrossConnect(_))) => {
                Err(Flaw::new("cross_connect", "has no meaning for a loopback: it has no wire"))
            }
            (PortSpec::Loopback, _) => Ok(()),
            (_, Some(L2::Bridge { bvi: true, .. })) => {
                Err(Flaw::new("bridge.bvi", "is set, but only a loopback can be the routed leg of a bridge")
                    .remedy("make a loopback for it"))
            }
            _ => Ok(()),
        }
    }

    /// Routing needs an interface that isn't bridged or cross-connected.
    fn check_layers(&self) -> Result<(), Flaw> {
        if let Some(flaw) = self.too_small(self.mtu(None)) {
            return Err(flaw);
        }
        let what = match &self.l2 {
            None | Some(L2::Bridge { bvi: true, .. }) => return Ok(()),
            Some(L2::Bridge { name, .. }) => format!("the interface is bridged in {name}"),
            Some(L2::CrossConnect(other)) => format!("the interface is cross-connected to {other}"),
        };
        let routed = [
            ("addresses", !self.addresses.is_empty()),
            ("vrf", self.vrf != Name::default_vrf()),
            ("rpf", self.rpf != ReversePathFilter::Off),
            ("proxy_arp", !self.proxy_arp.is_empty()),
            ("allowed_sources", !self.allowed_sources.is_empty()),
        ];
        match routed.into_iter().find(|(_, given)| *given) {
            Some((field, _)) => Err(Flaw::new(field, format!("is for routing, but {what}")).remedy(
                "leave one of the two out; for a bridge with an address make a loopback with bvi = true",
            )),
            None => Ok(()),
        }
    }
}

fn member_max_macs(port: &BridgePort) -> Result<Option<u32>, Flaw> {
    if port.bvi && port.max_macs.is_some() {
        let flaw = Flaw::new("bridge.max_macs", "is set on the routed leg, at which nothing is learned");
        return Err(flaw.remedy("leave it out"));
    }
    max_macs("bridge.max_macs", port.max_macs)
}

impl L2 {
    fn parse(interface: &Interface) -> Result<Option<Self>, Flaw> {
        let cross_connect = fields::optional_name("cross_connect", &interface.cross_connect)?;
        match (&interface.bridge, cross_connect) {
            (Some(_), Some(_)) => {
                Err(Flaw::new("cross_connect", "contradicts bridge").remedy("leave one out"))
            }
            (Some(port), None) => Ok(Some(Self::Bridge {
                name: fields::name("bridge.name", &port.name)?,
                bvi: port.bvi,
                split_horizon_group: fields::number(
                    "bridge.split_horizon_group",
                    port.split_horizon_group,
                    0..=255,
                    0,
                )?,
                max_macs: member_max_macs(port)?,
            })),
            (None, Some(other)) if *other == *interface.name => {
                Err(Flaw::new("cross_connect", "names the interface itself"))
            }
            (None, Some(other)) => Ok(Some(Self::CrossConnect(other))),
            (None, None) => Ok(None),
        }
    }
}

impl FaultSpec {
    /// `None` if nothing is damaged.
    fn parse(fault: &Fault) -> Result<Option<Self>, Flaw> {
        let ppm = |field: &str, value: u32| fields::number(&format!("fault.{field}"), value, 0..=MILLION, 0);
        let spec = Self {
            drop_ppm: ppm("drop_ppm", fault.drop_ppm)?,
            corrupt_ppm: ppm("corrupt_ppm", fault.corrupt_ppm)?,
            duplicate_ppm: ppm("duplicate_ppm", fault.duplicate_ppm)?,
            truncate_ppm: ppm("truncate_ppm", fault.truncate_ppm)?,
            reorder_ppm: ppm("reorder_ppm", fault.reorder_ppm)?,
            seed: fault.seed,
        };
        let harmless = Self {
            drop_ppm: 0,
            corrupt_ppm: 0,
            duplicate_ppm: 0,
            truncate_ppm: 0,
            reorder_ppm: 0,
            seed: fault.seed,
        };
        Ok(if spec == harmless { None } else { Some(spec) })
    }

    fn to_api(self) -> Fault {
        Fault {
            drop_ppm: self.drop_ppm,
            corrupt_ppm: self.corrupt_ppm,
            duplicate_ppm: self.duplicate_ppm,
            truncate_ppm: self.truncate_ppm,
            reorder_ppm: self.reorder_ppm,
            seed: self.seed,
        }
    }
}

fn ranges(field: &str, texts: &[String]) -> Result<Vec<IpRange>, Flaw> {
    texts.iter().map(|text| IpRange::parse(field, text)).collect()
}

/// The MTU that is said. Of ports that have one of their own it isn't kept apart whether that is said or left out.
fn mtu(said: u32, port: &PortSpec) -> Result<Option<u32>, Flaw> {
    let default = port.default_mtu();
    let mtu = fields::number("mtu", said, 68..=65_535, default)?;
    let own = said == 0 || (mtu == default && !matches!(port, PortSpec::Vlan(_)));
    Ok((!own).then_some(mtu))
}

fn addresses(texts: &[String]) -> Result<Vec<IpNet>, Flaw> {
    let mut seen = BTreeSet::new();
    let mut addresses = Vec::with_capacity(texts.len());
    for text in texts {
        let address = fields::prefix("addresses", text)?;
        let ip = address.addr();
        if ip.is_multicast() || ip.is_unspecified() || ip.is_loopback() || ip == Ipv4Addr::BROADCAST {
            return Err(Flaw::new("addresses", format!("{ip} can't be an interface's own address")));
        }
        // RFC 1122 section 3.2.1.3; a link of two has neither (RFC 3021).
        if address.addr().is_ipv4()
            && address.prefix_len() < 31
            && (ip == address.network() || ip == address.broadcast())
        {
            let reason = format!("{ip} is the network's own or its broadcast address");
            return Err(Flaw::new("addresses", reason).remedy("take a station's address"));
        }
        if !seen.insert(ip) {
            return Err(Flaw::new("addresses", format!("{ip} appears twice")).remedy("leave one out"));
        }
        addresses.push(address);
    }
    Ok(addresses)
}
