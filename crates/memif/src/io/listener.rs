//! The server: one socket, any number of interfaces.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::Address;
use super::channel::Channel;
use super::socket::{Bound, listen_at};
use crate::control::{Interfaces, Limits, ServerMachine};
use crate::{Connection, Error, Reason, ServerConfig};

/// Token of the listening socket; connections count from 1.
const LISTENING: u64 = 0;
/// Connections accepted, and messages read of one connection, in one call of `process`; the rest waits for
/// the next.
const BATCH: usize = 64;

/// How a [`Listener`] behaves, besides its interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Name of this application, told to peers; cut to 31 bytes.
    pub name: String,
    /// Mode of the socket file.
    pub mode: u32,
    /// Time from accepting a connection to its CONNECT.
    pub handshake_timeout: Duration,
    /// Connections in handshake. One more ends the oldest: a peer that is slow on purpose can't keep others
    /// out.
    pub max_handshakes: usize,
}

impl Default for ListenerSettings {
    /// `quiver`, 0660, 5 s, 64.
    fn default() -> Self {
        Self {
            name: "quiver".into(),
            mode: 0o660,
            handshake_timeout: Duration::from_secs(5),
            max_handshakes: 64,
        }
    }
}

/// What happened at a [`Listener`].
#[derive(Debug)]
pub enum ServerEvent {
    /// The link of an interface is up.
    Connected(Connection),
    /// The link of an interface is down. Its [`Connection`] is useless and should be dropped.
    Disconnected {
        /// The interface.
        id: u32,
        /// Why.
        reason: Reason,
    },
    /// A peer was turned away before its link was up.
    Refused {
        /// The interface that it asked for, if it came as far; there need be none of that number.
        id: Option<u32>,
        /// Why.
        reason: Reason,
    },
}

/// A listening socket and the interfaces behind it.
#[derive(Debug)]
pub struct Listener {
    settings: ListenerSettings,
    epoll: OwnedFd,
    socket: Bound,
    interfaces: BTreeMap<u32, Interface>,
    sessions: HashMap<u64, Session>,
    last_token: u64,
}

#[derive(Debug)]
struct Interface {
    config: Arc<ServerConfig>,
    /// The connection that has claimed it.
    owner: Option<u64>,
}

#[derive(Debug)]
struct Session {
    channel: Channel,
    machine: ServerMachine,
    deadline: Option<Instant>,
}

/// The interfaces, as one session sees them.
struct View<'l> {
    interfaces: &'l mut BTreeMap<u32, Interface>,
    token: u64,
}

