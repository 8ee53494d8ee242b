//! What may be said about connections.

use super::endpoints::AnyEndpoints;
use super::tcp::Close;
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
    /// [default: 16.0.0.0-16.0.3.255:1024-1086]. Addresses of IPv6 stand in brackets: [2001:db8::1-2001:db8::ff]:1024.
    #[arg(long, value_name = "ADDR[-ADDR]:PORT[-PORT]")]
    pub clients: Option<AnyEndpoints>,
    /// Addresses and ports of servers [default: 48.0.0.1:80].
    #[arg(long, value_name = "ADDR[-ADDR]:PORT[-PORT]")]
    pub servers: Option<AnyEndpoints>,
    /// Addresses of IPv6 where none are given: [2001:db8:10::-2001:db8:10::3ff]:1024-1086 and [2001:db8:30::1]:80.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub ipv6: Option<bool>,
    /// Connections at a time [default: 4096].
    #[arg(long)]
    pub concurrent: Option<u32>,
    /// New connections per second; 0: as many as can be [default: 0].
    #[arg(long, allow_negative_numbers = true)]
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
    /// Largest payload of a TCP segment [default: 1460, with IPv6 1440, or what the frame size leaves].
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

    /// Whether it asks for IPv6: by its addresses or in so many words.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        let given = [self.clients, self.servers];
        self.ipv6.unwrap_or(given.iter().any(|ends| matches!(ends, Some(AnyEndpoints::V6(_)))))
    }

    /// These, and where they say nothing, the others.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            protocol: self.protocol.or(other.protocol),
            clients: self.clients.or(other.clients),
            servers: self.servers.or(other.servers),
            ipv6: self.ipv6.or(other.ipv6),
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
