//! Escapes for text that comes from outside: peers, operators, pods, packets.
//!
//! Printed as it is, such text could move the cursor of a terminal, begin a line of its own, or show other words than it
//! has. Everything that prints escapes: the log and metrics of quiverd, and all output of `quiver`. What is escaped
//! already stays as it is.
//!
//! | text | printed |
//! |---|---|
//! | ESC, other control characters | `\x1b`, `\n`, `\r`, `\t`, `\u{85}` |
//! | marks of direction, zero-width and unassigned characters, combining marks | `\u{202e}` |
//! | bytes that aren't UTF-8 | `\xff` |

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Texts of a message, which `api` generates for every message.
pub trait Texts {
    /// Escapes all of them.
    fn escape(&mut self);
}

/// Text without anything that changes how the text around it is shown.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    text.chars().for_each(|character| push(&mut escaped, character));
    Cow::Owned(escaped)
}

/// The same for text of several lines, which stay such.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    if text.chars().all(|character| character == '\n' || is_plain(character)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if character == '\n' { escaped.push('\n') } else { push(&mut escaped, character) }
    }
    Cow::Owned(escaped)
}

/// The same for bytes that may not be UTF-8.
#[must_use]
pub fn bytes(bytes: &[u8]) -> String {
    let mut escaped = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        escaped.push_str(&text(chunk.valid()));
        for byte in chunk.invalid() {
            let _ = write!(escaped, "\\x{byte:02x}");
        }
    }
    escaped
}

/// The same for a path.
#[must_use]
pub fn path(path: &Path) -> String {
    bytes(path.as_os_str().as_bytes())
}

/// Escapes a text in its place.
pub fn in_place(place: &mut String) {
    if let Cow::Owned(escaped) = text(place) {
        *place = escaped;
    }
}

/// Escapes a text of several lines in its place.
pub fn lines_in_place(place: &mut String) {
    if let Cow::Owned(escaped) = lines(place) {
        *place = escaped;
    }
}

/// A value of a line such as `key=value`: as it is where it is a plain word or in quotation marks, else in such, so that it
/// can't pass for further keys.
#[must_use]
pub fn value(value: &str) -> Cow<'_, str> {
    let is_word = |character: char| is_plain(character) && !matches!(character, ' ' | '"' | '=');
    if !value.is_empty() && value.chars().all(is_word) || is_quoted(value) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(quoted(value))
}

/// Whether a text is one value in quotation marks, as [`quoted`] and the standard library's `Debug` write it.
fn is_quoted(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else { return false };
    let mut escaped = false;
    for character in inner.chars() {
        match (character, escaped) {
            ('"', false) => return false,
            ('\\', false) => escaped = true,
            _ if !is_plain(character) => return false,
            _ => escaped = false,
        }
    }
    !escaped
}

/// A text in quotation marks, with escapes.
#[must_use]
pub fn quoted(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 16);
    quoted.push('"');
    for character in value.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        push(&mut quoted, character);
    }
    quoted.push('"');
    quoted
}

