//! The shared secret of a connection.

use std::fmt;

/// Bytes of the secret's field.
pub(super) const SECRET_LEN: usize = 24;

/// A secret of up to 24 bytes. Never printed; compared in time that doesn't depend on where a guess is wrong.
#[derive(Clone, Copy)]
pub struct Secret([u8; SECRET_LEN]);

/// A secret that can't be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a memif secret has 1 to 24 bytes and no NUL")]
pub struct BadSecret;

impl Secret {
    /// # Errors
    /// [`BadSecret`] if it is empty, longer than 24 bytes or contains a NUL.
    pub fn new(secret: &str) -> Result<Self, BadSecret> {
        let bytes = secret.as_bytes();
        if bytes.is_empty() || bytes.len() > SECRET_LEN || bytes.contains(&0) {
            return Err(BadSecret);
        }
        let mut field = [0; SECRET_LEN];
        field[..bytes.len()].copy_from_slice(bytes);
        Ok(Self(field))
    }

    /// From a message: a C string, so that what follows a NUL doesn't count. `None` if empty.
    pub(super) fn read(mut field: [u8; SECRET_LEN]) -> Option<Self> {
        let end = field.iter().position(|b| *b == 0).unwrap_or(SECRET_LEN);
        field[end..].fill(0);
        (end > 0).then_some(Self(field))
    }

    pub(super) const fn bytes(&self) -> &[u8; SECRET_LEN] {
        &self.0
    }

    /// Whether both are the same, looking at all bytes in any case.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        let mut difference = 0;
        for (a, b) in self.0.iter().zip(&other.0) {
            // Hides from the optimiser that nothing can change any more once a bit is set.
            difference = std::hint::black_box(difference | (a ^ b));
        }
        difference == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_secrets_match() {
        let secret = Secret::new("quiver").unwrap();
        for (other, same) in [("quiver", true), ("quive", false), ("quiverr", false), ("Quiver", false)] {
            assert_eq!(secret.matches(&Secret::new(other).unwrap()), same, "{other}");
        }
    }

    #[test]
    fn a_full_field_needs_no_nul() {
        let longest = "123456789012345678901234";
        let read = Secret::read(*Secret::new(longest).unwrap().bytes()).unwrap();
        assert!(read.matches(&Secret::new(longest).unwrap()));
    }

    #[test]
    fn what_follows_a_nul_does_not_count() {
        let mut field = *Secret::new("abc").unwrap().bytes();
        field[4] = b'x';
        assert!(Secret::read(field).unwrap().matches(&Secret::new("abc").unwrap()));
        assert!(Secret::read([0; 24]).is_none());
    }

    #[test]
    fn bad_ones_are_refused_and_none_is_printed() {
        for bad in ["", "1234567890123456789012345", "a\0b"] {
            assert!(Secret::new(bad).is_err());
        }
        assert!(!format!("{:?}", Secret::new("visible").unwrap()).contains("visible"));
    }
}
