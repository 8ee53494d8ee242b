//! How a listener is set, and what it tells.

use std::time::{Duration, Instant};

use super::Credentials;
use crate::{Connection, Error, Reason};

/// How a [`Listener`](super::Listener) behaves, besides its interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Name of this application, told to peers; cut to 31 bytes.
    pub name: String,
    /// Mode of the socket file.
    pub mode: u32,
    /// User that the socket file belongs to; `None`: ours.
    pub owner: Option<u32>,
    /// Group that the socket file belongs to; `None`: ours.
    pub group: Option<u32>,
    /// Time from accepting a connection to its CONNECT.
    pub handshake_timeout: Duration,
    /// Connections that haven't claimed an interface yet. One more ends the oldest one of the process that has
    /// the most of them: a peer that is slow on purpose can't keep others out. (Those that have claimed one are
    /// no more than there are interfaces.)
    pub max_handshakes: usize,
    /// Regions and rings of all clients together: each keeps a descriptor of this process open, each region a mapping, until the queues of its
    /// connection are dropped. Half of them are promised to the interfaces, in equal parts: no client keeps those of others out. All sockets
    /// of the process share a quarter of what it may open (`RLIMIT_NOFILE`, as the last socket is opened) in the same way; the library
    /// doesn't change that limit.
    pub max_descriptors: usize,
    /// Bytes of the regions of all clients together, all of which are mapped. Half of them are promised likewise.
    pub max_memory: u64,
    /// Whether threads speak with clients, one for each container or process at a time: for who must not wait while one makes that slow, as
    /// [`Signals::Doorbell`](crate::ring::Signals::Doorbell) is for the rings.
    pub threaded: bool,
}

impl Default for ListenerSettings {
    /// `memif`, 0660, our own user and group, 5 s, 64, 8192, 256 GiB, no threads.
    fn default() -> Self {
        Self {
            name: "memif".into(),
            mode: 0o660,
            owner: None,
            group: None,
            handshake_timeout: Duration::from_secs(5),
            max_handshakes: 64,
            max_descriptors: 8192,
            max_memory: 256 << 30,
            threaded: false,
        }
    }
}

/// A connection at a [`Listener`](super::Listener) whose handshake isn't done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// Who it is, where the kernel tells.
    pub peer: Option<Credentials>,
    /// The interface that it has claimed, if it has come as far: nobody else is let in there meanwhile.
    pub id: Option<u32>,
    /// When it was accepted.
    pub since: Instant,
}

/// What happened at a [`Listener`](super::Listener).
#[derive(Debug)]
pub enum ServerEvent {
    /// The link of an interface is up.
    Connected(Connection),
    /// The link of an interface is down. Its [`Connection`] is useless and should be dropped; where others wait for this thread, by
    /// another one: who drops memory last, whose peer is gone, frees all of it, and that may take tens of milliseconds a GiB.
    Disconnected {
        /// The interface.
        id: u32,
        /// Why.
        reason: Reason,
    },
    /// A peer was turned away before its link was up.
    Refused {
        /// The interface that it asked for, if it came as far; there need be none of that number.
        id: Option<u32>,
        /// Who it is, where the kernel tells.
        peer: Option<Credentials>,
        /// Why.
        reason: Reason,
    },
    /// No connection can be accepted: the process or the system is out of descriptors or memory. What is
    /// connected goes on, and accepting is tried again by itself. Told once, until one was accepted again.
    NotAccepting {
        /// Why.
        error: Error,
    },
}
