//! All memif interfaces: listening sockets, clients, and the state of their links.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use ::memif::control::Text;
use ::memif::io::{Address, Client, ClientEvent, ClientTiming, Listener, ListenerSettings, ServerEvent};
use ::memif::region::HugePages;
use ::memif::{ClientConfig, Connection, Mode, Peer, QueueConfig, Reason, RingSize, Secret, ServerConfig};
use api::v1::{MemifMode, MemifRole};
use graph::port::IfIndex;
use rustix::event::epoll;

use crate::model::Flaw;
use crate::model::spec::{MemifSpec, SocketName};

/// Something happened to a link.
#[derive(Debug)]
pub(super) enum LinkChange {
    /// It is up.
    Up(IfIndex, Box<Connection>),
    /// It is down.
    Down(IfIndex),
}

/// What is known of a link.
#[derive(Debug, Clone, Default)]
pub(super) struct LinkState {
    /// What was agreed, while it is up.
    pub(super) up: Option<Agreed>,
    /// Why it went down last, or why the last peer was refused.
    pub(super) last_reason: Option<String>,
    /// When it went down last, in nanoseconds since 1970.
    pub(super) last_time_ns: Option<u64>,
    /// Times that it went down.
    pub(super) disconnects: u64,
    /// Times that it came up.
    pub(super) connects: u64,
    /// Peers turned away.
    pub(super) refused: u64,
    /// Links ended because the peer broke the protocol.
    pub(super) faults: u64,
}

/// What was agreed for a link.
#[derive(Debug, Clone)]
pub(super) struct Agreed {
    /// The other end.
    pub(super) peer: Peer,
    /// Ring size of each receive queue.
    pub(super) rx_rings: Vec<u16>,
    /// Ring size of each transmit queue.
    pub(super) tx_rings: Vec<u16>,
    /// Bytes of a buffer of ours (client); the peer's are its own matter.
    pub(super) buffer_size: Option<u32>,
    /// Bytes of the regions.
    pub(super) mapped: u64,
}

#[derive(Debug)]
struct Socket {
    listener: Listener,
    ids: HashMap<u32, IfIndex>,
}

/// Where an interface's control channel is.
#[derive(Debug)]
enum Place {
    Server(SocketName, u32),
    Client(Box<Client>),
}

/// All of them.
#[derive(Debug)]
pub(super) struct Memifs {
    epoll: Arc<OwnedFd>,
    sockets: HashMap<SocketName, Socket>,
    places: BTreeMap<IfIndex, Place>,
    states: BTreeMap<IfIndex, LinkState>,
    huge_pages: HugePages,
}

impl Memifs {
    /// None yet. Their descriptors will be added to `epoll`.
    pub(super) fn new(epoll: Arc<OwnedFd>, huge_pages: HugePages) -> Self {
        let (sockets, places, states) = Default::default();
        Self { epoll, sockets, places, states, huge_pages }
    }

    /// Begins to listen or to connect for interface `index`.
    ///
    /// # Errors
    /// [`Flaw`] where the socket can't be had.
    pub(super) fn open(&mut self, index: IfIndex, name: &str, spec: &MemifSpec) -> Result<(), Flaw> {
        let mode = if spec.mode == MemifMode::Ip { Mode::Ip } else { Mode::Ethernet };
        let secret = (!spec.secret.is_empty()).then(|| Secret::new(&spec.secret)).transpose();
        let secret = secret
            .map_err(|error| Flaw::new("memif.secret", error.to_string()).remedy("use at most 24 bytes"))?;
        let ring_size = RingSize::from_descriptors(spec.ring_size).unwrap_or_default();
        let address = address(&spec.socket);
        let place = if spec.role == MemifRole::Client {
            let queues = QueueConfig {
                rx_queues: spec.rx_queues as u16,
                tx_queues: spec.tx_queues as u16,
                ring_size,
                buffer_size: spec.buffer_size,
                huge_pages: self.huge_pages,
                ..QueueConfig::default()
            };
            let config = ClientConfig { id: spec.id, mode, secret, name: name.into(), queues };
            let client = Client::new(address, config, ClientTiming::default())
                .map_err(|e| socket_flaw(&spec.socket, &e))?;
            self.watch(client.fd().as_fd(), &spec.socket)?;
            Place::Client(Box::new(client))
        } else {
            let config = ServerConfig {
                mode,
                secret,
                name: name.into(),
                max_rx_queues: spec.rx_queues as u16,
                max_tx_queues: spec.tx_queues as u16,
                ..ServerConfig::default()
            };
            let socket = self.socket(&spec.socket, &address)?;
            socket.listener.register(spec.id, config).map_err(|error| socket_flaw(&spec.socket, &error))?;
            socket.ids.insert(spec.id, index);
            Place::Server(spec.socket.clone(), spec.id)
        };
        self.places.insert(index, place);
        self.states.insert(index, LinkState::default());
        Ok(())
    }

