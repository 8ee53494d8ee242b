//! One interface with its control channel.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Batch;
use crate::ring::Armed;
use crate::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, Error, Fault, Listener,
    ListenerSettings, Reason, ServerConfig, ServerEvent,
};

/// Longest sleep while the link is up: some peers look at the interrupt flag without a fence, and so may fail
/// to wake us.
const NAP: Duration = Duration::from_millis(100);

/// What happened to the link of a [`Port`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// Packets can flow.
    Up,
    /// No more; the port connects, or takes a new client, by itself.
    Down(Reason),
    /// An attempt failed.
    Refused(Reason),
    /// There is no server.
    Unreachable(Error),
    /// The server is out of descriptors or memory to take a client; tries again by itself.
    NotAccepting(Error),
}

impl fmt::Display for LinkEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up => f.write_str("link up"),
            Self::Down(reason) => write!(f, "link down: {reason}"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::Unreachable(error) => write!(f, "no server: {error}"),
            Self::NotAccepting(error) => write!(f, "can't accept a client: {error}"),
        }
    }
}

/// One interface, client or server.
#[derive(Debug)]
pub struct Port {
    control: Control,
    connection: Option<Connection>,
    /// Queue to receive from next, so that none waits for the others.
    next_rx: usize,
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
    pub fn client(address: Address, config: ClientConfig, timing: ClientTiming) -> Result<Self, Error> {
        Ok(Self::new(Control::Client(Client::new(address, config, timing)?)))
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
    ) -> Result<Self, Error> {
        let mut listener = Listener::bind(address, settings)?;
        listener.register(id, config)?;
        Ok(Self::new(Control::Server(listener, id)))
    }

    const fn new(control: Control) -> Self {
        Self { control, connection: None, next_rx: 0, happened: Vec::new() }
    }

    /// The connection while the link is up.
    #[must_use]
    pub const fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    /// Sleeps until there is something to receive, something happens to the link, or `timeout` has passed
    /// (`None`: however long), and tells what happened to the link.
    ///
    /// # Errors
    /// [`Error::System`] if the system can't tell.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<LinkEvent>, Error> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            self.process()?;
            let ready = self.arm();
            let now = Instant::now();
            if ready || !self.happened.is_empty() || until.is_some_and(|until| until <= now) {
                self.disarm();
                return Ok(std::mem::take(&mut self.happened));
            }
            let nap = self.connection.as_ref().map(|_| now + NAP);
            let wake = [until, self.next_deadline(), nap].into_iter().flatten().min();
            self.sleep(wake.map(|wake| wake.saturating_duration_since(now)))?;
        }
    }

    /// Copies packets into `batch` after clearing it; gives how many.
    ///
    /// # Errors
    /// [`Error::Disconnected`] if the peer broke the rules of the rings: the link is down then.
    pub fn receive(&mut self, batch: &mut Batch) -> Result<usize, Error> {
        batch.clear();
        let Some(connection) = &mut self.connection else { return Ok(0) };
        let queues = connection.rx.len();
        let mut fault = None;
        for _ in 0..queues {
            self.next_rx = (self.next_rx + 1) % queues;
            fault = connection.rx[self.next_rx].recv_batch(batch).err().or(fault);
        }
        self.check(fault)?;
        Ok(batch.len())
    }

    /// Sends packets on the first queue; gives how many were dealt with: the rest found no room, or the link
    /// is down. Packets longer than the whole ring, and empty ones, are dropped.
    ///
    /// # Errors
    /// [`Error::Disconnected`] if the peer broke the rules of the rings: the link is down then.
    pub fn send<P: AsRef<[u8]>>(&mut self, packets: &[P]) -> Result<usize, Error> {
        let Some(tx) = self.connection.as_mut().and_then(|connection| connection.tx.first_mut()) else {
            return Ok(0);
        };
        let sent = tx.send_batch(packets);
        self.check(sent.err())?;
        Ok(sent.unwrap_or(0))
    }

    /// Ends the connection if its peer is at fault.
    fn check(&mut self, fault: Option<Fault>) -> Result<(), Error> {
        let Some(fault) = fault else { return Ok(()) };
        let reason = Reason::from(fault);
        match &mut self.control {
            Control::Client(client) => client.disconnect(Instant::now(), &reason),
            Control::Server(listener, id) => {
                listener.disconnect(*id, &reason);
            }
        }
        self.connection = None;
        self.happened.push(LinkEvent::Down(reason.clone()));
        Err(reason.into())
    }

    fn next_deadline(&self) -> Option<Instant> {
        match &self.control {
            Control::Client(client) => client.next_deadline(),
            Control::Server(listener, _) => listener.next_deadline(),
        }
    }

    fn process(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        match &mut self.control {
            Control::Client(client) => {
                for event in client.process(now) {
                    self.happened.push(match event {
                        ClientEvent::Connected(connection) => {
                            self.connection = Some(connection);
                            LinkEvent::Up
                        }
                        ClientEvent::Disconnected { reason } => {
                            self.connection = None;
                            LinkEvent::Down(reason)
                        }
                        ClientEvent::Refused { reason } => LinkEvent::Refused(reason),
                        ClientEvent::Unreachable { error } => LinkEvent::Unreachable(error),
                    });
                }
            }
            Control::Server(listener, _) => {
                for event in listener.process(now)? {
                    self.happened.push(match event {
                        ServerEvent::Connected(connection) => {
                            self.connection = Some(connection);
                            LinkEvent::Up
                        }
                        ServerEvent::Disconnected { reason, .. } => {
                            self.connection = None;
                            LinkEvent::Down(reason)
                        }
                        ServerEvent::Refused { reason, .. } => LinkEvent::Refused(reason),
                        ServerEvent::NotAccepting { error } => LinkEvent::NotAccepting(error),
                    });
                }
            }
        }
        Ok(())
    }

    /// Asks all queues for signals; whether one has something already (or a fault, which `receive` will
    /// find).
    fn arm(&mut self) -> bool {
        let queues = self.connection.iter_mut().flat_map(|connection| &mut connection.rx);
        queues.fold(false, |ready, queue| ready | (queue.arm() != Ok(Armed::Sleep)))
    }

    fn disarm(&mut self) {
        for queue in self.connection.iter_mut().flat_map(|connection| &mut connection.rx) {
            queue.disarm();
            queue.take_signal();
        }
    }

    fn sleep(&self, limit: Option<Duration>) -> Result<(), Error> {
        let control: BorrowedFd<'_> = match &self.control {
            Control::Client(client) => client.fd(),
            Control::Server(listener, _) => listener.fd(),
        };
        let queues = self.connection.iter().flat_map(|connection| &connection.rx);
        let mut fds: Vec<_> = std::iter::once(control)
            .chain(queues.map(|queue| queue.event().fd()))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // A limit too long for the kernel is no limit.
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::System { call: "poll", errno }),
        }
        for queue in self.connection.iter().flat_map(|connection| &connection.rx) {
            queue.take_signal();
        }
        Ok(())
    }
}
