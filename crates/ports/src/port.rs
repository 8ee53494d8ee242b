//! What every port is once it is open.

use crate::{OutputThreads, PortError};
use core::fmt;
use graph::port::{RxQueue, TxQueue};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::MacAddr;

/// What a port's packets begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header.
    Ip,
}

/// What is known of an open port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Name of the device or file behind the port.
    pub name: String,
    /// What packets begin with.
    pub link: LinkLayer,
    /// Ethernet address of the kernel's device, where there is one. For a tap that is the *other* end: the pod's.
    pub mac: Option<MacAddr>,
    /// Largest packet without the link header that the device takes, in bytes.
    pub mtu: u32,
    /// Number of the kernel's device in its network namespace.
    pub host_ifindex: Option<u32>,
    /// Whether the port takes super-frames and packets without checksum as they are. Where it doesn't, the
    /// `offload` node has to stand before its output.
    pub offload: bool,
}

/// An open port.
pub struct Port {
    /// Receive queues; each for one worker.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Transmit queues; each for one worker.
    pub tx: Vec<Box<dyn TxQueue>>,
    /// What is known of it.
    pub facts: PortFacts,
    /// Whether packets can pass.
    pub link: Arc<dyn Link>,
    /// Threads that write what is sent, where workers don't write themselves.
    pub output: Option<OutputThreads>,
    /// Keeps the device.
    pub control: Box<dyn PortControl>,
}

/// Whether packets can pass by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// They can: the device is up and connected.
    Up,
    /// They can't for now.
    Down,
    /// The device is not there any more.
    Gone,
}

/// What is known of a port's link. Looking never blocks, and asks nobody: it is told when something changes.
pub trait Link: Send + Sync + fmt::Debug {
    /// Whether packets can pass. Ports without a link are always up.
    fn state(&self) -> LinkState {
        LinkState::Up
    }
}

/// A port without a link.
#[derive(Debug)]
pub(crate) struct NoLink;

impl Link for NoLink {}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("facts", &self.facts)
            .field("rx", &self.rx.len())
            .field("tx", &self.tx.len())
            .finish_non_exhaustive()
    }
}

/// Keeps the link of a device up while no queue is open.
#[derive(Debug)]
pub struct Held {
    /// A queue that gets no packets.
    pub(crate) _queue: Arc<OwnedFd>,
}

/// The control thread's hold on a port. As long as it lives, so does what the queues use. Calls may block.
pub trait PortControl: Send {
    /// Packets that the kernel had for us since the port was opened (for a persistent device: since it was made) and
    /// lost because we didn't receive them fast enough. Ports that lose nothing that way say 0.
    ///
    /// # Errors
    /// [`PortError`] where the device can't be asked, or is gone.
    fn lost(&self) -> Result<u64, PortError> {
        Ok(0)
    }

    /// Closes the port because it will be opened again with other parameters. As long as what is returned is kept, the
    /// device doesn't tell its other side of it: no link goes down, no neighbour is forgotten. `None`: there is nothing of
    /// the kind. To be called when the queues are gone.
    fn hold(self: Box<Self>) -> Option<Held> {
        None
    }

    /// Ends the port for good: what Quiver made is removed, what was there before is left as it was. Merely dropping
    /// the control leaves persistent devices in place, for the next start.
    ///
    /// # Errors
    /// [`PortError`] where the device can't be removed.
    fn remove(self: Box<Self>) -> Result<(), PortError> {
        Ok(())
    }
}
