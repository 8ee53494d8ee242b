//! Which of many ordered rules is the first that a flow meets: prefixes and sets of addresses, ports, protocol, TCP flags.
//!
//! * [`Prefixes`]: address → the **terms** that it meets. A term is a number for "a source (or destination) is one of these": a prefix, or a
//!   set of them, however large. One table for all lists of rules, changed a member at a time; lists know terms only. Of a table's terms, those are looked at
//!   that the list has which is asked.
//! * [`Rules`]: one ordered list. A flow meets few of a list's terms and few of its port ranges: one probe for each combination of
//!   them that the list has, none for those that can't beat what was found.
//! * `ports`: port → the ranges that it is in.
//!
//! This is tuple space search (Srinivasan, Suri, Varghese: "Packet Classification using Tuple Space Search", SIGCOMM 1999) with tuples of what was met in
//! place of lengths, and with their priorities as a bound.

mod ports;
mod prefixes;
mod rules;
#[cfg(test)]
mod tests;

pub use ports::PortRange;
pub use prefixes::{ANY, Behind, Prefix, Prefixes, Term};
pub use rules::{Flags, Flow, Rule, Rules, Scratch};
