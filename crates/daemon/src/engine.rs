//! The packet engine.

use crate::daemon::Engine;
use crate::settings::Settings;

/// The packet engine can't start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The program was built without one.
    #[error("this quiverd was built without a packet engine; it can only check settings (--check)")]
    Absent,
}

/// Starts workers on `cores` with the memory `settings` ask for.
///
/// # Errors
/// [`EngineError`].
pub fn start(_settings: &Settings, _cores: &[usize]) -> Result<Engine, EngineError> {
    Err(EngineError::Absent)
}
