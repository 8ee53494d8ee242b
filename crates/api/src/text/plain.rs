//! TOML without characters that mislead.

use std::fmt::Write as _;

use toml::Value;

use crate::escape;

/// TOML in which all characters are plain: the same document. Where it has others its strings are written anew, each
/// with escapes.
pub(super) fn toml(document: String) -> String {
    if escape::lines(&document) == document {
        return document;
    }
    let mut plain = String::with_capacity(document.len() + 64);
    let mut rest = document.as_str();
    while let Some(at) = rest.find(['"', '\'']) {
        let (before, string) = rest.split_at(at);
        plain.push_str(before);
        let length = length(string);
        let (string, after) = string.split_at(length);
        plain.push_str(&rewritten(string));
        rest = after;
    }
    plain + rest
}

/// Bytes of the string that a text begins with.
fn length(text: &str) -> usize {
    let quote = text.get(..1).unwrap_or_default();
    let triple = quote.repeat(3);
    let mark = if text.starts_with(&triple) { &triple } else { quote };
    let mut at = mark.len();
    while let Some(rest) = text.get(at..) {
        if rest.starts_with(mark) {
            // Up to two quotation marks may stand before the last three.
            let more = rest.bytes().skip(3).take(2).take_while(|byte| quote.as_bytes() == [*byte]).count();
            return at + mark.len() + if mark.len() == 3 { more } else { 0 };
        }
        let escaped = usize::from(quote == "\"" && rest.starts_with('\\'));
        let next: usize = rest.chars().take(1 + escaped).map(char::len_utf8).sum();
        if next == 0 {
            break;
        }
        at += next;
    }
    text.len()
}

/// A string in quotation marks and escapes, where it needs them.
fn rewritten(string: &str) -> String {
    if escape::lines(string) == string {
        return string.to_owned();
    }
    let parsed = format!("x = {string}").parse::<toml::Table>();
    let Some(Value::String(text)) = parsed.ok().and_then(|mut table| table.remove("x")) else {
        return escape::lines(string).into_owned();
    };
    let mut written = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => written.extend(['\\', character]),
            _ if escape::text(character.encode_utf8(&mut [0; 4])).len() == character.len_utf8() => {
                written.push(character);
            }
            _ => {
                let _ = write!(written, "\\U{:08x}", u32::from(character));
            }
        }
    }
    written + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_the_same_document() {
        for text in [
            "plain",
            "\u{202e}evil",
            "\u{202e}\"quoted\"",
            "\u{202e}'quoted'",
            "both ' and \" and \\ \u{202e}",
            "lines\nand \u{202e}\n'''and\"\"\" \u{1b}",
            "\\\u{2066}\\\"",
            "\"\"\"\u{e0041}'''",
        ] {
            let mut table = toml::Table::new();
            for (key, value) in [("a", "first"), ("b", text), ("c", "\"last'")] {
                table.insert(key.into(), Value::String(value.into()));
            }
            let plain = toml(toml::to_string(&table).unwrap());
            assert_eq!(escape::lines(&plain), plain);
            assert_eq!(plain.parse::<toml::Table>().unwrap(), table, "{plain}");
        }
    }
}
