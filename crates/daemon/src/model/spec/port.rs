//! Ports of interfaces.

use std::fmt;
use std::net::IpAddr;

use api::v1::interface::Port;
use api::v1::{AfPacket, Loopback, MemifMode, Pcap, Sink, TapMode, VlanTag};
use ipnet::IpNet;
use ports::af_packet::MAX_DESTINATIONS;

use super::{GeneratorSpec, MemifSpec, SocketName, TapSpec, TunnelFormat, TunnelSpec, VlanSpec, tap};
use crate::model::{Flaw, Name, fields};

/// Where an interface's packets come from and go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortSpec {
    /// Shared memory.
    Memif(MemifSpec),
    /// A tap or tun device.
    Tap(TapSpec),
    /// An interface of the kernel.
    AfPacket(AfPacketSpec),
    /// Capture files.
    Pcap(PcapSpec),
    /// A built-in source.
    Generator(GeneratorSpec),
    /// A built-in sink.
    Sink,
    /// No wire.
    Loopback,
    /// Tagged packets of another interface.
    Vlan(VlanSpec),
    /// To one other end of a tunnel.
    Tunnel(TunnelSpec),
}

/// An interface of the kernel, through AF_PACKET rings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AfPacketSpec {
    /// Its name.
    pub host_interface: String,
    /// Network namespace: a name under /run/netns or an absolute path; `None`: that of quiverd.
    pub netns: Option<String>,
    /// Prefixes whose packets alone are received; empty: every frame is.
    pub destinations: Vec<IpNet>,
}

/// Capture files; at least one of the two is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PcapSpec {
    /// File whose packets are received, an absolute path.
    pub rx_file: Option<String>,
    /// File to which sent packets are written, an absolute path.
    pub tx_file: Option<String>,
    /// Begin again at the end of `rx_file`.
    pub repeat: bool,
}

/// Something of which there is only one; no two interfaces may claim the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// An id on a memif socket.
    Memif(SocketName, u32),
    /// A device name in a network namespace.
    Device(Option<String>, String),
    /// A file that is written.
    File(String),
    /// Tags of a parent: outer ethertype and id, inner id.
    Tags(Name, VlanTag, u16, Option<u16>),
    /// A tunnel's VRF, our address and port, the other end and network identifier.
    Tunnel(Name, IpAddr, u16, IpAddr, u32),
}

impl fmt::Display for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memif(socket, id) => write!(formatter, "id {id} on the memif socket {socket}"),
            Self::Device(None, name) => write!(formatter, "the device {name}"),
            Self::Device(Some(netns), name) => write!(formatter, "the device {name} in {netns}"),
            Self::File(path) => write!(formatter, "the file {path}"),
            Self::Tags(parent, _, outer, None) => write!(formatter, "VLAN {outer} of {parent}"),
            Self::Tags(parent, _, outer, Some(inner)) => {
                write!(formatter, "VLAN {outer}/{inner} of {parent}")
            }
            Self::Tunnel(vrf, local, port, remote, vni) => {
                write!(formatter, "vni {vni} from {local} to {remote} port {port} in VRF {vrf}")
            }
        }
    }
}

impl PortSpec {
    /// Reads what a client sent for the interface `interface`.
    ///
    /// # Errors
    /// [`Flaw`] naming the field: "memif.ring_size".
    pub fn parse(port: Option<&Port>, interface: &Name) -> Result<Self, Flaw> {
        let Some(port) = port else {
            return Err(Flaw::new("", "has no port").remedy(
                "give it one of: memif, tap, af_packet, pcap, generator, sink, loopback, vlan, vxlan, geneve",
            ));
        };
        match port {
            Port::Memif(memif) => MemifSpec::parse(memif).map(Self::Memif),
            Port::Tap(tap) => TapSpec::parse(tap, interface).map(Self::Tap),
            Port::AfPacket(af_packet) => AfPacketSpec::parse(af_packet).map(Self::AfPacket),
            Port::Pcap(pcap) => PcapSpec::parse(pcap).map(Self::Pcap),
            Port::Generator(generator) => GeneratorSpec::parse(generator).map(Self::Generator),
            Port::Sink(Sink {}) => Ok(Self::Sink),
            Port::Loopback(Loopback {}) => Ok(Self::Loopback),
            Port::Vlan(vlan) => VlanSpec::parse(vlan).map(Self::Vlan),
            Port::Vxlan(vxlan) => TunnelSpec::vxlan(vxlan).map(Self::Tunnel),
            Port::Geneve(geneve) => TunnelSpec::geneve(geneve).map(Self::Tunnel),
        }
        .map_err(|flaw| flaw.inside(port.word()))
    }

    /// The canonical form of the port of the interface `interface`.
    pub fn to_api(&self, interface: &Name) -> Port {
        match self {
            Self::Memif(memif) => Port::Memif(memif.to_api()),
            Self::Tap(tap) => Port::Tap(tap.to_api(interface)),
            Self::AfPacket(af_packet) => Port::AfPacket(AfPacket {
                host_interface: af_packet.host_interface.clone(),
                netns: af_packet.netns.clone().unwrap_or_default(),
                destinations: af_packet.destinations.iter().map(ToString::to_string).collect(),
            }),
            Self::Pcap(pcap) => Port::Pcap(Pcap {
                rx_file: pcap.rx_file.clone().unwrap_or_default(),
                tx_file: pcap.tx_file.clone().unwrap_or_default(),
                r#loop: pcap.repeat,
            }),
            Self::Generator(generator) => Port::Generator(generator.to_api()),
            Self::Sink => Port::Sink(Sink {}),
            Self::Loopback => Port::Loopback(Loopback {}),
            Self::Vlan(vlan) => Port::Vlan(vlan.to_api()),
            Self::Tunnel(tunnel) => match tunnel.format {
                TunnelFormat::Vxlan => Port::Vxlan(tunnel.to_vxlan()),
                TunnelFormat::Geneve(_) => Port::Geneve(tunnel.to_geneve()),
            },
        }
    }

