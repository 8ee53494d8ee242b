//! What an interface is set to, on either side.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use memory::region::{HugePages, MAX_REGION_SIZE, SealPolicy};

use super::{Amount, Secret};
use crate::Error;
use crate::layout::Layout;
use crate::ring::{Pool, RingSize, Signals};

/// What packets of an interface begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// An Ethernet header.
    #[default]
    Ethernet,
    /// An IPv4 or IPv6 header.
    Ip,
    /// An IPv4 or IPv6 header, too; the mode says what the packets are. From a dataplane to an application: what was for the
    /// dataplane itself and nothing in it takes (*punt*). From the application: what is to be sent as the dataplane's own
    /// (*inject*). The protocol gives the mode its number only; this meaning is Quiver's.
    PuntInject,
}

impl Mode {
    /// Its number in INIT.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Ethernet => 0,
            Self::Ip => 1,
            Self::PuntInject => 2,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "ethernet",
            Self::Ip => "ip",
            Self::PuntInject => "punt-inject",
        })
    }
}

/// Which processes may connect to an interface, by what the kernel says of them. Each list that is not empty must
/// hold the peer; the default, whose lists are all empty, lets everybody in who can reach the socket.
///
/// A path socket has its file's mode and owner besides; an abstract one can be reached by every process of its
/// network namespace, so that this list is all that keeps them apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Admission {
    /// Effective user ids.
    pub uids: Vec<u32>,
    /// Effective group ids; supplementary groups don't count.
    pub gids: Vec<u32>,
    /// A process namespace that the peer must live in itself (not below), as a file: `/proc/42/ns/pid`. Looked
    /// up at each connection; as long as there is no such file nobody is let in.
    pub pid_namespace: Option<PathBuf>,
}

impl Admission {
    /// Whether everybody is let in.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.uids.is_empty() && self.gids.is_empty() && self.pid_namespace.is_none()
    }
}

/// The largest IPv4 packet in an Ethernet frame with a VLAN tag, in bytes.
pub const DEFAULT_MAX_PACKET: u32 = 65_535 + 18;

/// An interface that waits for a client.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Mode that the client must have.
    pub mode: Mode,
    /// Secret that the client must know.
    pub secret: Option<Secret>,
    /// Who the client must be.
    pub admission: Admission,
    /// Our name of the interface, told to the client; cut to 31 bytes.
    pub name: String,
    /// Most queues to receive from.
    pub max_rx_queues: u16,
    /// Most queues to send to.
    pub max_tx_queues: u16,
    /// Largest ring.
    pub max_ring_size: RingSize,
    /// Most regions.
    pub max_regions: u16,
    /// Most bytes of all regions together.
    pub max_memory: u64,
    /// Most bytes that clients can make us pay for, one after the other. Pages that a client left empty are charged to whoever touches
    /// them first, and stay so as long as anybody keeps the memory, also when its connection has long ended. What its regions with holes
    /// have grown to is therefore on the interface's account until they are gone, or that is registered anew, and regions with holes for
    /// which there is no room on it are refused. A client that allocates its memory before it connects, or gives it back when it goes,
    /// may come as often as it likes. Holes can be punched later only where regions [needn't be sealed](Self::seals): into memory that had
    /// none they end the connection, where that [is noticed](memory::region::notices_punched_holes).
    pub max_holes: u64,
    /// Whether the client's regions must be sealed, which then are sealed further. Not those of zero-copy clients and trust groups, whose
    /// buffer pools are mapped again and again.
    pub seals: SealPolicy,
    /// Longest packet to receive, in bytes.
    pub max_packet: u32,
    /// Who signals the client, and hears its signals.
    pub signals: Signals,
}

fn within<T: Into<u64> + Copy>(
    setting: &'static str,
    value: T,
    range: std::ops::RangeInclusive<u64>,
    allowed: &'static str,
) -> Result<(), Error> {
    let value = value.into();
    if range.contains(&value) { Ok(()) } else { Err(Error::Setting { setting, value, allowed }) }
}

