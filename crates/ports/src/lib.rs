//! Ports: the ways by which packets enter and leave the graph.
//!
//! Every port is opened by a function of its module from an options struct, and is then a [`Port`]: receive and
//! transmit queues for the workers, [facts](PortFacts) for the control thread, and a [handle](PortControl) that keeps
//! the device and removes it.
//!
//! * [`memif`]: shared memory with another process; its links are the daemon's matter.
//! * [`tap`]: a device of the kernel (tap or tun) made in any network namespace, with checksum and segmentation
//!   offload passed through in both directions.
//! * [`offload`]: finishes in software what a sender leaves to the device, for ports that can't.
//!
//! Around them: [`netns`] does things in another network namespace, [`link`] sets up the kernel's side of a device.
//!
//! Ports of a kind share an input and an output node; [`NODES`] declares them all. System calls that no library wraps
//! are in `sys`, the only place with unsafe code.

#![deny(unsafe_code)]

mod error;
pub mod link;
pub mod memif;
pub mod netns;
mod nodes;
pub mod offload;
mod port;
mod sys;
pub mod tap;
mod vnet;

pub use error::PortError;
pub use netns::{Netns, NetnsError};
pub use nodes::NODES;
pub use port::{LinkLayer, Port, PortControl, PortFacts};
