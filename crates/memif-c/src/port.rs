//! One interface with its control channel, for several threads.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use memif::app::LinkEvent;
use memif::ring::{Event, QueueCounters};
use memif::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, Listener, ListenerSettings, Reason,
    ServerConfig, ServerEvent, TxSource,
};

use rustix::io::Errno;

use crate::lend::Lent;
use crate::link::{Info, Link};
use crate::sleepers::Sleepers;
use crate::status::{Failure, Status, errno_of};
use crate::watch::Watch;

/// Most events kept for an application that doesn't ask for them; the oldest go first.
const EVENTS: usize = 64;

mod receive;

#[derive(Debug)]
pub(crate) enum Control {
    Client(Box<Client>),
    Server(Box<Listener>, u32),
}

/// C calls from any thread.
const _: fn() = || {
    fn may_be_shared<T: Send + Sync>() {}
    may_be_shared::<Port>();
};

/// One interface, client or server.
#[derive(Debug)]
pub struct Port {
    name: String,
    pub(crate) control: Mutex<Control>,
    link: RwLock<Option<Arc<Link>>>,
    lent: Vec<Mutex<Lent>>,
    /// Most queues to receive from, and to send to, that there can be.
    most: (usize, usize),
    news: Mutex<VecDeque<LinkEvent>>,
    pub(crate) wake: Event,
    pub(crate) sleepers: Sleepers,
    /// Once somebody watches the port.
    pub(crate) watch: OnceLock<Watch>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Port {
    /// A client; connects while it is waited on.
    ///
    /// # Errors
    /// [`Failure`] if the process is out of descriptors.
    pub fn client(address: &Address, config: ClientConfig) -> Result<Self, Failure> {
        let name = format!("{address} id {}", config.id);
        let most = (config.queues.rx_queues.into(), config.queues.tx_queues.into());
        let client = Client::new(address.clone(), config, ClientTiming::default());
        let client = client.map_err(|error| Failure::of(&name, &error.cause))?;
        Self::new(name, most, Control::Client(Box::new(client)))
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
        let most = (config.max_rx_queues.into(), config.max_tx_queues.into());
        let open = || {
            let mut listener = Listener::bind(address, settings)?;
            listener.register(id, config)?;
            Ok(listener)
        };
        let listener = open().map_err(|error: memif::InterfaceError| Failure::of(&name, &error.cause))?;
        Self::new(name, most, Control::Server(Box::new(listener), id))
    }

    fn new(name: String, most: (usize, usize), control: Control) -> Result<Self, Failure> {
        let wake = Event::new(&name).map_err(|error| Failure::of(&name, &error.cause))?;
        let lent = (0..256).map(|_| Mutex::default()).collect();
        let (control, link, news) = (Mutex::new(control), RwLock::new(None), Mutex::default());
        let (sleepers, watch) = Default::default();
        Ok(Self { name, control, link, lent, most, news, wake, sleepers, watch })
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
        let mut place = self.link.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(watch) = self.watch.get() {
            watch.exchange(place.as_deref(), link.as_deref());
        }
        // The old one's end is not for who holds these locks: see `closer`.
        *place = link;
    }

    fn up(&self) -> Result<Arc<Link>, Failure> {
        self.link().ok_or_else(|| Failure::new(Status::Down, &self.name, "the link is down"))
    }

    /// The link, for a queue to receive from: one that there can't be is told whether it is up or not.
    fn up_rx(&self, queue: usize) -> Result<Arc<Link>, Failure> {
        let link = self.link();
        let count = link.as_ref().map_or(self.most.0, |link| link.rx.len());
        if queue < count { self.up() } else { Err(self.no_queue("receive from", queue, count)) }
    }

    /// The same for one to send to.
    fn up_tx(&self, queue: usize) -> Result<Arc<Link>, Failure> {
        let link = self.link();
        let count = link.as_ref().map_or(self.most.1, |link| link.tx.len());
        if queue < count { self.up() } else { Err(self.no_queue("send to", queue, count)) }
    }

    /// What both sides agreed on.
    ///
    /// # Errors
    /// [`Status::Down`].
    pub fn info(&self) -> Result<Info, Failure> {
        Ok(self.up()?.info.clone())
    }

    /// What went by a queue to receive from, or to send to, since the link came up.
    ///
    /// # Errors
    /// [`Status::Down`], [`Status::Invalid`] if there is no such queue.
    pub fn counters(&self, receives: bool, queue: usize) -> Result<QueueCounters, Failure> {
        let link = if receives { self.up_rx(queue) } else { self.up_tx(queue) }?;
        let (gauges, what) = match receives {
            true => (&link.gauges.0, "receive from"),
            false => (&link.gauges.1, "send to"),
        };
        let gauge = gauges.get(queue).ok_or_else(|| self.no_queue(what, queue, gauges.len()))?;
        Ok(gauge.counters())
    }

    /// What happened next, the oldest first.
    pub fn next_news(&self) -> Option<LinkEvent> {
        lock(&self.news).pop_front()
    }

    pub(crate) fn has_news(&self) -> bool {
        !lock(&self.news).is_empty()
    }

    fn tell(&self, news: LinkEvent) {
        let mut all = lock(&self.news);
        if all.len() == EVENTS {
            all.pop_front();
        }
        all.push_back(news);
        drop(all);
        self.sleepers.wake();
    }

    /// Enters a sleeper: gives the link whose signals it waits for, and whether there are packets or news already.
    pub(crate) fn enter(&self, me: &Arc<Event>) -> (Option<Arc<Link>>, bool) {
        let (link, ready) = self.sleepers.enter(me, || self.link());
        // Only now, and without the sleepers' lock: what another thread takes from a ring until now waits in what is lent by now.
        let waits = link.as_ref().is_some_and(|link| self.any_waits(link));
        (link, ready || waits || self.has_news())
    }

    /// Sends packets 0..`n` of the source as far as there is room, and wakes the peer if it sleeps; gives how many, and the bytes of
    /// the longest packet that the queue sends. A source that refuses a packet ends it there.
    ///
    /// # Errors
    /// [`Status::Down`], [`Status::Invalid`] if there is no such queue, [`Status::Fault`].
    pub fn send(&self, queue: usize, n: usize, source: &mut impl TxSource) -> Result<(usize, u32), Failure> {
        let link = self.up_tx(queue)?;
        let tx = link.tx.get(queue).ok_or_else(|| self.no_queue("send to", queue, link.tx.len()))?;
        let mut tx = lock(tx);
        let sent = tx.transmit(n, source);
        if sent.as_ref().is_ok_and(|done| done.sent > 0) {
            tx.notify();
        }
        let longest = tx.longest();
        drop(tx);
        sent.map(|done| (done.sent, longest)).map_err(|error| self.broken(&link, &Reason::from(error.fault)))
    }

    fn no_queue(&self, what: &str, queue: usize, count: usize) -> Failure {
        Failure::new(
            Status::Invalid,
            &self.name,
            format_args!("no queue {queue} to {what}: there are {count}"),
        )
        .with_errno(Errno::NXIO)
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
            self.down(reason.clone());
        }
        Failure::new(Status::Fault, &self.name, reason)
    }

