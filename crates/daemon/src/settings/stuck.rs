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

/// Less than this is no default: a worker may come to the end of its round yet.
const LEAST: u32 = 10;
/// How often as long as a worker is told of the default is, where that is more.
const TIMES: u32 = 5;

/// After how many seconds quiverd ends for such a worker; 0: never. Not said: 10, or five times as many as it is told of after.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct RestartSeconds(Option<u32>);

/// It would end before it told of why.
#[derive(Debug, thiserror::Error)]
#[error(
    "workers.restart_seconds is {restart}, and workers.stuck_seconds {stuck}: quiverd would end for a worker before it is told of; take {stuck} or more, or 0 for never"
)]
pub struct TooSoon {
    restart: u32,
    stuck: u32,
}

impl RestartSeconds {
    /// How long, where a worker is told of after `stuck`; `None`: for ever.
    #[must_use]
    pub fn get(self, stuck: StuckSeconds) -> Option<Duration> {
        let seconds = self.0.unwrap_or_else(|| LEAST.max(TIMES * stuck.0));
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether it goes with `stuck`.
    ///
    /// # Errors
    /// [`TooSoon`] if it doesn't.
    pub fn check(self, stuck: StuckSeconds) -> Result<(), TooSoon> {
        match self.0 {
            Some(restart @ 1..) if restart < stuck.0 => Err(TooSoon { restart, stuck: stuck.0 }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_behind_what_is_told() {
        for (stuck, restart, expected) in [
            (2, None, Some(10)),
            (3, None, Some(15)),
            (3600, None, Some(18000)),
            (30, Some(30), Some(30)),
            (30, Some(0), None),
        ] {
            let (stuck, restart) = (StuckSeconds(stuck), RestartSeconds(restart));
            assert_eq!(restart.get(stuck), expected.map(Duration::from_secs));
            restart.check(stuck).unwrap();
        }
        assert!(RestartSeconds(Some(29)).check(StuckSeconds(30)).is_err());
    }
}
