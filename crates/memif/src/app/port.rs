//! One interface with its control channel.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::{Batch, LinkEvent};
use crate::control::Text;
use crate::ring::Armed;
use crate::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, Error, InterfaceError, Listener,
    ListenerSettings, QueueError, Reason, ServerConfig, ServerEvent,
};

/// Longest sleep while the link is up: some peers look at the interrupt flag without a fence, and so may fail
/// to wake us.
const NAP: Duration = Duration::from_millis(100);

/// What [`Port::poll`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// This happened to the link (perhaps nothing), and there may be something to receive.
    Ready(Vec<LinkEvent>),
    /// Nothing: sleep until [`Port::fd`] is readable, but not longer than this.
    Sleep(Option<Instant>),
}

/// One interface, client or server.
#[derive(Debug)]
pub struct Port {
    /// Socket and id.
    name: String,
    control: Control,
    connection: Option<Connection>,
    /// Readable when the control channel or an armed queue has something.
    epoll: OwnedFd,
    /// Whether the peer was asked for signals.
    armed: bool,
    /// Queue to receive from next, so that none waits for the others.
    next_rx: usize,
    /// Most queues to receive from, and to send to, that there can be.
    most: (usize, usize),
    /// Happened outside of `wait`, to be told there.
    happened: Vec<LinkEvent>,
}

#[derive(Debug)]
enum Control {
    Client(Client),
    Server(Listener, u32),
}

impl Port {
    /// A client; connects during [`wait`](Self::wait).
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn client(
        address: Address,
        config: ClientConfig,
        timing: ClientTiming,
    ) -> Result<Self, InterfaceError> {
        let interface = format!("{address} id {}", config.id);
        let most = (config.queues.rx_queues.into(), config.queues.tx_queues.into());
        let client = Client::new(address, config, timing).map(Control::Client);
        Self::new(interface, most, client.map_err(|error| error.cause))
    }

