//! What is wrong with an object.

use std::fmt;

use api::v1::{ObjectResult, Refused, object_result};

use super::Key;

/// What is wrong with a field of an object, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// Field at fault, "memif.ring_size"; empty if it isn't a single one.
    pub field: String,
    /// What is wrong.
    pub reason: String,
    /// What to do about it; empty if the reason says it all.
    pub remedy: String,
}

impl Flaw {
    /// A flaw of `field`.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into(), remedy: String::new() }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// Puts the field inside another one: "ring_size" becomes "memif.ring_size".
    #[must_use]
    pub fn inside(mut self, outer: &str) -> Self {
        self.field = if self.field.is_empty() { outer.into() } else { format!("{outer}.{}", self.field) };
        self
    }

    /// The flaw of the object `name` of `kind`, in the words of the API.
    pub fn refuse(self, object: api::v1::ObjectRef) -> ObjectResult {
        ObjectResult {
            object: Some(object),
            outcome: Some(object_result::Outcome::Refused(Refused {
                field: self.field,
                reason: self.reason,
                remedy: self.remedy,
            })),
            warnings: Vec::new(),
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(formatter, "{}: ", self.field)?;
        }
        formatter.write_str(&self.reason)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(formatter, "; {}", self.remedy) }
    }
}

impl std::error::Error for Flaw {}

/// A flaw and the object that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The object.
    pub key: Key,
    /// What is wrong with it.
    pub flaw: Flaw,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.key, self.flaw)
    }
}

impl std::error::Error for Refusal {}
