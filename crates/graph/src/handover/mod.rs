//! Packets that another worker is to go on with: flows belong to one worker, and so do the fragments of a packet.
//!
//! A node [hands a packet over](crate::Ctx::hand_over): its bytes are copied into a [`Train`] of the worker that it is for,
//! which departs at the end of the round. There the node [`handover`](crate::nodes::HANDOVER) takes the packets out and sends
//! each to the node that has attached itself under the key it was sent to.
//!
//! * [`exchange`] joins a number of workers: every ordered pair has a few trains that go to and fro between the two, so
//!   that memory is bounded and nothing is allocated once they have grown. No lock, no cache line written by two.
//! * [`Station`] is one worker's end. Where all trains to a worker are under way, the packet is refused and the node that
//!   wanted to hand it over drops it, with a reason: a worker that is stuck costs no other its memory.
//! * A bell wakes a worker that sleeps, and costs one load where it doesn't.
//!
//! [`Train`]: memory::packet::Train

mod bell;
mod station;

pub(crate) use station::Handed;
pub use station::{Full, Station, exchange};
