//! IPv6 (RFC 8200): header, extension headers, kinds of addresses (RFC 4291).

mod address;
mod extension;
mod header;
mod options;
mod validate;

pub use address::{
    ALL_NODES, ALL_ROUTERS, Ipv6Class, Ipv6Kind, MulticastScope, interface_id, link_local, solicited_node,
};
pub use extension::{
    ExtensionHeader, ExtensionSet, FragmentHeader, MAX_EXTENSIONS, UpperLayer, WalkError, walk,
    walk_to_authentication,
};
pub use header::Ipv6Header;
pub use options::{Ipv6Option, Ipv6Options, UnknownOption};
pub use validate::Ipv6Reason;
