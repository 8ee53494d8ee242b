//! Generator ports.

use std::net::IpAddr;

use api::text::hex;
use api::v1::{Generator, GeneratorField, GeneratorProtocol};

use crate::model::{Flaw, Mac, fields};

const DEFAULT_FRAME: u32 = 60;
const DEFAULT_SOURCE_PORT: u32 = 1024;
/// RFC 863 "discard".
const DEFAULT_DESTINATION_PORT: u32 = 9;
const MAX_FRAME: u32 = 65_535;
/// Different values of a port.
const PORTS: u32 = 65_536;
const ETHERNET_HEADER: u32 = 14;

/// A built-in source of packets; see [`Generator`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratorSpec {
    /// What the packets look like.
    pub packet: PacketSpec,
    /// Packets per second; `None`: as many as can be.
    pub rate: Option<u64>,
    /// Packets after which it stops; `None`: never.
    pub count: Option<u64>,
    /// Receive queues, 1 to 256, each of which makes its share.
    pub rx_queues: u32,
    /// Workers that make packets, one for each of `rx_queues`; empty: wherever there are fewest queues.
    pub rx_workers: Vec<u32>,
}

/// What generated packets look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PacketSpec {
    /// All are this frame.
    Frame(Vec<u8>),
    /// They are made of these parts.
    Flow(FlowSpec),
}

/// The parts of generated packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSpec {
    /// Ethernet source; `None`: that of the interface.
    pub source_mac: Option<Mac>,
    /// Ethernet destination; `None`: that of the interface.
    pub destination_mac: Option<Mac>,
    /// IP source.
    pub source_address: IpAddr,
    /// IP destination, of the same family.
    pub destination_address: IpAddr,
    /// Above IP.
    pub protocol: GeneratorProtocol,
    /// Source port of the first flow.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Number of flows, at least 1, at most 65536 of ports: the field that varies is the first flow's + n modulo this in packet n,
    /// modulo the field's size.
    pub flows: u32,
    /// In what flows differ.
    pub vary: GeneratorField,
    /// Flows are drawn instead of coming in turn.
    pub random: bool,
    /// Lengths of frames in bytes without checksum, used in turn; at least one.
    pub frame_sizes: Vec<u32>,
}

impl GeneratorSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field within the port.
    pub fn parse(generator: &Generator) -> Result<Self, Flaw> {
        let packet = if generator.hex.is_empty() {
            PacketSpec::Flow(FlowSpec::parse(generator)?)
        } else {
            PacketSpec::Frame(frame(generator)?)
        };
        let unless_zero = |value: u64| if value == 0 { None } else { Some(value) };
        let rx_queues = fields::number("rx_queues", generator.rx_queues, 1..=256, 1)?;
        Ok(Self {
            packet,
            rate: unless_zero(generator.rate),
            count: unless_zero(generator.count),
            rx_queues,
            rx_workers: fields::rx_workers(&generator.rx_workers, rx_queues)?,
        })
    }

    /// The canonical form.
    pub fn to_api(&self) -> Generator {
        let mut generator = match &self.packet {
            PacketSpec::Frame(bytes) => Generator { hex: hex::encode(bytes), ..Generator::default() },
            PacketSpec::Flow(flow) => flow.to_api(),
        };
        generator.rate = self.rate.unwrap_or_default();
        generator.count = self.count.unwrap_or_default();
        generator.rx_queues = if self.rx_queues == 1 { 0 } else { self.rx_queues };
        generator.rx_workers.clone_from(&self.rx_workers);
        generator
    }
}

/// The frame given byte by byte.
fn frame(generator: &Generator) -> Result<Vec<u8>, Flaw> {
    let parts = Generator {
        hex: String::new(),
        rate: 0,
        count: 0,
        rx_queues: 0,
        rx_workers: Vec::new(),
        ..generator.clone()
    };
    if parts != Generator::default() {
        return Err(Flaw::new("hex", "is a whole frame, yet its parts are given too")
            .remedy("leave out either hex or all fields but rate, count, rx_queues and rx_workers"));
    }
    let bytes = hex::decode(&generator.hex).map_err(|error| Flaw::new("hex", error.to_string()))?;
    if (ETHERNET_HEADER as usize..=MAX_FRAME as usize).contains(&bytes.len()) {
        Ok(bytes)
    } else {
        Err(Flaw::new("hex", format!("has {} bytes", bytes.len()))
            .remedy(format!("a frame has {ETHERNET_HEADER} to {MAX_FRAME} bytes")))
    }
}

impl FlowSpec {
    fn parse(generator: &Generator) -> Result<Self, Flaw> {
        let source_address = fields::address("source_address", &generator.source_address)?;
        let destination_address = fields::address("destination_address", &generator.destination_address)?;
        if source_address.is_ipv4() != destination_address.is_ipv4() {
            return Err(Flaw::new("destination_address", "is of another family than source_address"));
        }
        let protocol = fields::choice("protocol", generator.protocol, GeneratorProtocol::Udp)?;
        let smallest = ETHERNET_HEADER
            + if source_address.is_ipv4() { 20 } else { 40 }
            + if protocol == GeneratorProtocol::TcpSyn { 20 } else { 8 };
        // The default must fit every family.
        let frame_sizes = if generator.frame_sizes.is_empty() {
            vec![DEFAULT_FRAME.max(smallest)]
        } else {
            generator.frame_sizes.clone()
        };
        if let Some(wrong) = frame_sizes.iter().find(|size| !(smallest..=MAX_FRAME).contains(*size)) {
            return Err(Flaw::new(
                "frame_sizes",
                format!("{wrong} bytes are too few or too many for such packets"),
            )
            .remedy(format!("take {smallest} to {MAX_FRAME}")));
        }
        let vary = fields::choice("vary", generator.vary, GeneratorField::SourcePort)?;
        let most = match vary {
            GeneratorField::SourceAddress | GeneratorField::DestinationAddress => u32::MAX,
            _ => PORTS,
        };
        Ok(Self {
            source_mac: fields::optional_station("source_mac", &generator.source_mac)?,
            destination_mac: fields::optional_station("destination_mac", &generator.destination_mac)?,
            source_address,
            destination_address,
            protocol,
            source_port: port("source_port", generator.source_port, DEFAULT_SOURCE_PORT)?,
            destination_port: port("destination_port", generator.destination_port, DEFAULT_DESTINATION_PORT)?,
            flows: fields::number("flows", generator.flows, 1..=most, 1)?,
            vary,
            random: generator.random,
            frame_sizes,
        })
    }

