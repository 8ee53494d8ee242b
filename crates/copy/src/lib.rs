//! Copy engines: who copies the bodies of packets.
//!
//! A packet's payload is copied once, from the sender's memory to the receiver's. As a rule the worker does that itself, inline,
//! and nothing of this crate is on that path. For bodies above a threshold it can be handed to a DMA engine instead:
//!
//! | module | what |
//! |---|---|
//! | [`engine`] | the trait: push transfers, submit them once per vector, poll, finish; completion in order |
//! | [`cpu`] | the worker itself: the reference, and who finishes what a device could not |
//! | [`dsa`] | Intel Data Streaming Accelerator: descriptors, completion records, queues, discovery |
//! | [`model`] | a software model of that device: a thread that reads descriptors and writes records, and goes wrong as asked |
//! | [`setup`] | from settings to devices, and a channel for each transmit queue |
//! | `open` | which work queues are opened, and what becomes of those that can't be |
//! | [`near`] | which of the devices' queues are near to which worker |
//! | [`learn`] | from how many bytes on a device is worth its trouble, measured |
//!
//! See `docs/copy-engines.md`.

#![deny(unsafe_code)]

pub mod cpu;
pub mod dsa;
pub mod engine;
pub mod learn;
pub mod model;
pub mod near;
mod open;
pub mod setup;

pub use cpu::Cpu;
pub use engine::{Engine, Offer, Transfer};
pub use setup::{Choice, CopyOptions, Engines, SetupError};
