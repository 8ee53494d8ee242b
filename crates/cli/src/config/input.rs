//! Files with objects.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use api::escape;
use api::text::{Format, TextError, read_config};
use api::v1::Config;

/// A file with objects can't be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It can't be opened or read.
    #[error("can't read {file}: {source}; give a file that you may read, or - for standard input")]
    Read {
        /// The file.
        file: Source,
        /// What the system said.
        source: std::io::Error,
    },
    /// It isn't well-formed, or has fields that don't exist.
    #[error("{file}:{place}{format}: {message}")]
    Syntax {
        /// The file.
        file: Source,
        /// Where; nothing if the error has no place.
        place: Place,
        /// TOML or JSON, as its content says.
        format: Format,
        /// What is wrong, and the line with a mark.
        message: String,
    },
    /// It has no object.
    #[error("{0} has no object; objects begin like [[interface]]")]
    Empty(Source),
}

/// Where objects are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Standard input, written "-".
    Standard,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// What `-f` was given.
    pub(super) fn new(path: &Path) -> Self {
        if path == Path::new("-") { Self::Standard } else { Self::File(path.to_owned()) }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standard => formatter.write_str("standard input"),
            Self::File(path) => formatter.write_str(&escape::path(path)),
        }
    }
}

/// Line and column, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(Option<(usize, usize)>);

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((line, column)) => write!(formatter, "{line}:{column}: "),
            None => formatter.write_str(" "),
        }
    }
}

/// Reads all objects of all files, in their order.
///
/// # Errors
/// [`InputError`] for the first file that can't be used.
pub(super) fn read(paths: &[PathBuf]) -> Result<Config, InputError> {
    let mut all = Config::default();
    for path in paths {
        let source = Source::new(path);
        let read = match &source {
            Source::Standard => bounded(std::io::stdin().lock()),
            Source::File(path) => std::fs::File::open(path).and_then(bounded),
        };
        let text = read.map_err(|error| InputError::Read { file: source.clone(), source: error })?;
        all.extend(parse(&text, &source)?);
    }
    Ok(all)
}

/// Largest text that is read: ten million routes. Also devices without end have some.
const MOST: u64 = 1 << 30;

/// Reads a text to its end.
fn bounded(input: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    input.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST {
        return Err(std::io::Error::other(format!("it has more than {MOST} bytes")));
    }
    Ok(text)
}

/// Like [`read`], where having nothing to do must be a mistake.
///
/// # Errors
/// [`InputError`], also if there is no object.
pub(super) fn read_some(paths: &[PathBuf]) -> Result<Config, InputError> {
    let config = read(paths)?;
    match paths.first() {
        Some(path) if config.is_empty() => Err(InputError::Empty(Source::new(path))),
        _ => Ok(config),
    }
}

/// Reads the objects of one text.
fn parse(text: &str, source: &Source) -> Result<Config, InputError> {
    let format = Format::of_text(text);
    read_config(text, format).map_err(|error| {
        let (position, message) = match &error {
            TextError::Toml(error) => {
                (error.span().map(|span| position(text, span.start)), error.message().to_owned())
            }
            TextError::Json(error) => {
                let position = (error.line() > 0).then(|| (error.line(), error.column().max(1)));
                (position, without_place(&error.to_string()))
            }
            _ => (None, error.to_string()),
        };
        let mark = position.and_then(|(line, column)| mark(text, line, column)).unwrap_or_default();
        InputError::Syntax {
            file: source.clone(),
            place: Place(position),
            format,
            message: format!("{}{mark}", message.trim_end()),
        }
    })
}

/// Line and column of a byte, counted from 1, the column in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

/// serde_json says the place in words; we have said it already.
fn without_place(message: &str) -> String {
    message.rsplit_once(" at line ").map_or(message, |(message, _)| message).to_owned()
}

/// The line with a caret under the column.
fn mark(text: &str, line: usize, column: usize) -> Option<String> {
    /// Longer lines (JSON without breaks) help nobody.
    const LONGEST: usize = 160;
    let content = text.lines().nth(line - 1)?;
    if content.chars().count() > LONGEST {
        return None;
    }
    let margin = " ".repeat(line.to_string().len());
    // Tabs are kept so that the caret stands where the terminal puts the character.
    let indent: String = content
        .chars()
        .take(column - 1)
        .map(|character| if character == '\t' { '\t' } else { ' ' })
        .collect();
    Some(format!("\n{margin} |\n{line} | {content}\n{margin} | {indent}^"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        parse(text, &Source::File("lab.toml".into())).unwrap_err().to_string()
    }

    #[test]
    fn the_form_is_found_by_content() {
        let source = Source::Standard;
        let toml = parse("[[vrf]]\nname = \"red\"\n", &source).unwrap();
        let json = parse(" {\"vrf\": [{\"name\": \"red\"}]}", &source).unwrap();
        assert_eq!(toml, json);
        assert_eq!(toml.len(), 1);
    }

    #[test]
    fn toml_errors_name_line_and_column() {
        let text = "[[vrf]]\nname = \"red\"\ncolour = 5\n";
        let complaint = complaint(text);
        assert!(
            complaint.starts_with("lab.toml:3:1: TOML: unknown field `colour`, expected one of"),
            "{complaint}"
        );
        assert!(complaint.ends_with("\n  |\n3 | colour = 5\n  | ^"), "{complaint}");
    }

    #[test]
    fn a_broken_value_is_marked_where_it_stands() {
        let complaint = complaint("[[interface]]\nname = \"a\"\nmemif = { role = \"master\" }\n");
        assert!(
            complaint.starts_with("lab.toml:3:18: TOML: invalid value: string \"master\""),
            "{complaint}"
        );
        assert!(complaint.contains("\"server\", \"client\""), "{complaint}");
    }

    #[test]
    fn json_errors_name_line_and_column() {
        let complaint = complaint("{\n  \"vrf\": [{\"name\": 5}]\n}");
        assert_eq!(
            complaint,
            "lab.toml:2:20: JSON: invalid type: integer `5`, expected a string\n  |\n2 |   \"vrf\": [{\"name\": 5}]\n  |                    ^"
        );
    }

    #[test]
    fn columns_are_characters() {
        assert_eq!(position("a\nüü=b", 6), (2, 3));
        assert_eq!(position("", 0), (1, 1));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(&["/nonexistent.toml".into()]).unwrap_err().to_string();
        assert!(error.starts_with("can't read /nonexistent.toml: No such file"), "{error}");
    }
}
