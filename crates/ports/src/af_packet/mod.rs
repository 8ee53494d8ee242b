//! An existing device of the kernel, shared with it: a raw packet socket sees what the device receives and sends what
//! Quiver sends.
//!
//! The kernel keeps the device, its addresses and its own traffic; Quiver gets a copy of every frame, and frames that it
//! sends itself it doesn't see again. VLAN tags that the kernel (or the card) has taken off are put back. Checksum and
//! segmentation offloads pass through as on a [tap](crate::tap). Of a device that carries more than Quiver needs to see, the kernel's packet
//! filter can leave all out but what is for some prefixes.

mod device;
mod filter;
mod queue;

pub use device::{AfPacketOptions, open};
pub use filter::MAX_DESTINATIONS;

use graph::NodeSpec;
use graph::nodes::{port_input, port_output};

/// The input node of packet sockets.
pub const INPUT: NodeSpec = port_input("af-packet-input", "Receives from devices shared with the kernel.");
/// The output node of packet sockets.
pub const OUTPUT: NodeSpec = port_output("af-packet-tx", "Sends to devices shared with the kernel.");
