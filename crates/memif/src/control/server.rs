//! The server's side of the control channel, without I/O: messages and descriptors in, messages and a
//! connection out.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use memory::region::{Account, Region, RegionTable, SealPolicy};

use super::message::{RING_S2M, VERSION};
use super::{AddRegion, AddRing, Hello, Init, Lease, Member, Message, Mode, Reason, ServerConfig, Text};
use crate::connection::{Connection, Peer, RingSpec, Role, server_queues};
use crate::ring::{Event, RING_ALIGNMENT, RingError, RingSize, RingView, RxQueue, Signals};

/// The interfaces behind one socket.
pub trait Interfaces {
    /// How interface `id` is set; `None` if there is none.
    fn config(&self, id: u32) -> Option<Arc<ServerConfig>>;

    /// Binds interface `id` to the calling connection, which has shown that it may have it.
    ///
    /// # Errors
    /// [`Reason::AlreadyConnected`], [`Reason::AdminDown`].
    fn claim(&mut self, id: u32) -> Result<(), Reason>;

    /// Whether the peer is one of those that the interface is for; asked before anything else of INIT is
    /// answered. Without a socket there is nobody to tell apart.
    ///
    /// # Errors
    /// [`Reason::NotAllowed`].
    fn admit(&self, config: &ServerConfig) -> Result<(), Reason> {
        let _ = config;
        Ok(())
    }

    /// Where the holes in regions for interface `id` are accounted for, over all its connections. Otherwise each is on its own.
    fn account(&self, id: u32) -> Arc<Account> {
        let _ = id;
        Arc::default()
    }

    /// What interface `id` is where regions and rings of all connections together are bounded. Otherwise they aren't.
    fn quota(&self, id: u32) -> Arc<Member> {
        let _ = id;
        Arc::new(Member::unbounded())
    }
}

/// What HELLO announces: limits of the whole socket. An interface's own may be lower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Name of this application, told to the peer; cut to 31 bytes.
    pub name: String,
    /// Most regions, at least 1.
    pub regions: u16,
    /// Most rings from client to server, at least 1.
    pub rx_queues: u16,
    /// Most rings from server to client, at least 1.
    pub tx_queues: u16,
    /// Largest ring.
    pub ring_size: RingSize,
}

impl Limits {
    /// The least limits that allow everything these interfaces do.
    pub fn of<'c>(name: &str, interfaces: impl IntoIterator<Item = &'c ServerConfig>) -> Self {
        let none =
            Self { name: name.into(), regions: 1, rx_queues: 1, tx_queues: 1, ring_size: RingSize::MIN };
        interfaces.into_iter().fold(none, |all, one| Self {
            regions: all.regions.max(one.max_regions),
            rx_queues: all.rx_queues.max(one.max_rx_queues),
            tx_queues: all.tx_queues.max(one.max_tx_queues),
            ring_size: all.ring_size.max(one.max_ring_size),
            ..all
        })
    }

    fn hello(&self) -> Message {
        Message::Hello(Hello {
            name: Text::new(&self.name),
            min_version: VERSION,
            max_version: VERSION,
            max_region: self.regions.saturating_sub(1),
            max_m2s_ring: self.tx_queues.saturating_sub(1),
            max_s2m_ring: self.rx_queues.saturating_sub(1),
            max_log2_ring_size: self.ring_size.log2(),
        })
    }
}

/// What a message led to.
#[derive(Debug, Default)]
pub struct ServerStep {
    /// To be sent.
    pub reply: Option<Message>,
    /// The connection, once established.
    pub connection: Option<Connection>,
}

/// What a message led to, or will once its region is mapped.
#[derive(Debug)]
pub enum ServerNext {
    /// It is dealt with.
    Step(ServerStep),
    /// [Maps](Unmapped::map) it, wherever that may take its time, and tells [how that went](ServerMachine::mapped).
    Map(Unmapped),
}

/// A region that may be mapped.
#[derive(Debug)]
pub struct Unmapped {
    fd: OwnedFd,
    size: u64,
    seals: SealPolicy,
    account: Arc<Account>,
    max_holes: u64,
    lease: Lease,
}