    /// Does what there is to do on the control channel, without waiting; gives when to come again at the latest.
    pub(crate) fn process(&self) -> Result<Option<Instant>, Failure> {
        let mut control = lock(&self.control);
        let (now, before) = (Instant::now(), control.next_deadline());
        let mut done = Ok(());
        match &mut *control {
            Control::Client(client) => {
                for event in client.process(now) {
                    match event {
                        ClientEvent::Connected(connection) => {
                            if let Err(error) = self.connected(connection) {
                                client.disconnect(now, &cant_use(&error));
                                done = Err(Failure::system(&self.name, "dup", errno_of(&error)));
                            }
                        }
                        ClientEvent::Disconnected { reason } => self.down(reason),
                        ClientEvent::Refused { reason } => self.tell(LinkEvent::Refused(reason)),
                        ClientEvent::Unreachable { error } => self.tell(LinkEvent::Unreachable(error)),
                    }
                }
            }
            Control::Server(listener, id) => {
                let events = listener.process(now).map_err(|error| Failure::of(&self.name, &error.cause))?;
                for event in events {
                    match event {
                        ServerEvent::Connected(connection) => {
                            if let Err(error) = self.connected(connection) {
                                listener.disconnect(*id, &cant_use(&error));
                                done = Err(Failure::system(&self.name, "dup", errno_of(&error)));
                            }
                        }
                        ServerEvent::Disconnected { reason, .. } => self.down(reason),
                        ServerEvent::Refused { reason, .. } => self.tell(LinkEvent::Refused(reason)),
                        ServerEvent::NotAccepting { error } => self.tell(LinkEvent::NotAccepting(error)),
                    }
                }
            }
        }
        let after = control.next_deadline();
        drop(control);
        if after != before {
            self.sleepers.wake(); // they have the old one in mind
        }
        done.map(|()| after)
    }

    fn connected(&self, connection: Connection) -> Result<(), std::io::Error> {
        self.set_link(Some(Arc::new(Link::new(connection)?)));
        self.tell(LinkEvent::Up);
        Ok(())
    }

    /// The link has gone. One that never came up was refused.
    fn down(&self, reason: Reason) {
        let was_up = self.link().is_some();
        self.set_link(None);
        self.tell(if was_up { LinkEvent::Down(reason) } else { LinkEvent::Refused(reason) });
    }

    /// Takes the link down, telling the peer why, and keeps it down until [`admin_up`](Self::admin_up).
    pub fn admin_down(&self, why: &str) {
        let mut control = lock(&self.control);
        match &mut *control {
            Control::Client(client) => client.admin_down(why),
            Control::Server(listener, id) => {
                listener.admin_down(*id, why);
            }
        }
        self.set_link(None);
        self.tell(LinkEvent::AdminDown(Reason::admin_down(why)));
        drop(control);
        self.wake.signal();
    }

    /// Lets the link come up again.
    pub fn admin_up(&self) {
        match &mut *lock(&self.control) {
            Control::Client(client) => client.admin_up(),
            Control::Server(listener, id) => {
                listener.admin_up(*id);
            }
        }
        self.wake.signal();
    }
}

/// What a peer is told whose connection we find no means for.
fn cant_use(error: &std::io::Error) -> Reason {
    Reason::Local(format!("connection can't be used: {error}").as_str().into())
}

impl Control {
    fn next_deadline(&self) -> Option<Instant> {
        match self {
            Self::Client(client) => client.next_deadline(),
            Self::Server(listener, _) => listener.next_deadline(),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Client(client) => client.fd(),
            Self::Server(listener, _) => listener.fd(),
        }
    }
}
