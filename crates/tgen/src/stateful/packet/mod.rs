//! Packets of conversations: read from a frame's first line, written as one line and what follows.
//!
//! A frame's headers lie in its first 64 bytes, so both directions move whole lines: [`Line`] is what is read and
//! written, in big-endian words. [`Segment`] (TCP) and [`Datagram`] (UDP) are what the state machines see.

mod arp;
mod checksum;
mod datagram;
mod frame;
mod segment;

pub use arp::{ARP_LEN, answer};
pub use checksum::{Payload, checksum_is_right, fold};
pub use datagram::{Datagram, TAG_LEN};
pub use frame::{Frame, Framing, HEADERS_TCP, HEADERS_UDP, LINE, Line, Refused, Wire};
pub use segment::{Segment, mss_option};
