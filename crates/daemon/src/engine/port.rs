//! Opening the port of an interface.

use std::sync::Arc;

use api::v1::TapMode;
use graph::port::{RxQueue, TxQueue};
use ports::wrap::{Damage, Fault};
use ports::{Link, OutputThreads, PortControl};
use wire::MacAddr;

use super::ports_of;
use crate::model::Flaw;
use crate::model::spec::{InterfaceSpec, PortSpec, SocketName};

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
            PortSpec::Tunnel(tunnel) => (tunnel.field(), None, None),
        };
        Self { name, input, output }
    }
}

/// A port that is open.
#[derive(Debug, Clone)]
pub(super) struct OpenPort {
    /// Whether packets can pass, where a device or file of ours says that.
    pub(super) link: Option<Arc<dyn Link>>,
    /// Threads that write what is sent, where workers don't write themselves.
    pub(super) output: Option<OutputThreads>,
    /// Takes super-frames and unfinished checksums as they are.
    pub(super) offload: bool,
}

/// An open port with the queues that workers are to get.
pub(super) struct Opened {
    pub(super) port: OpenPort,
    /// Keeps the device, where there is one.
    pub(super) control: Option<Box<dyn PortControl>>,
    pub(super) rx: Vec<Box<dyn RxQueue>>,
    pub(super) tx: Vec<Box<dyn TxQueue>>,
}

impl Opened {
    pub(super) fn without_queues() -> Self {
        let port = OpenPort { link: None, output: None, offload: false };
        Self { port, control: None, rx: Vec::new(), tx: Vec::new() }
    }

    pub(super) fn of(port: ports::Port) -> Self {
        let open = OpenPort { link: Some(port.link), output: port.output, offload: port.facts.offload };
        Self { port: open, control: Some(port.control), rx: port.rx, tx: port.tx }
    }
}

/// Whether there is what the port needs: the namespace is there and may be used, and `workers` are enough. Nothing is changed.
///
/// # Errors
/// [`Flaw`] that names the field.
pub(super) fn check(spec: &InterfaceSpec, workers: usize) -> Result<(), Flaw> {
    if let Some(worker) = spec.port.rx_workers().iter().find(|worker| **worker as usize >= workers) {
        let why = match workers {
            1 => format!("there is no worker {worker}: quiverd has only worker 0"),
            _ => format!("there is no worker {worker}: quiverd has workers 0 to {}", workers - 1),
        };
        let field = format!("{}.rx_workers", Kind::of(&spec.port).name);
        return Err(Flaw::new(field, why).remedy("name others, or start quiverd with more workers"));
    }
    let (field, name) = match &spec.port {
        PortSpec::Memif(memif) => match &memif.socket {
            SocketName::Abstract { netns, .. } => ("memif.netns", netns.as_deref()),
            SocketName::Path(_) => ("memif.netns", None),
        },
        PortSpec::Tap(tap) => ("tap.netns", tap.netns.as_deref()),
        PortSpec::AfPacket(port) => ("af_packet.netns", port.netns.as_deref()),
        _ => return Ok(()),
    };
    match name {
        None => Ok(()),
        Some(_) => {
            ports_of::netns(name).open().map(|_| ()).map_err(|error| Flaw::new(field, error.to_string()))
        }
    }
}

/// Opens a port that only the system has a say in: neither a memif, whose queues come with its link, nor a tap, whose
/// device outlives it. Each of `workers` gets a way of its own into a port that has no device behind it.
///
/// # Errors
/// [`Flaw`] where the system refuses.
pub(super) fn open(spec: &InterfaceSpec, mac: MacAddr, workers: usize) -> Result<Opened, Flaw> {
    let opened = match &spec.port {
        PortSpec::Memif(_)
        | PortSpec::Tap(_)
        | PortSpec::Loopback
        | PortSpec::Vlan(_)
        | PortSpec::Tunnel(_) => {
            return Ok(Opened::without_queues());
        }
        PortSpec::AfPacket(port) => ports::af_packet::open(&ports_of::af_packet(port, workers))
            .map_err(|error| flaw("af_packet", &error)),
        PortSpec::Pcap(pcap) => {
            ports::pcap::open(&ports_of::pcap(spec, pcap)).map_err(|error| flaw("pcap", &error))
        }
        PortSpec::Generator(generator) => {
            let options = ports_of::generator(spec, generator, mac, workers)?;
            ports::generator::open(&options).map_err(|error| flaw("generator", &error))
        }
        PortSpec::Sink => Ok(ports::sink::open(&ports_of::sink(spec, workers))),
    };
    opened.map(Opened::of)
}

/// The receive queues with the damage that is wanted of the interface, now or later.
pub(super) fn damaged(damage: &Damage, queues: Vec<Box<dyn RxQueue>>) -> Vec<Box<dyn RxQueue>> {
    let damaged = |queue| Box::new(Fault::switched(queue, damage.clone())) as Box<dyn RxQueue>;
    queues.into_iter().map(damaged).collect()
}

fn flaw(field: &str, error: &ports::PortError) -> Flaw {
    Flaw::new(field, error.to_string())
}
