//! What workers know of interfaces: a part of the tables, one entry per interface index.

mod table;

pub use table::{Interface, InterfaceAddress, Interfaces, Layer2, LinkMode, Rpf, VlanTags};