    fn to_api(&self) -> Generator {
        Generator {
            source_mac: self.source_mac.map(|mac| mac.to_string()).unwrap_or_default(),
            destination_mac: self.destination_mac.map(|mac| mac.to_string()).unwrap_or_default(),
            source_address: self.source_address.to_string(),
            destination_address: self.destination_address.to_string(),
            protocol: match self.protocol {
                GeneratorProtocol::Udp => GeneratorProtocol::Unspecified.into(),
                protocol => protocol.into(),
            },
            source_port: self.source_port.into(),
            destination_port: self.destination_port.into(),
            flows: if self.flows == 1 { 0 } else { self.flows },
            vary: match self.vary {
                GeneratorField::SourcePort => GeneratorField::Unspecified.into(),
                field => field.into(),
            },
            random: self.random,
            frame_sizes: self.frame_sizes.clone(),
            ..Generator::default()
        }
    }
}

fn port(field: &str, value: u32, default: u32) -> Result<u16, Flaw> {
    let value = if value == 0 { default } else { value };
    u16::try_from(value)
        .map_err(|_| Flaw::new(field, format!("{value} is no port")).remedy("take 1 to 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Generator {
        Generator {
            source_address: "10.0.0.1".into(),
            destination_address: "10.0.1.1".into(),
            ..Generator::default()
        }
    }

    #[test]
    fn two_addresses_are_enough() {
        let spec = GeneratorSpec::parse(&flow()).unwrap();
        let PacketSpec::Flow(parts) = &spec.packet else { panic!("a flow: {spec:?}") };
        assert_eq!((parts.source_port, parts.destination_port, parts.flows), (1024, 9, 1));
        assert_eq!(parts.frame_sizes, [60]);
        assert_eq!(GeneratorSpec::parse(&spec.to_api()).unwrap(), spec);
    }

    #[test]
    fn a_default_frame_fits_its_headers() {
        let v6 = Generator {
            source_address: "fd00::1".into(),
            destination_address: "fd00::2".into(),
            protocol: GeneratorProtocol::TcpSyn.into(),
            ..Generator::default()
        };
        let spec = GeneratorSpec::parse(&v6).unwrap();
        let PacketSpec::Flow(parts) = &spec.packet else { panic!("a flow: {spec:?}") };
        assert_eq!(parts.frame_sizes, [14 + 40 + 20]);
    }

    #[test]
    fn many_addresses_and_queues_are_kept() {
        let many = Generator {
            vary: GeneratorField::DestinationAddress.into(),
            flows: 1_000_000,
            random: true,
            rx_queues: 2,
            rx_workers: vec![1, 0],
            ..flow()
        };
        let spec = GeneratorSpec::parse(&many).unwrap();
        let PacketSpec::Flow(parts) = &spec.packet else { panic!("a flow: {spec:?}") };
        assert_eq!(
            (parts.vary, parts.flows, parts.random),
            (GeneratorField::DestinationAddress, 1_000_000, true)
        );
        assert_eq!((spec.rx_queues, &spec.rx_workers[..]), (2, &[1, 0][..]));
        assert_eq!(GeneratorSpec::parse(&spec.to_api()).unwrap(), spec);
        let frame = Generator { hex: "00".repeat(60), rx_queues: 2, ..Generator::default() };
        assert_eq!(GeneratorSpec::parse(&frame).unwrap().rx_queues, 2, "a frame can be made by many, too");
    }

    #[test]
    fn each_bad_field_is_named() {
        for (generator, field) in [
            (Generator::default(), "source_address"),
            (Generator { destination_address: "fd00::1".into(), ..flow() }, "destination_address"),
            (Generator { frame_sizes: vec![64, 41], ..flow() }, "frame_sizes"),
            (Generator { source_port: 65_536, ..flow() }, "source_port"),
            (Generator { flows: 65_537, ..flow() }, "flows"),
            (Generator { vary: 5, ..flow() }, "vary"),
            (Generator { rx_queues: 257, ..flow() }, "rx_queues"),
            (Generator { rx_workers: vec![0, 1], ..flow() }, "rx_workers"),
            (Generator { hex: "00".repeat(60), random: true, ..Generator::default() }, "hex"),
            (Generator { hex: "00".into(), ..Generator::default() }, "hex"),
            (Generator { hex: "zz".into(), ..Generator::default() }, "hex"),
            (Generator { hex: "00".repeat(60), ..flow() }, "hex"),
        ] {
            assert_eq!(GeneratorSpec::parse(&generator).unwrap_err().field, field, "{generator:?}");
        }
    }
}
