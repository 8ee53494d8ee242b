//! Opening the port of an interface.

use ::memif::region::HugePages;
use api::v1::TapMode;
use graph::port::{IfIndex, RxQueue, TxQueue};
use ports::PortControl;
use ports::netns::Netns;
use wire::MacAddr;

use super::memif::Memifs;
use crate::model::Flaw;
use crate::model::spec::{InterfaceSpec, PortSpec, TapSpec};

/// A kind of port: its nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// Lower-case name.
    pub(super) name: &'static str,
    /// Input node; none where nothing is ever received.
    pub(super) input: Option<&'static str>,
    /// Output node; none where there is no port of its own.
    pub(super) output: Option<&'static str>,
}

impl Kind {
    /// The kind of an interface's port.
    pub(super) fn of(port: &PortSpec) -> Self {
        let (name, input, output) = match port {
            PortSpec::Memif(_) => ("memif", Some("memif-input"), Some("memif-tx")),
            PortSpec::Tap(tap) if tap.mode == TapMode::Tun => ("tun", Some("tap-input"), Some("tap-tx")),
            PortSpec::Tap(_) => ("tap", Some("tap-input"), Some("tap-tx")),
            PortSpec::AfPacket(_) => ("af-packet", Some("af-packet-input"), Some("af-packet-tx")),
            PortSpec::Pcap(_) => ("pcap", Some("pcap-input"), Some("pcap-tx")),
            PortSpec::Generator(_) => ("generator", Some("generator-input"), Some("sink-tx")),
            PortSpec::Sink => ("sink", None, Some("sink-tx")),
            PortSpec::Loopback => ("loopback", None, None),
            PortSpec::Vlan(_) => ("vlan", None, None),
        };
        Self { name, input, output }
    }
}

/// A port that is open.
pub(super) struct OpenPort {
    /// Keeps the device, where there is one.
    pub(super) control: Option<Box<dyn PortControl>>,
    /// Takes super-frames and unfinished checksums as they are.
    pub(super) offload: bool,
    /// Receive queues that were opened.
    pub(super) queues: usize,
}

impl std::fmt::Debug for OpenPort {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OpenPort").field("offload", &self.offload).finish_non_exhaustive()
    }
}

/// An open port with the queues that workers are to get.
pub(super) struct Opened {
    pub(super) port: OpenPort,
    pub(super) rx: Vec<Box<dyn RxQueue>>,
    pub(super) tx: Vec<Box<dyn TxQueue>>,
}

impl Opened {
    fn without_queues() -> Self {
        let port = OpenPort { control: None, offload: false, queues: 0 };
        Self { port, rx: Vec::new(), tx: Vec::new() }
    }

    fn of(port: ports::Port) -> Self {
        let queues = port.rx.len();
        let open = OpenPort { control: Some(port.control), offload: port.facts.offload, queues };
        Self { port: open, rx: port.rx, tx: port.tx }
    }
}

/// Opens the port of interface `index`. A memif's queues come later, with its link.
///
/// # Errors
/// [`Flaw`] where the system refuses.
pub(super) fn open(
    index: IfIndex,
    spec: &InterfaceSpec,
    mac: MacAddr,
    memifs: &mut Memifs,
) -> Result<Opened, Flaw> {
    let _ = mac;
    match &spec.port {
        PortSpec::Memif(memif) => {
            memifs.open(index, &spec.name.to_string(), memif)?;
            Ok(Opened::without_queues())
        }
        PortSpec::Tap(tap) => Ok(Opened::of(ports::tap::open(&tap_options(spec, tap)).map_err(|e| flaw("tap", &e))?)),
        PortSpec::AfPacket(_) | PortSpec::Pcap(_) | PortSpec::Generator(_) | PortSpec::Sink => todo!(),
        PortSpec::Loopback | PortSpec::Vlan(_) => Ok(Opened::without_queues()),
    }
}

fn flaw(field: &str, error: &ports::PortError) -> Flaw {
    Flaw::new(field, error.to_string())
}

fn netns(name: Option<&String>) -> Netns {
    name.map_or(Netns::Current, |name| Netns::named(name))
}
