//! The queues of one connection, and how each role gets them.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use memory::region::{Region, RegionOptions, RegionTable};

use crate::Error;
use crate::control::{Mode, QueueConfig, Text};
use crate::io::Credentials;
use crate::layout::Layout;
use crate::ring::{Endpoint, Event, RingError, RingSize, RingView, RxQueue, Slots, TxQueue};

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Listens; maps the client's memory. Also called master.
    Server,
    /// Connects; owns the memory. Also called slave.
    Client,
}

/// Who is at the other end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// What its application calls itself.
    pub application: Text<32>,
    /// What it calls the interface.
    pub interface: Text<32>,
    /// Its process, as the kernel says; `None` without a socket, or where the kernel doesn't say.
    pub credentials: Option<Credentials>,
}

/// An established connection: the link is up. Its queues may be moved to the threads that use them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Connection {
    /// Our end.
    pub role: Role,
    /// Interface id.
    pub id: u32,
    /// What packets begin with.
    pub mode: Mode,
    /// The other end.
    pub peer: Peer,
    /// Queues to receive from; sizes as agreed.
    pub rx: Vec<RxQueue>,
    /// Queues to send to; sizes as agreed.
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
            Ok::<_, Error>(ring)
        };
        let mut tx = Vec::new();
        for i in 0..config.tx_queues {
            let ring = ring(offset(layout.tx_ring(i))?)?;
            let slots = slots(offset(layout.tx_buffers(i))?);
            tx.push(TxQueue::new(ring, Endpoint::client_tx(size), slots, new_event()?));
        }
        let mut rx = Vec::new();
        for i in 0..config.rx_queues {
            let ring = ring(offset(layout.rx_ring(i))?)?;
            let slots = slots(offset(layout.rx_buffers(i))?);
            rx.push(RxQueue::new(ring, Endpoint::client_rx(size), slots, config.max_packet, new_event()?));
        }
        Ok(Self { region, layout, rx, tx })
    }
}

pub(crate) fn offset(offset: u64) -> Result<u32, Error> {
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
) -> Result<(Vec<RxQueue>, Vec<TxQueue>), RingError> {
    let view = |spec: &RingSpec| {
        let ring = RingView::new(Arc::clone(table), spec.region, spec.offset, spec.size)?;
        ring.check_cookie()?;
        Ok::<_, RingError>(ring)
    };
    let mut rx = Vec::new();
    for spec in client_tx {
        let ring = view(&spec)?;
        rx.push(RxQueue::new(ring, Endpoint::server(), Slots::Peer, max_packet, spec.event));
    }
    let mut tx = Vec::new();
    for spec in client_rx {
        let ring = view(&spec)?;
        tx.push(TxQueue::new(ring, Endpoint::server(), Slots::Peer, spec.event));
    }
    Ok((rx, tx))
}

pub(crate) fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    rustix::io::fcntl_dupfd_cloexec(fd, 0).map_err(|errno| Error::System { call: "dup", errno })
}
