//! The client's side of the control channel, without I/O: messages in, messages with descriptors and a
//! connection out.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use memory::region::{Region, RegionError};

use super::message::{RING_S2M, VERSION};
use super::server::not_due;
use super::{AddRegion, AddRing, ClientConfig, Hello, Init, Message, QueueConfig, Reason, Text};
use crate::Error;
use crate::connection::{ClientMemory, Connection, Peer, Role, duplicate, offset};
use crate::ring::{Event, RingSize, RxQueue};

/// A message, and the descriptor that goes with it.
pub type Announcement = (Message, Option<OwnedFd>);

/// What a message led to.
#[derive(Debug, Default)]
pub struct ClientStep {
    /// To be sent, with the descriptor that belongs to it.
    pub send: Option<Announcement>,
    /// The connection, once established.
    pub connection: Option<Connection>,
}

/// What a message led to, or will once our region is sealed.
#[derive(Debug)]
pub enum ClientNext {
    /// It is dealt with.
    Step(ClientStep),
    /// [Seals](Unsealed::seal) it, wherever that may take its time, and tells [how that went](ClientMachine::sealed).
    Seal(Unsealed),
}

/// Our region, which the server has mapped by now, and could have us sleep on: see `SealPolicy`.
#[derive(Debug)]
pub struct Unsealed(Option<Arc<Region>>);

impl Unsealed {
    /// May wait for whoever has the file.
    ///
    /// # Errors
    /// A server that has taken care that we can't isn't one to talk to.
    pub fn seal(self) -> Result<(), Reason> {
        let sealed = self.0.map_or(Ok(()), |own| own.keep_pages());
        sealed.map_err(|_| RegionError::Unsealable.into())
    }
}

/// The client's side of one control channel. Sends one message and waits for its ACK before the next:
/// INIT, ADD_REGION, ADD_RING of all rings to the server, of all from it, CONNECT.
///
/// Every message is legal in its state only; DISCONNECT in all. After an error the channel must be closed.
#[derive(Debug)]
pub struct ClientMachine {
    config: ClientConfig,
    state: State,
}

#[derive(Debug)]
enum State {
    AwaitHello,
    /// A message is out and waits for its ACK; these follow.
    AwaitAck(Box<Setup>),
    /// CONNECT is out.
    AwaitConnected(Box<Setup>),
    /// The server is done, our region is being sealed.
    Sealing(Box<Setup>, Text<32>),
    Connected,
}

#[derive(Debug)]
struct Setup {
    memory: ClientMemory,
    server: Text<32>,
    announcements: VecDeque<Announcement>,
}

impl ClientMachine {
    /// For a connection just made; the server speaks first.
    #[must_use]
    pub const fn new(config: ClientConfig) -> Self {
        Self { config, state: State::AwaitHello }
    }

