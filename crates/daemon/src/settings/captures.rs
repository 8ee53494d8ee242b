//! Memory of captures.

use serde::Deserialize;

/// Memory of all captures together, in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub struct CaptureMemory(u32);

/// A number that is no memory of captures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("memory.captures_mib is {0}: take 8 to 65536")]
pub struct NoCaptureMemory(u64);

impl CaptureMemory {
    /// In bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        (self.0 as usize) << 20
    }
}

impl Default for CaptureMemory {
    fn default() -> Self {
        Self(256)
    }
}

impl TryFrom<u64> for CaptureMemory {
    type Error = NoCaptureMemory;

    fn try_from(mib: u64) -> Result<Self, NoCaptureMemory> {
        match u32::try_from(mib) {
            Ok(few @ 8..=65536) => Ok(Self(few)),
            _ => Err(NoCaptureMemory(mib)),
        }
    }
}
