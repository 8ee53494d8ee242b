//! Packets that another program has built.

use super::table::hex;
use std::collections::BTreeMap;

/// Packets by name, from lines of `name hexdigits`; lines that begin with `#` are comments.
#[derive(Clone, Debug, Default)]
pub struct Vectors(BTreeMap<&'static str, Vec<u8>>);

impl Vectors {
    /// Reads them.
    ///
    /// # Panics
    /// If a line isn't of that form or a name comes twice.
    #[must_use]
    pub fn read(text: &'static str) -> Self {
        let mut all = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, digits)) = line.split_once(' ') else { panic!("{line:?} is not `name hex`") };
            assert!(all.insert(name, hex(digits)).is_none(), "{name} comes twice");
        }
        Self(all)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }

    /// The packet of that name.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> Vec<u8> {
        self.0.get(name).cloned().unwrap_or_else(|| panic!("there is no vector {name}"))
    }
}
