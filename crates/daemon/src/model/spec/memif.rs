//! memif ports.

use std::fmt;

use ::memif::RingSize;
use ::memif::layout::Layout;
use ::memif::region::MAX_REGION_SIZE;
use api::v1::{Memif, MemifMode, MemifRole};

use super::access::Access;
use crate::model::{Flaw, fields};

const DEFAULT_BUFFER: u32 = 2048;
/// Bytes of a secret in the protocol's messages.
const MAX_SECRET: usize = 24;
/// Bytes of a trust group's name, as of an interface's.
const MAX_GROUP: usize = 63;
/// `sockaddr_un` has room for 108 bytes; one is the zero at the end of a path or the beginning of an abstract name.
const MAX_SOCKET: usize = 107;

/// Name of a unix socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SocketName {
    /// In the abstract space of a network namespace (`None`: that of quiverd), without the "@".
    Abstract {
        /// The name, 1 to 107 bytes.
        name: String,
        /// A name under /run/netns or an absolute path.
        netns: Option<String>,
    },
    /// An absolute path.
    Path(String),
}

impl SocketName {
    fn parse(socket: &str, netns: &str) -> Result<Self, Flaw> {
        fields::no_nul("socket", socket)?;
        if socket.len() > MAX_SOCKET {
            return Err(Flaw::new("socket", format!("has {} bytes; {MAX_SOCKET} are allowed", socket.len())));
        }
        let netns = fields::netns("netns", netns)?;
        match socket.strip_prefix('@') {
            Some("") => Err(Flaw::new("socket", "is an abstract socket without a name")),
            Some(name) => Ok(Self::Abstract { name: name.to_owned(), netns }),
            None if netns.is_some() => Err(Flaw::new(
                "netns",
                "has no meaning for a socket with a path: paths don't belong to network namespaces",
            )
            .remedy("leave it out, or take an abstract socket: \"@name\"")),
            None => match fields::path("socket", socket)? {
                Some(path) => Ok(Self::Path(path)),
                None => Err(Flaw::new("socket", "is missing").remedy("write a path or \"@name\"")),
            },
        }
    }
}

impl fmt::Display for SocketName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abstract { name, netns: None } => write!(formatter, "@{name}"),
            Self::Abstract { name, netns: Some(netns) } => write!(formatter, "@{name} in {netns}"),
            Self::Path(path) => formatter.write_str(path),
        }
    }
}

/// A memif port; see [`Memif`].
#[derive(Clone, PartialEq, Eq)]
pub struct MemifSpec {
    /// Where the two sides meet.
    pub socket: SocketName,
    /// Interface id on the socket.
    pub id: u32,
    /// Server or client.
    pub role: MemifRole,
    /// Frames or packets.
    pub mode: MemifMode,
    /// What both sides must know, at most 24 bytes; empty: nothing.
    pub secret: String,
    /// Queues received from, 1 to 256.
    pub rx_queues: u32,
    /// Queues sent to, 1 to 256.
    pub tx_queues: u32,
    /// Size of the rings: of a client its choice, of a server the largest that it offers; `None`: not said.
    pub ring_size: Option<RingSize>,
    /// Bytes per buffer, 128 to 65536.
    pub buffer_size: u32,
    /// Who may connect; a client has none of it.
    pub access: Access,
    /// Client: the group that shares its buffers; empty: none.
    pub trust_group: String,
    /// Workers that receive, one for each of `rx_queues`; empty: wherever there are fewest queues.
    pub rx_workers: Vec<u32>,
}

/// Without the secret: specs go to logs.
impl fmt::Debug for MemifSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MemifSpec")
            .field("socket", &self.socket)
            .field("id", &self.id)
            .field("role", &self.role)
            .field("mode", &self.mode)
            .field("has_secret", &!self.secret.is_empty())
            .field("rx_queues", &self.rx_queues)
            .field("tx_queues", &self.tx_queues)
            .field("ring_size", &self.ring_size)
            .field("buffer_size", &self.buffer_size)
            .field("access", &self.access)
            .field("trust_group", &self.trust_group)
            .field("rx_workers", &self.rx_workers)
            .finish()
    }
}

