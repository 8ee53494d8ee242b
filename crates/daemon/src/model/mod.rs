//! The desired state: what shall exist, and what follows from it.
//!
//! - [`spec`]: objects of each kind, checked, with all defaults filled in; [`fields`] reads single fields;
//!   a [`Flaw`] names the field that is wrong and what to do about it.
//! - [`Batch`]: what one request wants; [`Model`] is what all of them together made.
//!   [`Model::merge`] puts a batch in and gives an [`Undo`] that takes it out again.
//! - [`conflicts`]: rules that two objects break together.
//! - [`Readiness`]: which objects can be in force now, and what the others wait for. Dependencies never make an
//!   object wrong, only wait; so objects may come in any order, and one that loses what it stands on waits again.
//! - [`diff`]: what a batch changes, field by field.

mod batch;
pub mod conflicts;
mod connected;
pub mod diff;
pub mod fields;
mod flaw;
mod key;
mod mac;
mod name;
mod paths;
mod readiness;
mod session_shares;
pub mod spec;
mod stable_mac;
mod standing;
mod store;
mod undo;

pub use batch::Batch;
pub use connected::Connected;
pub use flaw::{Flaw, Refusal};
pub use key::{Key, NeighborKey, RouteKey};
pub use mac::{Mac, MacError};
pub use name::{MAX_NAME, Name};
pub use paths::{PathStanding, ResolvedHop, ResolvedPaths, ResolvedSplit, Via};
pub use readiness::{Failures, Readiness};
pub use session_shares::SessionShares;
pub use standing::{Standing, Waiting};
pub use store::{Model, RouteTable, Stored, StoredRoute};
pub use undo::Undo;
