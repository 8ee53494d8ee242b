//! When a worker is taken to stand still.

use std::time::Duration;

use serde::Deserialize;

/// After how many seconds a worker that doesn't finish a round is told of, 2 to 3600. One that sleeps wakes up each second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub struct StuckSeconds(u32);

/// So short that a worker that sleeps would be told of, or so long that nobody would be there any more.
#[derive(Debug, thiserror::Error)]
#[error("workers.stuck_seconds is {0}: take 2 to 3600")]
pub struct NoStuckSeconds(u64);

impl StuckSeconds {
    /// How long.
    #[must_use]
    pub const fn get(self) -> Duration {
        Duration::from_secs(self.0 as u64)
    }
}

impl Default for StuckSeconds {
    fn default() -> Self {
        Self(2)
    }
}

impl TryFrom<u64> for StuckSeconds {
    type Error = NoStuckSeconds;

    fn try_from(seconds: u64) -> Result<Self, NoStuckSeconds> {
        match u32::try_from(seconds) {
            Ok(short @ 2..=3600) => Ok(Self(short)),
            _ => Err(NoStuckSeconds(seconds)),
        }
    }
}

/// After how many seconds quiverd ends for such a worker; 0: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct RestartSeconds(u32);

impl RestartSeconds {
    /// How long; `None`: for ever.
    #[must_use]
    pub fn get(self) -> Option<Duration> {
        (self.0 > 0).then(|| Duration::from_secs(self.0.into()))
    }
}

impl Default for RestartSeconds {
    fn default() -> Self {
        Self(10)
    }
}
