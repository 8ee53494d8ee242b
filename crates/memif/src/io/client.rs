//! The client: one interface, which reconnects by itself.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::Address;
use super::channel::{Channel, Heard};
use super::foreign::Closing;
use super::later;
use super::socket::connect_to;
use crate::control::ClientMachine;
use crate::{ClientConfig, Connection, Error, InterfaceError, Reason};

/// Whatever was asked for: a client that tries all the time keeps a processor busy.
const LEAST_BACKOFF: Duration = Duration::from_millis(1);

/// When a [`Client`] gives up and tries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientTiming {
    /// Time from connecting to CONNECTED.
    pub handshake_timeout: Duration,
    /// Wait before the first new attempt; doubled with each, until a link has held for
    /// [`max_backoff`](Self::max_backoff).
    pub min_backoff: Duration,
    /// Longest wait between attempts.
    pub max_backoff: Duration,
}

impl Default for ClientTiming {
    /// 5 s; 50 ms to 2 s.
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(5),
            min_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(2),
        }
    }
}

/// What happened at a [`Client`].
#[derive(Debug)]
pub enum ClientEvent {
    /// The link is up.
    Connected(Connection),
    /// The link is down; its [`Connection`] is useless and should be dropped. Will be tried again.
    Disconnected {
        /// Why.
        reason: Reason,
    },
    /// The handshake failed. Will be tried again.
    Refused {
        /// Why.
        reason: Reason,
    },
    /// There is no server. Will be tried again; told only when it is news.
    Unreachable {
        /// Why.
        error: Error,
    },
}

/// A client interface.
#[derive(Debug)]
pub struct Client {
    address: Address,
    config: ClientConfig,
    timing: ClientTiming,
    epoll: OwnedFd,
    state: State,
    /// Wait after the next failure.
    backoff: Duration,
    /// What was told last to be the reason that there is no server.
    told: Option<Error>,
    /// What servers have sent, on its way out.
    closing: Closing,
}

#[derive(Debug)]
enum State {
    /// Taken down: not trying.
    AdminDown,
    /// Until then; `None`: now.
    Waiting(Option<Instant>),
    Open {
        channel: Channel,
        machine: Box<ClientMachine>,
        /// When the handshake must be done; `None`: it is.
        deadline: Option<Instant>,
        /// When the link came up.
        since: Option<Instant>,
    },
}

impl Client {
    /// An interface that will connect at the first [`process`](Self::process).
    ///
    /// # Errors
    /// [`Error::System`] if the process is out of descriptors, [`Error::Address`] for one that no socket can have,
    /// [`Error::Setting`] for what can't be.
    pub fn new(address: Address, config: ClientConfig, timing: ClientTiming) -> Result<Self, InterfaceError> {
        let checked = address.check().and_then(|()| config.queues.check());
        let epoll = checked.and_then(|()| {
            epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(|errno| Error::System { call: "epoll_create", errno })
        });
        let epoll = epoll.map_err(|cause| InterfaceError { interface: name(&address, config.id), cause })?;
        let (backoff, closing) = (timing.min_backoff, Closing::default());
        Ok(Self { address, config, timing, epoll, state: State::Waiting(None), backoff, told: None, closing })
    }

