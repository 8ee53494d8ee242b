//! What connections there shall be: CSIT's cases by name, files, flags.

use super::endpoints::Endpoints;
use super::packet::{HEADERS_TCP, HEADERS_UDP, TAG_LEN};
use super::tcp::{Close, Exchange, Role, Rules};
use super::udp;
use core::net::Ipv4Addr;
use serde::{Deserialize, Serialize};

/// Transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// What may be said about connections, by a flag or in a file; what isn't said has a default.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Shape {
    /// Transport protocol [default: tcp].
    #[arg(long, value_enum)]
    pub protocol: Option<Protocol>,
    /// Addresses and ports of clients, each of which has one connection at a time
    /// [default: 16.0.0.0-16.0.3.255:1024-1086].
    #[arg(long, value_name = "ADDR[-ADDR]:PORT[-PORT]")]
    pub clients: Option<Endpoints>,
    /// Addresses and ports of servers [default: 48.0.0.1:80].
    #[arg(long, value_name = "ADDR[-ADDR]:PORT[-PORT]")]
    pub servers: Option<Endpoints>,
    /// Connections at a time [default: 4096].
    #[arg(long)]
    pub concurrent: Option<u32>,
    /// New connections per second; 0: as many as can be [default: 0].
    #[arg(long)]
    pub rate: Option<f64>,
    /// Connections after which no more are begun; 0: no limit [default: 0].
    #[arg(long)]
    pub connections: Option<u64>,
    /// Requests (and responses) of a connection [default: 0].
    #[arg(long)]
    pub turns: Option<u32>,
    /// Bytes of a request, payload only.
    #[arg(long)]
    pub request: Option<u32>,
    /// Bytes of a response, payload only.
    #[arg(long)]
    pub response: Option<u32>,
    /// Length of frames with payload, without FCS: requests, responses and segments fill one each.
    #[arg(long)]
    pub frame_size: Option<u16>,
    /// Largest payload of a TCP segment [default: 1460, or what the frame size leaves].
    #[arg(long)]
    pub mss: Option<u16>,
    /// How a TCP client closes [default: fin].
    #[arg(long, value_enum)]
    pub close: Option<Close>,
    /// Seconds that a client keeps a connection after its last response [default: 0].
    #[arg(long)]
    pub hold: Option<f64>,
    /// Seconds to the first retransmission of TCP; doubled for each further one [default: 1].
    #[arg(long)]
    pub rto: Option<f64>,
    /// Retransmissions after which a TCP connection has failed [default: 5].
    #[arg(long)]
    pub retries: Option<u8>,
    /// Seconds to wait for an answer [default: 30 for TCP, 1 for UDP].
    #[arg(long)]
    pub timeout: Option<f64>,
    /// Seconds for which a client's address and port aren't used again [default: 0].
    #[arg(long)]
    pub time_wait: Option<f64>,
    /// What sequence numbers follow from [default: 1].
    #[arg(long)]
    pub seed: Option<u64>,
}

impl Shape {
    /// The names that [`named`](Self::named) knows.
    pub const NAMES: [&'static str; 4] = ["tcp-cps", "udp-cps", "tcp-tput", "udp-tput"];

    /// One of CSIT's cases: `cps`, a connection as short as can be (TCP: seven packets; UDP: one each way); `tput`, five
    /// packets of data each way.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (protocol, kind) = name.split_once('-')?;
        let protocol = match protocol {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            _ => return None,
        };
        let (turns, frame) = match (kind, protocol) {
            ("cps", Protocol::Tcp) => (0, None),
            ("cps", Protocol::Udp) => (1, Some(64)),
            ("tput", _) => (5, Some(96)),
            _ => return None,
        };
        Some(Self { protocol: Some(protocol), turns: Some(turns), frame_size: frame, ..Self::default() })
    }

    /// These, and where they say nothing, the others.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            protocol: self.protocol.or(other.protocol),
            clients: self.clients.or(other.clients),
            servers: self.servers.or(other.servers),
            concurrent: self.concurrent.or(other.concurrent),
            rate: self.rate.or(other.rate),
            connections: self.connections.or(other.connections),
            turns: self.turns.or(other.turns),
            request: self.request.or(other.request),
            response: self.response.or(other.response),
            frame_size: self.frame_size.or(other.frame_size),
            mss: self.mss.or(other.mss),
            close: self.close.or(other.close),
            hold: self.hold.or(other.hold),
            rto: self.rto.or(other.rto),
            retries: self.retries.or(other.retries),
            timeout: self.timeout.or(other.timeout),
            time_wait: self.time_wait.or(other.time_wait),
            seed: self.seed.or(other.seed),
        }
    }
}

