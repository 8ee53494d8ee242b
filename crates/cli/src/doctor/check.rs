//! The result of one check.

use serde::Serialize;

/// How good it is, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// Nothing to do.
    Ok,
    /// Works, but slower or only in part.
    Warn,
    /// quiverd can't do its work.
    Fail,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What was looked at.
    pub(super) name: &'static str,
    /// How good it is.
    pub(super) verdict: Verdict,
    /// What was found.
    pub(super) found: String,
    /// What that means.
    pub(super) meaning: String,
    /// What to do; empty: nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) remedy: String,
}

impl Check {
    /// Nothing to do.
    pub(super) fn ok(name: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Ok,
            found: found.into(),
            meaning: meaning.into(),
            remedy: String::new(),
        }
    }

    /// Works, but slower or only in part.
    pub(super) fn warn(name: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warn, ..Self::ok(name, found, meaning) }
    }

    /// quiverd can't do its work.
    pub(super) fn fail(name: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, ..Self::ok(name, found, meaning) }
    }

    /// What to do.
    pub(super) fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}
