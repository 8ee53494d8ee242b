//! Ports: ways in and out of the graph.

pub mod memif;
