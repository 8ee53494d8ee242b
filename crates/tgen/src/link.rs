//! memif interfaces, as client.

use crate::options::{LinkMode, Options};
use memif::io::{Address, Client, ClientEvent, ClientTiming};
use memif::{ClientConfig, Connection, Mode, QueueConfig, RingSize, Secret};
use std::time::{Duration, Instant};

/// Why an interface can't be had.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The option doesn't parse.
    #[error("{what} {value:?} is not valid: {reason}")]
    Option {
        /// Which option.
        what: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The library refuses.
    #[error("memif interface {socket}: {source}")]
    Memif {
        /// The socket.
        socket: String,
        /// Why.
        source: memif::Error,
    },
    /// The time is up.
    #[error(
        "memif interface {socket} did not come up: {last} (is the device under test running, and is its socket there?)"
    )]
    Down {
        /// The socket.
        socket: String,
        /// What was heard last.
        last: String,
    },
}

/// An interface that is up.
#[derive(Debug)]
pub struct Link {
    /// Keeps the control channel.
    pub client: Client,
    /// The queues.
    pub connection: Connection,
}

/// Brings up the interface `name`, `SOCKET` or `SOCKET#ID`, whose abstract socket lies in `netns`.
///
/// # Errors
/// [`LinkError`] when the name is not valid or the interface doesn't come up in time.
pub fn up(name: &str, netns: Option<&str>, options: &Options) -> Result<Link, LinkError> {
    let (socket, id) = name.rsplit_once('#').unwrap_or((name, "0"));
    let bad = |what, value: &str, reason: String| LinkError::Option { what, value: value.into(), reason };
    let id = id.parse().map_err(|_| bad("interface id", id, "a number from 0 to 4294967295".into()))?;
    let ring_size = RingSize::from_descriptors(options.ring_size).ok_or_else(|| {
        bad("ring size", &options.ring_size.to_string(), "a power of two from 64 to 16384".into())
    })?;
    let secret = options
        .secret
        .as_deref()
        .map(|text| Secret::new(text).map_err(|e| bad("secret", "***", e.to_string())));
    let queues = QueueConfig { ring_size, buffer_size: options.buffer_size, ..QueueConfig::default() };
    let mode = if options.mode == LinkMode::Ip { Mode::Ip } else { Mode::Ethernet };
    let config = ClientConfig { id, mode, secret: secret.transpose()?, name: "quiver-tgen".into(), queues };
    let address: Address = match socket.parse() {
        Ok(address) => address,
        Err(never) => match never {},
    };
    let address = netns.map_or(address.clone(), |netns| address.in_netns(netns));
    let memif = |source| LinkError::Memif { socket: socket.into(), source };
    let mut client = Client::new(address, config, ClientTiming::default()).map_err(memif)?;
    let until = Instant::now() + Duration::from_secs_f64(options.wait);
    let mut last = String::from("no answer");
    while Instant::now() < until {
        for event in client.process(Instant::now()) {
            match event {
                ClientEvent::Connected(connection) => return Ok(Link { client, connection }),
                ClientEvent::Disconnected { reason } | ClientEvent::Refused { reason } => {
                    last = reason.to_string()
                }
                ClientEvent::Unreachable { error } => last = error.to_string(),
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(LinkError::Down { socket: socket.into(), last })
}
