//! TCP (RFC 9293): header, flags, options.

mod header;
mod options;

pub use header::{TcpFlags, TcpHeader, TcpReason};
pub use options::{TcpOption, TcpOptions};
