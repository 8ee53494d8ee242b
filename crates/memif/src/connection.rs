//! The queues of one connection, and how each role gets them.

use std::sync::Arc;

use memory::region::{HugePages, Region, RegionOptions, RegionTable, SealPolicy};

use crate::Error;
use crate::layout::Layout;
use crate::ring::{Endpoint, Event, RingSize, RingView, RxQueue, Slots, TxQueue};

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Listens; maps the client's memory. Also called master.
    Server,
    /// Connects; owns the memory. Also called slave.
    Client,
}

/// Queues and memory, as a client lays them out.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// The largest IPv4 packet in an Ethernet frame with a VLAN tag.
pub const DEFAULT_MAX_PACKET: u32 = 65_535 + 18;

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
        }
    }
}

/// An established connection.
#[derive(Debug)]
#[non_exhaustive]
pub struct Connection {
    /// Our end.
    pub role: Role,
    /// Queues to receive from.
    pub rx: Vec<RxQueue>,
    /// Queues to send to.
    pub tx: Vec<TxQueue>,
}

/// What one ring needs besides its memory.
#[derive(Debug)]
pub(crate) struct RingSpec {
    pub region: u16,
    pub offset: u32,
    pub size: RingSize,
    pub event: Event,
}

/// The memory a client made: region, rings, buffers, events.
#[derive(Debug)]
pub(crate) struct ClientMemory {
    pub region: Arc<Region>,
    pub layout: Layout,
    pub rx: Vec<RxQueue>,
    pub tx: Vec<TxQueue>,
}

impl ClientMemory {
    pub(crate) fn new(name: &str, config: &QueueConfig) -> Result<Self, Error> {
        if !(64..=65_536).contains(&config.buffer_size) {
            let value = u64::from(config.buffer_size);
            return Err(Error::Setting { setting: "buffer size", value, allowed: "64..=65536" });
        }
        let layout = Layout {
            tx_rings: config.tx_queues,
            rx_rings: config.rx_queues,
            ring_size: config.ring_size,
            buffer_size: config.buffer_size,
        };
        let options = RegionOptions { name: name.into(), size: layout.size(), huge_pages: config.huge_pages };
        let region = Arc::new(Region::create(&options)?);
        let table = Arc::new(RegionTable::new(vec![Arc::clone(&region)])?);
        let size = config.ring_size;
        let slots =
            |first| Slots::Own { region: 0, first, stride: layout.stride(), capacity: layout.buffer_size };
        let ring = |offset| {
            let ring = RingView::new(Arc::clone(&table), 0, offset, size)?;
            ring.initialise();
            Ok::<_, Error>((ring, new_event()?))
        };
        let mut tx = Vec::new();
        for i in 0..config.tx_queues {
            let (ring, event) = ring(offset(layout.tx_ring(i))?)?;
            let slots = slots(offset(layout.tx_buffers(i))?);
            tx.push(TxQueue::new(ring, Endpoint::client_tx(size), slots, Some(event)));
        }
        let mut rx = Vec::new();
        for i in 0..config.rx_queues {
            let (ring, event) = ring(offset(layout.rx_ring(i))?)?;
            let slots = slots(offset(layout.rx_buffers(i))?);
            rx.push(RxQueue::new(ring, Endpoint::client_rx(size), slots, config.max_packet, Some(event)));
        }
        Ok(Self { region, layout, rx, tx })
    }
}

fn offset(offset: u64) -> Result<u32, Error> {
    let allowed = "what 32-bit offsets can reach";
    u32::try_from(offset).map_err(|_| Error::Setting { setting: "memory size", value: offset, allowed })
}

fn new_event() -> Result<Event, Error> {
    Event::new().map_err(|errno| Error::System { call: "eventfd", errno })
}

/// The server's queues on rings that a client announced.
pub(crate) fn server_queues(
    table: &Arc<RegionTable>,
    client_tx: Vec<RingSpec>,
    client_rx: Vec<RingSpec>,
    max_packet: u32,
) -> Result<(Vec<RxQueue>, Vec<TxQueue>), Error> {
    let view = |spec: &RingSpec| {
        let ring = RingView::new(Arc::clone(table), spec.region, spec.offset, spec.size)?;
        ring.check_cookie()?;
        Ok::<_, Error>(ring)
    };
    let mut rx = Vec::new();
    for spec in client_tx {
        let ring = view(&spec)?;
        rx.push(RxQueue::new(ring, Endpoint::server(), Slots::Peer, max_packet, Some(spec.event)));
    }
    let mut tx = Vec::new();
    for spec in client_rx {
        let ring = view(&spec)?;
        tx.push(TxQueue::new(ring, Endpoint::server(), Slots::Peer, Some(spec.event)));
    }
    Ok((rx, tx))
}

/// A client and a server connected to each other, in one process, over a real region mapped twice. Queues and sizes are
/// the client's: the server has its `tx_queues` to receive from.
///
/// # Errors
/// [`Error`] if memory or descriptors can't be had, or a setting is out of range.
pub fn in_process(config: &QueueConfig) -> Result<(Connection, Connection), Error> {
    let memory = ClientMemory::new("memif-in-process", config)?;
    let layout = memory.layout;
    let clone = |fd: std::os::fd::BorrowedFd<'_>| {
        fd.try_clone_to_owned().map_err(|e| Error::System {
            call: "dup",
            errno: rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::MFILE),
        })
    };
    let theirs = Region::map(clone(memory.region.fd())?, memory.region.len(), SealPolicy::Require)?;
    let table = Arc::new(RegionTable::new(vec![Arc::new(theirs)])?);
    let spec = |at, event: Option<&Event>| {
        let event = event.map(|e| clone(e.fd())).transpose()?;
        let event = match event {
            Some(fd) => Event::from_peer(fd).map_err(|errno| Error::System { call: "readlink", errno })?,
            None => new_event()?,
        };
        Ok::<_, Error>(RingSpec { region: 0, offset: offset(at)?, size: config.ring_size, event })
    };
    let client_tx =
        (0..).zip(&memory.tx).map(|(i, q)| spec(layout.tx_ring(i), q.event())).collect::<Result<_, _>>()?;
    let client_rx =
        (0..).zip(&memory.rx).map(|(i, q)| spec(layout.rx_ring(i), q.event())).collect::<Result<_, _>>()?;
    let (rx, tx) = server_queues(&table, client_tx, client_rx, config.max_packet)?;
    let client = Connection { role: Role::Client, rx: memory.rx, tx: memory.tx };
    Ok((client, Connection { role: Role::Server, rx, tx }))
}