    fn watch(&self, fd: std::os::fd::BorrowedFd<'_>, socket: &SocketName) -> Result<(), Flaw> {
        let data = epoll::EventData::new_u64(1);
        epoll::add(&*self.epoll, fd, data, epoll::EventFlags::IN).map_err(|errno| {
            Flaw::new("memif.socket", format!("{socket}: can't be watched: {errno}"))
                .remedy("raise the limit on open files")
        })
    }

    fn socket(&mut self, name: &SocketName, address: &Address) -> Result<&mut Socket, Flaw> {
        if !self.sockets.contains_key(name) {
            let listener = Listener::bind(address, ListenerSettings::default())
                .map_err(|error| socket_flaw(name, &error))?;
            self.watch(listener.fd(), name)?;
            self.sockets.insert(name.clone(), Socket { listener, ids: HashMap::new() });
        }
        self.sockets.get_mut(name).ok_or_else(|| Flaw::new("memif.socket", name.to_string()))
    }

    /// Ends the interface's link and stops to listen or to connect for it.
    pub(super) fn close(&mut self, index: IfIndex) {
        self.states.remove(&index);
        match self.places.remove(&index) {
            Some(Place::Server(name, id)) => {
                let Some(socket) = self.sockets.get_mut(&name) else { return };
                socket.listener.disconnect(id, &deleted());
                socket.listener.unregister(id);
                socket.ids.remove(&id);
                if socket.ids.is_empty() {
                    self.sockets.remove(&name);
                }
            }
            Some(Place::Client(mut client)) => client.disconnect(Instant::now(), &deleted()),
            None => {}
        }
    }

    /// Ends the link of an interface whose peer broke the rules of the rings.
    pub(super) fn fault(&mut self, index: IfIndex, what: &str) {
        let Some(state) = self.states.get_mut(&index) else { return };
        if state.up.take().is_none() {
            return;
        }
        state.faults += 1;
        state.last_reason = Some(what.to_string());
        let reason = Reason::Local(Text::new(what));
        match self.places.get_mut(&index) {
            Some(Place::Server(name, id)) => {
                if let Some(socket) = self.sockets.get_mut(name) {
                    socket.listener.disconnect(*id, &reason);
                }
            }
            Some(Place::Client(client)) => client.disconnect(Instant::now(), &reason),
            None => {}
        }
    }

    /// When [`Memifs::process`] is due at the latest.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let clients = self.places.values().filter_map(|place| match place {
            Place::Client(client) => client.next_deadline(),
            Place::Server(..) => None,
        });
        self.sockets.values().filter_map(|socket| socket.listener.next_deadline()).chain(clients).min()
    }

    /// Does what there is to do on the control channels and tells which links changed.
    pub(super) fn process(&mut self, now: Instant) -> Vec<LinkChange> {
        let mut changes = Vec::new();
        for (name, socket) in &mut self.sockets {
            match socket.listener.process(now) {
                Ok(events) => {
                    for event in events {
                        server_event(event, &socket.ids, &mut self.states, &mut changes);
                    }
                }
                Err(error) => tracing::error!(socket = %name, %error, "the memif socket can't be served"),
            }
        }
        for (index, place) in &mut self.places {
            let Place::Client(client) = place else { continue };
            for event in client.process(now) {
                client_event(event, *index, &mut self.states, &mut changes);
            }
        }
        changes
    }

    /// What is known of the link of `index`.
    pub(super) fn state(&self, index: IfIndex) -> Option<&LinkState> {
        self.states.get(&index)
    }
}

