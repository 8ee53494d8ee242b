//! Output threads: the kernel's receive path of a pod runs here, not on a worker.
//!
//! A write to a tap, or to a packet socket on a veth, runs the receive path of the network namespace behind it inside the call: packet sockets and their
//! filters, netfilter, the waiters of the sockets that the packet reaches. What that costs is the pod's choice, and it may be seconds. So a worker
//! never makes that call. It copies each frame into a buffer and puts it into a bounded [ring](queue); a [thread](thread) of the port writes it, counts what the
//! kernel said, and returns the buffer. A pod that makes its own receive path slow fills its own ring and loses its own frames.
//!
//! The thread's processor time is bounded, too ([`pace`]): the other pods' processes share its core.

mod frame;
mod pace;
mod queue;
mod share;
mod state;
mod thread;

pub(crate) use queue::outputs;
pub use state::{HeldUp, OutputState, OutputThreads, Suspension};

#[cfg(test)]
mod tests;
