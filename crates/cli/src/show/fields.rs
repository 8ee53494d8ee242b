//! Name and value, one below the other.

use std::fmt::Write;

use api::escape;

/// Lines of a block about one thing; empty values are left out.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(&'static str, String)>);

impl Fields {
    /// Appends one. Its value is escaped.
    pub(super) fn add(&mut self, name: &'static str, value: impl Into<String>) -> &mut Self {
        let mut value = value.into();
        escape::in_place(&mut value);
        self.0.push((name, value));
        self
    }

    /// The text, each line indented by two blanks.
    pub(super) fn render(&self) -> String {
        let filled = || self.0.iter().filter(|(_, value)| !value.is_empty());
        let width = filled().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for (name, value) in filled() {
            let _ = writeln!(text, "  {name:<width$}  {value}");
        }
        text
    }
}