    /// A server of one interface.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn server(
        address: &Address,
        id: u32,
        config: ServerConfig,
        settings: ListenerSettings,
    ) -> Result<Self, InterfaceError> {
        let most = (config.max_rx_queues.into(), config.max_tx_queues.into());
        let listener = Listener::bind(address, settings)
            .and_then(|mut listener| listener.register(id, config).map(|()| listener));
        let listener = listener.map(|listener| Control::Server(listener, id));
        Self::new(format!("{address} id {id}"), most, listener.map_err(|error| error.cause))
    }

    fn new(
        name: String,
        most: (usize, usize),
        control: Result<Control, Error>,
    ) -> Result<Self, InterfaceError> {
        let opened = control.and_then(|control| {
            let system = |call| move |errno| Error::System { call, errno };
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll_create"))?;
            watch(&epoll, control.fd())?;
            Ok((control, epoll))
        });
        match opened {
            Ok((control, epoll)) => {
                let (connection, armed, next_rx, happened) = (None, false, 0, Vec::new());
                Ok(Self { name, control, connection, epoll, armed, next_rx, most, happened })
            }
            Err(cause) => Err(InterfaceError { interface: name, cause }),
        }
    }

    /// Socket and id: what errors name it by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The connection while the link is up.
    #[must_use]
    pub const fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    /// Readable when there is something to [`poll`](Self::poll), for an event loop of the application's own.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.epoll.as_fd()
    }

    /// Sleeps until there is something to receive, something happens to the link, or `timeout` has passed
    /// (`None`: however long), and tells what happened to the link.
    ///
    /// # Errors
    /// [`Error::System`] if the system can't tell.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<LinkEvent>, InterfaceError> {
        // Later than the clock can say is never.
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let wake = match self.poll()? {
                Progress::Ready(events) => return Ok(events),
                Progress::Sleep(wake) => wake,
            };
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                self.disarm();
                return Ok(Vec::new());
            }
            let wake = [until, wake].into_iter().flatten().min();
            let slept = sleep(&self.epoll, wake.map(|wake| wake.saturating_duration_since(now)));
            slept.map_err(|cause| self.error(cause))?;
        }
    }

    /// Does what there is to do, without sleeping. [`Progress::Sleep`] means that the peer has been asked to make
    /// [`fd`](Self::fd) readable: whatever it sends after this look does so, or was seen.
    ///
    /// # Errors
    /// [`Error::System`] if the system can't tell.
    pub fn poll(&mut self) -> Result<Progress, InterfaceError> {
        self.disarm();
        let processed = self.process();
        processed.map_err(|cause| self.error(cause))?;
        if self.arm() || !self.happened.is_empty() {
            self.disarm();
            return Ok(Progress::Ready(std::mem::take(&mut self.happened)));
        }
        let deadline = match &self.control {
            Control::Client(client) => client.next_deadline(),
            Control::Server(listener, _) => listener.next_deadline(),
        };
        let nap = self.connection.as_ref().map(|_| Instant::now() + NAP);
        Ok(Progress::Sleep(deadline.into_iter().chain(nap).min()))
    }

    /// Copies packets of all queues into `batch` after clearing it; gives how many: none while the link is down.
    ///
    /// # Errors
    /// [`Error::Disconnected`] if the peer broke the rules of the rings: the link is down then.
    pub fn receive(&mut self, batch: &mut Batch) -> Result<usize, InterfaceError> {
        batch.clear();
        let Some(connection) = &mut self.connection else { return Ok(0) };
        let queues = connection.rx.len();
        let mut failed = None;
        for at in 0..queues {
            let queue = &mut connection.rx[(self.next_rx + at) % queues];
            failed = queue.recv_batch(batch).err().or(failed);
        }
        self.next_rx = self.next_rx.wrapping_add(1);
        self.check(failed)?;
        Ok(batch.len())
    }

    /// The same of one queue. [`connection`](Self::connection) tells how many there are.
    ///
    /// # Errors
    /// As [`receive`](Self::receive); [`Error::NoQueue`] if there is no such queue, or can't be one while the link is down.
    pub fn receive_from(&mut self, queue: usize, batch: &mut Batch) -> Result<usize, InterfaceError> {
        batch.clear();
        let queues = self.connection.as_mut().map(|connection| &mut connection.rx);
        let count = queues.as_ref().map_or(self.most.0, |queues| queues.len());
        if queue >= count {
            return Err(self.error(Error::NoQueue { queue, what: "receive from", count }));
        }
        let received = queues.and_then(|queues| queues.get_mut(queue)).map(|rx| rx.recv_batch(batch));
        self.check(received.and_then(Result::err))?;
        Ok(batch.len())
    }

    /// Sends packets on the first queue; gives how many were dealt with: the rest found no room, or the link
    /// is down. Packets longer than the whole ring, or than 65553 bytes, and empty ones, are left out, and counted as
    /// [`refused`](crate::ring::QueueCounters::refused).
    ///
    /// # Errors
    /// [`Error::Disconnected`] if the peer broke the rules of the rings: the link is down then.
    pub fn send<P: AsRef<[u8]>>(&mut self, packets: &[P]) -> Result<usize, InterfaceError> {
        match &self.connection {
            // Both sides agreed on none.
            Some(connection) if connection.tx.is_empty() => Ok(0),
            _ => self.send_on(0, packets),
        }
    }

    /// The same on one queue. [`connection`](Self::connection) tells how many there are.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`Error::NoQueue`] if there is no such queue, or can't be one while the link is down.
    pub fn send_on<P: AsRef<[u8]>>(&mut self, queue: usize, packets: &[P]) -> Result<usize, InterfaceError> {
        let queues = self.connection.as_mut().map(|connection| &mut connection.tx);
        let count = queues.as_ref().map_or(self.most.1, |queues| queues.len());
        if queue >= count {
            return Err(self.error(Error::NoQueue { queue, what: "send to", count }));
        }
        let sent = queues.and_then(|queues| queues.get_mut(queue)).map_or(Ok(0), |tx| tx.send_batch(packets));
        match sent {
            Ok(sent) => Ok(sent),
            Err(failed) => self.check(Some(failed)).map(|()| 0),
        }
    }

    /// Takes the link down, telling the peer why, and keeps it down: a client doesn't connect, a server turns
    /// clients away with these words. Told as [`LinkEvent::AdminDown`].
    pub fn admin_down(&mut self, why: &str) {
        match &mut self.control {
            Control::Client(client) => client.admin_down(why),
            Control::Server(listener, id) => {
                listener.admin_down(*id, why);
            }
        }
        self.connect(None);
        self.happened.push(LinkEvent::AdminDown(Reason::admin_down(why)));
    }

    /// Lets the link come up again after [`admin_down`](Self::admin_down).
    pub fn admin_up(&mut self) {
        match &mut self.control {
            Control::Client(client) => client.admin_up(),
            Control::Server(listener, id) => {
                listener.admin_up(*id);
            }
        }
    }

    fn error(&self, cause: Error) -> InterfaceError {
        InterfaceError { interface: self.name.clone(), cause }
    }

    /// Ends the connection if its peer is at fault.
    fn check(&mut self, failed: Option<QueueError>) -> Result<(), InterfaceError> {
        let Some(QueueError { fault, .. }) = failed else { return Ok(()) };
        let reason = Reason::from(fault);
        self.control.disconnect(&reason);
        self.connect(None);
        self.happened.push(LinkEvent::Down(reason.clone()));
        Err(self.error(reason.into()))
    }

    /// Takes a connection in place of the one there was.
    fn connect(&mut self, connection: Option<Connection>) {
        for queue in self.connection.iter().flat_map(|connection| &connection.rx) {
            // The peer keeps the eventfd open, which would stay in the set.
            let _ = epoll::delete(&self.epoll, queue.event().fd());
        }
        self.connection = connection;
    }

    fn process(&mut self) -> Result<(), Error> {
        let (now, mut failed) = (Instant::now(), None);
        match &mut self.control {
            Control::Client(client) => {
                for event in client.process(now) {
                    match event {
                        ClientEvent::Connected(connection) => failed = self.up(connection).err().or(failed),
                        ClientEvent::Disconnected { reason } => self.down(reason),
                        ClientEvent::Refused { reason } => self.happened.push(LinkEvent::Refused(reason)),
                        ClientEvent::Unreachable { error } => {
                            self.happened.push(LinkEvent::Unreachable(error));
                        }
                    }
                }
            }
            Control::Server(listener, _) => {
                for event in listener.process(now).map_err(|error| error.cause)? {
                    match event {
                        ServerEvent::Connected(connection) => failed = self.up(connection).err().or(failed),
                        ServerEvent::Disconnected { reason, .. } => self.down(reason),
                        ServerEvent::Refused { reason, .. } => self.happened.push(LinkEvent::Refused(reason)),
                        ServerEvent::NotAccepting { error } => {
                            self.happened.push(LinkEvent::NotAccepting(error));
                        }
                    }
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn up(&mut self, connection: Connection) -> Result<(), Error> {
        self.connect(Some(connection));
        let mut queues = self.connection.iter().flat_map(|connection| &connection.rx);
        if let Err(error) = queues.try_for_each(|queue| watch(&self.epoll, queue.event().fd())) {
            // The peer must not think that it has somebody here.
            let reason = Reason::Local(Text::new(&error.to_string()));
            self.control.disconnect(&reason);
            self.connect(None);
            self.happened.push(LinkEvent::Refused(reason));
            return Err(error);
        }
        self.happened.push(LinkEvent::Up);
        Ok(())
    }

    fn down(&mut self, reason: Reason) {
        self.connect(None);
        self.happened.push(LinkEvent::Down(reason));
    }

    /// Asks all queues for signals; whether one has something already (or a fault, which `receive` will
    /// find).
    fn arm(&mut self) -> bool {
        self.armed = true;
        let queues = self.connection.iter_mut().flat_map(|connection| &mut connection.rx);
        queues.fold(false, |ready, queue| ready | (queue.arm() != Ok(Armed::Sleep)))
    }

    fn disarm(&mut self) {
        if std::mem::take(&mut self.armed) {
            for queue in self.connection.iter_mut().flat_map(|connection| &mut connection.rx) {
                queue.disarm();
                queue.take_signal();
            }
        }
    }
}

impl Control {
    fn disconnect(&mut self, reason: &Reason) {
        match self {
            Self::Client(client) => client.disconnect(Instant::now(), reason),
            Self::Server(listener, id) => {
                listener.disconnect(*id, reason);
            }
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Client(client) => client.fd(),
            Self::Server(listener, _) => listener.fd(),
        }
    }
}

fn watch(epoll: &OwnedFd, fd: BorrowedFd<'_>) -> Result<(), Error> {
    let data = epoll::EventData::new_u64(0);
    epoll::add(epoll, fd, data, epoll::EventFlags::IN)
        .map_err(|errno| Error::System { call: "epoll_ctl", errno })
}

fn sleep(epoll: &OwnedFd, limit: Option<Duration>) -> Result<(), Error> {
    // A limit too long for the kernel is no limit.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match epoll::wait(epoll, spare_capacity(&mut Vec::with_capacity(1)), limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(Error::System { call: "epoll_wait", errno }),
    }
}

#[cfg(test)]
mod tests;
