//! The control thread: the one owner of desired state, disk and dataplane.
//!
//! [`Controller`] is the sequence of a change: read, merge, judge, plan, write to disk, execute, commit, publish; and
//! back again from wherever something is refused. [`start`] runs it on its own thread and gives a [`Handle`] that any
//! task may use. What others want to see they get as a [`View`], a snapshot that costs the control thread nothing.

mod accept;
mod answer;
mod controller;
mod handle;
mod reconcile;
mod restore;
mod view;

pub use controller::{ApplyError, Controller};
pub use handle::{Gone, Handle, start};
pub use view::{Census, View};