impl Unmapped {
    /// May wait for whoever has the file.
    ///
    /// # Errors
    /// [`Reason`] to disconnect.
    pub fn map(self) -> Result<Region, Reason> {
        let Self { fd, size, seals, account, max_holes, lease } = self;
        Ok(Region::map_on(fd, size, seals, &account, max_holes)?.with_lease(lease))
    }
}

/// Why a message is refused that came with descriptors while none are due.
pub(super) fn not_due(bytes: &[u8], state: &'static str) -> Reason {
    match Message::decode(bytes) {
        Err(reason) => reason,
        Ok(message) if message.has_descriptor() => Reason::Unexpected { message: message.name(), state },
        Ok(message) => Reason::DescriptorsNotDue { message: message.name() },
    }
}

/// Whether a message came with as many descriptors as it has.
fn count(message: &Message, count: usize) -> Result<(), Reason> {
    let expected = usize::from(message.has_descriptor());
    let wrong = Reason::FileDescriptors { message: message.name(), count, expected };
    if count == expected { Ok(()) } else { Err(wrong) }
}

/// The server's side of one control channel.
///
/// ```text
/// HELLO sent ─INIT→ claimed ─ADD_REGION…→ ─ADD_RING…→ ─CONNECT→ connected
/// ```
/// Every message is legal in its state only; DISCONNECT in all. After an error the channel must be closed.
#[derive(Debug)]
pub struct ServerMachine {
    limits: Limits,
    state: State,
    asked: Option<u32>,
}

#[derive(Debug)]
enum State {
    AwaitInit,
    Announcing(Box<Announced>),
    Connected { id: u32 },
}

#[derive(Debug)]
struct Announced {
    id: u32,
    config: Arc<ServerConfig>,
    account: Arc<Account>,
    quota: Arc<Member>,
    application: Text<32>,
    regions: Vec<Arc<Region>>,
    /// Whether the next one is being mapped.
    mapping: bool,
    memory: u64,
    client_tx: Vec<RingSpec>,
    client_rx: Vec<RingSpec>,
}

impl ServerMachine {
    /// For a connection just accepted; gives HELLO, to be sent.
    #[must_use]
    pub fn new(limits: Limits) -> (Self, Message) {
        let hello = limits.hello();
        (Self { limits, state: State::AwaitInit, asked: None }, hello)
    }

