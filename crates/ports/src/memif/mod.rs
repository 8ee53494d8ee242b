//! memif: shared memory with another process. The protocol and its rings are the `memif` crate's; here they become
//! queues of the graph.

mod engine;
mod queues;

pub use engine::MemifEngineTx;
pub use queues::{MemifRx, MemifTx};

use graph::NodeSpec;
use graph::nodes::{port_input, port_output};

/// The input node of memif interfaces.
pub const INPUT: NodeSpec =
    port_input("memif-input", "Receives from memif peers: copies heads, leaves bodies in the peer's memory.");
/// The output node of memif interfaces.
pub const OUTPUT: NodeSpec =
    port_output("memif-tx", "Sends to memif peers: the one copy of head and body, into the peer's memory.");