/// Why a profile can't be run.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There is no such profile or file.
    #[error("{name:?} is neither a profile ({known}) nor a file: {source}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
        /// What became of looking for a file.
        source: std::io::Error,
    },
    /// A file can't be understood.
    #[error("profile {name}: {source}")]
    File {
        /// The file.
        name: String,
        /// What is wrong in it.
        source: toml::de::Error,
    },
    /// A value is out of range.
    #[error("{what} is {value}: it must be {allowed}")]
    Value {
        /// Which.
        what: &'static str,
        /// What was given.
        value: String,
        /// What may be given.
        allowed: &'static str,
    },
}

/// Connections, complete and checked.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Transport protocol.
    pub protocol: Protocol,
    /// Clients.
    pub clients: Endpoints,
    /// Servers.
    pub servers: Endpoints,
    /// Connections at a time.
    pub concurrent: u64,
    /// New connections per second; 0: as many as can be.
    pub rate: f64,
    /// Connections after which no more are begun.
    pub connections: u64,
    /// Bytes of the longest payload of a packet.
    pub max_payload: usize,
    /// What TCP clients do; servers do the same with their role.
    pub tcp: Rules,
    /// What UDP clients do.
    pub udp: udp::Rules,
    /// Bytes of a UDP response.
    pub udp_response: u16,
}

/// Most clients, and so most connections at a time.
pub const MAX_CLIENTS: u64 = 1 << 24;

impl Profile {
    /// The profile called `name` (one of [`Shape::NAMES`] or a TOML file), as changed by `flags`.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn load(name: &str, flags: Shape) -> Result<Self, ProfileError> {
        let base = match Shape::named(name) {
            Some(shape) => shape,
            None => {
                let text = std::fs::read_to_string(name).map_err(|source| ProfileError::Unknown {
                    name: name.into(),
                    known: Shape::NAMES.join(", "),
                    source,
                })?;
                toml::from_str(&text).map_err(|source| ProfileError::File { name: name.into(), source })?
            }
        };
        Self::new(&flags.or(base))
    }

    /// A profile with defaults for what `shape` doesn't say.
    ///
    /// # Errors
    /// [`ProfileError::Value`] for the first value that can't be.
    pub fn new(shape: &Shape) -> Result<Self, ProfileError> {
        let protocol = shape.protocol.unwrap_or_default();
        let headers = if protocol == Protocol::Tcp { HEADERS_TCP } else { HEADERS_UDP };
        let filled = match shape.frame_size {
            Some(size) => {
                let range = headers as u64 + 1..=9014;
                Some(
                    within("frame size", size.into(), range, "55 to 9014 for TCP, 58 to 9014 for UDP")?
                        as u16
                        - headers as u16,
                )
            }
            None => None,
        };
        let places =
            Endpoints { address: Ipv4Addr::new(16, 0, 0, 0), addresses: 1024, port: 1024, ports: 63 };
        let clients = shape.clients.unwrap_or(places);
        let server = Endpoints { address: Ipv4Addr::new(48, 0, 0, 1), addresses: 1, port: 80, ports: 1 };
        let servers = shape.servers.unwrap_or(server);
        within("number of clients' addresses and ports", clients.len(), 1..=MAX_CLIENTS, "1 to 16777216")?;
        within("number of servers' addresses and ports", servers.len(), 1..=1 << 24, "1 to 16777216")?;
        let concurrent = u64::from(shape.concurrent.unwrap_or(4096));
        let concurrent =
            within("concurrent", concurrent, 1..=MAX_CLIENTS, "1 to 16777216")?.min(clients.len());
        let mss = shape.mss.or(filled).unwrap_or(1460);
        let mss = within("mss", mss.into(), 1..=8960, "1 to 8960")? as u16;
        let turns = shape.turns.unwrap_or(if protocol == Protocol::Udp { 1 } else { 0 });
        let size = u32::from(filled.unwrap_or(64));
        let exchange = Exchange {
            turns,
            request: shape.request.unwrap_or(size),
            response: shape.response.unwrap_or(size),
        };
        if turns > 0 {
            within("request", exchange.request.into(), 1..=1 << 30, "1 byte or more")?;
        }
        let bytes = u64::from(turns) * u64::from(exchange.request.max(exchange.response));
        within("bytes of a connection, turns times size,", bytes, 0..=1 << 30, "at most 1073741824")?;
        let rate = shape.rate.unwrap_or(0.0);
        if !(rate.is_finite() && rate >= 0.0) {
            return Err(ProfileError::Value { what: "rate", value: rate.to_string(), allowed: "0 or more" });
        }
        let ms = |what, value: Option<f64>, default: f64, least: u64| {
            let value = value.unwrap_or(default);
            let ms =
                if value.is_finite() && value >= 0.0 { (value * 1000.0).round() as u64 } else { u64::MAX };
            within(
                what,
                ms,
                least..=86_400_000,
                "at most a day, and not negative (times are in seconds, to a millisecond)",
            )
            .map(|ms| ms as u32)
        };
        let seed = shape.seed.unwrap_or(1);
        let timeout = ms("timeout", shape.timeout, if protocol == Protocol::Tcp { 30.0 } else { 1.0 }, 1)?;
        let (hold, time_wait) = (ms("hold", shape.hold, 0.0, 0)?, ms("time-wait", shape.time_wait, 0.0, 0)?);
        if protocol == Protocol::Udp {
            let allowed = "16 (the tag) to 8972 bytes with UDP";
            within("turns", turns.into(), 1..=u32::MAX.into(), "at least 1 with UDP")?;
            within("request", exchange.request.into(), TAG_LEN.into()..=8972, allowed)?;
            within("response", exchange.response.into(), TAG_LEN.into()..=8972, allowed)?;
        }
        let longest =
            if protocol == Protocol::Tcp { mss.into() } else { exchange.request.max(exchange.response) };
        Ok(Self {
            protocol,
            clients,
            servers,
            concurrent,
            rate,
            connections: match shape.connections.unwrap_or(0) {
                0 => u64::MAX,
                some => some,
            },
            max_payload: longest as usize,
            tcp: Rules {
                role: Role::Client,
                exchange,
                mss,
                close: shape.close.unwrap_or_default(),
                hold,
                rto: ms("rto", shape.rto, 1.0, 1)?,
                retries: shape.retries.unwrap_or(5),
                timeout,
                time_wait,
                seed,
            },
            udp: udp::Rules {
                turns,
                request: exchange.request as u16,
                timeout,
                hold,
                time_wait,
                seed: seed as u32,
            },
            udp_response: exchange.response as u16,
        })
    }
}

