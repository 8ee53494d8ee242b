//! The options of each kind of port, from the interface's specification.

use api::v1::{GeneratorField, GeneratorProtocol, TapMode};
use ports::LinkLayer;
use ports::af_packet::AfPacketOptions;
use ports::generator::{self, Field, GeneratorOptions, Protocol, Vary};
use ports::link::{HostRoute, LinkOptions};
use ports::netns::Netns;
use ports::pcap::PcapOptions;
use ports::sink::SinkOptions;
use ports::tap::TapOptions;
use ports::wrap::FaultOptions;
use wire::MacAddr;

use crate::model::Flaw;
use crate::model::spec::{
    AfPacketSpec, FaultSpec, FlowSpec, GeneratorSpec, InterfaceSpec, PacketSpec, PcapSpec, TapSpec,
};

/// A namespace by its name under /run/netns or by its path.
pub(super) fn netns(name: Option<&str>) -> Netns {
    match name {
        None => Netns::Own,
        Some(path) if path.contains('/') => Netns::Path(path.into()),
        Some(name) => Netns::Named(name.into()),
    }
}

pub(super) fn tap(spec: &InterfaceSpec, tap: &TapSpec) -> TapOptions {
    let gateways = tap.host_gateways.iter().map(|via| HostRoute::default_via(*via));
    let routes = tap.host_routes.iter().map(|route| HostRoute { prefix: route.prefix, via: route.via });
    let host = LinkOptions {
        mac: tap.host_mac.map(|mac| MacAddr(mac.0)),
        mtu: Some(tap.host_mtu.unwrap_or(spec.mtu(None))),
        addresses: tap.host_addresses.clone(),
        routes: routes.chain(gateways).collect(),
    };
    let mode = if tap.mode == TapMode::Tun { ports::tap::TapMode::Tun } else { ports::tap::TapMode::Tap };
    TapOptions {
        mode,
        rx_queues: tap.queues as u16,
        gso: tap.gso,
        // Pods keep their device and its connections while the daemon is restarted.
        persist: true,
        host,
        ..TapOptions::new(netns(tap.netns.as_deref()), tap.host_name.clone())
    }
}

pub(super) fn af_packet(port: &AfPacketSpec, workers: usize) -> AfPacketOptions {
    AfPacketOptions {
        tx_queues: queues(workers),
        promiscuous: port.destinations.is_empty(),
        destinations: port.destinations.clone(),
        ..AfPacketOptions::new(netns(port.netns.as_deref()), port.host_interface.clone())
    }
}

pub(super) fn pcap(spec: &InterfaceSpec, pcap: &PcapSpec) -> PcapOptions {
    PcapOptions {
        rx_file: pcap.rx_file.as_ref().map(Into::into),
        tx_file: pcap.tx_file.as_ref().map(Into::into),
        repeat: u64::from(!pcap.repeat),
        link: Some(LinkLayer::Ethernet),
        ..PcapOptions::new(spec.name.to_string())
    }
}

pub(super) fn sink(spec: &InterfaceSpec, workers: usize) -> SinkOptions {
    SinkOptions { name: spec.name.to_string(), link: LinkLayer::Ethernet, tx_queues: queues(workers) }
}

/// Transmit queues: one for each worker.
pub(super) fn queues(workers: usize) -> u16 {
    u16::try_from(workers).unwrap_or(u16::MAX)
}

pub(super) fn generator(
    spec: &InterfaceSpec,
    generator: &GeneratorSpec,
    mac: MacAddr,
    workers: usize,
) -> Result<GeneratorOptions, Flaw> {
    let (frames, vary, random) = match &generator.packet {
        PacketSpec::Frame(frame) => (vec![frame.clone()], Vec::new(), false),
        PacketSpec::Flow(flow) => (frames(flow, mac)?, flows(flow), flow.random),
    };
    Ok(GeneratorOptions {
        frames,
        vary,
        random,
        rate: generator.rate.unwrap_or_default(),
        count: generator.count.unwrap_or_default(),
        rx_queues: generator.rx_queues as u16,
        tx_queues: queues(workers),
        ..GeneratorOptions::new(spec.name.to_string(), Vec::new())
    })
}

fn frames(flow: &FlowSpec, mac: MacAddr) -> Result<Vec<Vec<u8>>, Flaw> {
    let own = |given: Option<crate::model::Mac>| given.map_or(mac, |mac| MacAddr(mac.0));
    let frame = |size: &u32| {
        generator::build(&generator::PacketSpec {
            ethernet: Some((own(flow.source_mac), own(flow.destination_mac))),
            source: flow.source_address,
            destination: flow.destination_address,
            protocol: match flow.protocol {
                GeneratorProtocol::TcpSyn => Protocol::TcpSyn,
                GeneratorProtocol::IcmpEcho => Protocol::IcmpEcho,
                _ => Protocol::Udp,
            },
            source_port: flow.source_port,
            destination_port: flow.destination_port,
            len: *size as usize,
        })
        .map_err(|reason| Flaw::new("generator.frame_sizes", reason))
    };
    flow.frame_sizes.iter().map(frame).collect()
}

fn flows(flow: &FlowSpec) -> Vec<Vary> {
    let field = match flow.vary {
        GeneratorField::DestinationPort => Field::DestinationPort,
        GeneratorField::SourceAddress => Field::SourceAddress,
        GeneratorField::DestinationAddress => Field::DestinationAddress,
        GeneratorField::SourcePort | GeneratorField::Unspecified => Field::SourcePort,
    };
    match flow.flows {
        0 | 1 => Vec::new(),
        count => vec![Vary { field, count, step: 1 }],
    }
}

/// The damage that is asked for.
pub(super) fn fault(fault: &FaultSpec) -> FaultOptions {
    FaultOptions {
        drop_ppm: fault.drop_ppm,
        corrupt_ppm: fault.corrupt_ppm,
        truncate_ppm: fault.truncate_ppm,
        duplicate_ppm: fault.duplicate_ppm,
        reorder_ppm: fault.reorder_ppm,
        seed: fault.seed,
        ..FaultOptions::default()
    }
}
