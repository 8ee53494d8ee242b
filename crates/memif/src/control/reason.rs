//! Why a connection ended or did not come to be.

use std::time::Duration;

use memory::region::RegionError;
use rustix::io::Errno;

use super::Text;
use crate::ring::{BURST, Fault, Overrun, PERCENT, RingError};

/// Why a connection ended or did not come to be. Its text is what the peer is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The peer said so.
    #[error("disconnected by the peer: {text} (code {code})")]
    Peer {
        /// Its code: 0, or what [`refusal`](Self::refusal) makes of it.
        code: u32,
        /// Its words.
        text: Text<96>,
    },
    /// The peer closed the socket: usually its process ended.
    #[error("connection closed by the peer")]
    Closed,
    /// We wanted it so.
    #[error("{0}")]
    Local(Text<96>),
    /// This end's administrator took the interface down; with his words, if any.
    #[error("administratively down{}{_0}", if _0.as_str().is_empty() { "" } else { ": " })]
    AdminDown(Text<64>),
    /// The handshake took too long.
    #[error("handshake timed out")]
    Timeout,
    /// The handshake took too long, as a region waits to be mapped, or sealed, whose file somebody holds.
    #[error("handshake timed out: the file of a region is held")]
    TimeoutHeld,
    /// The socket failed.
    #[error("socket: {0}")]
    Socket(Errno),
    /// The server handles as many handshakes as it will.
    #[error("too many connections")]
    TooManyConnections,
    /// Too much of what the peer has sent isn't closed yet, perhaps because the descriptors' owner doesn't let that end.
    #[error("descriptors sent before are not closed yet")]
    HangingDescriptors,
    /// The region of the interface's client before is still being mapped, perhaps because somebody holds its file.
    #[error("the region sent before is not mapped yet: its file is held")]
    HangingRegion,

    /// To signal the peer, or to speak with it, costs more time of a processor than allowed: something waits for what it holds, in very large
    /// numbers, and the kernel calls each of these. `excluded`: seconds in which no peer of the interface is let in.
    #[error("signals cost too much: the last {last} us; allowed {} ms at once, {} %; try again in {excluded} s", BURST.as_millis(), PERCENT)]
    SignalCost {
        /// Microseconds of the last call.
        last: u64,
        /// Seconds.
        excluded: u64,
    },
    /// No peer of the interface is let in yet, as signals [cost too much](Self::SignalCost) before.
    #[error("signals cost too much before: try again in {} s", _0.as_secs_f64().ceil())]
    Excluded(Duration),

    /// A message that doesn't have 128 bytes.
    #[error("message of {0} bytes, all have 128")]
    MessageSize(usize),
    /// A message type that doesn't exist.
    #[error("unknown message type {0:#x}")]
    UnknownMessage(u16),
    /// A message that has no place here.
    #[error("unexpected message {message} while {state}")]
    Unexpected {
        /// The message.
        message: &'static str,
        /// What was expected, as an activity.
        state: &'static str,
    },
    /// A file descriptor came along with a message that has none, or more than one.
    #[error("{count} file descriptors with {message}, expected {expected}")]
    FileDescriptors {
        /// The message.
        message: &'static str,
        /// How many came.
        count: usize,
        /// How many it has.
        expected: usize,
    },
    /// File descriptors came along with a message that has none; they were left where they are.
    #[error("file descriptors with {message}, which has none")]
    DescriptorsNotDue {
        /// The message.
        message: &'static str,
    },
    /// Ancillary data that didn't fit the space for what is allowed.
    #[error("too much ancillary data")]
    AncillaryData,

    /// The peer doesn't speak version 2.0.
    #[error("unsupported version {0:#06x}, this end speaks 0x0200")]
    Version(u16),
    /// The peer speaks none of the versions that this end does.
    #[error("unsupported versions {min:#06x} to {max:#06x}, this end speaks 0x0200")]
    Versions {
        /// The oldest it speaks.
        min: u16,
        /// The newest.
        max: u16,
    },
    /// No such interface on this socket.
    #[error("unmatched interface id {0}")]
    UnknownInterface(u32),
    /// The interface has a peer.
    #[error("interface id {0} is already connected")]
    AlreadyConnected(u32),
    /// The peer isn't one of those that may connect.
    #[error("not allowed to connect: {0}")]
    NotAllowed(Stranger),
    /// Not the mode of the interface.
    #[error("mode mismatch: the interface is {interface}, the peer wants mode {peer}")]
    Mode {
        /// The interface's.
        interface: super::Mode,
        /// What the peer asked for: 0 ethernet, 1 IP, 2 punt/inject.
        peer: u8,
    },
    /// The interface has a secret and the peer didn't give one.
    #[error("secret required")]
    SecretRequired,
    /// The peer gave another secret.
    #[error("incorrect secret")]
    WrongSecret,

    /// Regions are counted up from 0.
    #[error("unexpected region index {index}, expected {expected}")]
    RegionIndex {
        /// The announced one.
        index: u16,
        /// The next.
        expected: usize,
    },
    /// More regions than allowed.
    #[error("too many regions, at most {0}")]
    TooManyRegions(u16),
    /// More shared memory than allowed.
    #[error("regions of {total} bytes, at most {max}")]
    TooMuchMemory {
        /// With this region.
        total: u64,
        /// Allowed.
        max: u64,
    },
    /// The clients of the socket have as many regions and rings, all together, as its settings allow.
    #[error("regions and rings of all of the socket's clients: max_descriptors is {0}")]
    QuotaOfDescriptors(usize),
    /// The regions of the clients of the socket would have, all together, more bytes than its settings allow.
    #[error("regions of all of the socket's clients: {total} bytes, max_memory is {max}")]
    QuotaOfMemory {
        /// With this region.
        total: u64,
        /// Allowed.
        max: u64,
    },
    /// What is left of the regions and rings that the clients of the socket may have is promised to its other interfaces.
    #[error("regions and rings of the interface: {total}, the rest of the socket's {max} is others'")]
    ShareOfDescriptors {
        /// With this one.
        total: usize,
        /// Of all interfaces of the socket.
        max: usize,
    },
    /// What is left of the bytes that the regions of the clients of the socket may have is promised to its other interfaces.
    #[error("regions of the interface: {total} bytes, the rest of the socket's {max} is others'")]
    ShareOfMemory {
        /// With this region.
        total: u64,
        /// Of all interfaces of the socket.
        max: u64,
    },
    /// The clients of all sockets of this process have as many regions and rings as it may open and map for them, or the rest is promised
    /// to other interfaces.
    #[error("regions and rings of all clients of the process: {0} (RLIMIT_NOFILE, vm.max_map_count)")]
    QuotaOfProcess(usize),
    /// The regions of the clients of all sockets of this process have as many bytes as it has addresses for them, or the rest is promised to
    /// other interfaces.
    #[error("regions of all clients of the process: {0} bytes of addresses")]
    AddressesOfProcess(u64),
    /// A region was refused.
    #[error("{0}")]
    Region(#[from] RegionError),

    /// Rings of a direction are counted up from 0.
    #[error("unexpected ring index {index}, expected {expected}")]
    RingIndex {
        /// The announced one.
        index: u16,
        /// The next.
        expected: usize,
    },
    /// More rings in a direction than allowed.
    #[error("too many rings, at most {0}")]
    TooManyRings(u16),
    /// A ring size out of range.
    #[error("ring size 2^{log2}, allowed are 2^6..=2^{max}")]
    RingSize {
        /// The announced one.
        log2: u8,
        /// The largest.
        max: u8,
    },
    /// Flags that don't exist.
    #[error("unknown ring flags {0:#x}")]
    RingFlags(u16),
    /// A private header in descriptors: nobody defined one.
    #[error("private headers not supported")]
    PrivateHeader,
    /// A ring was refused.
    #[error("{0}")]
    Ring(#[from] RingError),
    /// A ring's file descriptor is not an eventfd.
    #[error("ring interrupt is not an eventfd: {0}")]
    NotAnEventfd(Errno),
    /// CONNECT without any ring.
    #[error("no rings")]
    NoRings,

    /// The peer broke the rules in shared memory.
    #[error("{0}")]
    Fault(#[from] Fault),
    /// The client could not set up its memory.
    #[error("cannot set up memory: {0}")]
    Setup(Text<96>),
}

/// What keeps a peer out; see [`Admission`](super::Admission).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stranger {
    /// Its user is not in the list.
    #[error("user {0}")]
    User(u32),
    /// Its group is not in the list.
    #[error("group {0}")]
    Group(u32),
    /// It lives in another process namespace, or in one that can't be told.
    #[error("process namespace")]
    ProcessNamespace,
    /// The process namespace that may connect isn't where it should be: nobody is let in.
    #[error("the process namespace that may connect can't be found")]
    NoProcessNamespace,
    /// The kernel doesn't say who it is.
    #[error("unknown process")]
    Unknown,
}

/// Why one end refuses the other, as the number in DISCONNECT says beside the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum Refusal {
    /// The secret is wrong or missing.
    WrongSecret = 1,
    /// The process isn't one of those that may connect.
    NotAllowed = 2,
    /// No interface has the id.
    UnknownInterface = 3,
    /// Not the mode of the interface.
    Mode = 4,
    /// No version of the protocol is common to both.
    Version = 5,
    /// The interface has a peer.
    Busy = 6,
    /// More than a limit allows.
    Limit = 7,
}