    /// Readable when there is something to [`process`](Self::process).
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// When to call [`process`](Self::process) at the latest; a time that has passed at the beginning.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.state {
            State::AdminDown => None,
            State::Waiting(until) => Some(until.unwrap_or_else(Instant::now)),
            State::Open { deadline, .. } => *deadline,
        }
    }

    /// Whether the link is up.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(&self.state, State::Open { machine, .. } if machine.is_connected())
    }

    /// Does what there is to do, without waiting, and tells what happened.
    pub fn process(&mut self, now: Instant) -> Vec<ClientEvent> {
        let mut events = Vec::new();
        if let State::Waiting(until) = self.state
            && until.is_none_or(|until| until <= now)
        {
            self.open(now, &mut events);
        }
        while let State::Open { channel, machine, deadline, since } = &mut self.state {
            match step(channel, machine) {
                Ok(Some(Some(mut connection))) => {
                    connection.peer.credentials = channel.credentials();
                    (*deadline, *since) = (None, Some(now));
                    let interface = name(&self.address, self.config.id);
                    events.push(ClientEvent::Connected(connection.of(&interface)));
                }
                Ok(Some(None)) => {}
                Ok(None) if deadline.is_some_and(|deadline| deadline <= now) => {
                    self.end(now, Reason::Timeout, &mut events);
                }
                Ok(None) => break,
                Err(reason) => self.end(now, reason, &mut events),
            }
        }
        events
    }

    /// Disconnects, telling the server why; connects again later. Makes no event.
    pub fn disconnect(&mut self, now: Instant, reason: &Reason) {
        self.leave(reason);
        if let State::Open { .. } = &self.state {
            self.wait(now);
        }
    }

    /// Disconnects, telling the server why in these words, and doesn't connect again. Makes no event.
    pub fn admin_down(&mut self, why: &str) {
        self.leave(&Reason::admin_down(why));
        self.state = State::AdminDown;
    }

    /// Connects again after [`admin_down`](Self::admin_down).
    pub fn admin_up(&mut self) {
        if let State::AdminDown = self.state {
            (self.state, self.backoff) = (State::Waiting(None), self.timing.min_backoff);
        }
    }

    fn open(&mut self, now: Instant, events: &mut Vec<ClientEvent>) {
        let may = if self.closing.is_beyond_share() { Err(Error::HangingDescriptors) } else { Ok(()) };
        let opened = may.and_then(|()| connect_to(&self.address)).and_then(|fd| {
            let channel = Channel::new(fd, &self.closing);
            epoll::add(&self.epoll, channel.fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)
                .map_err(|errno| Error::System { call: "epoll_ctl", errno })?;
            Ok(channel)
        });
        match opened {
            Ok(channel) => {
                self.told = None;
                let machine = Box::new(ClientMachine::new(self.config.clone()));
                let deadline = Some(later(now, self.timing.handshake_timeout));
                self.state = State::Open { channel, machine, deadline, since: None };
            }
            Err(error) => {
                if self.told.as_ref() != Some(&error) {
                    self.told = Some(error.clone());
                    events.push(ClientEvent::Unreachable { error });
                }
                self.wait(now);
            }
        }
    }

    fn end(&mut self, now: Instant, reason: Reason, events: &mut Vec<ClientEvent>) {
        self.leave(&reason);
        if let State::Open { machine, .. } = &self.state {
            events.push(if machine.is_connected() {
                ClientEvent::Disconnected { reason }
            } else {
                ClientEvent::Refused { reason }
            });
        }
        self.wait(now);
    }

    /// Tells the server why, before its channel is dropped. Its socket stays as long as closing it may hang, readable all that time.
    fn leave(&self, reason: &Reason) {
        if let State::Open { channel, .. } = &self.state {
            channel.farewell(reason);
            let _ = epoll::delete(&self.epoll, channel.fd());
        }
    }

    fn wait(&mut self, now: Instant) {
        // Only a link that has held shows that things are well: a server that ends each at once would otherwise
        // have us make new memory all the time.
        if let State::Open { since: Some(since), .. } = self.state
            && now.saturating_duration_since(since) >= self.timing.max_backoff
        {
            self.backoff = self.timing.min_backoff;
        }
        self.state = State::Waiting(Some(later(now, self.backoff.max(LEAST_BACKOFF))));
        self.backoff = self.backoff.saturating_mul(2).min(self.timing.max_backoff);
    }
}

/// Socket and id: what errors name an interface by.
fn name(address: &Address, id: u32) -> String {
    format!("{address} id {id}")
}

/// One message: nothing to read, or read, perhaps with a connection as the result.
fn step(channel: &Channel, machine: &mut ClientMachine) -> Result<Option<Option<Connection>>, Reason> {
    let received = match channel.receive(false)? {
        None => return Ok(None),
        Some(Heard::NotDue(bytes)) => return Err(machine.not_due(&bytes)),
        Some(Heard::Message(received)) => received,
    };
    let step = machine.receive(&received.bytes, received.fds.lend().map_err(Reason::Socket)?)?;
    if let Some((message, fd)) = step.send {
        channel.send(&message, fd.as_ref().map(AsFd::as_fd))?;
    }
    Ok(Some(step.connection))
}

impl Drop for Client {
    fn drop(&mut self) {
        self.leave(&Reason::Local("client closed".into()));
    }
}
