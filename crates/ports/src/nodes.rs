//! The nodes of all kinds of port.

use crate::{af_packet, generator, memif, offload, pcap, sink, tap};
use graph::NodeSpec;

/// Input and output nodes of every kind of port in this crate, and the `offload` feature of their output.
pub const NODES: &[NodeSpec] = &[
    memif::INPUT,
    memif::OUTPUT,
    tap::INPUT,
    tap::OUTPUT,
    af_packet::INPUT,
    af_packet::OUTPUT,
    pcap::INPUT,
    pcap::OUTPUT,
    generator::INPUT,
    sink::OUTPUT,
    offload::NODE,
];
