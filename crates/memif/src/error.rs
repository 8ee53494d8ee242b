//! What can go wrong before packets flow.

use std::fmt;
use std::path::PathBuf;

use memory::region::RegionError;
use rustix::io::Errno;

use crate::control::Reason;
use crate::ring::RingError;

/// What a call can't do: for which interface, and why.
///
/// `{:?}` is the sentence as well, for this is what a program shows whose `main` returns it; `{:#?}` shows the fields.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{interface}: {cause}")]
pub struct InterfaceError {
    /// Socket and id: `@quiver/app id 0`; the socket alone where the call is about all of its interfaces.
    pub interface: String,
    /// Why.
    #[source]
    pub cause: Error,
}

impl fmt::Debug for InterfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        let Self { interface, cause } = self;
        f.debug_struct("InterfaceError").field("interface", interface).field("cause", cause).finish()
    }
}

/// Why a connection, socket or region could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A region could not be created or mapped.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A ring is not where it should be.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The handshake failed.
    #[error(transparent)]
    Disconnected(#[from] Reason),
    /// A setting is out of its range.
    #[error("{setting} {value} is not in {allowed}")]
    Setting {
        /// What was set.
        setting: &'static str,
        /// To what.
        value: u64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// Queues whose rings and buffers no region could hold.
    #[error(
        "{queues} queues of {ring_size} buffers of {buffer_size} bytes need {wanted} bytes, at most {max} can be had: take \
         fewer queues, smaller rings or buffers", max = memory::region::MAX_REGION_SIZE
    )]
    Queues {
        /// Queues of both directions.
        queues: u32,
        /// Descriptors of each ring.
        ring_size: u16,
        /// Bytes of each buffer.
        buffer_size: u32,
        /// What all of them would need.
        wanted: u64,
    },
    /// No socket can have the address.
    #[error("socket address {address:?}: {why}")]
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An interface has no queue of this number.
    #[error("no queue {queue} to {what}: there are {count}")]
    NoQueue {
        /// Its number.
        queue: usize,
        /// What it was to be used for: `receive from`, `send to`.
        what: &'static str,
        /// How many there are; while the link is down, how many there can be.
        count: usize,
    },
    /// A trust group's pool has too few buffers left for another ring.
    #[error("trust group {group}: {free} buffers are free, a ring needs {wanted}")]
    Pool {
        /// Name of the group.
        group: String,
        /// Descriptors of the ring.
        wanted: usize,
        /// Buffers that are left.
        free: usize,
    },
    /// Somebody else listens at the address.
    #[error("{address} is in use: another process listens there")]
    InUse {
        /// The address.
        address: String,
    },
    /// A file that is not a socket stands where the socket should be.
    #[error("{} exists and is not a socket: remove it or choose another path", path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// The directory of the socket doesn't exist.
    #[error("no directory for socket {}: create it first", path.display())]
    NoDirectory {
        /// The socket.
        path: PathBuf,
    },
    /// The socket is a file that this process may not connect to.
    #[error("{}: permission denied: its mode, owner and group must let us write to it, its directories let us pass", path.display())]
    Denied {
        /// The socket.
        path: PathBuf,
    },
    /// A network namespace can't be entered.
    #[error("cannot open a socket in network namespace {}: {errno}", path.display())]
    Netns {
        /// Its file.
        path: PathBuf,
        /// What the kernel said.
        errno: Errno,
    },
    /// A socket could not be opened.
    #[error("socket {address}: {step}: {errno}")]
    Socket {
        /// The address.
        address: String,
        /// The step that failed.
        step: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
    /// An interface of this number is registered already.
    #[error("interface id {id} is already registered on this socket")]
    Registered {
        /// Its number.
        id: u32,
    },
    /// Descriptors that peers have sent can't be closed, for their owner doesn't let that end: nobody else is connected with meanwhile.
    #[error("too many descriptors from peers can't be closed")]
    HangingDescriptors,
    /// The region of a client's connection before is still being sealed, for the server has its file: there is no other before that is done.
    #[error(
        "the region of the connection before can't be sealed: the server holds its file; restart that server"
    )]
    HangingRegion,
    /// What may take as long as a peer likes is done by threads of its own, and none can be started: nobody else is connected with meanwhile.
    #[error(
        "no thread can be started that maps or closes what peers have sent: {errno}; raise the limit of threads (ulimit -u, pids.max of the cgroup) or free memory"
    )]
    NoThread {
        /// What the kernel said.
        errno: Errno,
    },
    /// A system call failed.
    #[error("{call}: {errno}")]
    System {
        /// Which.
        call: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
}