impl Refusal {
    /// What a code says; `None` for 0, which says nothing, and those that are not known.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::WrongSecret,
            2 => Self::NotAllowed,
            3 => Self::UnknownInterface,
            4 => Self::Mode,
            5 => Self::Version,
            6 => Self::Busy,
            7 => Self::Limit,
            _ => return None,
        })
    }

    /// Its number.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// A word for it, as of [`Reason::kind`].
    const fn kind(self) -> &'static str {
        match self {
            Self::WrongSecret => "wrong-secret",
            Self::NotAllowed => "not-allowed",
            Self::UnknownInterface => "unknown-interface",
            Self::Mode => "mode",
            Self::Version => "version",
            Self::Busy => "already-connected",
            Self::Limit => "limit",
        }
    }
}

impl From<Overrun> for Reason {
    fn from(Overrun { last, excluded }: Overrun) -> Self {
        Self::SignalCost { last: last.as_micros() as u64, excluded: excluded.as_secs() }
    }
}

impl Reason {
    /// [`Reason::AdminDown`] in these words, cut to 63 bytes; empty if there is nothing to say.
    #[must_use]
    pub fn admin_down(why: &str) -> Self {
        Self::AdminDown(Text::new(why))
    }

    /// What is said in DISCONNECT.
    #[must_use]
    pub fn text(&self) -> Text<96> {
        Text::new(&self.to_string())
    }

