//! Text fields of messages: names and reasons of fixed width.

use std::fmt;

/// Text that travels in a field of `N` bytes, of which the last is always NUL.
///
/// What comes from a peer is cut at the first NUL, and everything that could confuse a terminal or a log
/// (control characters, invalid UTF-8) is replaced, so that it may be printed as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Text<const N: usize>(String);

impl<const N: usize> Text<N> {
    /// As much of `text` as fits.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let clean = text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c });
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
        assert_eq!(Text::<4>::read(b"full").as_str(), "ful");
        assert_eq!(Text::<32>::read(&[0xff; 32]).as_str().chars().next(), Some('\u{fffd}'));
    }
}
