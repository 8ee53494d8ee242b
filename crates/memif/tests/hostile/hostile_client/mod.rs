//! Hostile clients.

mod control;
mod descriptors;
mod fds;
mod floods;
mod kept;
mod memory;
mod peer;
mod quota;
mod signals;
mod zero_copy;
