//! memif interfaces: their sockets, served by a thread of its own, and the state of their links.
//!
//! * `handle`: [`Memifs`], what the engine has of it. Whatever is to be done with sockets is an order to the thread.
//! * `thread`: serves the sockets and tells the engine which links have come and gone. It holds no lock of the engine while
//!   it talks to peers, or makes the memory of a link.
//! * `sockets`: listeners and clients, each with a token of its own in one epoll set; `deadlines`: when they are due.
//! * `links`: what is known of links, counted and told; `news`: what a socket's events are to them; `quiet`: what peers can't flood the log with;
//!   `away`: who was turned away; `handshakes`: who is in the middle of one; `process`: whose process a peer is.
//! * `settings`: what the configuration says, as the memif library wants it; `accounts`: users and groups by name; `pools`: the buffers of
//!   trust groups; `doorbells`: where the threads run that signal peers.

mod accounts;
mod away;
mod deadlines;
mod doorbells;
mod handle;
mod handshakes;
mod links;
mod news;
mod pools;
mod process;
mod quiet;
mod settings;
mod sockets;
mod thread;

pub(super) use away::{Away, TurnedAway};
pub(super) use handle::Memifs;
pub(super) use handshakes::UnderWay;
pub(super) use links::{LinkChange, LinkState, Reasons};
pub(super) use process::Process;
pub(super) use thread::run;
