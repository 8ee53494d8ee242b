//! One interface with its control channel, for several threads.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use memif::region::CheckedRange;
use memif::ring::Event;
use memif::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, Listener, ListenerSettings, Reason,
    RxQueue, RxSink, ServerConfig, ServerEvent, TxQueue, TxSource,
};

use crate::status::{Failure, Status};

/// Most events kept for an application that doesn't ask for them; the oldest go first.
const EVENTS: usize = 64;

/// What happened to the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Packets can flow.
    Up,
    /// No more; the port connects, or takes a new client, by itself.
    Down(String),
    /// An attempt failed.
    Refused(String),
    /// There is no server.
    Unreachable(String),
}

/// A piece of a received packet: where it lies, for as long as its queue isn't released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Address of the first byte, with its provenance exposed.
    pub address: usize,
    /// Bytes.
    pub length: u32,
    /// The packet goes on in the next piece.
    pub more: bool,
}

impl Piece {
    fn of(range: CheckedRange<'_>, more: bool) -> Self {
        Self { address: range.as_ptr().expose_provenance(), length: range.len(), more }
    }
}

/// An established connection.
#[derive(Debug)]
pub(crate) struct Link {
    rx: Vec<Mutex<RxQueue>>,
    tx: Vec<Mutex<TxQueue>>,
    pub(crate) events: Vec<OwnedFd>,
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
}

/// What a queue has handed out.
#[derive(Debug, Default)]
struct Lent {
    /// The connection whose memory it lies in: kept alive until it is released.
    link: Option<Arc<Link>>,
    /// Pieces that found no place in the last call's array.
    rest: VecDeque<Piece>,
}

#[derive(Debug)]
pub(crate) enum Control {
    Client(Box<Client>),
    Server(Box<Listener>, u32),
}

/// One interface, client or server.
#[derive(Debug)]
pub struct Port {
    name: String,
    pub(crate) control: Mutex<Control>,
    link: RwLock<Option<Arc<Link>>>,
    lent: Vec<Mutex<Lent>>,
    news: Mutex<VecDeque<News>>,
    pub(crate) wake: Event,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Port {
    /// A client; connects while it is waited on.
    ///
    /// # Errors
    /// [`Failure`] if the process is out of descriptors.
    pub fn client(address: &Address, config: ClientConfig) -> Result<Self, Failure> {
        let name = format!("{address} id {}", config.id);
        let client = Client::new(address.clone(), config, ClientTiming::default());
        let client = client.map_err(|error| Failure::of(&name, &error))?;
        Self::new(name, Control::Client(Box::new(client)))
    }

    /// A server of one interface.
    ///
    /// # Errors
    /// [`Failure`] if the address can't be listened at.
    pub fn server(
        address: &Address,
        id: u32,
        config: ServerConfig,
        settings: ListenerSettings,
    ) -> Result<Self, Failure> {
        let name = format!("{address} id {id}");
        let open = || {
            let mut listener = Listener::bind(address, settings)?;
            listener.register(id, config)?;
            Ok(listener)
        };
        let listener = open().map_err(|error| Failure::of(&name, &error))?;
        Self::new(name, Control::Server(Box::new(listener), id))
    }

    fn new(name: String, control: Control) -> Result<Self, Failure> {
        let wake = Event::new().map_err(|errno| Failure::new(Status::System, &name, errno))?;
        let lent = (0..256).map(|_| Mutex::default()).collect();
        let (control, link, news) = (Mutex::new(control), RwLock::new(None), Mutex::default());
        Ok(Self { name, control, link, lent, news, wake })
    }

    /// Socket and id.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        self.link.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_link(&self, link: Option<Arc<Link>>) {
        *self.link.write().unwrap_or_else(PoisonError::into_inner) = link;
    }

    fn up(&self) -> Result<Arc<Link>, Failure> {
        self.link().ok_or_else(|| Failure::new(Status::Down, &self.name, "the link is down"))
    }

    /// What both sides agreed on.
    ///
    /// # Errors
    /// [`Status::Down`].
    pub fn info(&self) -> Result<Info, Failure> {
        Ok(self.up()?.info.clone())
    }

    /// What happened next, the oldest first.
    pub fn next_news(&self) -> Option<News> {
        lock(&self.news).pop_front()
    }

    pub(crate) fn has_news(&self) -> bool {
        !lock(&self.news).is_empty()
    }

    fn tell(&self, news: News) {
        let mut all = lock(&self.news);
        if all.len() == EVENTS {
            all.pop_front();
        }
        all.push_back(news);
    }

