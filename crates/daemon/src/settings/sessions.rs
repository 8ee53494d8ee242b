//! How many sessions a worker may have.

use serde::Deserialize;

/// How many sessions a worker may have, 1 to 16 777 216. Memory is taken as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub struct SessionLimit(usize);

/// None, or more than a worker's table has room for.
#[derive(Debug, thiserror::Error)]
#[error("workers.sessions is {0}: a worker can have 1 to {most} sessions", most = SessionLimit::MOST)]
pub struct NoSessionLimit(u64);

impl SessionLimit {
    /// The most: for so many a worker's table reserves addresses.
    pub const MOST: u64 = 1 << 24;

    /// How many.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}

impl Default for SessionLimit {
    /// As many as can be.
    fn default() -> Self {
        Self(Self::MOST as usize)
    }
}

impl TryFrom<u64> for SessionLimit {
    type Error = NoSessionLimit;

    fn try_from(limit: u64) -> Result<Self, NoSessionLimit> {
        match usize::try_from(limit) {
            Ok(sessions) if (1..=Self::MOST).contains(&limit) => Ok(Self(sessions)),
            _ => Err(NoSessionLimit(limit)),
        }
    }
}
