//! What workers know of interfaces: a part of the tables, one entry per interface index.
//!
//! * [`Interfaces`], [`Interface`]: the table.
//! * [`SubInterfaces`]: VLAN sub-interfaces by tags.
//! * [`control`]: where an interface's packets begin and end, and which combinations there can't be.

pub mod control;
mod fits;
mod sub_interfaces;
mod table;
mod tally;

pub(crate) use fits::fits;
pub use sub_interfaces::SubInterfaces;
pub use table::{Interface, InterfaceAddress, Interfaces, Layer2, LinkMode, Rpf, VlanTags};
pub(crate) use tally::{Direction, Tally, received_by_group};