/// JSON in which all characters are plain: the same document.
#[must_use]
pub fn json(document: &str) -> Cow<'_, str> {
    if document.chars().all(|character| character == '\n' || is_plain(character)) {
        return Cow::Borrowed(document);
    }
    let mut escaped = String::with_capacity(document.len() + 16);
    for character in document.chars() {
        // Line breaks stand between values; within them JSON has no raw control character.
        if character == '\n' || is_plain(character) {
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character shows as itself, and nothing else by it.
fn is_plain(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\0'..='\u{9f}' => false,
        // The standard library escapes all that isn't printed, and what joins the character before it.
        _ => character.escape_debug().len() == 1,
    }
}

fn push(to: &mut String, character: char) {
    // Writing to a String can't fail.
    let _ = match character {
        _ if is_plain(character) => {
            to.push(character);
            Ok(())
        }
        '\n' => to.write_str("\\n"),
        '\r' => to.write_str("\\r"),
        '\t' => to.write_str("\\t"),
        '\0'..='\x7f' => write!(to, "\\x{:02x}", u32::from(character)),
        _ => write!(to, "\\u{{{:x}}}", u32::from(character)),
    };
}

/// A value that is escaped as it is printed.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<T>(pub T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(&self.0.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Things that terminals and log readers are fooled by, and how they show.
    const CASES: [(&str, &str); 12] = [
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\nb\r\tc\0", "a\\nb\\r\\tc\\x00"),
        ("\x7f\u{80}\u{9b}31m\u{9f}", "\\x7f\\u{80}\\u{9b}31m\\u{9f}"),
        ("\u{202a}\u{202e}\u{2066}\u{2069}", "\\u{202a}\\u{202e}\\u{2066}\\u{2069}"),
        ("\u{61c}\u{200e}\u{200f}", "\\u{61c}\\u{200e}\\u{200f}"),
        ("\u{200b}\u{200d}\u{2060}\u{feff}\u{ad}", "\\u{200b}\\u{200d}\\u{2060}\\u{feff}\\u{ad}"),
        ("\u{2028}\u{2029}\u{85}", "\\u{2028}\\u{2029}\\u{85}"),
        ("\u{e0041}\u{fff9}\u{fdd0}\u{e000}", "\\u{e0041}\\u{fff9}\\u{fdd0}\\u{e000}"),
        ("a\u{300}\u{fe0f}", "a\\u{300}\\u{fe0f}"),
        ("pod-a /run/höhe → 日本 \"x\" 'y' \\z", "pod-a /run/höhe → 日本 \"x\" 'y' \\z"),
        ("\u{a0}\u{3000}", "\\u{a0}\\u{3000}"),
        ("", ""),
    ];

    #[test]
    fn what_misleads_is_escaped_and_what_is_escaped_stays() {
        for (raw, shown) in CASES {
            assert_eq!(text(raw), shown);
            assert_eq!(text(shown), shown);
            assert_eq!(bytes(raw.as_bytes()), shown);
            assert_eq!(Escaped(raw).to_string(), shown);
            let mut place = raw.to_owned();
            in_place(&mut place);
            assert_eq!(place, shown);
        }
        assert_eq!(bytes(b"a\xff\xc3b\x1b"), "a\\xff\\xc3b\\x1b");
        assert_eq!(path(Path::new(std::ffi::OsStr::from_bytes(b"/a\xff\n"))), "/a\\xff\\n");
        assert_eq!(lines("a\nb\x1b\r\n"), "a\nb\\x1b\\r\n");
    }

    #[test]
    fn a_value_is_one_word_or_quoted() {
        for (raw, shown) in [
            ("web", "web"),
            ("/run/höhe/a\\b", "/run/höhe/a\\b"),
            ("", "\"\""),
            ("gone user=admin", "\"gone user=admin\""),
            ("user=admin", "\"user=admin\""),
            ("x\" user=admin y=\"", "\"x\\\" user=admin y=\\\"\""),
            ("x\\\" user=admin", "\"x\\\\\\\" user=admin\""),
            ("a\nWARN quiverd", "\"a\\nWARN quiverd\""),
            ("a\u{2003}b=c", "\"a\\u{2003}b=c\""),
            ("\"a b\"", "\"a b\""),
            ("\"a\\\" b\\\\\"", "\"a\\\" b\\\\\""),
            ("\"a\" b=\"c\"", "\"\\\"a\\\" b=\\\"c\\\"\""),
            ("\"a\\\"", "\"\\\"a\\\\\\\"\""),
            ("\"", "\"\\\"\""),
            ("\"a\nb\"", "\"\\\"a\\nb\\\"\""),
        ] {
            assert_eq!(value(raw), shown);
        }
    }

    #[test]
    fn json_stays_the_same_document() {
        for (raw, _) in CASES {
            let document = serde_json::to_string_pretty(&[raw, "plain"]).unwrap();
            let escaped = json(&document);
            assert!(escaped.chars().all(|character| character == '\n' || is_plain(character)), "{escaped}");
            assert_eq!(serde_json::from_str::<Vec<String>>(&escaped).unwrap(), [raw, "plain"]);
        }
        assert_eq!(json("{\"a\":\"\u{202e}\u{e0041}\"}\n"), "{\"a\":\"\\u202e\\udb40\\udc41\"}\n");
    }
}
