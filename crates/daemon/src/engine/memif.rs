//! All memif interfaces: listening sockets, clients, and the state of their links.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use ::memif::control::Text;
use ::memif::io::{Address, Client, ClientEvent, ClientTiming, Listener, ListenerSettings, ServerEvent};
use ::memif::region::{HugePages, SealPolicy};
use ::memif::{Admission, ClientConfig, Mode, QueueConfig, Reason, RingSize, Secret, ServerConfig};
use api::v1::{MemifMode, MemifRole};
use graph::port::IfIndex;
use rustix::event::epoll;

use super::accounts;
use super::links::{LinkChange, LinkState, Links};
use crate::model::Flaw;
use crate::model::spec::{Access, MemifSpec, SocketFile, SocketName};

/// Memory regions of a peer. One is usual, a pool of packet buffers has some; more would let a few peers use up the places of the
/// guard that all share.
const REGIONS: u16 = 16;

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
    links: Links,
    huge_pages: HugePages,
}

impl Memifs {
    /// None yet. Their descriptors will be added to `epoll`.
    pub(super) fn new(epoll: Arc<OwnedFd>, huge_pages: HugePages) -> Self {
        let (sockets, places, links) = Default::default();
        Self { epoll, sockets, places, links, huge_pages }
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
                max_regions: REGIONS,
                max_rx_queues: spec.rx_queues as u16,
                max_tx_queues: spec.tx_queues as u16,
                admission: admission(&spec.access),
                seals: if spec.access.unsealed { SealPolicy::Allow } else { SealPolicy::Require },
                ..ServerConfig::default()
            };
            let socket = self.socket(&spec.socket, &address, settings(&spec.access.file)?)?;
            socket.listener.register(spec.id, config).map_err(|error| socket_flaw(&spec.socket, &error))?;
            socket.ids.insert(spec.id, index);
            Place::Server(spec.socket.clone(), spec.id)
        };
        self.places.insert(index, place);
        self.links.open(index, name);
        Ok(())
    }

    fn watch(&self, fd: std::os::fd::BorrowedFd<'_>, socket: &SocketName) -> Result<(), Flaw> {
        let data = epoll::EventData::new_u64(1);
        epoll::add(&*self.epoll, fd, data, epoll::EventFlags::IN).map_err(|errno| {
            Flaw::new("memif.socket", format!("{socket}: can't be watched: {errno}"))
                .remedy("raise the limit on open files")
        })
    }

    /// The socket of this name, with such a file: also where other interfaces had it open already.
    fn socket(
        &mut self,
        name: &SocketName,
        address: &Address,
        settings: ListenerSettings,
    ) -> Result<&mut Socket, Flaw> {
        if let Some(socket) = self.sockets.get_mut(name) {
            let file = (settings.mode, settings.owner, settings.group);
            socket.listener.set_file(file.0, file.1, file.2).map_err(|error| socket_flaw(name, &error))?;
        } else {
            let listener = Listener::bind(address, settings).map_err(|error| socket_flaw(name, &error))?;
            self.watch(listener.fd(), name)?;
            self.sockets.insert(name.clone(), Socket { listener, ids: HashMap::new() });
        }
        self.sockets.get_mut(name).ok_or_else(|| Flaw::new("memif.socket", name.to_string()))
    }

    /// Ends the interface's link and stops to listen or to connect for it.
    pub(super) fn close(&mut self, index: IfIndex) {
        self.links.close(index);
        match self.places.remove(&index) {
            Some(Place::Server(name, id)) => {
                let Some(socket) = self.sockets.get_mut(&name) else { return };
                socket.listener.disconnect(id, &deleted());
                socket.listener.unregister(id);
                socket.ids.remove(&id);
                if socket.ids.is_empty() {
                    self.sockets.remove(&name);
                    self.links.close_socket(&name);
                }
            }
            Some(Place::Client(mut client)) => client.disconnect(Instant::now(), &deleted()),
            None => {}
        }
    }

    /// Ends the link of an interface whose peer broke the rules of the rings.
    pub(super) fn fault(&mut self, index: IfIndex, what: &str) {
        if !self.links.fault(index, what) {
            return;
        }
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
                    let change = |event| server_event(event, name, &socket.ids, &mut self.links);
                    changes.extend(events.into_iter().filter_map(change));
                }
                Err(error) => tracing::error!(socket = %name, %error, "the memif socket can't be served"),
            }
        }
        for (index, place) in &mut self.places {
            let Place::Client(client) = place else { continue };
            let change = |event| client_event(event, *index, &mut self.links);
            changes.extend(client.process(now).into_iter().filter_map(change));
        }
        changes
    }

    /// What is known of the link of `index`.
    pub(super) fn state(&self, index: IfIndex) -> Option<&LinkState> {
        self.links.get(index)
    }

    /// All that is known of links.
    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// Writes to the log what was kept back, where that is due.
    pub(super) fn report(&mut self, now: Instant) {
        self.links.report(now);
    }
}

fn server_event(
    event: ServerEvent,
    socket: &SocketName,
    ids: &HashMap<u32, IfIndex>,
    links: &mut Links,
) -> Option<LinkChange> {
    match event {
        ServerEvent::Connected(connection) => {
            ids.get(&connection.id).and_then(|index| links.up(*index, connection))
        }
        ServerEvent::Disconnected { id, reason } => {
            ids.get(&id).and_then(|index| links.down(*index, &reason))
        }
        ServerEvent::NotAccepting { error } => {
            tracing::error!(%socket, %error, "memif peers can't be accepted");
            None
        }
        ServerEvent::Refused { id, reason } => {
            links.turned_away(socket, id.and_then(|id| ids.get(&id)).copied(), id, &reason);
            None
        }
    }
}

fn client_event(event: ClientEvent, index: IfIndex, links: &mut Links) -> Option<LinkChange> {
    match event {
        ClientEvent::Connected(connection) => links.up(index, connection),
        ClientEvent::Disconnected { reason } => links.down(index, &reason),
        ClientEvent::Refused { reason } => {
            links.refused(index, &reason);
            None
        }
        ClientEvent::Unreachable { error } => {
            links.unreachable(index, &error);
            None
        }
    }
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

fn settings(file: &SocketFile) -> Result<ListenerSettings, Flaw> {
    Ok(ListenerSettings {
        mode: file.mode,
        owner: file.owner.as_ref().map(accounts::user).transpose()?,
        group: file.group.as_ref().map(accounts::group).transpose()?,
        ..ListenerSettings::default()
    })
}

fn admission(access: &Access) -> Admission {
    Admission {
        uids: access.uids.clone(),
        gids: access.gids.clone(),
        pid_namespace: access.pid_namespace.clone().map(Into::into),
    }
}

/// What a peer is told whose interface is deleted.
fn deleted() -> Reason {
    Reason::Local(Text::new("interface deleted"))
}
