//! How interfaces are named.

use clap::ValueEnum;
use serde::Deserialize;

/// An interface to bring up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceSpec {
    /// Its name in the result.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// Kinds of interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// memif.
    Memif(MemifSpec),
    /// An existing device, through a packet socket.
    Packet {
        /// The device.
        device: String,
        /// Its network namespace: a name under /run/netns, or a path.
        netns: Option<String>,
    },
    /// A tap, made by us.
    Tap {
        /// The device.
        device: String,
        /// Its network namespace.
        netns: Option<String>,
    },
}

/// A memif interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemifSpec {
    /// Socket: a path, or an abstract name with '@' in front.
    pub socket: String,
    /// Interface id on that socket.
    #[serde(default)]
    pub id: u32,
    /// Which end we are.
    #[serde(default)]
    pub role: Role,
    /// What buffers hold.
    #[serde(default)]
    pub mode: LinkMode,
    /// Queues in each direction. A server has as many as its client wants.
    #[serde(default = "one")]
    pub queues: u16,
    /// Ring size, a power of two from 64 to 16384. The client decides.
    #[serde(default = "ring")]
    pub ring_size: u32,
    /// Bytes per buffer; longer frames are chained. The client decides.
    #[serde(default = "buffer")]
    pub buffer_size: u32,
    /// Secret that the server asks for.
    pub secret: Option<String>,
    /// Network namespace of an abstract socket.
    pub netns: Option<String>,
}

const fn one() -> u16 {
    1
}

const fn ring() -> u32 {
    1024
}

const fn buffer() -> u32 {
    2048
}

/// Which end of a memif.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Connects; owns the memory.
    #[default]
    Client,
    /// Listens.
    Server,
}

/// What a memif buffer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LinkMode {
    /// An Ethernet frame.
    #[default]
    Ethernet,
    /// An IP packet.
    Ip,
}

impl From<LinkMode> for memif::Mode {
    fn from(mode: LinkMode) -> Self {
        match mode {
            LinkMode::Ethernet => Self::Ethernet,
            LinkMode::Ip => Self::Ip,
        }
    }
}

impl MemifSpec {
    /// One that is told apart by its queues and buffers only.
    #[must_use]
    pub fn buffers(queues: u16, ring_size: u32, buffer_size: u32) -> Self {
        let (role, mode) = (Role::Client, LinkMode::Ethernet);
        Self {
            socket: String::new(),
            id: 0,
            role,
            mode,
            queues,
            ring_size,
            buffer_size,
            secret: None,
            netns: None,
        }
    }
}

impl InterfaceSpec {
    /// From the command line: `SOCKET[#ID]`, `packet:DEVICE` or `tap:DEVICE`; the rest of a memif is as in `memif`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, netns: Option<&str>, memif: &MemifSpec) -> Result<Self, String> {
        let netns = netns.map(str::to_owned);
        let kind = if let Some(device) = text.strip_prefix("packet:") {
            Kind::Packet { device: device.into(), netns }
        } else if let Some(device) = text.strip_prefix("tap:") {
            Kind::Tap { device: device.into(), netns }
        } else {
            let socket = text.strip_prefix("memif:");
            if let (None, Some((kind, _))) = (socket, text.split_once(':'))
                && !kind.contains(['/', '@', '#', '.'])
            {
                return Err(format!(
                    "{text}: there is no kind of interface {kind:?}: there are memif:SOCKET, packet:DEVICE and tap:DEVICE (a socket of that name is memif:{text})"
                ));
            }
            let text = socket.unwrap_or(text);
            let (socket, id) = text.rsplit_once('#').unwrap_or((text, "0"));
            let id = id
                .parse()
                .map_err(|_| format!("interface id {id:?} of {text}: give a number from 0 to 4294967295"))?;
            Kind::Memif(MemifSpec { socket: socket.into(), id, netns, ..memif.clone() })
        };
        Ok(Self { name: text.into(), kind })
    }

    /// What its frames begin with.
    #[must_use]
    pub const fn mode(&self) -> LinkMode {
        match &self.kind {
            Kind::Memif(memif) => memif.mode,
            Kind::Packet { .. } | Kind::Tap { .. } => LinkMode::Ethernet,
        }
    }
}
