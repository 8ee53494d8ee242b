//! What the state machine wants done.

use core::net::IpAddr;
use graph::IfIndex;
use graph::packet::OwnedPacket;
use wire::MacAddr;

/// Something for the daemon to do. Actions are done in order: a packet that waited is injected after its neighbour has
/// been programmed.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send a frame: [`crate::neighbour::frame`] under [`crate::neighbour::ETHERNET_OUT`], on any worker.
    Send {
        /// Interface to send it by.
        tx_if: IfIndex,
        /// The frame, from its Ethernet header on.
        frame: Vec<u8>,
    },
    /// The neighbour has this link-layer address: program next hops and the host route that lead to it.
    Program {
        /// Its interface.
        interface: IfIndex,
        /// Its address.
        address: IpAddr,
        /// Its link-layer address.
        mac: MacAddr,
    },
    /// The neighbour is gone: packets to it have to wait again.
    Unprogram {
        /// Its interface.
        interface: IfIndex,
        /// Its address.
        address: IpAddr,
    },
    /// Bring a packet into the graph of a worker.
    Inject {
        /// The worker it came from.
        worker: usize,
        /// Key of the node that takes it, as [`graph::nodes::Injection`] wants it.
        target: u32,
        /// The packet.
        packet: OwnedPacket,
    },
    /// Another station claims one of our addresses: tell the operator.
    Conflict {
        /// The interface it was seen on.
        interface: IfIndex,
        /// The address.
        address: IpAddr,
        /// Who claims it.
        mac: MacAddr,
    },
}
