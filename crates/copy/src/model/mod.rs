//! A software model of a DSA work queue: a thread of its own that reads descriptors from a queue, does what they say, and writes completion
//! records, bit by bit as the device does. It goes wrong as it is asked to: pages that aren't there, or come late, errors, a full queue, delays,
//! descriptors of a batch out of order, or no answer at all.
//!
//! It shows that what we do is right, and nothing about speed: it is the CPU that copies.
//!
//! | file | what |
//! |---|---|
//! | `options` | what the model can do, and how it goes wrong |
//! | `queue` | the portal: a queue of descriptors |
//! | `device` | the thread: what a descriptor does |
//! | `memory` | the process's memory as a device meets it |
//! | `chance` | when it goes wrong |

mod chance;
mod device;
mod memory;
mod options;
mod queue;

pub use options::{ModelOptions, Troubles};
pub use queue::{Model, Watch};