    /// Why one end refuses the other, whichever says so, as far as there is a code for it.
    #[must_use]
    pub const fn refusal(&self) -> Option<Refusal> {
        Some(match self {
            Self::Peer { code, .. } => return Refusal::from_code(*code),
            Self::SecretRequired | Self::WrongSecret => Refusal::WrongSecret,
            Self::NotAllowed(_) => Refusal::NotAllowed,
            Self::UnknownInterface(_) => Refusal::UnknownInterface,
            Self::Mode { .. } => Refusal::Mode,
            Self::Version(_) | Self::Versions { .. } => Refusal::Version,
            Self::AlreadyConnected(_) => Refusal::Busy,
            Self::TooManyConnections
            | Self::HangingDescriptors
            | Self::HangingRegion
            | Self::SignalCost { .. }
            | Self::Excluded(_)
            | Self::TooManyRegions(_)
            | Self::TooMuchMemory { .. }
            | Self::QuotaOfDescriptors(_)
            | Self::QuotaOfMemory { .. }
            | Self::ShareOfDescriptors { .. }
            | Self::ShareOfMemory { .. }
            | Self::QuotaOfProcess(_)
            | Self::AddressesOfProcess(_)
            | Self::Region(RegionError::Holes { .. })
            | Self::TooManyRings(_)
            | Self::RingSize { .. } => Refusal::Limit,
            _ => return None,
        })
    }

