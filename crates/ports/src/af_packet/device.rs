//! Opening sockets on a device.

use super::filter;
use super::queue::PacketQueue;
use crate::link::{self, LinkInfo};
use crate::netns::Netns;
use crate::output::{OutputThreads, outputs};
use crate::port::{LinkLayer, Port, PortControl, PortFacts};
use crate::sys::packet::{self, Flag};
use crate::tap::check_name;
use crate::vnet_queue::VnetRx;
use crate::{PortError, vnet};
use graph::port::RxQueue;
use ipnet::IpNet;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that may wait in a socket: several milliseconds of traffic at 10 Gbit/s.
const RECEIVE_BUFFER: i32 = 8 << 20;

/// How to share a device.
#[derive(Clone, Debug)]
pub struct AfPacketOptions {
    /// Network namespace it lives in.
    pub netns: Netns,
    /// Its name there.
    pub name: String,
    /// Receive queues, at least 1; the kernel spreads flows over them.
    pub rx_queues: u16,
    /// Transmit queues, one for each worker, at least 1. Those beyond the receive queues share a socket and its thread.
    pub tx_queues: u16,
    /// Receive frames for other stations too, as a bridge must.
    pub promiscuous: bool,
    /// Receive only untagged IP packets to the device's own station and to these prefixes, at most
    /// [`MAX_DESTINATIONS`](super::MAX_DESTINATIONS); empty: every frame.
    pub destinations: Vec<IpNet>,
}

impl AfPacketOptions {
    /// One queue pair, promiscuous.
    #[must_use]
    pub fn new(netns: Netns, name: impl Into<String>) -> Self {
        Self {
            netns,
            name: name.into(),
            rx_queues: 1,
            tx_queues: 1,
            promiscuous: true,
            destinations: Vec::new(),
        }
    }

    fn port(&self) -> String {
        format!("device {} in network namespace {}", self.name, self.netns)
    }
}

/// Opens sockets on an existing Ethernet device. Blocks.
///
/// # Errors
/// [`PortError`]: no such device or namespace, a device without Ethernet, or what the kernel refused.
pub fn open(options: &AfPacketOptions) -> Result<Port, PortError> {
    let wrong = |field, problem: String| PortError::Option { port: options.port(), field, problem };
    check_name(&options.name).map_err(|problem| wrong("name", problem.into()))?;
    if options.rx_queues == 0 || options.tx_queues == 0 {
        return Err(wrong("queues", "are 0: at least 1 is needed in each direction".into()));
    }
    if options.destinations.len() > filter::MAX_DESTINATIONS {
        let problem = format!("are {}: at most {}", options.destinations.len(), filter::MAX_DESTINATIONS);
        return Err(wrong("destinations", problem));
    }
    let system =
        |action: &'static str| move |error: io::Error| PortError::system(options.port(), action, error);
    let info = link::get(&options.netns, &options.name)?;
    let info = info.ok_or_else(|| system("look it up")(Errno::NODEV.into()))?;
    let mac = info.mac.filter(|_| info.ethernet);
    let mac = mac.ok_or_else(|| wrong("name", "is no Ethernet device: only those can be shared".into()))?;
    let (sockets, vnet) = options.netns.run(|| sockets(options, &info))??;
    let link = link::watch(&options.netns, &info.name, info.index)?;
    let name: Arc<str> = options.port().into();
    let lost = Arc::new(AtomicU64::new(0));
    let queue = |socket: &Arc<OwnedFd>| PacketQueue { socket: Arc::clone(socket), vnet };
    let rx = sockets
        .iter()
        .map(|socket| -> Box<dyn RxQueue> { Box::new(VnetRx::new(queue(socket), Arc::clone(&name))) });
    let devices = sockets.iter().map(queue).collect();
    let (tx, threads) = outputs(devices, options.tx_queues, &name, &format!("tx-{}", options.name))
        .map_err(system("start a thread for its output"))?;
    Ok(Port {
        rx: rx.collect(),
        tx,
        facts: PortFacts {
            name: info.name,
            link: LinkLayer::Ethernet,
            mac: Some(mac),
            mtu: info.mtu,
            host_ifindex: Some(info.index),
            offload: vnet,
        },
        link,
        output: Some(threads.clone()),
        control: Box::new(PacketControl { sockets, lost, threads }),
    })
}

type Sockets = (Vec<Arc<OwnedFd>>, bool);

/// Opens the sockets, inside the namespace; also says whether they have `virtio_net_hdr`.
fn sockets(options: &AfPacketOptions, info: &LinkInfo) -> Result<Sockets, PortError> {
    let system =
        |action: &'static str| move |error: io::Error| PortError::system(options.port(), action, error);
    let program = (!options.destinations.is_empty()).then(|| filter::program(&options.destinations));
    let mut sockets = Vec::new();
    let mut vnet = true;
    let mut group = None;
    for _ in 0..options.rx_queues {
        let socket = packet::socket().map_err(system("open a packet socket"))?;
        let fd = socket.as_fd();
        packet::set(fd, Flag::AuxData, 1).map_err(system("ask for VLAN tags"))?;
        packet::set(fd, Flag::IgnoreOutgoing, 1).map_err(system("ignore our own frames (Linux 4.20 can)"))?;
        // Without the right to a larger buffer (CAP_NET_ADMIN in the first user namespace) bursts are lost earlier.
        let _ = packet::set(fd, Flag::ReceiveBuffer, RECEIVE_BUFFER);
        vnet &= packet::set(fd, Flag::VnetHeader, 1).is_ok();
        if options.promiscuous {
            packet::promiscuous(fd, info.index).map_err(system("make it promiscuous"))?;
        }
        if let Some(program) = &program {
            // Before anything is received.
            packet::filter(fd, program).map_err(system("filter what it receives"))?;
        }
        packet::bind(fd, info.index).map_err(system("receive from it"))?;
        if options.rx_queues > 1 {
            group = Some(packet::fan_out(fd, group).map_err(system("spread its packets over queues"))?);
        }
        sockets.push(Arc::new(socket));
    }
    if !vnet {
        for socket in &sockets {
            packet::set(socket.as_fd(), Flag::VnetHeader, 0).map_err(system("do without offloads"))?;
        }
    }
    Ok((sockets, vnet))
}

/// Bytes before each packet.
pub(super) const fn prefix(vnet: bool) -> usize {
    if vnet { vnet::LEN } else { 0 }
}

/// Holds the sockets; the device is the kernel's.
struct PacketControl {
    sockets: Vec<Arc<OwnedFd>>,
    lost: Arc<AtomicU64>,
    threads: OutputThreads,
}

impl PortControl for PacketControl {
    fn lost(&self) -> Result<u64, PortError> {
        for socket in &self.sockets {
            let lost = packet::lost(socket.as_fd());
            let lost =
                lost.map_err(|error| PortError::system("AF_PACKET socket", "count what was lost", error))?;
            self.lost.fetch_add(lost.into(), Ordering::Relaxed);
        }
        Ok(self.lost.load(Ordering::Relaxed))
    }

    fn remove(self: Box<Self>) -> Result<(), PortError> {
        self.threads.wait();
        Ok(())
    }
}