    /// Receives pieces of packets that are there into `out`; gives how many. They stay readable until
    /// [`release`](Self::release), also if the link goes down; the peer may change their bytes at any time.
    ///
    /// # Errors
    /// [`Status::Down`], [`Status::Invalid`] if there is no such queue, [`Status::Fault`].
    pub fn receive(&self, queue: usize, mut out: impl FnMut(Piece), max: usize) -> Result<usize, Failure> {
        let link = self.up()?;
        let (Some(rx), Some(lent)) = (link.rx.get(queue), self.lent.get(queue)) else {
            return Err(self.no_queue("receive from", queue, link.rx.len()));
        };
        let mut lent = lock(lent);
        if lent.link.as_ref().is_some_and(|old| !Arc::ptr_eq(old, &link)) {
            let text = "release what was received over the last connection first";
            return Err(Failure::new(Status::Invalid, &self.name, text));
        }
        let mut given = 0;
        while let Some(pieces) = whole_packet(&lent.rest, max, given) {
            for piece in lent.rest.drain(..pieces) {
                out(piece);
            }
            given += pieces;
        }
        if given == max || !lent.rest.is_empty() {
            return Ok(given);
        }
        let mut sink = Sink { out, given, max, rest: &mut lent.rest };
        let received = lock(rx).receive(max - given, &mut sink);
        let Sink { mut out, mut given, .. } = sink;
        if let Err(fault) = received {
            return Err(self.broken(&link, &Reason::from(fault)));
        }
        // The first packet has more pieces than the array has places.
        if given == 0
            && let Some(pieces) = whole_packet(&lent.rest, max, 0)
        {
            lent.rest.drain(..pieces).for_each(&mut out);
            given = pieces;
        }
        if given > 0 && lent.link.is_none() {
            lent.link = Some(link);
        }
        Ok(given)
    }

    /// Gives all slots back that were received from: nobody uses their bytes any more. Without effect if there are none, or while
    /// pieces wait for the next `receive`.
    ///
    /// # Errors
    /// [`Status::Invalid`] if there is no such queue.
    pub fn release(&self, queue: usize) -> Result<(), Failure> {
        let lent = self.lent.get(queue).ok_or_else(|| self.no_queue("release", queue, 256))?;
        let mut lent = lock(lent);
        if !lent.rest.is_empty() {
            return Ok(());
        }
        if let Some(link) = lent.link.take()
            && let Some(rx) = link.rx.get(queue)
        {
            lock(rx).release();
        }
        Ok(())
    }

    /// Whether a queue has something to receive.
    ///
    /// # Errors
    /// [`Status::Down`], [`Status::Invalid`] if there is no such queue.
    pub fn ready(&self, queue: usize) -> Result<bool, Failure> {
        let link = self.up()?;
        link.ready(queue).ok_or_else(|| self.no_queue("receive from", queue, link.rx.len()))
    }

    /// Sends packets 0..`n` of the source as far as there is room, and wakes the peer if it sleeps; gives how many. A source
    /// that refuses a packet ends it there.
    ///
    /// # Errors
    /// [`Status::Down`], [`Status::Invalid`] if there is no such queue, [`Status::Fault`].
    pub fn send(&self, queue: usize, n: usize, source: &mut impl TxSource) -> Result<usize, Failure> {
        let link = self.up()?;
        let tx = link.tx.get(queue).ok_or_else(|| self.no_queue("send to", queue, link.tx.len()))?;
        let mut tx = lock(tx);
        let sent = tx.transmit(n, source);
        if sent.as_ref().is_ok_and(|done| done.sent > 0) {
            tx.notify();
        }
        drop(tx);
        sent.map(|done| done.sent).map_err(|fault| self.broken(&link, &Reason::from(fault)))
    }

    fn no_queue(&self, what: &str, queue: usize, count: usize) -> Failure {
        Failure::new(
            Status::Invalid,
            &self.name,
            format_args!("no queue {queue} to {what}: there are {count}"),
        )
    }

    /// Ends a connection whose peer is at fault.
    fn broken(&self, link: &Arc<Link>, reason: &Reason) -> Failure {
        let mut control = lock(&self.control);
        if self.link().is_some_and(|now| Arc::ptr_eq(&now, link)) {
            match &mut *control {
                Control::Client(client) => client.disconnect(Instant::now(), reason),
                Control::Server(listener, id) => {
                    listener.disconnect(*id, reason);
                }
            }
            self.set_link(None);
            self.tell(News::Down(reason.to_string()));
        }
        Failure::new(Status::Fault, &self.name, reason)
    }

