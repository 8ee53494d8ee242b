//! quiverd: desired state in, packets out.
#![forbid(unsafe_code)]

pub mod control;
pub mod dataplane;
pub mod model;
pub mod reconcile;
pub mod state;