    /// The interface this connection has claimed.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        match &self.state {
            State::AwaitInit => None,
            State::Announcing(announced) => Some(announced.id),
            State::Connected { id } => Some(*id),
        }
    }

    /// The interface this connection asked for, given or not.
    #[must_use]
    pub const fn asked(&self) -> Option<u32> {
        self.asked
    }

    /// Whether the next message may have a descriptor: a client's that has claimed an interface, and is not connected yet.
    #[must_use]
    pub const fn takes_descriptors(&self) -> bool {
        matches!(self.state, State::Announcing(_))
    }

    /// Whether the handshake is done.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected { .. })
    }

    /// Why a message with descriptors is refused while [none are due](Self::takes_descriptors), which were not even taken.
    #[must_use]
    pub fn not_due(&self, bytes: &[u8]) -> Reason {
        not_due(bytes, self.state.activity())
    }

    /// Whether a message came with as many descriptors as it has, so that they needn't be given to find out that they are refused.
    ///
    /// # Errors
    /// [`Reason`] to disconnect.
    pub fn check_count(bytes: &[u8], descriptors: usize) -> Result<(), Reason> {
        count(&Message::decode(bytes)?, descriptors)
    }

    /// Regions that were announced, and that nobody has but this machine: to free them takes time.
    #[must_use]
    pub fn regions(&self) -> usize {
        match &self.state {
            State::Announcing(announced) => announced.regions.len(),
            _ => 0,
        }
    }

    /// The same, with rings: to close their eventfds takes time where clients make it.
    pub(crate) fn descriptors(&self) -> usize {
        match &self.state {
            State::Announcing(announced) => {
                announced.regions.len() + announced.client_tx.len() + announced.client_rx.len()
            }
            _ => 0,
        }
    }

    /// Closes the descriptors of rings that were announced, and gives back what they had of the quota: unlike regions they don't take time.
    pub(crate) fn close_rings(&mut self) {
        if let State::Announcing(announced) = &mut self.state {
            announced.client_tx.clear();
            announced.client_rx.clear();
        }
    }

    /// Takes a message as it came off the socket, and the descriptors that came with it. Those not used are
    /// closed.
    ///
    /// # Errors
    /// [`Reason`] to disconnect, also if the peer disconnects.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        fds: Vec<OwnedFd>,
        interfaces: &mut impl Interfaces,
    ) -> Result<ServerStep, Reason> {
        match self.begin(bytes, fds, interfaces)? {
            ServerNext::Step(step) => Ok(step),
            ServerNext::Map(unmapped) => self.mapped(unmapped.map()),
        }
    }

    /// The same, up to where a region is to be mapped. Until that is [done](Self::mapped) every message is refused: who reads on meanwhile
    /// would have rings lie in a region that isn't there yet.
    ///
    /// # Errors
    /// [`Reason`] to disconnect, also if the peer disconnects.
    pub fn begin(
        &mut self,
        bytes: &[u8],
        fds: Vec<OwnedFd>,
        interfaces: &mut impl Interfaces,
    ) -> Result<ServerNext, Reason> {
        let message = Message::decode(bytes)?;
        let name = message.name();
        count(&message, fds.len())?;
        let fd = fds.into_iter().next();

        match (&mut self.state, message, fd) {
            (_, Message::Disconnect { code, reason }, _) => Err(Reason::Peer { code, text: reason }),
            (State::AwaitInit, Message::Init(init), _) => {
                self.asked = Some(init.id);
                self.state = State::Announcing(Box::new(claim(init, interfaces)?));
                Ok(ServerNext::Step(ack()))
            }
            (State::Announcing(announced), _, _) if announced.mapping => {
                Err(Reason::Unexpected { message: name, state: "a region is being mapped" })
            }
            (State::Announcing(announced), Message::AddRegion(region), Some(fd)) => {
                let unmapped = announced.add_region(region, fd, &self.limits)?;
                announced.mapping = true;
                Ok(ServerNext::Map(unmapped))
            }
            (State::Announcing(announced), Message::AddRing(ring), Some(fd)) => {
                announced.add_ring(ring, fd, &self.limits)?;
                Ok(ServerNext::Step(ack()))
            }
            (State::Announcing(announced), Message::Connect { interface }, _) => {
                let connection = announced.connect(interface)?;
                let reply = Message::Connected { interface: Text::new(&announced.config.name) };
                self.state = State::Connected { id: announced.id };
                Ok(ServerNext::Step(ServerStep { reply: Some(reply), connection: Some(connection) }))
            }
            (state, _, _) => Err(Reason::Unexpected { message: name, state: state.activity() }),
        }
    }

    /// The region that was to be [mapped](ServerNext::Map).
    ///
    /// # Errors
    /// [`Reason`] to disconnect.
    pub fn mapped(&mut self, region: Result<Region, Reason>) -> Result<ServerStep, Reason> {
        let (region, state) = (region?, self.state.activity());
        match &mut self.state {
            State::Announcing(announced) if announced.mapping => {
                announced.mapping = false;
                announced.regions.push(Arc::new(region));
                Ok(ack())
            }
            _ => Err(Reason::Unexpected { message: "ADD_REGION", state }),
        }
    }
}

impl State {
    const fn activity(&self) -> &'static str {
        match self {
            Self::AwaitInit => "waiting for INIT",
            Self::Announcing(_) => "waiting for regions, rings and CONNECT",
            Self::Connected { .. } => "connected",
        }
    }
}

fn ack() -> ServerStep {
    ServerStep { reply: Some(Message::Ack), connection: None }
}

/// Checks all that INIT says; claims the interface last.
fn claim(init: Init, interfaces: &mut impl Interfaces) -> Result<Announced, Reason> {
    if init.version != VERSION {
        return Err(Reason::Version(init.version));
    }
    let config = interfaces.config(init.id).ok_or(Reason::UnknownInterface(init.id))?;
    interfaces.admit(&config)?;
    if init.mode != Mode::number(config.mode) {
        return Err(Reason::Mode { interface: config.mode, peer: init.mode });
    }
    match (&config.secret, &init.secret) {
        (None, _) => {}
        (Some(_), None) => return Err(Reason::SecretRequired),
        (Some(ours), Some(theirs)) if ours.matches(theirs) => {}
        (Some(_), Some(_)) => return Err(Reason::WrongSecret),
    }
    interfaces.claim(init.id)?;
    Ok(Announced {
        id: init.id,
        config,
        account: interfaces.account(init.id),
        quota: interfaces.quota(init.id),
        application: init.name,
        regions: Vec::new(),
        mapping: false,
        memory: 0,
        client_tx: Vec::new(),
        client_rx: Vec::new(),
    })
}

