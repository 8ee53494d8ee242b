//! Traffic for anything that speaks memif.
//!
//! * [`options`]: the command line.
//! * [`link`]: memif interfaces, as client, brought up within a time limit.
//! * [`frames`]: the packets to send, built once; what varies is laid out in advance.
//! * [`run`]: the loop on one core that sends, receives and counts.
//! * [`placement`]: how far apart the two cores are at this moment: what a figure is worth depends on it.
//! * [`stateful`]: connections instead of packets.
//! * [`report`]: the result, for people and as JSON.

#![forbid(unsafe_code)]

pub mod frames;
pub mod link;
pub mod options;
pub mod placement;
pub mod report;
pub mod run;
pub mod stateful;