impl Interfaces for View<'_> {
    fn config(&self, id: u32) -> Option<Arc<ServerConfig>> {
        Some(Arc::clone(&self.interfaces.get(&id)?.config))
    }

    fn claim(&mut self, id: u32) -> bool {
        match self.interfaces.get_mut(&id) {
            Some(interface) if interface.owner.is_none() => {
                interface.owner = Some(self.token);
                true
            }
            _ => false,
        }
    }
}

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotASocket`], [`Error::NoDirectory`], [`Error::Netns`], [`Error::Socket`].
    pub fn bind(address: &Address, settings: ListenerSettings) -> Result<Self, Error> {
        let socket = listen_at(address, settings.mode)?;
        let system = |call| move |errno| Error::System { call, errno };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll_create"))?;
        epoll::add(&epoll, &socket.fd, epoll::EventData::new_u64(LISTENING), epoll::EventFlags::IN)
            .map_err(system("epoll_ctl"))?;
        let (interfaces, sessions) = (BTreeMap::new(), HashMap::new());
        Ok(Self { settings, epoll, socket, interfaces, sessions, last_token: LISTENING })
    }

    /// Lets a client connect to interface `id`.
    ///
    /// # Errors
    /// [`Error::Registered`] if there is one of that number.
    pub fn register(&mut self, id: u32, config: ServerConfig) -> Result<(), Error> {
        if self.interfaces.contains_key(&id) {
            return Err(Error::Registered { id });
        }
        self.interfaces.insert(id, Interface { config: Arc::new(config), owner: None });
        Ok(())
    }

    /// Takes an interface away, disconnecting its client; `false` if there was none.
    pub fn unregister(&mut self, id: u32) -> bool {
        let existed = self.interfaces.contains_key(&id);
        self.disconnect(id, &Reason::Local("interface deleted".into()));
        self.interfaces.remove(&id);
        existed
    }

    /// Disconnects the client of an interface, which may connect again; `false` if there was none. Makes no
    /// event.
    pub fn disconnect(&mut self, id: u32, reason: &Reason) -> bool {
        match self.interfaces.get(&id).and_then(|interface| interface.owner) {
            Some(token) => self.close(token, reason),
            None => false,
        }
    }

    /// Whether a client is connected to the interface.
    #[must_use]
    pub fn is_connected(&self, id: u32) -> bool {
        let owner = self.interfaces.get(&id).and_then(|interface| interface.owner);
        owner.and_then(|token| self.sessions.get(&token)).is_some_and(|s| s.machine.is_connected())
    }

    /// The registered interfaces.
    pub fn interfaces(&self) -> impl Iterator<Item = (u32, &ServerConfig)> {
        self.interfaces.iter().map(|(id, interface)| (*id, &*interface.config))
    }

    /// Readable when there is something to [`process`](Self::process).
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// When to call [`process`](Self::process) at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.sessions.values().filter_map(|session| session.deadline).min()
    }

    /// Does what there is to do, without waiting, and tells what happened. What a peer does wrong concerns
    /// that peer only.
    ///
    /// # Errors
    /// [`Error::System`] if the system can't tell what happened: out of memory or descriptors.
    pub fn process(&mut self, now: Instant) -> Result<Vec<ServerEvent>, Error> {
        let mut events = Vec::new();
        let mut ready = Vec::with_capacity(BATCH);
        let system = |call| move |errno| Error::System { call, errno };
        match epoll::wait(&self.epoll, spare_capacity(&mut ready), Some(&Timespec::default())) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(system("epoll_wait")(errno)),
        }
        let (mut accepting, mut tokens) = (false, Vec::new());
        for event in ready {
            match event.data.u64() {
                LISTENING => accepting = true,
                token => tokens.push(token),
            }
        }
        // First the old ones: a client that ended and came back must not be told that it is connected.
        for token in tokens {
            self.converse(token, &mut events);
        }
        if accepting {
            self.accept(now, &mut events)?;
        }
        let late = |(token, s): (&u64, &Session)| s.deadline.is_some_and(|d| d <= now).then_some(*token);
        for token in self.sessions.iter().filter_map(late).collect::<Vec<_>>() {
            self.end(token, Reason::Timeout, &mut events);
        }
        Ok(events)
    }

    fn accept(&mut self, now: Instant, events: &mut Vec<ServerEvent>) -> Result<(), Error> {
        let limits =
            Limits::of(&self.settings.name, self.interfaces.values().map(|interface| &*interface.config));
        for _ in 0..BATCH {
            let fd = match accept_with(&self.socket.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(fd) => fd,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(()),
                Err(errno) => return Err(Error::System { call: "accept", errno }),
            };
            let (machine, hello) = ServerMachine::new(limits.clone());
            let channel = Channel::new(fd);
            if channel.send(&hello, None).is_err() {
                continue;
            }
            self.make_way(events);
            self.last_token += 1;
            let data = epoll::EventData::new_u64(self.last_token);
            epoll::add(&self.epoll, channel.fd(), data, epoll::EventFlags::IN)
                .map_err(|errno| Error::System { call: "epoll_ctl", errno })?;
            let deadline = Some(now + self.settings.handshake_timeout);
            self.sessions.insert(self.last_token, Session { channel, machine, deadline });
        }
        Ok(())
    }

    /// Ends the oldest handshake if there is no place for one more.
    fn make_way(&mut self, events: &mut Vec<ServerEvent>) {
        let handshakes = self.sessions.iter().filter(|(_, session)| !session.machine.is_connected());
        let (count, oldest) = handshakes.fold((0, u64::MAX), |(n, old), (token, _)| (n + 1, old.min(*token)));
        if count > 0 && count >= self.settings.max_handshakes {
            self.end(oldest, Reason::TooManyConnections, events);
        }
    }

    /// Reads and answers what a connection has sent.
    fn converse(&mut self, token: u64, events: &mut Vec<ServerEvent>) {
        for _ in 0..BATCH {
            let Some(session) = self.sessions.get_mut(&token) else { return };
            let mut view = View { interfaces: &mut self.interfaces, token };
            match step(session, &mut view) {
                Ok(None) => return,
                Ok(Some(None)) => {}
                Ok(Some(Some(mut connection))) => {
                    session.deadline = None;
                    connection.peer.credentials = session.channel.credentials();
                    events.push(ServerEvent::Connected(connection));
                }
                Err(reason) => return self.end(token, reason, events),
            }
        }
    }

    /// Closes a session and tells about it.
    fn end(&mut self, token: u64, reason: Reason, events: &mut Vec<ServerEvent>) {
        let Some(session) = self.sessions.get(&token) else { return };
        let id = session.machine.id();
        events.push(match id {
            Some(id) if session.machine.is_connected() => {
                ServerEvent::Disconnected { id, reason: reason.clone() }
            }
            _ => ServerEvent::Refused { id: session.machine.asked(), reason: reason.clone() },
        });
        self.close(token, &reason);
    }

    fn close(&mut self, token: u64, reason: &Reason) -> bool {
        let Some(session) = self.sessions.remove(&token) else { return false };
        session.channel.farewell(reason);
        for interface in self.interfaces.values_mut().filter(|interface| interface.owner == Some(token)) {
            interface.owner = None;
        }
        true
    }
}

/// One message of a session: nothing to read, or read, perhaps with a connection as the result.
fn step(session: &mut Session, view: &mut View<'_>) -> Result<Option<Option<Connection>>, Reason> {
    let Some(received) = session.channel.receive()? else { return Ok(None) };
    let step = session.machine.receive(&received.bytes, received.fds, view)?;
    if let Some(reply) = step.reply {
        session.channel.send(&reply, None)?;
    }
    Ok(Some(step.connection))
}

impl Drop for Listener {
    fn drop(&mut self) {
        let tokens: Vec<_> = self.sessions.keys().copied().collect();
        for token in tokens {
            self.close(token, &Reason::Local("server closed".into()));
        }
    }
}
