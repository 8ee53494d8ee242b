//! Logs to standard error, where systemd and containers pick them up.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

use crate::settings::{Log, LogFormat};

/// Logs can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level has no meaning.
    #[error(
        "log.level {level:?} has no meaning: {source}; write \"info\" or \"info,quiverd::control=debug\""
    )]
    Level {
        /// What was given.
        level: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// A word that is no level: it would be taken for a module, all of which is logged.
    #[error(
        "log.level {level:?}: {word:?} is none of off, error, warn, info, debug and trace; of a module, write \"{word}=debug\""
    )]
    Word {
        /// What was given.
        level: String,
        /// The word.
        word: String,
    },
    /// They are set up already.
    #[error("logs are set up already")]
    Twice,
}

/// Checks the level.
///
/// # Errors
/// [`LogError::Level`], [`LogError::Word`].
pub fn filter(settings: &Log) -> Result<EnvFilter, LogError> {
    let bare = |word: &&str| !word.is_empty() && !word.contains(['=', '[']);
    let no_level = |word: &&str| word.parse::<LevelFilter>().is_err();
    if let Some(word) = settings.level.split(',').map(str::trim).filter(bare).find(no_level) {
        return Err(LogError::Word { level: settings.level.clone(), word: word.into() });
    }
    EnvFilter::builder()
        .parse(&settings.level)
        .map_err(|source| LogError::Level { level: settings.level.clone(), source })
}

/// Sets logs up for the whole process.
///
/// # Errors
/// [`LogError`].
pub fn start(settings: &Log) -> Result<(), LogError> {
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter(settings)?)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    let result = match settings.format {
        LogFormat::Text => logs.try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };
    result.map_err(|_| LogError::Twice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_without_meaning_is_refused() {
        let log = |level: &str| Log { level: level.into(), format: LogFormat::Text };
        for level in ["info", "warn,quiverd::control=debug"] {
            filter(&log(level)).unwrap();
        }
        let error = filter(&log("info,quiverd=loud")).unwrap_err().to_string();
        assert!(error.contains("loud"), "{error}");
        let error = filter(&log("warn, blah")).unwrap_err().to_string();
        assert!(error.contains("\"blah\" is none of"), "{error}");
    }
}
