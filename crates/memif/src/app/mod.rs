//! The simple way for an application: packets as slices of bytes, copied in and out.
//!
//! [`Port`] is one interface, client or server, with its control channel: wait, receive a [`Batch`], send
//! slices. It sleeps while there is nothing to do; an application with an event loop of its own (tokio, mio, epoll) watches
//! [`Port::fd`] and calls [`Port::poll`] (`examples/async_echo.rs`). Applications that must not copy, or that have a thread per
//! queue, use [`RxQueue::receive`] and [`TxQueue::transmit`] themselves.
//!
//! ```no_run
//! use memif::{Address, ClientConfig, ClientTiming};
//! use memif::app::{Batch, Port};
//!
//! let address = Address::path("/run/memif.sock");
//! let mut port = Port::client(address, ClientConfig::default(), ClientTiming::default())?;
//! let mut batch = Batch::new(256);
//! loop {
//!     for event in port.wait(None)? {
//!         eprintln!("{event}");
//!     }
//!     while port.receive(&mut batch)? > 0 {
//!         port.send(&batch.packets().collect::<Vec<_>>())?; // straight back
//!     }
//! }
//! # Ok::<(), memif::InterfaceError>(())
//! ```

mod batch;
mod event;
mod port;

#[cfg(doc)]
use crate::{RxQueue, TxQueue};

pub use batch::Batch;
pub use event::LinkEvent;
pub use port::{Port, Progress};
