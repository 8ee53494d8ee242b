//! Messages, client and server generated from `proto/quiver/v1`.
#![allow(missing_docs, clippy::all, unused_qualifications)] // generated; the documentation is in the protobuf files

tonic::include_proto!("quiver.v1");
