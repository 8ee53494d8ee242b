//! Lookup tables of the dataplane: pure data structures that know nothing of packets, workers or configuration.
//!
//! | module | question it answers | writers | readers |
//! |---|---|---|---|
//! | [`fib4`], [`fib6`] | address → next hop (longest prefix match) | one, in place | any, lock-free |
//! | [`mac`] | (bridge, MAC) → interface | any (learning) | any, lock-free |
//! | [`ecmp`] | flow hash → one of several next hops | builds arrays, holds none | – |
//! | [`classifier`] | flow → the first of many rules that it meets | one, by publication | any |
//! | [`session`] | (context, addresses, protocol, ports) → session, either direction | its worker | its worker |
//! | [`recent`] | was this flow seen of late? | any | any, lock-free |
//! | [`token_bucket`] | may this go out now? | its worker | – |
//! | [`policer`] | does this packet conform? | its worker, or any | – |
//! | [`timer_wheel`] | what is due? | its thread | – |
//!
//! [`backing`] has large tables lie on large pages, where the program sees to it.
//!
//! Two rules hold everywhere:
//!
//! * **A reader never waits** and never sees a mixture of two states of one entry. What a writer takes out of a
//!   table is put on a *retired* list and used again only after the owner of the table says that every reader has
//!   passed a quiescent state ([`fib::FibWriter::retire_mark`], [`fib::FibWriter::reclaim`]).
//! * **Time is an argument.** Nothing here reads a clock.

#![forbid(unsafe_code)]

pub mod backing;
pub mod classifier;
pub mod ecmp;
pub mod fib;
pub mod fib4;
pub mod fib6;
pub mod mac;
pub mod maglev;
pub mod policer;
pub mod recent;
pub mod session;
pub mod timer_wheel;
pub mod token_bucket;

mod chunked;
mod zeroed;
