//! Memory that packets live in.
//!
//! * [`region`]: mappings that are shared with peers: memory files with huge pages and seals, every range checked
//!   once before use.
//! * [`packet`]: a worker's private packet slots, whose bodies stay in the sender's memory until they are copied,
//!   once, to the receiver's.
//! * [`clock`]: the cycle counter that node costs are measured with.
//! * [`heap`]: giving back what large changes of configuration took.
//! * [`schedule`]: threads that run as soon as they have something to do.
//! * [`simd`]: the instruction-set tiers that hot loops are compiled for.
//!
//! This is where Quiver keeps its unsafe code; what is public here is safe unless it says otherwise.

pub mod clock;
pub mod heap;
pub mod packet;
pub mod region;
pub mod schedule;
pub mod simd;
