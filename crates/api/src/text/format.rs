//! Reading and writing.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::Serialize;

use super::{TomlError, pieces, plain};
use crate::escape;
use crate::v1::Config;

/// A text form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML, for people.
    Toml,
    /// JSON, for programs.
    Json,
}

impl Format {
    /// The form a file is in by its ending: JSON for `.json`, TOML for all others.
    pub fn of_path(path: &Path) -> Self {
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
            Self::Json
        } else {
            Self::Toml
        }
    }

    /// The form a text is in by its first character: JSON begins with a brace, no TOML document does.
    pub fn of_text(text: &str) -> Self {
        if text.trim_start().starts_with('{') { Self::Json } else { Self::Toml }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Toml => "TOML",
            Self::Json => "JSON",
        })
    }
}

impl FromStr for Format {
    type Err = TextError;

    fn from_str(word: &str) -> Result<Self, TextError> {
        match word {
            "toml" => Ok(Self::Toml),
            "json" => Ok(Self::Json),
            _ => Err(TextError::UnknownFormat(word.to_owned())),
        }
    }
}

/// A text could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// Neither "toml" nor "json".
    #[error("there is no text form {0:?}; take \"toml\" or \"json\"")]
    UnknownFormat(String),
    /// Not TOML, or not of the expected shape; the message shows the line.
    #[error("{0}")]
    Toml(#[from] TomlError),
    /// Not JSON, or not of the expected shape; the message says line and column.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A value has no form in TOML.
    #[error("can't be written as TOML: {0}; take JSON")]
    WriteToml(#[from] toml::ser::Error),
}

/// Reads a desired state.
///
/// # Errors
/// [`TextError`] naming the line and, for a field that doesn't exist, its name and those that do.
pub fn read_config(text: &str, format: Format) -> Result<Config, TextError> {
    Ok(match format {
        Format::Toml => pieces::read(text)?,
        Format::Json => serde_json::from_str(text)?,
    })
}

/// Writes a message; the text ends with a line break. Characters that mislead are written as escapes of the form.
///
/// # Errors
/// [`TextError::WriteToml`] if a number is above the range of TOML (2^63 - 1).
pub fn write<T: Serialize>(message: &T, format: Format) -> Result<String, TextError> {
    Ok(match format {
        Format::Toml => plain::toml(toml::to_string(message)?),
        Format::Json => escape::json(&(serde_json::to_string_pretty(message)? + "\n")).into_owned(),
    })
}

/// Writes a message as JSON in one line, with its line break.
///
/// # Errors
/// [`TextError::Json`].
pub fn line<T: Serialize>(message: &T) -> Result<String, TextError> {
    Ok(escape::json(&(serde_json::to_string(message)? + "\n")).into_owned())
}
