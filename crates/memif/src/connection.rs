//! The queues of one connection, and how each role gets them.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use memory::region::{HugePages, Region, RegionOptions, RegionTable};
use rustix::io::Errno;

use crate::Error;
use crate::control::{Mode, QueueConfig, Text};
use crate::io::Credentials;
use crate::layout::Layout;
use crate::ring::{
    Costs, Doorbell, Endpoint, Event, Overrun, Remains, RingError, RingSize, RingView, RxQueue, Signals,
    Slots, Tell, TxQueue,
};

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

impl Connection {
    /// Has a thread signal the peer and hear its signals, if that is how it is set; `tell` is told if the peer makes that cost too much.
    ///
    /// # Errors
    /// If there is no descriptor or no thread for it; with what is to be dropped elsewhere then.
    pub(crate) fn with_doorbell(
        &mut self,
        signals: &Signals,
        costs: &Costs,
        tell: impl FnOnce(Overrun) + Send + 'static,
    ) -> Result<Option<Doorbell>, (Errno, Remains)> {
        let Some(settings) = signals.doorbell() else { return Ok(None) };
        let told: (_, Tell) = (costs.clone(), Box::new(tell));
        Doorbell::start(&settings, told, &mut self.rx, &mut self.tx).map(Some)
    }

    /// As one of this interface: what the errors of its queues say.
    pub(crate) fn of(mut self, interface: &str) -> Self {
        let interface: Arc<str> = interface.into();
        for (queue, number) in self.rx.iter_mut().zip(0..) {
            queue.belongs_to(&interface, number);
        }
        for (queue, number) in self.tx.iter_mut().zip(0..) {
            queue.belongs_to(&interface, number);
        }
        self
    }
}

/// Index of the region that is a pool.
const POOL: u16 = 1;

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
    pub regions: Vec<Arc<Region>>,
    pub layout: Layout,
    pub rx: Vec<RxQueue>,
    pub tx: Vec<TxQueue>,
}

impl ClientMemory {
    pub(crate) fn new(name: &str, config: &QueueConfig) -> Result<Self, Error> {
        config.check()?;
        let (layout, size) = (config.layout(), config.region_size());
        let huge_pages = if config.pool.is_some() { HugePages::Never } else { config.huge_pages };
        let mut regions =
            vec![Arc::new(Region::create(&RegionOptions { name: name.into(), size, huge_pages })?)];
        regions.extend(config.pool.as_ref().map(|pool| Arc::clone(pool.region())));
        let table = Arc::new(RegionTable::new(regions.clone())?);
        let size = config.ring_size;
        let slots =
            |first| Slots::Own { region: 0, first, stride: layout.stride(), capacity: layout.buffer_size };
        let ring = |table, offset| {
            let ring = RingView::new(table, 0, offset, size)?;
            ring.initialise();
            Ok::<_, Error>(ring)
        };
        let mut tx = Vec::new();
        for i in 0..config.tx_queues {
            let ring = ring(Arc::clone(&table), offset(layout.tx_ring(i))?)?;
            let end = Endpoint::client_tx(size);
            let queue = match &config.pool {
                None => TxQueue::new(ring, end, slots(offset(layout.tx_buffers(i))?), new_event()?),
                Some(pool) => TxQueue::new(ring, end, Slots::Peer, new_event()?)
                    .with_pool(pool.slots(POOL, size.descriptors())?),
            };
            tx.push(queue.with_longest(config.max_packet));
        }
        let mut rx = Vec::new();
        for i in 0..config.rx_queues {
            let ring = ring(own(&table), offset(layout.rx_ring(i))?)?;
            let (end, max) = (Endpoint::client_rx(size), config.max_packet);
            rx.push(match &config.pool {
                None => RxQueue::new(ring, end, slots(offset(layout.rx_buffers(i))?), max, new_event()?),
                Some(pool) => RxQueue::new(ring, end, Slots::Peer, max, new_event()?)
                    .with_pool(pool.slots(POOL, size.descriptors())?),
            });
        }
        Ok(Self { regions, layout, rx, tx })
    }
}

/// A table for one receiving queue, which counts the rounds that hold it.
fn own(table: &Arc<RegionTable>) -> Arc<RegionTable> {
    Arc::new(RegionTable::clone(table))
}

pub(crate) fn offset(offset: u64) -> Result<u32, Error> {
    let allowed = "what 32-bit offsets can reach";
    u32::try_from(offset).map_err(|_| Error::Setting { setting: "memory size", value: offset, allowed })
}

fn new_event() -> Result<Event, Error> {
    Event::own().map_err(|errno| Error::System { call: "eventfd", errno })
}

/// The server's queues on rings that a client announced.
pub(crate) fn server_queues(
    table: &Arc<RegionTable>,
    client_tx: &mut Vec<RingSpec>,
    client_rx: &mut Vec<RingSpec>,
    max_packet: u32,
) -> Result<(Vec<RxQueue>, Vec<TxQueue>), RingError> {
    let view = |table, spec: &RingSpec| {
        let ring = RingView::new(table, spec.region, spec.offset, spec.size)?;
        ring.check_cookie()?;
        Ok::<_, RingError>(ring)
    };
    // Steps that can fail come first: the owner of the rings closes them on refusal.
    let rx: Vec<_> = client_tx.iter().map(|spec| view(own(table), spec)).collect::<Result<_, _>>()?;
    let tx: Vec<_> = client_rx.iter().map(|spec| view(Arc::clone(table), spec)).collect::<Result<_, _>>()?;
    let rx = rx
        .into_iter()
        .zip(client_tx.drain(..))
        .map(|(ring, spec)| RxQueue::new(ring, Endpoint::server(), Slots::Peer, max_packet, spec.event));
    let tx = tx.into_iter().zip(client_rx.drain(..)).map(|(ring, spec)| {
        TxQueue::new(ring, Endpoint::server(), Slots::Peer, spec.event).with_longest(max_packet)
    });
    Ok((rx.collect(), tx.collect()))
}

pub(crate) fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    rustix::io::fcntl_dupfd_cloexec(fd, 0).map_err(|errno| Error::System { call: "dup", errno })
}
