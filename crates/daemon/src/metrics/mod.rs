//! Metrics for Prometheus, over HTTP.
//!
//! A scrape reads the same counters as the CLI; nothing is counted twice, and workers never hear of it.

mod adjacencies;
mod collect;
mod copying;
mod exposition;
mod listeners;
mod pages;
mod process;
mod sessions;

pub use collect::Collector;
pub use exposition::{Exposition, Kind};
pub use pages::{HealthPages, MetricsPages};
