//! Limits and timers.

/// Packets that may wait for one neighbour.
pub const WAITING: usize = 16;

/// Nanoseconds in a second.
pub(super) const SECOND: u64 = 1_000_000_000;

/// How many neighbours there may be, and how long things take. Times are in nanoseconds; the defaults of those that RFC
/// 4861 section 10 names are its.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Neighbours of one interface, at most.
    pub per_interface: usize,
    /// Neighbours of all interfaces, at most.
    pub total: usize,
    /// Neighbors without an answer so far (failed, incomplete, stale) that packets from one interface have made, at most: the
    /// interface's own oldest makes room.
    pub unanswered_per_origin: usize,
    /// Packets waiting for one neighbour, at most; the oldest makes room.
    pub waiting: usize,
    /// Bytes of all waiting packets, at most; what comes then is dropped.
    pub waiting_bytes: usize,
    /// Bytes of waiting packets that came in by one interface, at most.
    pub waiting_bytes_per_origin: usize,
    /// Time between two solicitations (RetransTimer).
    pub retransmit: u64,
    /// Solicitations before a neighbour counts as gone (MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT).
    pub attempts: u8,
    /// How long an answer holds (ReachableTime); each neighbour's own time is within a quarter of it.
    pub reachable: u64,
    /// How long an address that was heard of but not asked for is used before it is asked for (DELAY_FIRST_PROBE_TIME).
    pub stale: u64,
    /// How long a neighbour that didn't answer is not asked again.
    pub failed: u64,
    /// Announcements of an own address (ANNOUNCE_NUM of RFC 5227).
    pub announcements: u8,
    /// Time between two of them (ANNOUNCE_INTERVAL).
    pub announce: u64,
    /// How long after its link has come up an interface is quiet: a peer that has just connected has no buffers ready yet, and
    /// what is said then is lost.
    pub settle: u64,
    /// Least time between two defences of an own address (DEFEND_INTERVAL of RFC 5227).
    pub defend: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            per_interface: 8192,
            total: 65536,
            unanswered_per_origin: 1024,
            waiting: WAITING,
            waiting_bytes: 16 << 20,
            waiting_bytes_per_origin: 1 << 20,
            retransmit: SECOND,
            attempts: 3,
            reachable: 30 * SECOND,
            stale: 5 * SECOND,
            failed: 3 * SECOND,
            announcements: 2,
            announce: 2 * SECOND,
            settle: SECOND / 10,
            defend: 10 * SECOND,
        }
    }
}
