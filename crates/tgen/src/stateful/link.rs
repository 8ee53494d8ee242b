//! The links of the two sides: memif in either role, or both ends of one ring.

use crate::link::LinkError;
use memif::io::{Address, Client, ClientEvent, ClientTiming, Listener, ListenerSettings, ServerEvent};
use memif::{ClientConfig, Connection, Mode, QueueConfig, Secret, ServerConfig};
use std::time::{Duration, Instant};

/// Where an interface is, and which end of it we are.
#[derive(Clone, Debug)]
pub struct Place {
    /// `SOCKET` or `SOCKET#ID`.
    pub name: String,
    /// Network namespace of an abstract socket.
    pub netns: Option<String>,
    /// Listen instead of connecting.
    pub listen: bool,
}

/// What both interfaces have in common.
#[derive(Clone, Debug)]
pub struct Common {
    /// What packets begin with.
    pub mode: Mode,
    /// Secret.
    pub secret: Option<Secret>,
    /// Rings and buffers.
    pub queues: QueueConfig,
    /// How long to wait for the link.
    pub wait: Duration,
}

/// Time between two looks at a link that isn't up.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug)]
enum Control {
    Client(Client),
    Server(Listener),
    None,
}

/// A link that is up.
#[derive(Debug)]
pub struct Link {
    control: Control,
    /// Its queues.
    pub connection: Connection,
    name: String,
}

impl Link {
    /// Both ends of one ring.
    ///
    /// # Errors
    /// [`LinkError::Memif`] if there is no memory for it.
    pub fn pair(queues: &QueueConfig) -> Result<(Self, Self), LinkError> {
        let failed = |source| LinkError::Memif { socket: "in this process".into(), source };
        let (a, b) = memif::in_process(queues).map_err(failed)?;
        let link = |connection| Self { control: Control::None, connection, name: "in this process".into() };
        Ok((link(a), link(b)))
    }

    /// Whether the link still is up.
    ///
    /// # Errors
    /// [`LinkError::Down`] with the reason when it isn't.
    pub fn check(&mut self) -> Result<(), LinkError> {
        let down = |reason: String| LinkError::Down { socket: self.name.clone(), last: reason };
        let now = Instant::now();
        match &mut self.control {
            Control::None => {}
            Control::Client(client) => {
                for event in client.process(now) {
                    if let ClientEvent::Disconnected { reason } | ClientEvent::Refused { reason } = event {
                        return Err(down(reason.to_string()));
                    }
                }
            }
            Control::Server(listener) => {
                for event in listener.process(now).map_err(|error| down(error.to_string()))? {
                    if let ServerEvent::Disconnected { reason, .. } = event {
                        return Err(down(reason.to_string()));
                    }
                }
            }
        }
        Ok(())
    }
}

/// A link that is not yet up.
#[derive(Debug)]
pub struct Pending {
    control: Control,
    name: String,
    last: String,
    wait: Duration,
}

impl Pending {
    /// Begins to connect or to listen.
    ///
    /// # Errors
    /// [`LinkError`] when that can't be.
    pub fn new(place: &Place, common: &Common) -> Result<Self, LinkError> {
        let (socket, id) = place.name.rsplit_once('#').unwrap_or((&place.name, "0"));
        let id = id.parse().map_err(|_| LinkError::Option {
            what: "interface id",
            value: id.into(),
            reason: "a number from 0 to 4294967295".into(),
        })?;
        let address = match socket.parse::<Address>() {
            Ok(address) => address,
            Err(never) => match never {},
        };
        let address = place.netns.as_ref().map_or(address.clone(), |netns| address.in_netns(netns));
        let failed = |source| LinkError::Memif { socket: socket.into(), source };
        let name = String::from("quiver-tgen");
        let secret = common.secret;
        let control = if place.listen {
            let settings = ListenerSettings { name: name.clone(), ..ListenerSettings::default() };
            let mut listener = Listener::bind(&address, settings).map_err(failed)?;
            let config = ServerConfig { mode: common.mode, secret, name, ..ServerConfig::default() };
            listener.register(id, config).map_err(failed)?;
            Control::Server(listener)
        } else {
            let config = ClientConfig { id, mode: common.mode, secret, name, queues: common.queues.clone() };
            Control::Client(Client::new(address, config, ClientTiming::default()).map_err(failed)?)
        };
        Ok(Self { control, name: place.name.clone(), last: "no answer".into(), wait: common.wait })
    }

    /// Waits until it is up.
    ///
    /// # Errors
    /// [`LinkError::Down`] when it doesn't come up in time.
    pub fn up(mut self) -> Result<Link, LinkError> {
        let until = Instant::now() + self.wait;
        loop {
            if let Some(connection) = self.process()? {
                return Ok(self.link(connection));
            }
            if Instant::now() >= until {
                return Err(LinkError::Down { socket: self.name, last: self.last });
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn link(self, connection: Connection) -> Link {
        Link { control: self.control, connection, name: self.name }
    }

    fn process(&mut self) -> Result<Option<Connection>, LinkError> {
        let now = Instant::now();
        match &mut self.control {
            Control::None => {}
            Control::Client(client) => {
                for event in client.process(now) {
                    match event {
                        ClientEvent::Connected(connection) => return Ok(Some(connection)),
                        ClientEvent::Disconnected { reason } | ClientEvent::Refused { reason } => {
                            self.last = reason.to_string();
                        }
                        ClientEvent::Unreachable { error } => self.last = error.to_string(),
                    }
                }
            }
            Control::Server(listener) => {
                let failed = |source| LinkError::Memif { socket: self.name.clone(), source };
                for event in listener.process(now).map_err(failed)? {
                    match event {
                        ServerEvent::Connected(connection) => return Ok(Some(connection)),
                        ServerEvent::Disconnected { reason, .. } | ServerEvent::Refused { reason, .. } => {
                            self.last = reason.to_string();
                        }
                    }
                }
            }
        }
        Ok(None)
    }
}

/// Waits until both links are up: for both together, since a device may bring up one only after the other.
///
/// # Errors
/// [`LinkError::Down`] when one doesn't come up in time.
pub fn up(mut first: Pending, mut second: Pending) -> Result<(Link, Link), LinkError> {
    let until = Instant::now() + first.wait.max(second.wait);
    let (mut a, mut b) = (None, None);
    loop {
        if a.is_none() {
            a = first.process()?;
        }
        if b.is_none() {
            b = second.process()?;
        }
        (a, b) = match (a, b) {
            (Some(a), Some(b)) => return Ok((first.link(a), second.link(b))),
            missing => missing,
        };
        if Instant::now() >= until {
            let missing = if a.is_none() { first } else { second };
            return Err(LinkError::Down { socket: missing.name, last: missing.last });
        }
        std::thread::sleep(PAUSE);
    }
}
