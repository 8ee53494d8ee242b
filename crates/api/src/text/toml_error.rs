//! Where and why a TOML document isn't one.

use std::fmt;
use std::ops::Range;

/// Longest line that a message shows.
const SHOWN: usize = 500;

/// A TOML document is none, or not of the expected shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TomlError {
    message: String,
    place: Option<Place>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// Bytes of the document.
    span: Range<usize>,
    /// Line, from 1.
    line: usize,
    /// Column in characters, from 1.
    column: usize,
    /// The line.
    text: String,
}

impl TomlError {
    /// That of a part of `document`, which begins at byte `offset`.
    pub(super) fn of_part(document: &str, offset: usize, error: &toml::de::Error) -> Self {
        match error.span() {
            Some(span) => Self::at(document, offset + span.start..offset + span.end, error.message()),
            // It says in which keys.
            None => Self { message: error.to_string().trim_end().to_owned(), place: None },
        }
    }

    /// One with that message about these bytes of `document`.
    pub(super) fn at(document: &str, span: Range<usize>, message: &str) -> Self {
        // The end of a document belongs to its last line.
        let start = span.start.min(document.len().saturating_sub(1));
        let start = (0..=start).rev().find(|at| document.is_char_boundary(*at)).unwrap_or(0);
        let (before, after) = document.split_at(start);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let behind = before.get(line_start..).unwrap_or_default();
        let text = format!("{behind}{}", after.split('\n').next().unwrap_or_default());
        let place = Place {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: behind.chars().count() + 1 + span.start.saturating_sub(start),
            text,
            span,
        };
        Self { message: message.to_owned(), place: Some(place) }
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The bytes of the document that it is about, where that is known.
    pub fn span(&self) -> Option<Range<usize>> {
        self.place.as_ref().map(|place| place.span.clone())
    }
}

impl fmt::Display for TomlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { span, line, column, text }) = &self.place {
            writeln!(f, "TOML parse error at line {line}, column {column}")?;
            if text.len() <= SHOWN {
                let gutter = " ".repeat(line.to_string().len() + 1);
                let mark = "^".repeat(span.len().min(text.len().saturating_sub(column - 1)).max(1));
                writeln!(f, "{gutter}|\n{line} | {text}\n{gutter}|{}{mark}", " ".repeat(*column))?;
            }
        }
        writeln!(f, "{}", self.message)
    }
}

impl std::error::Error for TomlError {}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_librarys() {
        for text in ["a = 1\nb = ", "a = 1\nbc d = 3\n", "é = é\n", "x = \"", "[[a]]\n[a]\n", "\n\n= 3"] {
            let error = toml::from_str::<toml::Table>(text).unwrap_err();
            assert_eq!(TomlError::of_part(text, 0, &error).to_string(), error.to_string(), "{text:?}");
        }
    }

    #[test]
    fn places_are_those_in_the_document() {
        let (before, part) = ("a = 1\n[[b]]\n", "[[b]]\nc = d\n");
        let error = toml::from_str::<toml::Table>(part).unwrap_err();
        let error = TomlError::of_part(&format!("{before}{part}"), before.len(), &error);
        assert!(error.to_string().contains("line 4, column 5\n  |\n4 | c = d\n  |     ^"), "{error}");
        assert_eq!(error.span().unwrap().start, before.len() + 10);
    }
}
