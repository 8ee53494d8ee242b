//! The nodes of all kinds of port.

use graph::NodeSpec;

/// Input and output nodes of every kind of port in this crate, and the `offload` feature of their output.
pub const NODES: &[NodeSpec] =
    &[crate::memif::INPUT, crate::memif::OUTPUT, crate::tap::INPUT, crate::tap::OUTPUT, crate::offload::NODE];
