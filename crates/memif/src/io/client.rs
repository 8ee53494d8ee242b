//! The client: one interface, which reconnects by itself.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::Address;
use super::channel::{Channel, Courier, Delivered, Deliveries, Run};
use super::credentials::Origin;
use super::errands::Errands;
use super::foreign::Closing;
use super::held::Whose;
use super::later;
use super::line::{self, Line};
use super::mapping::Mapping;
use super::outcomes::{Bell, Outcomes};
use super::socket::connect_to;
use crate::control::{ClientMachine, ClientNext, Unsealed};
use crate::ring::{Costs, Doorbell, Overrun, Signals};
use crate::{ClientConfig, Connection, Error, InterfaceError, Reason};

/// Token of the socket.
const SOCKET: u64 = 0;
/// Token of what other threads ring.
const BELL: u64 = 1;
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
    /// There is no server, or none that can be connected to. Will be tried again; told only when it is news.
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
    /// Rung by other threads. All that there is to wait for, where a thread speaks with the server: see [`watch`](super::watch).
    bell: Bell,
    state: State,
    /// Wait after the next failure.
    backoff: Duration,
    /// What was told last to be the reason that there is no server.
    told: Option<Error>,
    /// What servers have sent, on its way out.
    closing: Closing,
    /// Our regions that the server has mapped and that aren't sealed yet, by the number of the connection.
    sealing: Mapping<()>,
    /// Whether there is one.
    unsealed: bool,
    /// That the server costs too much, by the number of the connection, as a thread tells.
    overruns: Outcomes<(u64, Overrun)>,
    /// What it costs to signal the server.
    costs: Costs,
    /// What the server is spoken with by, where that is a thread: where one [signals](ClientConfig::signals) it, too.
    errands: Option<Errands<()>>,
    /// What it has heard, by the number of the connection.
    deliveries: Deliveries,
    /// How many connections there were.
    connections: u64,
}

#[derive(Debug)]
enum State {
    /// Taken down: not trying.
    AdminDown,
    /// Until then; `None`: now.
    Waiting(Option<Instant>),
    /// A thread connects, which must be done by then.
    Connecting(Instant),
    Open {
        channel: Box<Channel>,
        machine: Box<ClientMachine>,
        /// When the handshake must be done; `None`: it is.
        deadline: Option<Instant>,
        /// When the link came up.
        since: Option<Instant>,
        /// What signals the server from then on, where its queues don't.
        doorbell: Option<Doorbell>,
    },
}

impl Client {
    /// An interface that will connect at the first [`process`](Self::process).
    ///
    /// # Errors
    /// [`Error::System`] if the process is out of descriptors, [`Error::Address`] for one that no socket can have,
    /// [`Error::Setting`] and [`Error::Queues`] for what can't be.
    pub fn new(address: Address, config: ClientConfig, timing: ClientTiming) -> Result<Self, InterfaceError> {
        let checked = address.check().and_then(|()| config.queues.check());
        let opened = checked.and_then(|()| {
            let system = |call| move |errno| Error::System { call, errno };
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll_create"))?;
            let bell = Bell::new().map_err(system("eventfd"))?;
            epoll::add(&epoll, bell.fd(), epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)
                .map_err(system("epoll_ctl"))?;
            Ok((epoll, bell))
        });
        let (epoll, bell) =
            opened.map_err(|cause| InterfaceError { interface: name(&address, config.id), cause })?;
        let (backoff, closing, state) = (timing.min_backoff, Closing::default(), State::Waiting(None));
        let (told, unsealed, connections) = (None, false, 0);
        let threaded = matches!(config.signals, Signals::Doorbell(_));
        let (sealing, overruns) = (Mapping::new("memif-seal", &bell), Outcomes::new(&bell));
        let deliveries = Deliveries::new(&bell);
        Ok(Self {
            address,
            config,
            timing,
            epoll,
            bell,
            state,
            backoff,
            told,
            closing,
            sealing,
            unsealed,
            overruns,
            costs: Costs::default(),
            errands: threaded.then(|| Errands::new("memif-control")),
            deliveries,
            connections,
        })
    }

