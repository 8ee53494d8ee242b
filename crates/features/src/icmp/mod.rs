//! ICMP: how a node asks for an error to be sent ([`request`]).

mod request;

pub use request::{request, request_v4, request_v6, requested};
