//! Packets of conversations: read from a frame's first line, written as one line and what follows.
//!
//! A frame's headers lie in its first 64 bytes (IPv6: 80), so both directions move whole lines: [`Line`] is what is read and
//! written, in big-endian words. [`Segment`] (TCP) and [`Datagram`] (UDP) are what the state machines see.

pub mod arp;
mod checksum;
pub mod datagram;
pub mod datagram6;
mod frame;
mod ip4;
mod ip6;
mod line;
pub mod ndp;
pub mod segment;
pub mod segment6;

pub use checksum::{Payload, checksum_is_right, fold};
pub use datagram::{Datagram, TAG_LEN};
pub use frame::{Frame, Framing, LineOf, Refused, TCP, UDP, Wire};
pub use line::{Head, LINE, Line};
pub use segment::{Segment, mss_option};
