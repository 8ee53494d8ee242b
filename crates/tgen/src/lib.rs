//! Traffic for anything that speaks memif or has a Linux interface.
//!
//! * [`options`], [`profile`]: what to do, from the command line or a TOML file; both give a [`plan`].
//! * [`link`]: interfaces: memif in both roles, packet sockets, taps, and a memif looped back in this process.
//! * [`stateless`]: packets from templates or captures, the loop that sends and receives them, and what became of them.
//! * [`stateful`]: connections instead of packets, both ends of them.
//! * [`report`]: the result, for people and as JSON; progress while it runs.
//! * [`clock`]: the cycle counter as a clock.
//! * [`placement`]: how far apart two cores are at this moment: what a figure is worth depends on it.

#![forbid(unsafe_code)]

pub mod clock;
pub mod link;
pub mod options;
pub mod placement;
pub mod plan;
pub mod profile;
pub mod report;
pub mod stateful;
pub mod stateless;
