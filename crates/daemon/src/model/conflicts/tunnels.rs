//! Tunnels, and the interfaces that have their ends.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Conflicts;
use crate::model::spec::{InterfaceSpec, PortSpec, TunnelFormat, TunnelSpec, VlanSpec};
use crate::model::{Flaw, Key, Name};

impl Conflicts<'_> {
    /// A tunnel, and what is stacked on it, fits through the interface that has its end; that isn't the tunnel itself, and it shares its
    /// port with tunnels of its own format only.
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
        let vlans: Vec<(&VlanSpec, &InterfaceSpec)> = self
            .interfaces()
            .filter_map(|interface| match &interface.port {
                PortSpec::Vlan(vlan) => Some((vlan, interface)),
                _ => None,
            })
            .collect();
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
            if matches!(below.port, PortSpec::Tunnel(_)) {
                let nested = format!("{} is an address of {}, which is a tunnel", tunnel.local, below.name);
                self.blame_interface(&interface.name, &below.name, |_| {
                    Flaw::new(field("local"), nested.clone()).remedy("take an address of the network below")
                });
            } else if !matches!(below.port, PortSpec::Loopback) {
                self.fits((interface, interface.mtu(None), tunnel.overhead()), interface, below);
                for (vlan, stacked) in vlans.iter().filter(|(vlan, _)| vlan.parent == interface.name) {
                    let headers = tunnel.overhead() + vlan.tag_len();
                    self.fits((stacked, stacked.mtu(Some(interface)), headers), interface, below);
                }
            }
        }
        for (vlan, interface) in vlans {
            let Some(parent) = self.model.interfaces.get(&vlan.parent) else { continue };
            if let Some(flaw) = interface.too_small(interface.mtu(Some(&parent.spec))) {
                self.blame_interface(&interface.name, &vlan.parent, |_| flaw.clone());
            }
        }
    }

    /// What an interface sends by a tunnel, behind so many bytes of headers, fits through the interface that has the tunnel's end.
    fn fits(
        &mut self,
        (interface, mtu, headers): (&InterfaceSpec, u32, u32),
        tunnel: &InterfaceSpec,
        below: &InterfaceSpec,
    ) {
        let (need, room) = (mtu + headers, below.mtu(None));
        if need <= room {
            return;
        }
        let tunnel_came = self.batch.contains(&Key::Interface(tunnel.name.clone()));
        let other = if tunnel_came && tunnel.name != interface.name { tunnel } else { below };
        self.blame_interface(&interface.name, &other.name, |_| {
            let whose = &below.name;
            let reason =
                format!("{mtu} takes {need} with the tunnel's headers, and that of {whose} is {room}");
            let most = room.saturating_sub(headers);
            Flaw::new("mtu", reason).remedy(format!("take at most {most}, or raise that of {whose}"))
        });
    }
}
