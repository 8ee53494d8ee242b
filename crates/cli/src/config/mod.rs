//! The desired state: apply, diff, get, delete.
//!
//! - `input`: files with objects, their form found by their content, errors with line and column.
//! - `kind`: the words by which people name kinds, and `kind/name`.
//! - `parts`: batches too large for one message.
//! - `report`: what became of a batch.
//! - `rows`: objects as tables.

mod apply;
mod delete;
mod diff;
mod get;
mod input;
mod kind;
mod report;
mod rows;

pub(crate) use apply::{ApplyArgs, apply};
pub(crate) use delete::{DeleteArgs, delete};
pub(crate) use diff::{DiffArgs, diff};
pub(crate) use get::{GetArgs, get, objects};
pub use input::InputError;
pub(crate) use kind::parse_kind;
