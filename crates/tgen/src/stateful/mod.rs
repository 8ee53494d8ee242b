//! Connections instead of packets: clients and servers in one process, a device under test between them.
//!
//! * [`options`], [`shape`], [`profile`]: what is wanted; the cases of CSIT by name.
//! * [`address`]: what differs between IPv4 and IPv6; all else is generic over it.
//! * [`packet`]: segments and datagrams, read and written as single lines.
//! * [`tcp`], [`udp`]: the state machines of both ends. They know neither links nor clocks.
//! * [`endpoint`]: what both protocols have in common for the loop; [`clients`]: what their opening sides have.
//! * [`side`]: one side's link: batches in, batches out.
//! * [`run`]: the loop.
//! * [`report`]: what came of it.
//! * [`replay`]: the packets of whole connections without state; [`rehearsal`] finds out which they are.

pub mod address;
pub mod clients;
pub mod clock;
pub mod counts;
pub mod endpoint;
pub mod endpoints;
pub mod ends;
pub mod interfaces;
pub mod mix;
pub mod options;
pub mod outbox;
pub mod packet;
pub mod profile;
pub mod rehearsal;
pub mod replay;
pub mod report;
pub mod run;
pub mod shape;
pub mod side;
pub mod tcp;
#[cfg(test)]
mod tests;
pub mod timers;
pub mod udp;
