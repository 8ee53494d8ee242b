//! Intel Data Streaming Accelerator (DSA, PCI 8086:0b25), as the Linux driver `idxd` hands its work queues to programs.
//!
//! | file | what |
//! |---|---|
//! | `descriptor` | the 64 bytes of a work descriptor |
//! | `record` | the 32 bytes of a completion record |
//! | `portal` | the seam: a place that takes descriptors. The hardware's, or the model's |
//! | `hardware` | `/dev/dsa/wqX.Y`: opened, mapped, written to with MOVDIR64B or ENQCMD |
//! | `refusal` | why such a queue can't be opened, and what to do |
//! | `sysfs` | which queues there are, and which is near |
//! | `device` | a work queue that several channels share: room, retries, giving up |
//! | `channel` | the engine of one transmit queue: descriptors, batches, completion in order |
//! | `standing` | whether a queue is in use, why not, and when it is tried again |
//! | `probe` | whether a queue answers that is tried again |
//! | `counters` | what happened |
//!
//! Everything but `hardware` runs on [the model](crate::model) exactly as it does on a device. Sources: the kernel's
//! `include/uapi/linux/idxd.h` and `Documentation/ABI/stable/sysfs-driver-dma-idxd`; Intel's architecture specification (341204).

mod channel;
mod counters;
mod descriptor;
mod device;
pub mod hardware;
mod portal;
mod probe;
mod record;
mod refusal;
mod standing;
pub mod sysfs;

pub use channel::{CAPACITY, Channel};
pub use counters::Counts;
pub use descriptor::{Descriptor, Flags, Opcode};
pub use device::{Device, Limits};
pub use portal::{Accepted, Mode, Portal, SLOTS};
pub(crate) use record::words as record_words;
pub use record::{Outcome, Record, Status};
pub use refusal::OpenError;
pub use standing::{GivenUp, News, Pauses, Reason};
