//! Tunnels, and the interfaces that have their ends.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Conflicts;
use crate::model::spec::{InterfaceSpec, PortSpec, TunnelFormat, TunnelSpec};
use crate::model::{Flaw, Name};

impl Conflicts<'_> {
    /// A tunnel fits through the interface that has its end, doesn't have it itself, and shares its port with tunnels of its
    /// own format only.
    pub(super) fn tunnels(&mut self) {
        let tunnels: Vec<(&InterfaceSpec, &TunnelSpec)> = self
            .interfaces()
            .filter_map(|interface| match &interface.port {
                PortSpec::Tunnel(tunnel) => Some((interface, tunnel)),
                _ => None,
            })
            .collect();
        if tunnels.is_empty() {
            return;
        }
        let mut own = BTreeMap::<(&Name, IpAddr), &InterfaceSpec>::new();
        for interface in self.interfaces() {
            own.extend(
                interface.addresses.iter().map(|address| ((&interface.vrf, address.addr()), interface)),
            );
        }
        let mut doors = BTreeMap::new();
        for (interface, tunnel) in tunnels {
            let field = |name: &str| format!("{}.{name}", tunnel.field());
            let door = (&tunnel.underlay_vrf, tunnel.local, tunnel.port);
            let is_vxlan = tunnel.format == TunnelFormat::Vxlan;
            match doors.insert(door, (is_vxlan, &interface.name)) {
                Some((other_is_vxlan, other)) if other_is_vxlan != is_vxlan => {
                    self.blame_interface(&interface.name, other, |other| {
                        let taken = format!(
                            "{} of {} is that of {other}, of another format",
                            tunnel.port, tunnel.local
                        );
                        Flaw::new(field("port"), taken).remedy("take another port for one of the two")
                    });
                }
                _ => {}
            }
            if let Some(other) = own.get(&(&tunnel.underlay_vrf, tunnel.remote)) {
                let ours = format!("{} is an own address, of interface {}", tunnel.remote, other.name);
                self.blame_interface(&interface.name, &other.name, |_| {
                    Flaw::new(field("remote"), ours.clone()).remedy("name an address of the other end")
                });
            }
            let Some(below) = own.get(&(&tunnel.underlay_vrf, tunnel.local)) else { continue };
            let need = interface.mtu + tunnel.overhead();
            if matches!(below.port, PortSpec::Tunnel(_)) {
                let nested = format!("{} is an address of {}, which is a tunnel", tunnel.local, below.name);
                self.blame_interface(&interface.name, &below.name, |_| {
                    Flaw::new(field("local"), nested.clone()).remedy("take an address of the network below")
                });
            } else if !matches!(below.port, PortSpec::Loopback) && need > below.mtu {
                let (mtu, name, room) = (below.mtu, &below.name, below.mtu.saturating_sub(tunnel.overhead()));
                self.blame_interface(&interface.name, name, |_| {
                    let reason = format!(
                        "{} takes {need} with the tunnel's headers, and that of {name} is {mtu}",
                        interface.mtu
                    );
                    Flaw::new("mtu", reason).remedy(format!("take at most {room}, or raise that of {name}"))
                });
            }
        }
    }
}
