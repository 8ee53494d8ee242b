//! The text form of an interface: its port stands directly among its fields.

use serde::{Deserialize, Serialize};

use super::{Word, is_default};
use crate::v1::interface::Port;
use crate::v1::{
    AfPacket, BridgePort, Fault, Generator, Geneve, Interface, Loopback, Memif, Pcap, ReversePathFilter,
    RxMode, Sink, Tap, Vlan, Vxlan,
};

/// [`Interface`] as it is written; see there for the fields.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct InterfaceText {
    #[serde(skip_serializing_if = "is_default")]
    name: String,
    #[serde(skip_serializing_if = "is_default")]
    admin_up: Option<bool>,
    #[serde(skip_serializing_if = "is_default")]
    mac: String,
    #[serde(skip_serializing_if = "is_default")]
    mtu: u32,
    #[serde(skip_serializing_if = "is_default")]
    addresses: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    vrf: String,
    #[serde(skip_serializing_if = "is_default")]
    cross_connect: String,
    #[serde(skip_serializing_if = "is_default", with = "Word::<ReversePathFilter>")]
    rpf: i32,
    #[serde(skip_serializing_if = "is_default")]
    proxy_arp: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    allowed_sources: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    policer: String,
    #[serde(skip_serializing_if = "is_default", with = "Word::<RxMode>")]
    rx_mode: i32,
    #[serde(skip_serializing_if = "is_default")]
    memif: Option<Memif>,
    #[serde(skip_serializing_if = "is_default")]
    tap: Option<Tap>,
    #[serde(skip_serializing_if = "is_default")]
    af_packet: Option<AfPacket>,
    #[serde(skip_serializing_if = "is_default")]
    pcap: Option<Pcap>,
    #[serde(skip_serializing_if = "is_default")]
    generator: Option<Generator>,
    #[serde(skip_serializing_if = "is_default")]
    sink: Option<Sink>,
    #[serde(skip_serializing_if = "is_default")]
    loopback: Option<Loopback>,
    #[serde(skip_serializing_if = "is_default")]
    vlan: Option<Vlan>,
    #[serde(skip_serializing_if = "is_default")]
    vxlan: Option<Vxlan>,
    #[serde(skip_serializing_if = "is_default")]
    geneve: Option<Geneve>,
    #[serde(skip_serializing_if = "is_default")]
    bridge: Option<BridgePort>,
    #[serde(skip_serializing_if = "is_default")]
    fault: Option<Fault>,
}

/// Several ports were given.
#[derive(Debug, thiserror::Error)]
#[error("interface {name:?} has {} ports: {}; keep one", .ports.len(), .ports.join(", "))]
pub(crate) struct SeveralPorts {
    name: String,
    ports: Vec<&'static str>,
}

impl TryFrom<InterfaceText> for Interface {
    type Error = SeveralPorts;

    fn try_from(text: InterfaceText) -> Result<Self, SeveralPorts> {
        // Taken apart without `..`, so that the compiler asks about every field.
        let InterfaceText {
            name,
            admin_up,
            mac,
            mtu,
            addresses,
            vrf,
            cross_connect,
            rpf,
            proxy_arp,
            allowed_sources,
            policer,
            rx_mode,
            memif,
            tap,
            af_packet,
            pcap,
            generator,
            sink,
            loopback,
            vlan,
            vxlan,
            geneve,
            bridge,
            fault,
        } = text;
        let mut ports = [
            memif.map(Port::Memif),
            tap.map(Port::Tap),
            af_packet.map(Port::AfPacket),
            pcap.map(Port::Pcap),
            generator.map(Port::Generator),
            sink.map(Port::Sink),
            loopback.map(Port::Loopback),
            vlan.map(Port::Vlan),
            vxlan.map(Port::Vxlan),
            geneve.map(Port::Geneve),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
        if ports.len() > 1 {
            return Err(SeveralPorts { name, ports: ports.iter().map(Port::word).collect() });
        }
        Ok(Self {
            name,
            admin_up,
            mac,
            mtu,
            addresses,
            vrf,
            bridge,
            cross_connect,
            rpf,
            proxy_arp,
            allowed_sources,
            policer,
            rx_mode,
            fault,
            port: ports.pop(),
        })
    }
}

impl From<Interface> for InterfaceText {
    fn from(interface: Interface) -> Self {
        let Interface {
            name,
            admin_up,
            mac,
            mtu,
            addresses,
            vrf,
            bridge,
            cross_connect,
            rpf,
            proxy_arp,
            allowed_sources,
            policer,
            rx_mode,
            fault,
            port,
        } = interface;
        let mut text = Self {
            name,
            admin_up,
            mac,
            mtu,
            addresses,
            vrf,
            cross_connect,
            rpf,
            proxy_arp,
            allowed_sources,
            policer,
            rx_mode,
            bridge,
            fault,
            ..Self::default()
        };
        match port {
            Some(Port::Memif(memif)) => text.memif = Some(memif),
            Some(Port::Tap(tap)) => text.tap = Some(tap),
            Some(Port::AfPacket(af_packet)) => text.af_packet = Some(af_packet),
            Some(Port::Pcap(pcap)) => text.pcap = Some(pcap),
            Some(Port::Generator(generator)) => text.generator = Some(generator),
            Some(Port::Sink(sink)) => text.sink = Some(sink),
            Some(Port::Loopback(loopback)) => text.loopback = Some(loopback),
            Some(Port::Vlan(vlan)) => text.vlan = Some(vlan),
            Some(Port::Vxlan(vxlan)) => text.vxlan = Some(vxlan),
            Some(Port::Geneve(geneve)) => text.geneve = Some(geneve),
            None => {}
        }
        text
    }
}
