//! Hostile clients.

mod control;
mod descriptors;
mod fds;
mod floods;
mod memory;
mod peer;
