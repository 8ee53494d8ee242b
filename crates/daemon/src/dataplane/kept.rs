//! Sessions that outlive the process.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// A session to a VIP, as its successor in another process needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptSession {
    /// Its tenant, by name.
    pub tenant: String,
    /// The interface that its first packet came by, by name.
    pub interface: String,
    /// Its address space.
    pub context: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Who asks, and whom.
    pub endpoints: [SocketAddr; 2],
    /// Who is seen by the backend, and the backend.
    pub beyond: [SocketAddr; 2],
    /// Its packets go to the backend as they are.
    pub direct: bool,
    /// One side of its connection has ended.
    pub closing: bool,
    /// TCP flags that were seen, from the initiator and to it.
    pub tcp_flags: [u8; 2],
}
