//! Logs to standard error, where systemd and containers pick them up.
//!
//! Values come from peers, pods and operators: whatever a line is made of, it stays one line, and its fields stay apart.

mod fields;
mod json;

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

use fields::EscapedFields;
use json::PlainJson;

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
    let logs =
        tracing_subscriber::fmt().with_env_filter(filter(settings)?).with_ansi(io::stderr().is_terminal());
    let result = match settings.format {
        LogFormat::Text => logs.fmt_fields(EscapedFields).with_writer(io::stderr).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).with_writer(|| PlainJson(io::stderr())).try_init(),
    };
    result.map_err(|_| LogError::Twice)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        /// What was written, which has to be plain.
        fn text(&self) -> String {
            let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            assert!(text.chars().all(|c| c == '\n' || (' '..='~').contains(&c)), "{text}");
            text
        }
    }

    /// What a peer may say.
    const WORDS: &str =
        "gone user=admin\n2026-01-01T00:00:00Z  INFO quiverd: all \x1b[2Jis \u{202e}well\u{202c} \"quoted\"";

    fn log_words() {
        tracing::warn!(interface = "pod-a", kind = %"word", reason = %WORDS, said = WORDS, path = ?WORDS, n = 7, "link down");
        tracing::error!("a message with {WORDS}");
    }

    #[test]
    fn a_value_is_neither_a_line_nor_a_field() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .fmt_fields(EscapedFields)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, log_words);
        let text = lines.text();
        let [first, second] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        let quoted = r#""gone user=admin\n2026-01-01T00:00:00Z  INFO quiverd: all \x1b[2Jis \u{202e}well\u{202c} \"quoted\"""#;
        let fields = format!("link down interface=\"pod-a\" kind=word reason={quoted} said={quoted} path=");
        assert!(first.contains(&fields), "{first}");
        assert!(first.ends_with(" n=7"), "{first}");
        assert!(second.contains(r"a message with gone user=admin\n2026"), "{second}");
    }

    #[test]
    fn json_is_plain_and_has_the_same_values() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_writer(move || PlainJson(writer.clone()))
            .finish();
        tracing::subscriber::with_default(subscriber, log_words);
        let text = lines.text();
        let [first, _] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        let object: serde_json::Value = serde_json::from_str(first).unwrap();
        assert_eq!((&object["reason"], &object["n"]), (&WORDS.into(), &7.into()));
    }

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