fn within(
    what: &'static str,
    value: u64,
    range: core::ops::RangeInclusive<u64>,
    allowed: &'static str,
) -> Result<u64, ProfileError> {
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(ProfileError::Value { what, value: value.to_string(), allowed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_csits_cases() {
        for name in Shape::NAMES {
            let profile = Profile::load(name, Shape::default()).unwrap();
            let data = profile.tcp.exchange;
            match name {
                "tcp-cps" => assert_eq!((profile.protocol, data.turns), (Protocol::Tcp, 0)),
                "udp-cps" => assert_eq!((data.turns, data.request, profile.udp_response), (1, 22, 22)),
                "tcp-tput" => assert_eq!((data.turns, data.request, profile.tcp.mss), (5, 42, 42)),
                _ => assert_eq!((data.turns, profile.udp.request), (5, 54)),
            }
        }
    }

    #[test]
    fn flags_come_before_the_file() {
        let file: Shape =
            toml::from_str("protocol = \"udp\"\nclients = \"10.0.0.1:1-2\"\ntime-wait = 3").unwrap();
        let flags = Shape { time_wait: Some(0.5), ..Shape::default() };
        let profile = Profile::new(&flags.or(file)).unwrap();
        assert_eq!((profile.protocol, profile.clients.len(), profile.udp.time_wait), (Protocol::Udp, 2, 500));
        assert!(toml::from_str::<Shape>("colour = 3").is_err());
    }

    #[test]
    fn what_can_not_be_is_said() {
        let bad = [
            Shape { mss: Some(0), ..Shape::default() },
            Shape { hold: Some(-1.0), ..Shape::default() },
            Shape { rto: Some(0.0), ..Shape::default() },
            Shape { rate: Some(f64::NAN), ..Shape::default() },
            Shape { concurrent: Some(0), ..Shape::default() },
            Shape { turns: Some(1 << 20), request: Some(1 << 12), ..Shape::default() },
            Shape { turns: Some(1), request: Some(0), ..Shape::default() },
            Shape { protocol: Some(Protocol::Udp), request: Some(15), ..Shape::default() },
            Shape { frame_size: Some(54), ..Shape::default() },
            Shape { clients: "10.0.0.0-10.255.255.255:1-2".parse().ok(), ..Shape::default() },
        ];
        for shape in bad {
            assert!(Profile::new(&shape).is_err(), "{shape:?}");
        }
        let error = Profile::load("tcp-cp", Shape::default()).unwrap_err().to_string();
        assert!(error.contains("tcp-cps"), "{error}");
    }
}
