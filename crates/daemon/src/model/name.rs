//! Names of objects.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

/// Most characters a name may have.
pub const MAX_NAME: usize = 63;

static DEFAULT_VRF: LazyLock<Name> = LazyLock::new(|| Name(Arc::from(api::names::DEFAULT_VRF)));

/// Name of an object; shared, so that a clone costs no memory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks that `text` may be a name: 1 to 63 characters of `[A-Za-z0-9_.:@-]`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is empty".into());
        }
        if text.len() > MAX_NAME {
            return Err(format!("has {} characters; {MAX_NAME} are allowed", text.chars().count()));
        }
        match text.chars().find(|character| !Self::allows(*character)) {
            Some(character) => Err(format!("contains {character:?}; allowed are letters, digits and _.:@-")),
            None => Ok(Self(Arc::from(text))),
        }
    }

    /// Name of the VRF that always exists.
    pub fn default_vrf() -> Self {
        DEFAULT_VRF.clone()
    }

    fn allows(character: char) -> bool {
        character.is_ascii_alphanumeric() || "_.:@-".contains(character)
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_without_surprises() {
        for good in ["a", "pod-a", "uplink.100", "ns:pod@eth0", "_x", &"x".repeat(63)] {
            assert_eq!(&*Name::new(good).unwrap(), good);
        }
        for bad in ["", "a b", "a/b", "ä", "a\n", &"x".repeat(64)] {
            assert!(Name::new(bad).is_err(), "{bad:?}");
        }
    }
}