impl ServerConfig {
    /// Whether there can be such an interface.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        within("most queues to receive from", self.max_rx_queues, 0..=256, "0..=256")?;
        within("most queues to send to", self.max_tx_queues, 0..=256, "0..=256")?;
        within("most queues", self.max_rx_queues.max(self.max_tx_queues), 1..=256, "1..=256")?;
        within("most regions", self.max_regions, 1..=256, "1..=256")?;
        within("longest packet", self.max_packet, 1..=u64::from(u32::MAX), "1..=4294967295")
    }

    /// What a client may have of it: regions, rings and memory.
    pub(crate) fn most(&self) -> Amount {
        let descriptors = [self.max_regions, self.max_rx_queues, self.max_tx_queues];
        Amount { descriptors: descriptors.into_iter().map(usize::from).sum(), memory: self.max_memory }
    }
}

impl Default for ServerConfig {
    /// Ethernet, no secret, open to everybody, everything the protocol allows, sealed regions of at most 1 GiB.
    fn default() -> Self {
        Self {
            mode: Mode::Ethernet,
            secret: None,
            admission: Admission::default(),
            name: "memif".into(),
            max_rx_queues: 256,
            max_tx_queues: 256,
            max_ring_size: RingSize::MAX,
            max_regions: 256,
            max_memory: 1 << 30,
            max_holes: 1 << 30,
            seals: SealPolicy::Require,
            max_packet: DEFAULT_MAX_PACKET,
            signals: Signals::Direct,
        }
    }
}

/// Queues and memory, as a client lays them out.
#[derive(Debug, Clone)]
pub struct QueueConfig {
    /// Queues the client receives from.
    pub rx_queues: u16,
    /// Queues the client sends to.
    pub tx_queues: u16,
    /// Size of every ring.
    pub ring_size: RingSize,
    /// Bytes of every buffer, 64 to 65536. Longer packets are chained.
    pub buffer_size: u32,
    /// Pages of the region.
    pub huge_pages: HugePages,
    /// Longest packet to receive, in bytes.
    pub max_packet: u32,
    /// The buffers of a trust group instead of buffers of the interface's own: packets between its interfaces aren't copied, and each
    /// of its peers can read and write the packets of all. The pool's buffer size counts.
    pub pool: Option<Arc<Pool>>,
}

impl QueueConfig {
    /// Whether there can be such queues.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Queues`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        within("queues to receive from", self.rx_queues, 0..=256, "0..=256")?;
        within("queues to send to", self.tx_queues, 0..=256, "0..=256")?;
        within("queues", self.rx_queues.max(self.tx_queues), 1..=256, "1..=256")?;
        within("longest packet", self.max_packet, 1..=u64::from(u32::MAX), "1..=4294967295")?;
        within("buffer size", self.buffer_size, 64..=65_536, "64..=65536")?;
        // Also where the server would allow less: that isn't known before it was asked.
        let (wanted, buffer_size) = (self.region_size(), self.buffer_size);
        let (queues, ring_size) =
            (u32::from(self.rx_queues) + u32::from(self.tx_queues), self.ring_size.descriptors());
        let fits = wanted <= MAX_REGION_SIZE;
        if fits { Ok(()) } else { Err(Error::Queues { queues, ring_size, buffer_size, wanted }) }
    }

    /// Where rings and buffers of as many queues lie.
    pub(crate) const fn layout(&self) -> Layout {
        let Self { tx_queues: tx_rings, rx_queues: rx_rings, ring_size, buffer_size, .. } = *self;
        Layout { tx_rings, rx_rings, ring_size, buffer_size }
    }

    /// Bytes of the region that has the rings, and the buffers as well unless these are a pool's.
    pub(crate) fn region_size(&self) -> u64 {
        let layout = self.layout();
        if self.pool.is_some() { layout.rings_size() } else { layout.size() }
    }
}

impl Default for QueueConfig {
    /// One queue each way, 1024 × 2048 bytes.
    fn default() -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            ring_size: RingSize::default(),
            buffer_size: 2048,
            huge_pages: HugePages::Try,
            max_packet: DEFAULT_MAX_PACKET,
            pool: None,
        }
    }
}

/// An interface that connects to a server.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Which interface of the server.
    pub id: u32,
    /// Mode of the interface.
    pub mode: Mode,
    /// Secret, if the server wants one.
    pub secret: Option<Secret>,
    /// Our name of the interface, told to the server; cut to 31 bytes.
    pub name: String,
    /// Queues and memory to ask for; the server may allow less, [`Connection`](crate::Connection) tells.
    pub queues: QueueConfig,
    /// Who signals the server, and hears its signals.
    pub signals: Signals,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            id: 0,
            mode: Mode::Ethernet,
            secret: None,
            name: "memif".into(),
            queues: QueueConfig::default(),
            signals: Signals::Direct,
        }
    }
}