impl MemifSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field within the port.
    pub fn parse(memif: &Memif) -> Result<Self, Flaw> {
        let said = ring_size(memif.ring_size)?;
        if memif.secret.len() > MAX_SECRET {
            return Err(Flaw::new(
                "secret",
                format!("has {} bytes; {MAX_SECRET} are allowed", memif.secret.len()),
            ));
        }
        fields::no_nul("secret", &memif.secret)?;
        let socket = SocketName::parse(&memif.socket, &memif.netns)?;
        let role = fields::choice("role", memif.role, MemifRole::Server)?;
        let access = Access::parse(memif, &socket)?;
        if role == MemifRole::Client
            && let Some(field) = access.first_set()
        {
            return Err(Flaw::new(field, "is the server's to say: a client doesn't listen")
                .remedy("leave it out, or take role = \"server\""));
        }
        fields::no_nul("trust_group", &memif.trust_group)?;
        if memif.trust_group.len() > MAX_GROUP {
            return Err(Flaw::new(
                "trust_group",
                format!("has {} bytes; {MAX_GROUP} are allowed", memif.trust_group.len()),
            ));
        }
        if role == MemifRole::Server && !memif.trust_group.is_empty() {
            let why = "is for clients: a server maps its peer's memory and has no buffers to share";
            return Err(Flaw::new("trust_group", why).remedy("take role = \"client\", or leave it out"));
        }
        let rx_queues = fields::number("rx_queues", memif.rx_queues, 1..=256, 1)?;
        let tx_queues = fields::number("tx_queues", memif.tx_queues, 1..=256, 1)?;
        let buffer_size = fields::number("buffer_size", memif.buffer_size, 128..=65_536, DEFAULT_BUFFER)?;
        if role == MemifRole::Client && memif.trust_group.is_empty() {
            one_region_holds(rx_queues + tx_queues, said.unwrap_or_default(), buffer_size)?;
        }
        Ok(Self {
            socket,
            id: memif.id,
            role,
            mode: fields::choice("mode", memif.mode, MemifMode::Ethernet)?,
            secret: memif.secret.clone(),
            rx_queues,
            tx_queues,
            // (To a server that doesn't say, the same size is another matter.)
            ring_size: said.filter(|size| role == MemifRole::Server || *size != RingSize::default()),
            buffer_size,
            access,
            trust_group: memif.trust_group.clone(),
            rx_workers: fields::rx_workers(&memif.rx_workers, rx_queues)?,
        })
    }

    /// Size of the rings: that which a client asks for, the largest that a server offers.
    pub fn ring(&self) -> RingSize {
        let unsaid = if self.role == MemifRole::Client { RingSize::default() } else { RingSize::MAX };
        self.ring_size.unwrap_or(unsaid)
    }

    /// The canonical form. The role is written even where it is the default: who reads it wants to know.
    pub fn to_api(&self) -> Memif {
        let unless = |value: u32, default: u32| if value == default { 0 } else { value };
        let (socket, netns) = match &self.socket {
            SocketName::Abstract { name, netns } => (format!("@{name}"), netns.clone().unwrap_or_default()),
            SocketName::Path(path) => (path.clone(), String::new()),
        };
        let mut memif = Memif {
            socket,
            netns,
            id: self.id,
            role: self.role.into(),
            mode: match self.mode {
                MemifMode::Ethernet => MemifMode::Unspecified.into(),
                mode => mode.into(),
            },
            secret: self.secret.clone(),
            rx_queues: unless(self.rx_queues, 1),
            tx_queues: unless(self.tx_queues, 1),
            ring_size: self.ring_size.map_or(0, |size| size.descriptors().into()),
            buffer_size: unless(self.buffer_size, DEFAULT_BUFFER),
            trust_group: self.trust_group.clone(),
            rx_workers: self.rx_workers.clone(),
            ..Memif::default()
        };
        self.access.write(&mut memif);
        memif
    }
}

/// The size of rings; 0: not said.
fn ring_size(descriptors: u32) -> Result<Option<RingSize>, Flaw> {
    let most = RingSize::MAX.descriptors().into();
    if fields::number("ring_size", descriptors, RingSize::MIN.descriptors().into()..=most, 0)? == 0 {
        return Ok(None);
    }
    let size = RingSize::from_descriptors(descriptors);
    size.map(Some).ok_or_else(|| {
        let (below, above) = (descriptors.next_power_of_two() / 2, descriptors.next_power_of_two());
        Flaw::new("ring_size", format!("{descriptors} is no power of two"))
            .remedy(format!("take {below} or {above}"))
    })
}

