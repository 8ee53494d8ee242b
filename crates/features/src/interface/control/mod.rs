//! Configuration of interfaces turned into tables: pure functions, called by the control thread.
//!
//! * [`Ends`]: which nodes an interface's packets come to and leave by; [`Ends::set`] puts that into the arcs.
//! * [`stack`]: joins what is stacked (sub-interfaces, cross-connects) and refuses what can't be.

mod ends;
mod stack;

pub use ends::{Ends, EndsError};
pub use stack::{StackError, stack};
