//! The interface of quiverd.
//!
//! - [`v1`]: the messages of `proto/quiver/v1`, and the gRPC client and server of the service `Quiver`. The comments
//!   in the protobuf files are the documentation of every message and field.
//! - [`text`]: the same messages as TOML and JSON, with a typing error answered by its name and place.
//! - [`escape`]: printing text that comes from outside.
//! - [`names`]: how objects are named (`interface pod-a`, `route default/10.0.0.0/8`), and walking a
//!   [`v1::Config`] object by object.
//! - [`client`]: connecting to the unix socket of a running quiverd.
#![forbid(unsafe_code)]

pub mod client;
pub mod escape;
pub mod names;
pub mod text;
pub mod v1;

/// Texts of every message, generated from the protobuf files.
mod texts {
    include!(concat!(env!("OUT_DIR"), "/texts.rs"));
}