fn server_event(
    event: ServerEvent,
    ids: &HashMap<u32, IfIndex>,
    states: &mut BTreeMap<IfIndex, LinkState>,
    changes: &mut Vec<LinkChange>,
) {
    match event {
        ServerEvent::Connected(connection) => {
            if let Some(index) = ids.get(&connection.id) {
                up(*index, connection, states, changes);
            }
        }
        ServerEvent::Disconnected { id, reason } => {
            if let Some(index) = ids.get(&id) {
                down(*index, &reason, states, changes);
            }
        }
        ServerEvent::NotAccepting { error } => tracing::error!(%error, "memif peers can't be accepted"),
        ServerEvent::Refused { id, reason } => {
            tracing::warn!(id, %reason, "a memif peer was turned away");
            if let Some(state) = id.and_then(|id| ids.get(&id)).and_then(|index| states.get_mut(index)) {
                state.refused += 1;
                if state.up.is_none() {
                    state.last_reason = Some(reason.to_string());
                }
            }
        }
    }
}

fn client_event(
    event: ClientEvent,
    index: IfIndex,
    states: &mut BTreeMap<IfIndex, LinkState>,
    changes: &mut Vec<LinkChange>,
) {
    match event {
        ClientEvent::Connected(connection) => up(index, connection, states, changes),
        ClientEvent::Disconnected { reason } => down(index, &reason, states, changes),
        ClientEvent::Refused { reason } => {
            let state = states.entry(index).or_default();
            state.refused += 1;
            state.last_reason = Some(reason.to_string());
        }
        ClientEvent::Unreachable { error } => {
            states.entry(index).or_default().last_reason = Some(error.to_string());
        }
    }
}

fn up(
    index: IfIndex,
    connection: Connection,
    states: &mut BTreeMap<IfIndex, LinkState>,
    changes: &mut Vec<LinkChange>,
) {
    let state = states.entry(index).or_default();
    state.connects += 1;
    state.up = Some(Agreed {
        peer: connection.peer.clone(),
        rx_rings: connection.rx.iter().map(|queue| queue.ring_size().descriptors()).collect(),
        tx_rings: connection.tx.iter().map(|queue| queue.ring_size().descriptors()).collect(),
        buffer_size: connection.tx.first().and_then(::memif::TxQueue::buffer_size),
        mapped: mapped(&connection),
    });
    changes.push(LinkChange::Up(index, Box::new(connection)));
}

fn down(
    index: IfIndex,
    reason: &Reason,
    states: &mut BTreeMap<IfIndex, LinkState>,
    changes: &mut Vec<LinkChange>,
) {
    let state = states.entry(index).or_default();
    // After a fault the link has ended already, for a better reason than what the socket says now.
    if state.up.take().is_some() || state.last_reason.is_none() {
        state.last_reason = Some(reason.to_string());
    }
    state.disconnects += 1;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    state.last_time_ns = now.ok().map(|time| time.as_nanos() as u64);
    changes.push(LinkChange::Down(index));
}

fn address(socket: &SocketName) -> Address {
    match socket {
        SocketName::Path(path) => Address::path(path),
        SocketName::Abstract { name, netns } => {
            let address = Address::abstract_name(name);
            netns.as_deref().map_or(address.clone(), |netns| address.in_netns(netns))
        }
    }
}

fn socket_flaw(socket: &SocketName, error: &::memif::Error) -> Flaw {
    Flaw::new("memif.socket", format!("{socket}: {error}"))
        .remedy("see that its directory or network namespace exists and may be used")
}

/// What a peer is told whose interface is deleted.
fn deleted() -> Reason {
    Reason::Local(Text::new("interface deleted"))
}

fn mapped(connection: &Connection) -> u64 {
    let tables = connection.rx.first().map(::memif::RxQueue::regions);
    let tables = tables.or_else(|| connection.tx.first().map(::memif::TxQueue::regions));
    tables.map_or(0, |table| table.regions().iter().map(|region| region.len()).sum())
}
