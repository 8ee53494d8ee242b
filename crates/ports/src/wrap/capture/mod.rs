//! Copies of packets for somebody who looks on.
//!
//! A [`CapturePoint`] stands at all queues of a process: [`CaptureRx`] and [`CaptureTx`] around each queue, a
//! [`CaptureDrops`] in each worker's graph. While nobody looks on that costs a load per vector. [`CapturePoint::start`]
//! gives a [`CaptureReader`] what it asks for; dropping the reader ends that.
//!
//! A worker copies what it sees into a segment of memory of its own, which the reader reads meanwhile: nothing is shared
//! per packet. It never waits for a reader: what doesn't fit isn't captured, and counted ([`CaptureReader::missed`]).
//! All captures together have a limit of memory, and each has a share of it. Capturing shows every packet, GSO
//! super-frames as such.

mod budget;
mod eye;
mod file;
mod point;
mod queues;
mod reader;
mod segment;

pub use file::{CaptureFile, CaptureFileError};
pub use point::{CaptureOptions, CapturePoint, DEFAULT_LIMIT, NoCapture};
pub use queues::{CaptureDrops, CaptureRx, CaptureTx};
pub use reader::{CaptureReader, CapturedPacket, Seen};
