//! memif: packets over shared memory between two processes that need not trust each other.
//!
//! The **client** (slave) owns the memory: a memfd with rings and buffers. The **server** (master) listens on
//! a unix socket, maps the client's memory and copies packets in and out of it. Every value the other side
//! can write, on the socket or in shared memory, is checked before it is used; a peer that breaks the
//! protocol costs one typed error and its own connection, nothing else.
//!
//! - [`app`]: the simple way: packets as slices.
//! - [`ring`]: the data path: [`RxQueue`] and [`TxQueue`], the same types for both roles.
//! - [`control`]: the control channel: messages and the state machines of both roles, without I/O.
//! - [`io`]: the same on real sockets: [`Listener`] and [`Client`], pollable, without a runtime.
//! - [`layout`]: where a client puts rings and buffers in its region.
//! - [`Connection`]: the queues of one established connection; [`in_process`] makes a connected pair without
//!   a socket.

#![deny(unsafe_code)]

pub mod app;
pub mod control;
pub mod io;
pub mod layout;
pub mod ring;

mod connection;
mod error;
mod in_process;

pub use connection::{Connection, Peer, Role};
pub use control::{Admission, ClientConfig, Mode, QueueConfig, Reason, Refusal, Secret, ServerConfig};
pub use error::{Error, InterfaceError};
pub use in_process::in_process;
pub use io::{Address, Client, ClientEvent, ClientTiming, Listener, ListenerSettings, ServerEvent};
pub use ring::{Fault, Lines, Pool, QueueError, QueueName, RingSize, RxQueue, RxSink, TxQueue, TxSource};

/// The regions of a connection and the checked ranges that packets are handed over in.
pub use memory::region;
