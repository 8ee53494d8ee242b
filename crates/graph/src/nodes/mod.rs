//! The nodes that every graph has: they join ports to the graph, end packets, and bring in what the control
//! thread and other workers send.
//!
//! Ports of a kind share one input and one output node, named after the kind (`memif-input`, `memif-tx`), so that
//! `show runtime` tells what each kind costs. [`port_input`] and [`port_output`] declare them.

mod drop;
mod handover;
mod inject;
mod input;
mod output;

pub use drop::NODE as DROP;
pub use handover::HANDOVER;
pub use inject::{INJECT, Injection};
pub use input::{DEVICE_INPUT, make as make_input, port_input};
pub use output::{Drop as OutputDrop, INTERFACE_OUTPUT, make as make_output, port_output};
