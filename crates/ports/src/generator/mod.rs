//! A built-in source of packets: frames made of templates, at a rate or as fast as they are taken, with addresses or
//! ports that count up or are drawn. What is sent to it is counted and forgotten.
//!
//! * [`build`] makes a template from addresses, ports and a length.
//! * [`Vary`] says which field of packet *n* differs from the template's, and by how much; checksums follow.
//! * Several queues are several streams: of *q* queues each makes every *q*-th packet, on whichever worker it is.

mod build;
mod open;
mod queue;
mod template;

pub use build::{PacketSpec, Protocol, build};
pub use open::{GeneratorOptions, open};
pub use template::{Field, Vary};

use graph::NodeSpec;
use graph::nodes::port_input;

/// The input node of generators.
pub const INPUT: NodeSpec = port_input("generator-input", "Makes packets.");
