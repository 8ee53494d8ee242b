//! The rings in shared memory: the data path of memif, and but for `io::ancillary` the only part of this crate with `unsafe`.
//!
//! | file | what |
//! |---|---|
//! | `cursor` | index arithmetic, pure; every distance clamped to the ring |
//! | `indices` | the three shared words of a ring and their memory ordering, generic so that loom can check it |
//! | `descriptor` | the 16 bytes of a descriptor |
//! | `view` | a ring at a checked place of a region |
//! | `slots` | whose word counts for where a slot's buffer lies: the peer's (server) or our own (client) |
//! | `pool`, `pooled` | the buffers of a trust group, and queues that exchange them instead of copying |
//! | `chain` | a packet in several buffers |
//! | `fault` | what a peer can do wrong, and the error that names whose queue it was |
//! | `counters`, `gauge` | what went by a queue, and how full its ring is, for whoever looks from outside |
//! | `rx`, `tx` | the queues: loops that are inlined into their caller together with its sink or source |
//! | `lines` | sending short packets from where they lie one after another |
//! | `packets` | the same loops for a dataplane's packet slots |
//! | `staged` | sending in two steps, where somebody else copies bodies |
//! | `quad` | four descriptors at a time, for packets like most |
//! | `event`, `signal` | eventfds that a peer can't make us wait for |
//! | `doorbell` | a thread of the link that signals and hears signals, so that what a peer makes these cost is no worker's loss |
//!
//! The client owns `head` and the server owns `tail` of every ring, whichever way packets flow. Both queues
//! reduce that to one cursor by adding a constant to what they read and write:
//!
//! | queue | reads | writes |
//! |---|---|---|
//! | server rx, server tx | head | tail |
//! | client rx | tail | head = released + ring size |
//! | client tx | tail + ring size | head |

#![allow(unsafe_code)]

mod chain;
mod counters;
mod cursor;
mod descriptor;
mod doorbell;
mod event;
mod fault;
mod gather;
mod gauge;
mod indices;
mod lines;
mod packets;
mod pool;
mod pooled;
mod quad;
mod rx;
#[cfg(all(test, not(miri), not(loom)))]
mod sandbox;
mod signal;
mod size;
mod slots;
mod staged;
mod tx;
mod view;

pub use counters::QueueCounters;
pub use cursor::IndexFault;
pub use doorbell::{DoorbellSettings, Signals};
pub use event::Event;
pub use fault::{Fault, QueueError, QueueName};
pub use gauge::RingGauge;
pub use lines::Lines;
pub use packets::PacketsSent;
pub use pool::Pool;
pub use rx::{Armed, RxQueue, RxSink};
pub use signal::signals_by_kernel;
pub use size::RingSize;
pub use tx::{Transmitted, TxQueue, TxSource};
pub use view::RingError;

// For tests that are a peer by hand: what is in the memory, not how this crate goes about it.
#[doc(hidden)]
pub use descriptor::{Descriptor, FLAG_NEXT};
#[doc(hidden)]
pub use view::{COOKIE, RING_ALIGNMENT, RING_HEADER, RingView};

pub(crate) use cursor::Cursor;
pub(crate) use doorbell::{BURST, Costs, Doorbell, FREE, Overrun, PERCENT, Remains, Tell, used};
pub(crate) use indices::{Endpoint, Indices};
pub(crate) use slots::Slots;
pub(crate) use view::Descriptors;

#[cfg(all(test, not(loom)))]
mod tests;
