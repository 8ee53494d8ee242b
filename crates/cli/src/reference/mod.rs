//! What is made of the tree of commands: completion scripts, manual pages, `docs/reference/cli.md`.

pub(crate) mod candidates;
mod completion;
mod man;
mod markdown;

pub use completion::COMPLETION_VARIABLE;
pub(crate) use completion::{CompletionArgs, completion};
pub(crate) use man::{ManArgs, man};
pub use markdown::markdown;
pub(crate) use markdown::{ReferenceArgs, reference};
