//! An established connection, its queues behind locks.

use std::mem::take;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use memif::io::Credentials;
use memif::ring::{Armed, RingGauge};
use memif::{Connection, RxQueue, TxQueue};

use crate::closer;
use crate::port::lock;
use crate::sleepers::Signals;

/// An established connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) rx: Vec<Mutex<RxQueue>>,
    pub(crate) tx: Vec<Mutex<TxQueue>>,
    /// What wakes the receiver of each queue: duplicates, so that nobody needs a lock to sleep on them.
    pub(crate) events: Vec<OwnedFd>,
    /// To look at the queues without a lock.
    pub(crate) gauges: (Vec<RingGauge>, Vec<RingGauge>),
    /// What both sides agreed on.
    pub(crate) info: Info,
}

/// What both sides agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// What the peer's application calls itself.
    pub application: String,
    /// What the peer calls the interface.
    pub interface: String,
    /// Queues to receive from.
    pub rx_queues: usize,
    /// Queues to send to.
    pub tx_queues: usize,
    /// Descriptors of the first ring.
    pub ring_size: u32,
    /// The peer's process, as the kernel says.
    pub peer: Option<Credentials>,
}

impl Link {
    /// # Errors
    /// If the process is out of descriptors.
    pub(crate) fn new(connection: Connection) -> Result<Self, std::io::Error> {
        let Connection { rx, tx, peer, .. } = connection;
        let events = rx.iter().map(|queue| queue.event().fd().try_clone_to_owned());
        let events = events.collect::<Result<Vec<_>, _>>()?;
        let ring_size = rx.first().map(RxQueue::ring_size).or(tx.first().map(TxQueue::ring_size));
        let info = Info {
            application: peer.application.to_string(),
            interface: peer.interface.to_string(),
            rx_queues: rx.len(),
            tx_queues: tx.len(),
            ring_size: ring_size.map_or(0, |size| size.descriptors().into()),
            peer: peer.credentials,
        };
        let gauges = (rx.iter().map(RxQueue::gauge).collect(), tx.iter().map(TxQueue::gauge).collect());
        let rx = rx.into_iter().map(Mutex::new).collect();
        let tx = tx.into_iter().map(Mutex::new).collect();
        Ok(Self { rx, tx, events, gauges, info })
    }

    /// Whether a queue has something to receive; `None` if there is no such queue. Signals that somebody waits for stay asked for.
    pub(crate) fn ready(&self, queue: usize, waited_for: bool) -> Option<bool> {
        self.rx.get(queue).map(|rx| ready(rx, waited_for))
    }

    /// The same for all queues.
    pub(crate) fn any_ready(&self, waited_for: bool) -> bool {
        self.rx.iter().any(|rx| ready(rx, waited_for))
    }
}

/// What a link keeps open and mapped.
pub(crate) type Parts =
    (Vec<Mutex<RxQueue>>, Vec<Mutex<TxQueue>>, Vec<OwnedFd>, (Vec<RingGauge>, Vec<RingGauge>));

impl Drop for Link {
    /// Whoever is the last to have it, in whichever call.
    fn drop(&mut self) {
        let Self { rx, tx, events, gauges, .. } = self;
        let parts: Parts = (take(rx), take(tx), take(events), take(gauges));
        closer::close(parts);
    }
}

impl Signals for Link {
    /// A fault counts, too: `receive` will find it.
    fn arm(&self) -> bool {
        self.rx.iter().fold(false, |ready, rx| ready | (lock(rx).arm() != Ok(Armed::Sleep)))
    }

    fn disarm(&self) {
        for rx in &self.rx {
            lock(rx).disarm();
        }
    }

    fn take_signals(&self) -> bool {
        self.rx.iter().fold(false, |any, rx| any | lock(rx).take_signal())
    }
}

fn ready(rx: &Mutex<RxQueue>, waited_for: bool) -> bool {
    let mut rx = lock(rx);
    let ready = rx.arm() != Ok(Armed::Sleep);
    if !waited_for {
        rx.disarm();
    }
    ready
}