    /// Readable when there is something to [`process`](Self::process).
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        if self.errands.is_some() { self.bell.fd() } else { self.epoll.as_fd() }
    }

    /// When to call [`process`](Self::process) at the latest; a time that has passed at the beginning.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.state {
            State::AdminDown => None,
            State::Waiting(until) => Some(until.unwrap_or_else(Instant::now)),
            State::Connecting(deadline) => Some(*deadline),
            State::Open { deadline, .. } => {
                let again = self.sealing.due().into_iter().chain(self.closing.due());
                let again = again.chain(self.errands.as_ref().and_then(Errands::due));
                deadline.iter().copied().chain(again).min()
            }
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
        self.bell.hear();
        if let State::Waiting(until) = self.state
            && until.is_none_or(|until| until <= now)
        {
            self.open(now, &mut events);
        }
        if let State::Connecting(deadline) = self.state
            && deadline <= now
        {
            self.end(now, Reason::Timeout, &mut events);
        }
        self.closing.go_on();
        self.errands.iter().for_each(Errands::go_on);
        for (connection, delivered) in self.deliveries.take() {
            self.take_in(now, connection, delivered, &mut events);
        }
        for (connection, _, sealed) in self.sealing.finished() {
            self.unsealed = false;
            // Of one that has ended meanwhile the region is gone by now.
            if connection == self.connections {
                self.sealed(now, sealed, &mut events);
            }
        }
        for (connection, overrun) in self.overruns.take() {
            if connection == self.connections
                && let State::Open { .. } = self.state
            {
                self.end(now, overrun.into(), &mut events);
            }
        }
        while let State::Open { channel, machine, deadline, .. } = &mut self.state {
            // What the server says once it is done waits until our region is sealed.
            let heard = if self.unsealed { Ok(Heard::Nothing) } else { step(channel, machine) };
            match heard {
                Ok(Heard::Nothing) if deadline.is_some_and(|deadline| deadline <= now) => {
                    let reason = if self.unsealed { Reason::TimeoutHeld } else { Reason::Timeout };
                    self.end(now, reason, &mut events);
                }
                Ok(Heard::Nothing) => break,
                Ok(Heard::Answered) => {}
                // Never here: the server may hold its file for as long as it likes.
                Ok(Heard::Connected(unsealed)) => {
                    self.unsealed = true;
                    channel.hush(&self.epoll);
                    let whose = Whose {
                        interface: name(&self.address, self.config.id),
                        name: self.config.name.clone(),
                        peer: channel.credentials().and_then(|peer| peer.pid),
                    };
                    let (connection, id) = (self.connections, self.config.id);
                    self.sealing.begin(connection, id, Origin::Nobody, whose, move || unsealed.seal());
                }
                Err(reason) => self.end(now, reason, &mut events),
            }
        }
        events
    }

    /// Disconnects, telling the server why; connects again later. Makes no event.
    pub fn disconnect(&mut self, now: Instant, reason: &Reason) {
        self.leave(reason);
        if let State::Open { .. } | State::Connecting(_) = &self.state {
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

    /// The link is up, if our region is sealed.
    fn sealed(&mut self, now: Instant, sealed: Result<(), Reason>, events: &mut Vec<ClientEvent>) {
        let State::Open { channel, machine, deadline, since, doorbell } = &mut self.state else { return };
        let watched = channel.watch(&self.epoll, SOCKET);
        let connected = watched.map_err(Reason::Socket).and_then(|()| machine.sealed(sealed));
        let connected = connected.and_then(|mut connection| {
            let (overruns, number) = (self.overruns.clone(), self.connections);
            let tell = move |overrun| overruns.add((number, overrun));
            match connection.with_doorbell(&self.config.signals, &self.costs, tell) {
                Ok(started) => *doorbell = started,
                Err((errno, remains)) => {
                    self.closing.close((connection, remains), 1);
                    return Err(Reason::Socket(errno));
                }
            }
            Ok(connection)
        });
        match connected {
            Ok(mut connection) => {
                connection.peer.credentials = channel.credentials();
                (*deadline, *since) = (None, Some(now));
                let interface = name(&self.address, self.config.id);
                events.push(ClientEvent::Connected(connection.of(&interface)));
            }
            Err(reason) => self.end(now, reason, events),
        }
    }

    fn open(&mut self, now: Instant, events: &mut Vec<ClientEvent>) {
        let may = if self.closing.is_beyond_share() {
            Err(Error::HangingDescriptors)
        } else if let Some(errno) = self.sealing.failed().or(self.closing.failed()) {
            Err(Error::NoThread { errno })
        } else if self.unsealed {
            Err(Error::HangingRegion)
        } else {
            Ok(())
        };
        self.connections += 1;
        let (courier, address) = (self.courier(), self.address.clone());
        match (may, courier) {
            (Err(error), _) => self.unreachable(now, error, events),
            (Ok(()), None) => {
                let connected = connect_to(&self.address);
                self.opened(now, connected, events);
            }
            (Ok(()), Some(courier)) => {
                self.state = State::Connecting(later(now, self.timing.handshake_timeout));
                courier.send(move || Some(Delivered::Connected(connect_to(&address))));
            }
        }
    }

    /// How work of the present connection is done, if by a thread.
    fn courier(&self) -> Option<Courier> {
        let errands = self.errands.clone()?;
        let run: Run = Arc::new(move |work| errands.run((), work));
        let (costs, deliveries) = (Some(self.costs.clone()), self.deliveries.clone());
        Some(Courier { run, costs, deliveries, token: self.connections })
    }

    /// What came of connecting.
    fn opened(&mut self, now: Instant, connected: Result<OwnedFd, Error>, events: &mut Vec<ClientEvent>) {
        let opened = connected.and_then(|fd| {
            let system = |errno| Error::System { call: "epoll_ctl", errno };
            let channel = match self.courier() {
                None => Channel::inline(fd, &self.closing),
                Some(courier) => Channel::threaded(fd, &self.closing, courier).map_err(system)?,
            };
            channel.watch(&self.epoll, SOCKET).map_err(system)?;
            Ok(Box::new(channel))
        });
        match opened {
            Ok(channel) => {
                self.told = None;
                let machine = Box::new(ClientMachine::new(self.config.clone()));
                let deadline = Some(later(now, self.timing.handshake_timeout));
                self.state = State::Open { channel, machine, deadline, since: None, doorbell: None };
            }
            Err(error) => self.unreachable(now, error, events),
        }
    }

    fn unreachable(&mut self, now: Instant, error: Error, events: &mut Vec<ClientEvent>) {
        if self.told.as_ref() != Some(&error) {
            self.told = Some(error.clone());
            events.push(ClientEvent::Unreachable { error });
        }
        self.wait(now);
    }

    /// Handles a result from a control thread. Its connection may have ended.
    fn take_in(&mut self, now: Instant, number: u64, delivered: Delivered, events: &mut Vec<ClientEvent>) {
        let current = number == self.connections;
        match (&mut self.state, delivered) {
            (State::Connecting(_), Delivered::Connected(connected)) if current => {
                self.opened(now, connected, events);
            }
            // It takes as long as the server likes to close it.
            (_, Delivered::Connected(Ok(fd))) => self.closing.close(Line::new(fd, &self.closing), 1),
            (State::Open { channel, .. }, delivered) if current => channel.deliver(delivered),
            (State::Connecting(_), Delivered::Failed(reason)) if current => self.end(now, reason, events),
            _ => {}
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
        } else if let State::Connecting(_) = self.state {
            events.push(ClientEvent::Refused { reason });
        }
        self.wait(now);
    }

    /// Tells the server why, before its channel is dropped. Its socket stays as long as closing it may hang, readable all that time.
    fn leave(&self, reason: &Reason) {
        if let State::Open { channel, .. } = &self.state {
            channel.farewell(reason);
            channel.unwatch(&self.epoll);
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
        let excluded = self.costs.excluded(now).unwrap_or_default();
        self.state = State::Waiting(Some(later(now, self.backoff.max(LEAST_BACKOFF).max(excluded))));
        self.backoff = self.backoff.saturating_mul(2).min(self.timing.max_backoff);
    }
}

/// Socket and id: what errors name an interface by.
fn name(address: &Address, id: u32) -> String {
    format!("{address} id {id}")
}

/// What came of looking for a message.
enum Heard {
    /// There is none.
    Nothing,
    /// It was answered.
    Answered,
    /// The server is done; our region is to be sealed.
    Connected(Unsealed),
}

/// One message.
fn step(channel: &mut Channel, machine: &mut ClientMachine) -> Result<Heard, Reason> {
    let received = match channel.receive(false)? {
        None => return Ok(Heard::Nothing),
        Some(line::Heard::NotDue(bytes)) => return Err(machine.not_due(&bytes)),
        Some(line::Heard::Message(received)) => received,
    };
    let fds = received.fds.lend().map_err(Reason::Socket)?;
    let step = match machine.begin(&received.bytes, fds)? {
        ClientNext::Seal(unsealed) => return Ok(Heard::Connected(unsealed)),
        ClientNext::Step(step) => step,
    };
    if let Some((message, fd)) = step.send {
        channel.send(&message, fd.as_ref().map(AsFd::as_fd))?;
    }
    Ok(Heard::Answered)
}

impl Drop for Client {
    fn drop(&mut self) {
        self.leave(&Reason::Local("client closed".into()));
    }
}
