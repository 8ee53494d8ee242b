//! What connections there shall be: CSIT's cases by name, files, flags.

use super::address::Address;
pub use super::ends::{AnyEnds, Ends};
use super::packet::{TAG_LEN, TCP, UDP};
pub use super::shape::{Protocol, Shape};
use super::tcp::{Exchange, Role, Rules};
use super::udp;
use crate::stateless::MOST_PACKETS;

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
    /// Clients and servers.
    pub ends: AnyEnds,
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

/// Bytes by which a header of IPv6 is longer than one of IPv4.
const LONGER: u16 = (<u128 as Address>::HEADERS - <u32 as Address>::HEADERS) as u16;

/// Most bytes of an IP packet.
const LONGEST: usize = 9000;

/// Most clients, and so most connections at a time.
pub const MAX_CLIENTS: u64 = 1 << 24;

impl Profile {
    /// The profile called `name` (one of [`Shape::NAMES`] or a TOML file), as changed by `flags`.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn load(name: &str, flags: Shape) -> Result<Self, ProfileError> {
        let base = match Shape::named(name) {
            // Their frames are those of IPv4: the same payload makes longer ones.
            Some(shape) if flags.is_ipv6() => {
                Shape { frame_size: shape.frame_size.map(|size| size + LONGER), ..shape }
            }
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
        let ends = AnyEnds::new(shape)?;
        let headers = ends.headers() + if protocol == Protocol::Tcp { TCP } else { UDP };
        let room = 14 + LONGEST - headers;
        let filled = match shape.frame_size {
            Some(size) => {
                let range = headers as u64 + 1..=9014;
                Some(
                    within(
                        "frame size",
                        size.into(),
                        range,
                        "55 to 9014 for TCP, 58 to 9014 for UDP (IPv6: from 75, 78)",
                    )? as u16
                        - headers as u16,
                )
            }
            None => None,
        };
        let (clients, servers) = ends.len();
        within("number of clients' addresses and ports", clients, 1..=MAX_CLIENTS, "1 to 16777216")?;
        within("number of servers' addresses and ports", servers, 1..=1 << 24, "1 to 16777216")?;
        let concurrent = u64::from(shape.concurrent.unwrap_or(4096));
        let concurrent = within("concurrent", concurrent, 1..=MAX_CLIENTS, "1 to 16777216")?.min(clients);
        let mss = shape.mss.or(filled).unwrap_or((1514 - ends.headers() - TCP) as u16);
        let mss = match protocol {
            Protocol::Tcp => within("mss", mss.into(), 1..=room as u64, "1 to 8960 (IPv6: 8940)")? as u16,
            Protocol::Udp => mss,
        };
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
        if !(0.0..=MOST_PACKETS).contains(&rate) {
            let allowed = "0 (as many as can be) to 1000000000 per second";
            return Err(ProfileError::Value { what: "rate", value: format!("{rate:?}"), allowed });
        }
        let ms = |what, value: Option<f64>, default: f64, least: f64| {
            let value = value.unwrap_or(default);
            let ms = (value * 1000.0).round();
            if (least..=86_400_000.0).contains(&ms) {
                return Ok(ms as u32);
            }
            let allowed = "at most a day, and not negative (times are in seconds, to a millisecond)";
            Err(ProfileError::Value { what, value: value.to_string(), allowed })
        };
        let seed = shape.seed.unwrap_or(1);
        let timeout = ms("timeout", shape.timeout, if protocol == Protocol::Tcp { 30.0 } else { 1.0 }, 1.0)?;
        let (hold, time_wait) =
            (ms("hold", shape.hold, 0.0, 0.0)?, ms("time-wait", shape.time_wait, 0.0, 0.0)?);
        if protocol == Protocol::Udp {
            let allowed = "16 (the tag) to 8972 bytes (IPv6: 8952) with UDP";
            within("turns", turns.into(), 1..=u32::MAX.into(), "at least 1 with UDP")?;
            within("request", exchange.request.into(), TAG_LEN.into()..=room as u64, allowed)?;
            within("response", exchange.response.into(), TAG_LEN.into()..=room as u64, allowed)?;
        }
        let longest =
            if protocol == Protocol::Tcp { mss.into() } else { exchange.request.max(exchange.response) };
        Ok(Self {
            protocol,
            ends,
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
                rto: ms("rto", shape.rto, 1.0, 1.0)?,
                retries: shape.retries.unwrap_or(5),
                timeout,
                time_wait,
                seed,
                epoch: 0,
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
    fn versions_of_ip_have_the_same_payload() {
        for name in Shape::NAMES {
            let four = Profile::load(name, Shape::default()).unwrap();
            let six = Profile::load(name, Shape { ipv6: Some(true), ..Shape::default() }).unwrap();
            assert_eq!((four.tcp.exchange, four.udp), (six.tcp.exchange, six.udp), "{name}");
            assert_eq!(six.ends.len(), (64_512, 1));
            assert!(matches!((four.ends, six.ends), (AnyEnds::V4(_), AnyEnds::V6(_))));
        }
        let servers = "[fd00::1]:80".parse().ok();
        let six = Profile::new(&Shape { servers, ..Shape::default() }).unwrap();
        assert!(
            matches!(six.ends, AnyEnds::V6(Ends { servers, .. }) if servers.to_string() == "[fd00::1]:80")
        );
        assert_eq!(six.tcp.mss, 1440);
        let clients = "10.0.0.1:80".parse().ok();
        let error = Profile::new(&Shape { clients, servers, ..Shape::default() }).unwrap_err().to_string();
        assert!(error.contains("10.0.0.1:80 and [fd00::1]:80"), "{error}");
    }

    #[test]
    fn flags_come_before_the_file() {
        let file: Shape =
            toml::from_str("protocol = \"udp\"\nclients = \"10.0.0.1:1-2\"\ntime-wait = 3").unwrap();
        let flags = Shape { time_wait: Some(0.5), ..Shape::default() };
        let profile = Profile::new(&flags.or(file)).unwrap();
        assert_eq!((profile.protocol, profile.ends.len().0, profile.udp.time_wait), (Protocol::Udp, 2, 500));
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
