//! A share in percent.

use serde::Deserialize;

/// A share in percent, 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "u16")]
pub struct Percent(u8);

/// More than all.
#[derive(Debug, thiserror::Error)]
#[error("{0} is no percentage: write a number from 0 to 100")]
pub struct NoPercentage(u16);

impl Percent {
    /// The share, but no more than all.
    #[must_use]
    pub const fn at_most(share: u8) -> Self {
        if share > 100 { Self(100) } else { Self(share) }
    }

    /// 0 to 100.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<u16> for Percent {
    type Error = NoPercentage;

    fn try_from(share: u16) -> Result<Self, NoPercentage> {
        match u8::try_from(share) {
            Ok(share) if share <= 100 => Ok(Self(share)),
            _ => Err(NoPercentage(share)),
        }
    }
}
