//! Text fields of messages: names and reasons of fixed width.

use std::fmt;

/// Text that travels in a field of `N` bytes, of which the last is always NUL.
///
/// What comes from a peer is cut at the first NUL, and everything that could confuse a terminal, a log or who reads it
/// (control characters, invalid UTF-8, what isn't seen or changes how the text around it is shown) is replaced, so that
/// it may be printed as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Text<const N: usize>(String);

impl<const N: usize> Text<N> {
    /// As much of `text` as fits.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let clean = text.chars().map(|c| if misleads(c) { char::REPLACEMENT_CHARACTER } else { c });
        let mut cut = String::new();
        for c in clean {
            if cut.len() + c.len_utf8() >= N {
                break;
            }
            cut.push(c);
        }
        Self(cut)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn read(field: &[u8]) -> Self {
        let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
        Self::new(&String::from_utf8_lossy(&field[..end]))
    }

    pub(super) fn write(&self, field: &mut [u8]) {
        for (to, from) in field.iter_mut().zip(self.0.as_bytes()) {
            *to = *from;
        }
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const N: usize> From<&str> for Text<N> {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// Whether a character would make text look like another one, or like none. The same ones are replaced by all of our libraries.
fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}'     // soft hyphen, Arabic letter mark, Mongolian vowel separator
            | '\u{200b}'..='\u{200f}'             // zero width, marks of direction
            | '\u{2028}'..='\u{202e}'             // separators of lines and paragraphs, embeddings, overrides
            | '\u{2060}'..='\u{206f}'             // joiners, invisible operators, isolates
            | '\u{feff}'                          // byte order mark
            | '\u{fff9}'..='\u{fffb}'             // interlinear annotation
            | '\u{e0000}'..='\u{e007f}') // tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_cut_to_fit_at_a_character() {
        assert_eq!(Text::<8>::new("1234567").as_str(), "1234567");
        assert_eq!(Text::<8>::new("12345678").as_str(), "1234567");
        assert_eq!(Text::<8>::new("123456é").as_str(), "123456");
    }

    #[test]
    fn what_a_peer_sends_is_harmless_to_print() {
        assert_eq!(Text::<32>::read(b"eth0\0garbage").as_str(), "eth0");
        assert_eq!(Text::<32>::read(b"a\x1b[2J\nb").as_str(), "a\u{fffd}[2J\u{fffd}b");
        for hidden in
            "\u{202e}\u{2066}\u{2069}\u{2028}\u{2029}\u{200b}\u{200f}\u{feff}\u{61c}\u{85}\u{e0041}".chars()
        {
            let text = format!("a{hidden}b");
            assert_eq!(
                Text::<32>::read(text.as_bytes()).as_str(),
                "a\u{fffd}b",
                "{}",
                hidden.escape_unicode()
            );
        }
        assert_eq!(Text::<32>::read("Ω→日本".as_bytes()).as_str(), "Ω→日本");
        assert_eq!(Text::<4>::read(b"full").as_str(), "ful");
        assert_eq!(Text::<32>::read(&[0xff; 32]).as_str().chars().next(), Some('\u{fffd}'));
    }
}
