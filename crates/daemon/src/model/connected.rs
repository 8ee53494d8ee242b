//! The networks that interfaces are directly connected to.

use std::collections::BTreeMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use ipnet::IpNet;

use super::Name;
use super::spec::InterfaceSpec;

/// Connected networks and own addresses of all VRFs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Connected {
    vrfs: BTreeMap<Name, Networks>,
}

/// Connected networks and own addresses of one VRF.
#[derive(Debug, Default, PartialEq, Eq)]
struct Networks {
    /// By family (true: IPv4) and prefix length, so that a lookup asks only for lengths that occur.
    by_length: BTreeMap<(bool, u8), HashMap<IpNet, Name, RandomState>>,
    own: HashMap<IpAddr, Name, RandomState>,
}

impl Connected {
    /// Adds the networks of an interface. Where two have the same one, the first that was added counts.
    pub fn add(&mut self, interface: &InterfaceSpec) {
        if interface.addresses.is_empty() {
            return;
        }
        let networks = self.vrfs.entry(interface.vrf.clone()).or_default();
        for address in &interface.addresses {
            networks.own.entry(address.addr()).or_insert_with(|| interface.name.clone());
            let length = (address.addr().is_ipv4(), address.prefix_len());
            networks
                .by_length
                .entry(length)
                .or_default()
                .entry(address.trunc())
                .or_insert_with(|| interface.name.clone());
        }
    }

    /// The interface with the longest network that covers `address`.
    pub fn covering(&self, vrf: &Name, address: IpAddr) -> Option<&Name> {
        let networks = self.vrfs.get(vrf)?;
        let family = address.is_ipv4();
        networks
            .by_length
            .range((family, 0)..=(family, 128))
            .rev()
            .find_map(|((_, length), interfaces)| interfaces.get(&IpNet::new(address, *length).ok()?.trunc()))
    }

    /// The interface that has exactly this network.
    pub fn exactly(&self, vrf: &Name, network: IpNet) -> Option<&Name> {
        self.vrfs.get(vrf)?.by_length.get(&(network.addr().is_ipv4(), network.prefix_len()))?.get(&network)
    }

    /// The interface that has this address itself.
    pub fn owner(&self, vrf: &Name, address: IpAddr) -> Option<&Name> {
        self.vrfs.get(vrf)?.own.get(&address)
    }

    /// All networks: (VRF, network).
    pub fn networks(&self) -> impl Iterator<Item = (&Name, IpNet)> + '_ {
        self.vrfs.iter().flat_map(|(vrf, networks)| {
            networks
                .by_length
                .values()
                .flat_map(move |interfaces| interfaces.keys().map(move |net| (vrf, *net)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::v1::interface::Port;
    use api::v1::{Interface, Sink};

    fn interface(name: &str, vrf: &str, addresses: &[&str]) -> InterfaceSpec {
        InterfaceSpec::parse(&Interface {
            name: name.into(),
            vrf: vrf.into(),
            addresses: addresses.iter().map(|address| (*address).into()).collect(),
            port: Some(Port::Sink(Sink {})),
            ..Interface::default()
        })
        .unwrap()
    }

    #[test]
    fn the_longest_network_wins() {
        let mut connected = Connected::default();
        connected.add(&interface("wide", "", &["10.0.0.1/8", "fd00::1/64"]));
        connected.add(&interface("narrow", "", &["10.1.0.1/16"]));
        connected.add(&interface("red", "red", &["192.0.2.1/24"]));
        let default = Name::default_vrf();
        let covering =
            |address: &str| connected.covering(&default, address.parse().unwrap()).map(ToString::to_string);
        assert_eq!(covering("10.1.2.3").as_deref(), Some("narrow"));
        assert_eq!(covering("10.2.2.3").as_deref(), Some("wide"));
        assert_eq!(covering("fd00::9").as_deref(), Some("wide"));
        assert_eq!(covering("fd01::9"), None);
        assert_eq!(covering("192.0.2.9"), None);
        let red = Name::new("red").unwrap();
        assert!(connected.covering(&red, "192.0.2.9".parse().unwrap()).is_some());
        assert!(connected.exactly(&default, "10.1.0.0/16".parse().unwrap()).is_some());
        assert!(connected.exactly(&default, "10.1.0.0/17".parse().unwrap()).is_none());
        assert_eq!(connected.networks().count(), 4);
    }
}
