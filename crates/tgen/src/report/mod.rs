//! The result of a run, for people and as JSON.
//!
//! | file | what |
//! |---|---|
//! | `result` | what is told, with the names that JSON has |
//! | `latency` | times under way: percentiles, and the histogram itself |
//! | `text` | the same in a few lines |
//! | `progress` | a line each second while it runs |
//! | `out` | how it gets to standard output and standard error |

mod latency;
mod out;
mod progress;
mod result;
mod text;

pub use latency::Latency;
pub use out::{print, say};
pub use progress::Ticker;
pub use result::{InterfaceReport, Report, StreamReport};
pub use text::ending;
