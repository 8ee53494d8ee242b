//! Ports: the ways by which packets enter and leave the graph.
//!
//! Every port is opened by a function of its module from an options struct, and is then a [`Port`]: receive and
//! transmit queues for the workers, [facts](PortFacts) for the control thread, and a [handle](PortControl) that keeps
//! the device and removes it.
//!
//! * [`af_packet`]: an existing device of the kernel, shared with it.
//! * [`generator`]: a built-in source of packets; [`sink`] takes packets and forgets them.
//! * [`memif`]: shared memory with another process; its links are the daemon's matter.
//! * [`pcap`]: capture files; packets are read from one and written to another.
//! * [`tap`]: a device of the kernel (tap or tun) made in any network namespace, with checksum and segmentation
//!   offload passed through in both directions.
//! * [`offload`]: finishes in software what a sender leaves to the device, for ports that can't.
//!
//! [`wrap`] has queues around queues: captures, faults on purpose.
//!
//! Around them: [`netns`] does things in another network namespace, [`link`] sets up the kernel's side of a device.
//!
//! Ports of a kind share an input and an output node; [`NODES`] declares them all. System calls that no library wraps
//! are in `sys`. The only other unsafe code is in `memif/engine.rs`, which has a copy engine read packets that stay lent.

#![deny(unsafe_code)]

pub mod af_packet;
mod error;
pub mod generator;
pub mod link;
pub mod memif;
pub mod netns;
mod nodes;
pub mod offload;
mod output;
pub mod pcap;
mod port;
pub mod sink;
mod sys;
pub mod tap;
mod timer;
mod vnet;
mod vnet_queue;
pub mod wrap;

pub use error::PortError;
pub use netns::{Netns, NetnsError};
pub use nodes::NODES;
pub use output::{HeldUp, OutputState, OutputThreads, Suspension};
pub use port::{Held, Link, LinkLayer, LinkState, Port, PortControl, PortFacts};
