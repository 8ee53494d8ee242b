//! libquiver-memif: the memif library for C. What the calls do stands in `include/quiver/memif.h`.
//!
//! - [`port`]: an interface with its control channel; safe code, usable by several threads at once.
//! - [`link`]: an established connection; [`lend`]: what was received and not given back.
//! - [`wait`]: sleeping until packets or news come, over several ports; [`watch`]: the same in an event loop of the application's;
//!   `sleepers`: that several threads may do so at once.
//! - `closer`: the thread that drops links.
//! - [`status`]: error codes, and the text of a thread's last error.
//! - `ffi`: the C functions, and the only unsafe code: arguments are checked and turned into what `port` takes, and no
//!   panic leaves.
//!
//! `compat/` is a layer over this in C: the calls of `libmemif.h` that applications use.

#![deny(unsafe_code)]

mod closer;
pub mod lend;
pub mod link;
pub mod port;
mod sleepers;
pub mod status;
pub mod wait;
pub mod watch;

mod ffi;
