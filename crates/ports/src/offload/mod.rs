//! Doing in software what a sender has left to the device, for ports whose device can't.
//!
//! A tap hands over super-frames of up to 64 KiB and packets whose transport checksum isn't finished
//! ([`memory::packet::Offload`]). Another tap takes them as they are. Before the output of a port that doesn't
//! ([`PortFacts::offload`](crate::PortFacts::offload) is false) the [`NODE`] has to stand, a feature of the arc
//! `interface-output`: it cuts super-frames into segments and finishes checksums. Payload isn't copied for that: segments
//! share the super-frame's body.
//!
//! Checksums are finished by [`graph::checksum`]; [`segment`] is the function behind the rest.

mod node;
mod segment;

pub use node::{Drop, NODE};
pub use segment::{Problem, segment};
