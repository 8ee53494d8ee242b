//! One worker's instance of the graph.

mod dispatch;
mod pending;
#[cfg(test)]
mod tests;

pub use dispatch::{Graph, MAX_VECTOR, RoundResult};
pub(crate) use pending::Pending;
