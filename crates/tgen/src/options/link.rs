//! Flags about interfaces that all kinds of traffic have.

use crate::link::spec::{LinkMode, MemifSpec, Role};
use clap::Args;

/// Seconds to wait for interfaces where none are given.
pub const WAIT: f64 = 10.0;

/// What a run's interfaces have in common, and where it runs.
#[derive(Clone, Debug, Args)]
pub struct LinkOptions {
    /// What the interfaces carry.
    #[arg(long, value_enum, default_value_t = LinkMode::Ethernet)]
    pub mode: LinkMode,
    /// Ring size, a power of two from 64 to 16384.
    #[arg(long, default_value_t = 1024)]
    pub ring_size: u32,
    /// Bytes per buffer; longer frames are chained.
    #[arg(long, default_value_t = 2048)]
    pub buffer_size: u32,
    /// Secret that the server asks for.
    #[arg(long)]
    pub secret: Option<String>,
    /// Core to run on. Default: any.
    #[arg(long)]
    pub core: Option<usize>,
    /// Seconds to wait for the interfaces to come up. Default: 10.
    #[arg(long)]
    pub wait: Option<f64>,
}

impl LinkOptions {
    /// A memif with these, but for its socket.
    #[must_use]
    pub fn memif(&self, role: Role, queues: u16) -> MemifSpec {
        MemifSpec {
            role,
            mode: self.mode,
            secret: self.secret.clone(),
            ..MemifSpec::buffers(queues, self.ring_size, self.buffer_size)
        }
    }
}

/// The seconds that a flag gives, if they are some.
///
/// # Errors
/// What is wrong with them.
pub fn seconds(flag: &str, value: f64) -> Result<f64, String> {
    if (0.0..1e9).contains(&value) {
        Ok(value)
    } else {
        Err(format!("--{flag} {value}: it must be 0 to 1000000000"))
    }
}