    /// Whether the handshake is done.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected)
    }

    /// Why a message with descriptors is refused: servers send none, and these were not even taken.
    #[must_use]
    pub fn not_due(&self, bytes: &[u8]) -> Reason {
        not_due(bytes, self.state.activity())
    }

    /// Takes a message as it came off the socket, and the descriptors that came with it, of which there must
    /// be none.
    ///
    /// # Errors
    /// [`Reason`] to disconnect, also if the peer disconnects.
    pub fn receive(&mut self, bytes: &[u8], fds: Vec<OwnedFd>) -> Result<ClientStep, Reason> {
        match self.begin(bytes, fds)? {
            ClientNext::Step(step) => Ok(step),
            ClientNext::Seal(unsealed) => {
                let connection = self.sealed(unsealed.seal())?;
                Ok(ClientStep { send: None, connection: Some(connection) })
            }
        }
    }

    /// The same, up to where our region is to be sealed. Nothing but DISCONNECT is legal before that is done.
    ///
    /// # Errors
    /// [`Reason`] to disconnect, also if the peer disconnects.
    pub fn begin(&mut self, bytes: &[u8], fds: Vec<OwnedFd>) -> Result<ClientNext, Reason> {
        let message = Message::decode(bytes)?;
        let name = message.name();
        if !fds.is_empty() {
            return Err(Reason::FileDescriptors { message: name, count: fds.len(), expected: 0 });
        }
        if let Message::Disconnect { code, reason } = message {
            return Err(Reason::Peer { code, text: reason });
        }
        if self.is_connected() {
            return Err(Reason::Unexpected { message: name, state: State::Connected.activity() });
        }
        // An error leaves the machine where nothing but HELLO is legal; the caller closes the channel anyway.
        match (std::mem::replace(&mut self.state, State::AwaitHello), message) {
            (State::AwaitHello, Message::Hello(hello)) => Ok(self.next(Box::new(self.set_up(&hello)?))),
            (State::AwaitAck(setup), Message::Ack) => Ok(self.next(setup)),
            (State::AwaitConnected(setup), Message::Connected { interface }) => {
                // A pool, which others are still to map, can't be sealed so.
                let own = setup.memory.regions.first().cloned();
                self.state = State::Sealing(setup, interface);
                Ok(ClientNext::Seal(Unsealed(own)))
            }
            (state, _) => Err(Reason::Unexpected { message: name, state: state.activity() }),
        }
    }

    /// The region that was to be [sealed](ClientNext::Seal).
    ///
    /// # Errors
    /// [`Reason`] to disconnect.
    pub fn sealed(&mut self, sealed: Result<(), Reason>) -> Result<Connection, Reason> {
        sealed?;
        // Likewise.
        match std::mem::replace(&mut self.state, State::AwaitHello) {
            State::Sealing(setup, interface) => {
                self.state = State::Connected;
                let Setup { memory, server, .. } = *setup;
                memory.rx.iter().for_each(RxQueue::start);
                Ok(Connection {
                    role: Role::Client,
                    id: self.config.id,
                    mode: self.config.mode,
                    peer: Peer { application: server, interface, credentials: None },
                    rx: memory.rx,
                    tx: memory.tx,
                })
            }
            state => Err(Reason::Unexpected { message: "CONNECTED", state: state.activity() }),
        }
    }

    /// Sends the next announcement.
    fn next(&mut self, mut setup: Box<Setup>) -> ClientNext {
        let send = setup.announcements.pop_front();
        self.state = match &send {
            Some((Message::Connect { .. }, _)) => State::AwaitConnected(setup),
            _ => State::AwaitAck(setup),
        };
        ClientNext::Step(ClientStep { send, connection: None })
    }

    /// Makes the memory, as large as both sides want, and the list of what to say about it.
    fn set_up(&self, hello: &Hello) -> Result<Setup, Reason> {
        if !(hello.min_version..=hello.max_version).contains(&VERSION) {
            let (min, max) = (hello.min_version, hello.max_version);
            return Err(if min == max { Reason::Version(max) } else { Reason::Versions { min, max } });
        }
        let log2 = hello.max_log2_ring_size.min(RingSize::MAX.log2());
        let refused = Reason::RingSize { log2: hello.max_log2_ring_size, max: RingSize::MAX.log2() };
        let largest = RingSize::from_log2(log2).ok_or(refused)?;
        let ours = &self.config.queues;
        if ours.pool.is_some() && hello.max_region == 0 {
            return Err(Reason::TooManyRegions(1));
        }
        let queues = QueueConfig {
            tx_queues: ours.tx_queues.min(hello.max_s2m_ring.saturating_add(1)),
            rx_queues: ours.rx_queues.min(hello.max_m2s_ring.saturating_add(1)),
            ring_size: ours.ring_size.min(largest),
            ..ours.clone()
        };
        let setup_failed = |error: Error| Reason::Setup(Text::new(&error.to_string()));
        let memory = ClientMemory::new(&self.config.name, &queues).map_err(setup_failed)?;
        let announcements = self.announcements(&memory, queues.ring_size).map_err(setup_failed)?;
        Ok(Setup { memory, server: hello.name.clone(), announcements })
    }

    fn announcements(&self, memory: &ClientMemory, size: RingSize) -> Result<VecDeque<Announcement>, Error> {
        let init = Init {
            version: VERSION,
            id: self.config.id,
            mode: self.config.mode.number(),
            secret: self.config.secret,
            name: Text::new(&self.config.name),
        };
        let mut all = VecDeque::from([(Message::Init(init), None)]);
        for (index, region) in (0..).zip(&memory.regions) {
            let announced = AddRegion { index, size: region.len() };
            all.push_back((Message::AddRegion(announced), Some(duplicate(region.fd())?)));
        }
        let layout = memory.layout;
        for (index, queue) in (0..).zip(&memory.tx) {
            all.push_back(ring(RING_S2M, index, layout.tx_ring(index), size, queue.event())?);
        }
        for (index, queue) in (0..).zip(&memory.rx) {
            all.push_back(ring(0, index, layout.rx_ring(index), size, Some(queue.event()))?);
        }
        all.push_back((Message::Connect { interface: Text::new(&self.config.name) }, None));
        Ok(all)
    }
}

fn ring(
    flags: u16,
    index: u16,
    at: u64,
    size: RingSize,
    event: Option<&Event>,
) -> Result<Announcement, Error> {
    let log2_ring_size = size.log2();
    let ring = AddRing { flags, index, region: 0, offset: offset(at)?, log2_ring_size, private_hdr_size: 0 };
    Ok((Message::AddRing(ring), event.map(|event| duplicate(event.fd())).transpose()?))
}

impl State {
    const fn activity(&self) -> &'static str {
        match self {
            Self::AwaitHello => "waiting for HELLO",
            Self::AwaitAck(_) => "waiting for ACK",
            Self::AwaitConnected(_) => "waiting for CONNECTED",
            Self::Sealing(..) => "the region is being sealed",
            Self::Connected => "connected",
        }
    }
}