    /// As [`kind`](Self::kind); where the peer has said why it refuses us, the word for that.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Peer { .. } => self.refusal().map_or(self.kind(), Refusal::kind),
            _ => self.kind(),
        }
    }

    /// Whether the peer broke the protocol on a link that is up: what it says there, or writes to the rings, nobody does who follows it.
    #[must_use]
    pub const fn is_breach(&self) -> bool {
        matches!(
            self,
            Self::MessageSize(_)
                | Self::UnknownMessage(_)
                | Self::Unexpected { .. }
                | Self::FileDescriptors { .. }
                | Self::DescriptorsNotDue { .. }
                | Self::AncillaryData
                | Self::SignalCost { .. }
                | Self::Fault(_)
        )
    }

    /// A word for the kind of reason, without what the peer may choose: what counters and logs are kept apart by.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Peer { .. } => "peer",
            Self::Closed => "closed",
            Self::Local(_) => "local",
            Self::AdminDown(_) => "admin-down",
            Self::Timeout | Self::TimeoutHeld => "timeout",
            Self::Socket(_) => "socket",
            Self::TooManyConnections => "too-many-connections",
            Self::HangingDescriptors => "hanging-descriptors",
            Self::HangingRegion => "hanging-region",
            Self::SignalCost { .. } => "signal-cost",
            Self::Excluded(_) => "signal-cost-excluded",
            Self::MessageSize(_) => "message-size",
            Self::UnknownMessage(_) => "unknown-message",
            Self::Unexpected { .. } => "unexpected-message",
            Self::FileDescriptors { .. } | Self::DescriptorsNotDue { .. } => "file-descriptors",
            Self::AncillaryData => "ancillary-data",
            Self::Version(_) | Self::Versions { .. } => "version",
            Self::UnknownInterface(_) => "unknown-interface",
            Self::AlreadyConnected(_) => "already-connected",
            Self::NotAllowed(_) => "not-allowed",
            Self::Mode { .. } => "mode",
            Self::SecretRequired => "secret-required",
            Self::WrongSecret => "wrong-secret",
            Self::RegionIndex { .. } => "region-index",
            Self::TooManyRegions(_) => "too-many-regions",
            Self::TooMuchMemory { .. } => "too-much-memory",
            Self::QuotaOfDescriptors(_) => "quota-of-descriptors",
            Self::QuotaOfMemory { .. } => "quota-of-memory",
            Self::ShareOfDescriptors { .. } => "share-of-descriptors",
            Self::ShareOfMemory { .. } => "share-of-memory",
            Self::QuotaOfProcess(_) => "quota-of-process",
            Self::AddressesOfProcess(_) => "addresses-of-process",
            Self::Region(RegionError::Size(_)) => "region-size",
            Self::Region(RegionError::NotMemory(_)) => "region-not-memory",
            Self::Region(RegionError::Truncated { .. }) => "region-too-small",
            Self::Region(RegionError::Unsealed | RegionError::Unsealable) => "region-unsealed",
            Self::Region(RegionError::SealedAgainstWriting) => "region-sealed-against-writing",
            Self::Region(RegionError::Holes { .. }) => "region-holes",
            Self::Region(_) => "region",
            Self::RingIndex { .. } => "ring-index",
            Self::TooManyRings(_) => "too-many-rings",
            Self::RingSize { .. } => "ring-size",
            Self::RingFlags(_) => "ring-flags",
            Self::PrivateHeader => "private-header",
            Self::Ring(RingError::Outside { .. }) => "ring-outside",
            Self::Ring(RingError::Misaligned(_)) => "ring-misaligned",
            Self::Ring(RingError::Cookie(_)) => "ring-cookie",
            Self::NotAnEventfd(_) => "not-an-eventfd",
            Self::NoRings => "no-rings",
            Self::Fault(fault) => fault.kind(),
            Self::Setup(_) => "setup",
        }
    }
}
