//! What happens to the link of a port.

use std::fmt;

use crate::{Error, Reason};

/// What happened to the link of a [`Port`](super::Port). The libraries for C and Go tell the same six.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// Packets can flow.
    Up,
    /// No more; the port connects, or takes a new client, by itself.
    Down(Reason),
    /// This end took the link down, and keeps it down until it is
    /// [set up](super::Port::admin_up) again.
    AdminDown(Reason),
    /// An attempt failed: the peer, or we, turned the other away.
    Refused(Reason),
    /// There is no server, or none that can be connected to: [`Error::Denied`]. Told when it is news.
    Unreachable(Error),
    /// The server is out of descriptors or memory to take a client; tries again by itself.
    NotAccepting(Error),
}

impl fmt::Display for LinkEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up => f.write_str("link up"),
            Self::Down(reason) => write!(f, "link down: {reason}"),
            Self::AdminDown(reason) => write!(f, "link down: {reason}"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::Unreachable(error @ Error::Denied { .. }) => write!(f, "can't connect: {error}"),
            Self::Unreachable(error) => write!(f, "no server: {error}"),
            Self::NotAccepting(error) => write!(f, "can't accept a client: {error}"),
        }
    }
}
