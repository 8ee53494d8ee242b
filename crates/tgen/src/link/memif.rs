//! memif.

use super::spec::{MemifSpec, Role};
use super::{LinkError, Packets, Parts, Receiver, netns};
use memif::io::{Address, Client, ClientEvent, ClientTiming, Listener, ListenerSettings, ServerEvent};
use memif::region::{CheckedRange, SealPolicy};
use memif::{
    ClientConfig, Connection, InterfaceError, Lines, QueueConfig, QueueError, RingSize, RxSink, Secret,
    ServerConfig, TxSource,
};
use memory::clock::cycles;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A memif interface that is up.
#[derive(Debug)]
pub struct MemifLink {
    name: String,
    control: Control,
    connection: Connection,
}

#[derive(Debug)]
enum Control {
    Client(Client),
    Server(Listener),
    /// The other end is in this process.
    Pair,
}

/// What a control channel said.
enum News {
    Up(Connection),
    /// The link went down, or didn't come up.
    Reason(String),
}

impl Control {
    fn news(&mut self) -> Result<Vec<News>, InterfaceError> {
        let now = Instant::now();
        Ok(match self {
            Self::Client(client) => client
                .process(now)
                .into_iter()
                .map(|event| match event {
                    ClientEvent::Connected(connection) => News::Up(connection),
                    ClientEvent::Disconnected { reason } | ClientEvent::Refused { reason } => {
                        News::Reason(reason.to_string())
                    }
                    ClientEvent::Unreachable { error } => News::Reason(error.to_string()),
                })
                .collect(),
            Self::Server(listener) => listener
                .process(now)?
                .into_iter()
                .map(|event| match event {
                    ServerEvent::Connected(connection) => News::Up(connection),
                    ServerEvent::Disconnected { reason, .. } | ServerEvent::Refused { reason, .. } => {
                        News::Reason(reason.to_string())
                    }
                    ServerEvent::NotAccepting { error } => News::Reason(error.to_string()),
                })
                .collect(),
            Self::Pair => Vec::new(),
        })
    }
}