impl Announced {
    fn add_region(&mut self, message: AddRegion, fd: OwnedFd, limits: &Limits) -> Result<Unmapped, Reason> {
        if !(self.client_tx.is_empty() && self.client_rx.is_empty()) {
            return Err(Reason::Unexpected { message: "ADD_REGION", state: "rings are announced" });
        }
        let expected = self.regions.len();
        if usize::from(message.index) != expected {
            return Err(Reason::RegionIndex { index: message.index, expected });
        }
        let max = limits.regions.min(self.config.max_regions);
        if expected >= usize::from(max) {
            return Err(Reason::TooManyRegions(max));
        }
        let total = self.memory.saturating_add(message.size);
        if total > self.config.max_memory {
            return Err(Reason::TooMuchMemory { total, max: self.config.max_memory });
        }
        let lease = self.quota.region(message.size)?;
        let ServerConfig { seals, max_holes, .. } = *self.config;
        let account = Arc::clone(&self.account);
        self.memory = total;
        Ok(Unmapped { fd, size: message.size, seals, account, max_holes, lease })
    }

    fn add_ring(&mut self, message: AddRing, fd: OwnedFd, limits: &Limits) -> Result<(), Reason> {
        let AddRing { flags, index, region, offset, log2_ring_size: log2, private_hdr_size } = message;
        if flags & !RING_S2M != 0 {
            return Err(Reason::RingFlags(flags));
        }
        if private_hdr_size != 0 {
            return Err(Reason::PrivateHeader);
        }
        let (rings, max) = if flags & RING_S2M != 0 {
            (&mut self.client_tx, limits.rx_queues.min(self.config.max_rx_queues))
        } else {
            (&mut self.client_rx, limits.tx_queues.min(self.config.max_tx_queues))
        };
        if usize::from(index) != rings.len() {
            return Err(Reason::RingIndex { index, expected: rings.len() });
        }
        if rings.len() >= usize::from(max) {
            return Err(Reason::TooManyRings(max));
        }
        let max = limits.ring_size.min(self.config.max_ring_size);
        let size = RingSize::from_log2(log2).filter(|size| *size <= max);
        let size = size.ok_or(Reason::RingSize { log2, max: max.log2() })?;
        let end = u64::from(offset) + u64::from(RingView::bytes(size));
        if self.regions.get(usize::from(region)).is_none_or(|region| end > region.len()) {
            return Err(RingError::Outside { region, offset, descriptors: size.descriptors() }.into());
        }
        if !offset.is_multiple_of(RING_ALIGNMENT) {
            return Err(RingError::Misaligned(offset).into());
        }
        let lease = self.quota.ring()?;
        // A doorbell never reads it.
        let read = self.config.signals == Signals::Direct;
        let event = Event::from_peer(fd, Some(lease), read).map_err(Reason::NotAnEventfd)?;
        rings.push(RingSpec { region, offset, size, event });
        Ok(())
    }

    fn connect(&mut self, interface: Text<32>) -> Result<Connection, Reason> {
        if self.client_tx.is_empty() && self.client_rx.is_empty() {
            return Err(Reason::NoRings);
        }
        // They stay here until it is known that there is a connection: whoever has the machine drops what is refused.
        let table = Arc::new(RegionTable::new(self.regions.clone())?);
        let (rx, tx) =
            server_queues(&table, &mut self.client_tx, &mut self.client_rx, self.config.max_packet)?;
        rx.iter().for_each(RxQueue::start);
        Ok(Connection {
            role: Role::Server,
            id: self.id,
            mode: self.config.mode,
            peer: Peer { application: self.application.clone(), interface, credentials: None },
            rx,
            tx,
        })
    }
}

#[cfg(test)]
mod tests;