    /// Does what there is to do on the control channel, without waiting; gives when to come again at the latest.
    pub(crate) fn process(&self) -> Result<Option<Instant>, Failure> {
        let mut control = lock(&self.control);
        let now = Instant::now();
        match &mut *control {
            Control::Client(client) => {
                for event in client.process(now) {
                    match event {
                        ClientEvent::Connected(connection) => self.connected(connection)?,
                        ClientEvent::Disconnected { reason } => self.down(&reason),
                        ClientEvent::Refused { reason } => self.tell(News::Refused(reason.to_string())),
                        ClientEvent::Unreachable { error } => self.tell(News::Unreachable(error.to_string())),
                    }
                }
                Ok(client.next_deadline())
            }
            Control::Server(listener, _) => {
                let events = listener.process(now).map_err(|error| Failure::of(&self.name, &error))?;
                for event in events {
                    match event {
                        ServerEvent::Connected(connection) => self.connected(connection)?,
                        ServerEvent::Disconnected { reason, .. } => self.down(&reason),
                        ServerEvent::Refused { reason, .. } => self.tell(News::Refused(reason.to_string())),
                        // What is connected goes on, and accepting is tried again by itself.
                        ServerEvent::NotAccepting { error } => {
                            self.tell(News::Unreachable(error.to_string()))
                        }
                    }
                }
                Ok(listener.next_deadline())
            }
        }
    }

    fn connected(&self, connection: Connection) -> Result<(), Failure> {
        let Connection { rx, tx, peer, .. } = connection;
        let duplicates = rx.iter().map(|queue| queue.event().fd().try_clone_to_owned());
        let events = duplicates
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Failure::new(Status::System, &self.name, error))?;
        let ring_size = rx.first().map(RxQueue::ring_size).or(tx.first().map(TxQueue::ring_size));
        let info = Info {
            application: peer.application.to_string(),
            interface: peer.interface.to_string(),
            rx_queues: rx.len(),
            tx_queues: tx.len(),
            ring_size: ring_size.map_or(0, |size| size.descriptors().into()),
        };
        let rx = rx.into_iter().map(Mutex::new).collect();
        let tx = tx.into_iter().map(Mutex::new).collect();
        self.set_link(Some(Arc::new(Link { rx, tx, events, info })));
        self.tell(News::Up);
        Ok(())
    }

    fn down(&self, reason: &Reason) {
        self.set_link(None);
        self.tell(News::Down(reason.to_string()));
    }
}

impl Link {
    /// Asks for signals of all queues; whether one has something already (or a fault, which `receive` will find).
    pub(crate) fn arm(&self) -> bool {
        self.rx.iter().fold(false, |ready, rx| ready | (lock(rx).arm() != Ok(memif::ring::Armed::Sleep)))
    }

    /// Asks for no more signals, and takes back those that came.
    pub(crate) fn disarm(&self) {
        for rx in &self.rx {
            let mut rx = lock(rx);
            rx.disarm();
            rx.event().clear();
        }
    }

    /// Whether a queue has something to receive; `None` if there is no such queue.
    pub(crate) fn ready(&self, queue: usize) -> Option<bool> {
        let mut rx = lock(self.rx.get(queue)?);
        let ready = rx.arm() != Ok(memif::ring::Armed::Sleep);
        rx.disarm();
        Some(ready)
    }
}

impl Control {
    pub(crate) fn fd(&self) -> Result<OwnedFd, std::io::Error> {
        match self {
            Self::Client(client) => client.fd().try_clone_to_owned(),
            Self::Server(listener, _) => listener.fd().try_clone_to_owned(),
        }
    }
}

struct Sink<'r, F> {
    out: F,
    given: usize,
    max: usize,
    rest: &'r mut VecDeque<Piece>,
}

/// Pieces of the first packet of `rest` to give out now; `None` if there is none, or no place for all of it. Only a packet with more
/// pieces than a whole array goes on in the next call.
fn whole_packet(rest: &VecDeque<Piece>, max: usize, given: usize) -> Option<usize> {
    let pieces = rest.iter().position(|piece| !piece.more)? + 1;
    match given {
        0 if max > 0 => Some(pieces.min(max)),
        _ => (pieces <= max - given).then_some(pieces),
    }
}

impl<F: FnMut(Piece)> RxSink for Sink<'_, F> {
    #[inline(always)]
    fn packet(&mut self, bytes: CheckedRange<'_>) {
        let piece = Piece::of(bytes, false);
        // A chain before it may have filled the array, or waits for the next one.
        if self.given < self.max && self.rest.is_empty() {
            (self.out)(piece);
            self.given += 1;
        } else {
            self.rest.push_back(piece);
        }
    }

    fn chain(&mut self, parts: &[CheckedRange<'_>], _length: u32) {
        let fits = self.rest.is_empty() && parts.len() <= self.max - self.given;
        for (i, part) in parts.iter().enumerate() {
            let piece = Piece::of(*part, i + 1 < parts.len());
            if fits {
                (self.out)(piece);
                self.given += 1;
            } else {
                self.rest.push_back(piece);
            }
        }
    }
}