impl MemifLink {
    /// Brings up an interface, as client or as server, within `wait` seconds.
    ///
    /// # Errors
    /// [`LinkError::Option`], [`LinkError::Memif`], [`LinkError::Down`], and [`LinkError::Stopped`] once `stop` is set.
    pub fn open(name: &str, spec: &MemifSpec, wait: f64, stop: &AtomicBool) -> Result<Self, LinkError> {
        let failed = |source| LinkError::Memif { name: name.into(), source };
        let secret = spec.secret.as_deref().map(Secret::new).transpose();
        let secret = secret.map_err(|error| LinkError::Option {
            name: name.into(),
            what: "secret",
            value: "***".into(),
            reason: error.to_string(),
        })?;
        let Ok(address) = spec.socket.parse::<Address>();
        let mut control = match spec.role {
            Role::Client => {
                let (id, mode) = (spec.id, spec.mode.into());
                let config = ClientConfig {
                    signals: memif::ring::Signals::Direct,
                    id,
                    mode,
                    secret,
                    name: "quiver-tgen".into(),
                    queues: queues(name, spec)?,
                };
                let address = spec.netns.as_deref().map_or(address.clone(), |netns| address.in_netns(netns));
                Control::Client(Client::new(address, config, ClientTiming::default()).map_err(failed)?)
            }
            Role::Server => {
                let config = ServerConfig {
                    mode: spec.mode.into(),
                    secret,
                    name: "quiver-tgen".into(),
                    // Also the pool of a trust group, which several map.
                    seals: SealPolicy::Allow,
                    ..ServerConfig::default()
                };
                let settings = ListenerSettings { name: "quiver-tgen".into(), ..ListenerSettings::default() };
                let mut listener = netns::within(name, spec.netns.as_deref(), || {
                    Listener::bind(&address, settings).map_err(failed)
                })?;
                listener.register(spec.id, config).map_err(failed)?;
                Control::Server(listener)
            }
        };
        let until = Instant::now() + Duration::from_secs_f64(wait);
        let mut last = String::from("no answer");
        while Instant::now() < until {
            for news in control.news().map_err(failed)? {
                match news {
                    News::Up(connection) => return Ok(Self { name: name.into(), control, connection }),
                    News::Reason(reason) => last = reason,
                }
            }
            if stop.load(Ordering::Relaxed) {
                return Err(LinkError::Stopped { name: name.into(), last });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let hint = match spec.role {
            Role::Client => "is the device under test running, and is its socket there?",
            Role::Server => {
                "no client has connected: is the device under test set to be the client of this socket?"
            }
        };
        Err(LinkError::Down { name: name.into(), last, hint })
    }

    /// Both ends of a memif within this process: the client's end, and the server's.
    ///
    /// # Errors
    /// [`LinkError::Option`], [`LinkError::Memif`].
    pub fn pair(spec: &MemifSpec) -> Result<(Self, Self), LinkError> {
        let queues = queues("loop", spec)?;
        let (client, server) =
            memif::in_process(&queues).map_err(|source| LinkError::Memif { name: "loop".into(), source })?;
        let end = |name: &str, connection| Self { name: name.into(), control: Control::Pair, connection };
        Ok((end("loop-client", client), end("loop-server", server)))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn tx_queues(&self) -> usize {
        self.connection.tx.len()
    }

    pub(super) fn own_buffers(&self, queue: usize) -> Option<(u64, u32)> {
        let queue = self.connection.tx.get(queue)?;
        Some((queue.ring_size().descriptors().into(), queue.buffer_size()?))
    }

    #[inline(always)]
    pub(super) fn transmit<P: Packets>(
        &mut self,
        queue: usize,
        n: usize,
        packets: &P,
        rest: bool,
    ) -> Result<usize, LinkError> {
        let Some(queue) = self.connection.tx.get_mut(queue) else { return Ok(0) };
        match queue.transmit(n, &mut Source { packets, rest }) {
            Ok(done) if done.refused > 0 => Err(LinkError::TooLong { name: self.name.clone() }),
            Ok(done) => {
                queue.notify();
                Ok(done.sent)
            }
            Err(error) => Err(lost(&self.name, &error)),
        }
    }

    #[inline(always)]
    pub(super) fn receive<R: Receiver>(&mut self, receiver: &mut R) -> Result<usize, LinkError> {
        let mut received = 0;
        for queue in &mut self.connection.rx {
            match queue.receive(usize::MAX, &mut Sink(receiver)) {
                Ok(0) => {}
                Ok(n) => {
                    queue.release();
                    received += n;
                }
                Err(error) => return Err(lost(&self.name, &error)),
            }
        }
        Ok(received)
    }

    pub(super) fn check(&mut self) -> Result<(), LinkError> {
        let news =
            self.control.news().map_err(|source| LinkError::Memif { name: self.name.clone(), source })?;
        for news in news {
            match (news, &self.control) {
                // A server turns others away without harm to the link that is up.
                (News::Reason(_), Control::Server(listener))
                    if listener.interfaces().any(|(id, _)| listener.is_connected(id)) => {}
                (News::Reason(reason), _) => return Err(LinkError::Lost { name: self.name.clone(), reason }),
                (News::Up(_), _) => {
                    return Err(LinkError::Lost {
                        name: self.name.clone(),
                        reason: "the peer came back anew".into(),
                    });
                }
            }
        }
        Ok(())
    }
}

#[cold]
fn lost(name: &str, QueueError { fault, .. }: &QueueError) -> LinkError {
    LinkError::Lost { name: name.into(), reason: format!("the peer broke the protocol: {fault}") }
}

/// Most queues in each direction: what memif devices (VPP, Quiver) take.
const QUEUES: u16 = 256;

fn queues(name: &str, spec: &MemifSpec) -> Result<QueueConfig, LinkError> {
    let ring_size = RingSize::from_descriptors(spec.ring_size).ok_or_else(|| LinkError::Option {
        name: name.into(),
        what: "ring size",
        value: spec.ring_size.to_string(),
        reason: "a power of two from 64 to 16384".into(),
    })?;
    if !(1..=QUEUES).contains(&spec.queues) {
        return Err(LinkError::Option {
            name: name.into(),
            what: "queues",
            value: spec.queues.to_string(),
            reason: format!("1 to {QUEUES}"),
        });
    }
    let (rx_queues, tx_queues) = (spec.queues, spec.queues);
    Ok(QueueConfig {
        rx_queues,
        tx_queues,
        ring_size,
        buffer_size: spec.buffer_size,
        ..QueueConfig::default()
    })
}

struct Source<'a, P> {
    packets: &'a P,
    rest: bool,
}

impl<P: Packets> TxSource for Source<'_, P> {
    #[inline(always)]
    fn length(&mut self, packet: usize) -> u32 {
        self.packets.len(packet)
    }

    #[inline(always)]
    fn write(&mut self, packet: usize, into: CheckedRange<'_>) {
        self.packets.write(packet, into, self.rest, cycles);
    }

    #[inline(always)]
    fn lines(&self) -> Option<Lines<'_>> {
        self.packets.lines(self.rest)
    }

    #[inline]
    fn write_chain(&mut self, packet: usize, into: &[CheckedRange<'_>]) {
        self.packets.write(packet, into, true, cycles);
    }
}

struct Sink<'a, R>(&'a mut R);

impl<R: Receiver> RxSink for Sink<'_, R> {
    #[inline(always)]
    fn packet(&mut self, bytes: CheckedRange<'_>) {
        self.0.frame(bytes);
    }

    #[inline]
    fn chain(&mut self, parts: &[CheckedRange<'_>], length: u32) {
        self.0.frame(Parts { parts, len: length });
    }
}
