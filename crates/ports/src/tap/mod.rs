//! A device of the kernel whose other side is Quiver: tap (Ethernet frames) or tun (IP packets).
//!
//! Checksums and segmentation are passed through: each packet carries a `virtio_net_hdr`, so that a TCP super-frame of
//! 64 KiB crosses Quiver as one packet and is cut up only where a receiver needs it
//! (the `offload` node). Packets are read straight into the worker's private memory and written by an
//! output thread of the port, because the write runs the pod's receive path.
//!
//! The device is made in any network namespace and may outlive this process ([`TapOptions::persist`]); opening it again
//! takes it over with its addresses and connections.

mod device;
mod options;
mod queue;

pub use device::open;
pub(crate) use options::check_name;
pub use options::{TapMode, TapOptions};

use graph::NodeSpec;
use graph::nodes::{port_input, port_output};

/// The input node of taps.
pub const INPUT: NodeSpec = port_input("tap-input", "Receives from tap and tun devices.");
/// The output node of taps.
pub const OUTPUT: NodeSpec = port_output("tap-tx", "Sends to tap and tun devices.");
