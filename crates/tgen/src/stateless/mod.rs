//! Stateless traffic: packets made from templates or replayed, and what became of them.
//!
//! | file | what |
//! |---|---|
//! | `stack`, `setting` | header stacks and fields, as profiles give them |
//! | `modifier` | which numbers a changing field takes |
//! | `size`, `rate` | lengths of frames, rates |
//! | `layout` | where fields and checksums lie, and what they weigh |
//! | `template` | a stream's frames, built once |
//! | `signature` | what payloads end with, so that a receiver knows them |
//! | `generator` | packets of templates, a burst at a time |
//! | `replay` | packets of a capture file |
//! | `pace`, `schedule`, `late` | when packets are due, and when it is too late for them |
//! | `receiver`, `sequence` | counting and checking what comes in |
//! | `stall` | times in which the loop did not come round |
//! | `lane`, `engine` | the loop on one core that sends and receives |

mod engine;
mod generator;
mod lane;
mod late;
mod layout;
mod modifier;
mod pace;
mod quoted;
mod rate;
mod receiver;
mod replay;
mod schedule;
mod sequence;
mod setting;
mod signature;
mod size;
mod stack;
mod stall;
mod standstill;
mod template;

pub use engine::{Outcome, Progress, run};
pub use generator::{BURST, Generator, Recipe};
pub use lane::{Lane, LaneError, LaneSent};
pub use layout::Layout;
pub use modifier::{Modifier, Progress as Order, Values, mix, seed};
pub use pace::Pace;
pub use rate::{MOST_PACKETS, Rate};
pub use receiver::{Check, Count, LaneCounts, LinkCounts, Observer};
pub use replay::{Recording, Replay, ReplayError};
pub use sequence::Tracker;
pub use setting::{Number, Setting};
pub use signature::{LEN as SIGNATURE_LEN, Mark, STAMPED_LEN, Signature};
pub use size::Size;
pub use stack::{Echo, Ethernet, Ipv4, Ipv6, Layer, StackError, Tcp, Udp, Vlan, Vxlan};
pub use stall::Stalled;
pub use template::Template;
