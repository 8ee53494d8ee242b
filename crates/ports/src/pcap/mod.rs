//! Capture files as a port: packets are received from one (pcap or pcapng) and sent into another (pcapng).
//!
//! The file to be played is checked whole before it is opened. Packets come at the times that it gives, or as fast as they
//! are taken, once or again and again. What is sent is written by a thread of its own: a worker never waits for a disk; what
//! comes faster than the disk takes it is dropped as `ring-full`.

mod open;
mod play;
mod write;

pub use open::{Pace, PcapOptions, open};

use graph::NodeSpec;
use graph::nodes::{port_input, port_output};

/// The input node of capture files.
pub const INPUT: NodeSpec = port_input("pcap-input", "Plays capture files.");
/// The output node of capture files.
pub const OUTPUT: NodeSpec = port_output("pcap-tx", "Writes capture files.");
