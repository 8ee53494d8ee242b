//! Packet slots: where a packet lives while the graph works on it.
//!
//! A slot is one cache line, [`Meta`] and where the body lies, and a private [head area](HEAD_AREA). Only the first [`HEAD`] bytes of a
//! packet are copied in; what follows, the *body*, stays in the memory it came in and is held as checked segments.
//!
//! Slots live for one **round** (receive, dispatch, transmit): [`Packets::end_round`] frees all of them at once and
//! lets go of the memory that bodies lay in. What must live longer becomes an [`OwnedPacket`].

mod alike;
mod body;
mod loan;
mod meta;
mod output;
mod owned;
mod receive;
mod scratch;
mod shape;
mod slot;
mod slots;
mod train;
mod vector;

pub use alike::Alike;
pub use loan::Loan;
pub use meta::{Flags, Gso, Meta, Offload};
pub use output::{Bodies, Pieces};
pub use owned::OwnedPacket;
pub use receive::Burst;
pub use shape::{Field, Shape};
pub use slots::{HEAD, HEAD_AREA, HEADROOM, NoMemory, NoSlot, Packets, SLOTS, SlotId};
pub use train::Train;
pub use vector::Vector;