/// Rings and buffers of a client are one region.
fn one_region_holds(queues: u32, ring_size: RingSize, buffer_size: u32) -> Result<(), Flaw> {
    let layout = Layout { tx_rings: queues as u16, rx_rings: 0, ring_size, buffer_size };
    if layout.size() <= MAX_REGION_SIZE {
        return Ok(());
    }
    let what = format!(
        "of {buffer_size}, {queues} queues of {} need {} bytes; a region has {MAX_REGION_SIZE} at most",
        ring_size.descriptors(),
        layout.size()
    );
    Err(Flaw::new("buffer_size", what).remedy("take fewer queues, a smaller ring_size or buffer_size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let spec = MemifSpec::parse(&Memif { socket: "@pod".into(), ..Memif::default() }).unwrap();
        assert_eq!(spec.role, MemifRole::Server);
        assert_eq!(spec.mode, MemifMode::Ethernet);
        assert_eq!((spec.rx_queues, spec.tx_queues, spec.buffer_size), (1, 1, 2048));
        assert_eq!(MemifSpec::parse(&spec.to_api()).unwrap(), spec);
    }

    /// 1024 is a client's choice anyway; a server that says it offers no more, also after a restart.
    #[test]
    fn a_server_that_says_a_size_of_rings_is_none_that_says_nothing() {
        for (role, said, ring, kept) in [
            (MemifRole::Server, 0, 16_384, 0),
            (MemifRole::Server, 1024, 1024, 1024),
            (MemifRole::Server, 64, 64, 64),
            (MemifRole::Server, 16_384, 16_384, 16_384),
            (MemifRole::Client, 0, 1024, 0),
            (MemifRole::Client, 1024, 1024, 0),
            (MemifRole::Client, 256, 256, 256),
        ] {
            let memif =
                Memif { socket: "@pod".into(), role: role.into(), ring_size: said, ..Memif::default() };
            let spec = MemifSpec::parse(&memif).unwrap();
            assert_eq!((u32::from(spec.ring().descriptors()), spec.to_api().ring_size), (ring, kept));
            assert_eq!(MemifSpec::parse(&spec.to_api()).unwrap(), spec);
        }
    }

    #[test]
    fn each_bad_field_is_named() {
        let good = Memif { socket: "/run/quiver/m.sock".into(), ..Memif::default() };
        for (memif, field) in [
            (Memif { socket: String::new(), ..good.clone() }, "socket"),
            (Memif { socket: "m.sock".into(), ..good.clone() }, "socket"),
            (Memif { socket: "@".into(), ..good.clone() }, "socket"),
            (Memif { socket: format!("/{}", "x".repeat(107)), ..good.clone() }, "socket"),
            (Memif { netns: "pod".into(), ..good.clone() }, "netns"),
            (Memif { role: 7, ..good.clone() }, "role"),
            (Memif { secret: "x".repeat(25), ..good.clone() }, "secret"),
            (Memif { rx_queues: 257, ..good.clone() }, "rx_queues"),
            (Memif { ring_size: 32, ..good.clone() }, "ring_size"),
            (Memif { ring_size: 1000, ..good.clone() }, "ring_size"),
            (Memif { buffer_size: 64, ..good.clone() }, "buffer_size"),
            (
                Memif { buffer_size: 65_536, ring_size: 16_384, rx_queues: 4, role: 2, ..good.clone() },
                "buffer_size",
            ),
            // A server has no buffers to share.
            (Memif { trust_group: "cnfs".into(), ..good.clone() }, "trust_group"),
            (Memif { trust_group: "x".repeat(64), role: 2, ..good.clone() }, "trust_group"),
            (Memif { rx_workers: vec![0, 1], ..good.clone() }, "rx_workers"),
            (Memif { rx_workers: vec![0], rx_queues: 2, ..good.clone() }, "rx_workers"),
        ] {
            assert_eq!(MemifSpec::parse(&memif).unwrap_err().field, field, "{memif:?}");
        }
        let flaw = MemifSpec::parse(&Memif { ring_size: 1000, ..good }).unwrap_err();
        assert_eq!(flaw.remedy, "take 512 or 1024");
    }

    /// As large as one can be, and what isn't one region of ours.
    #[test]
    fn sizes_that_can_be_are_taken() {
        let base = Memif { socket: "@x".into(), ring_size: 16_384, buffer_size: 65_536, ..Memif::default() };
        for memif in [
            Memif { role: 2, rx_queues: 1, ..base.clone() },
            Memif { role: 2, rx_queues: 256, trust_group: "cnfs".into(), ..base.clone() },
            Memif { role: 1, rx_queues: 256, tx_queues: 256, ..base },
        ] {
            assert!(MemifSpec::parse(&memif).is_ok(), "{memif:?}");
        }
    }

    #[test]
    fn workers_of_queues_are_kept_in_their_order() {
        let memif =
            Memif { socket: "@x".into(), rx_queues: 3, rx_workers: vec![2, 0, 2], ..Memif::default() };
        let spec = MemifSpec::parse(&memif).unwrap();
        assert_eq!(spec.rx_workers, [2, 0, 2]);
        assert_eq!(spec.to_api().rx_workers, [2, 0, 2]);
    }

    #[test]
    fn a_secret_is_not_logged() {
        let spec =
            MemifSpec::parse(&Memif { socket: "@x".into(), secret: "hush".into(), ..Memif::default() })
                .unwrap();
        assert!(!format!("{spec:?}").contains("hush"));
    }
}