    /// Whether its packets have an Ethernet header.
    pub fn is_ethernet(&self) -> bool {
        match self {
            Self::Memif(memif) => memif.mode == MemifMode::Ethernet,
            Self::Tap(tap) => tap.mode == TapMode::Tap,
            Self::Tunnel(tunnel) => tunnel.is_ethernet(),
            _ => true,
        }
    }

    /// The MTU of its interface, where nobody says another, and where it isn't a VLAN of a tunnel.
    pub fn default_mtu(&self) -> u32 {
        match self {
            Self::Tunnel(tunnel) => tunnel.default_mtu(),
            _ => 1500,
        }
    }

    /// Workers that are named for its receive queues, by queue; empty: whichever have fewest.
    pub fn rx_workers(&self) -> &[u32] {
        match self {
            Self::Memif(memif) => &memif.rx_workers,
            Self::Generator(generator) => &generator.rx_workers,
            _ => &[],
        }
    }

    /// What it claims for itself alone.
    pub fn claims(&self) -> Vec<Claim> {
        match self {
            Self::Memif(memif) => vec![Claim::Memif(memif.socket.clone(), memif.id)],
            Self::Tap(tap) => vec![Claim::Device(tap.netns.clone(), tap.host_name.clone())],
            Self::AfPacket(port) => vec![Claim::Device(port.netns.clone(), port.host_interface.clone())],
            Self::Pcap(pcap) => pcap.tx_file.iter().cloned().map(Claim::File).collect(),
            Self::Vlan(vlan) => {
                vec![Claim::Tags(vlan.parent.clone(), vlan.outer_tag, vlan.outer_id, vlan.inner_id)]
            }
            Self::Tunnel(tunnel) => {
                let TunnelSpec { underlay_vrf, local, port, remote, vni, .. } = tunnel;
                vec![Claim::Tunnel(underlay_vrf.clone(), *local, *port, *remote, *vni)]
            }
            Self::Generator(_) | Self::Sink | Self::Loopback => Vec::new(),
        }
    }
}

impl AfPacketSpec {
    fn parse(port: &AfPacket) -> Result<Self, Flaw> {
        let destinations = port.destinations.iter().map(|text| fields::network("destinations", text));
        let destinations: Vec<_> = destinations.collect::<Result<_, _>>()?;
        if destinations.len() > MAX_DESTINATIONS {
            return Err(Flaw::new("destinations", format!("are {}", destinations.len()))
                .remedy(format!("name at most {MAX_DESTINATIONS}, or shorter prefixes that hold several")));
        }
        Ok(Self {
            host_interface: tap::device("host_interface", &port.host_interface)?,
            netns: fields::netns("netns", &port.netns)?,
            destinations,
        })
    }
}

impl PcapSpec {
    fn parse(port: &Pcap) -> Result<Self, Flaw> {
        let rx_file = fields::path("rx_file", &port.rx_file)?;
        let tx_file = fields::path("tx_file", &port.tx_file)?;
        if rx_file.is_none() && tx_file.is_none() {
            return Err(Flaw::new("", "names no file").remedy("give rx_file, tx_file or both"));
        }
        if rx_file == tx_file {
            return Err(Flaw::new("tx_file", "is rx_file too: it would be read and replaced at once"));
        }
        if port.r#loop && rx_file.is_none() {
            return Err(Flaw::new("loop", "has no meaning without rx_file").remedy("leave it out"));
        }
        Ok(Self { rx_file, tx_file, repeat: port.r#loop })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_must_be_given() {
        let flaw = PortSpec::parse(None, &Name::new("a").unwrap()).unwrap_err();
        assert!(flaw.remedy.contains("memif"), "{flaw}");
    }

    #[test]
    fn destinations_are_networks_and_not_too_many() {
        let port = |texts: &[String]| {
            let destinations = texts.to_vec();
            AfPacketSpec::parse(&AfPacket {
                host_interface: "eth1".into(),
                destinations,
                ..AfPacket::default()
            })
        };
        let good = port(&["10.1.0.0/16".into(), "fd00::/64".into()]).unwrap();
        assert_eq!(good.destinations.len(), 2);
        let many: Vec<_> = (0..=MAX_DESTINATIONS).map(|n| format!("10.{n}.0.0/16")).collect();
        for (texts, words) in [
            (&many[..], "65"),
            (&["10.1.0.1/16".into()], "beyond"),
            (&["10.1.0.1".into()], "no address with"),
        ] {
            let flaw = port(texts).unwrap_err();
            assert!(flaw.field == "destinations" && flaw.to_string().contains(words), "{flaw}");
        }
    }

    #[test]
    fn files_must_make_sense() {
        let pcap = |rx: &str, tx: &str, r#loop| Pcap { rx_file: rx.into(), tx_file: tx.into(), r#loop };
        assert!(PcapSpec::parse(&pcap("/a", "/b", true)).is_ok());
        for (port, field) in [
            (pcap("", "", false), ""),
            (pcap("/a", "/a", false), "tx_file"),
            (pcap("", "/a", true), "loop"),
            (pcap("a", "", false), "rx_file"),
        ] {
            assert_eq!(PcapSpec::parse(&port).unwrap_err().field, field, "{port:?}");
        }
    }
}
