//! Shallow virtual reassembly: fragments stay as they are, and all of a datagram belong to the session that its first one tells.
//!
//! * [`Pieces`]: which part of which datagram a packet is, for both IP versions, and what its ports are once they are known.
//! * `datagrams`: what first fragments have said, and fragments that came before theirs: bounded for each interface, in number, bytes and time.
//! * `node`: the nodes `ip4-sv-reassembly` and `ip6-sv-reassembly`, which packets visit between two looks of the node that finds sessions.
//!
//! What a fragment without ports has then is in its metadata ([`Ports`]), behind [`Flags::FRAGMENT`](graph::packet::Flags::FRAGMENT).

mod datagrams;
mod ip4_sv_reassembly;
mod ip6_sv_reassembly;
mod node;
mod piece;

pub(super) use datagrams::TIMEOUT;
pub(super) use piece::seen;
pub(crate) use piece::{Piece, Pieces};

use graph::NodeSpec;

/// The folder's nodes.
pub(super) const NODES: [NodeSpec; 2] = [ip4_sv_reassembly::NODE, ip6_sv_reassembly::NODE];
