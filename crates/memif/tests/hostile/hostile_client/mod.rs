//! Hostile clients.

mod control;
mod descriptors;
mod floods;
mod memory;
mod peer;
