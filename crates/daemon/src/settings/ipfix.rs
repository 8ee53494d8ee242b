//! Who is told of sessions by IPFIX.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A collector of flow records.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Raw")]
pub struct Ipfix {
    /// Where it listens, by UDP.
    pub collector: SocketAddr,
    /// Address that messages come from; none: what the kernel's routes say.
    pub source: Option<IpAddr>,
    /// Observation domain id: tells several quiverd apart that share an address.
    pub domain: u32,
    /// Seconds after which templates are sent again.
    pub template_seconds: NonZeroU32,
    /// Seconds after which sessions that go on are reported, again and again; none: once, when they end.
    pub active_seconds: Option<NonZeroU32>,
    /// Tenants whose sessions are reported; none: all.
    pub tenants: Vec<String>,
    /// Whether it is reported, too, when sessions of IPv4 are translated (RFC 8158).
    pub nat_events: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    collector: SocketAddr,
    source: Option<IpAddr>,
    #[serde(default)]
    domain: u32,
    template_seconds: Option<NonZeroU32>,
    active_seconds: Option<NonZeroU32>,
    #[serde(default)]
    tenants: Vec<String>,
    #[serde(default)]
    nat_events: bool,
}

/// Seconds after which templates are sent again, where nothing is said.
const TEMPLATE_SECONDS: NonZeroU32 = NonZeroU32::new(60).unwrap();

/// Collectors at most: each costs workers time.
const MOST: usize = 8;

/// All collectors, each of them once.
pub(super) fn all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Ipfix>, D::Error> {
    let all = Vec::<Ipfix>::deserialize(deserializer)?;
    if all.len() > MOST {
        return Err(D::Error::custom(format!("{} collectors are too many: take at most {MOST}", all.len())));
    }
    for (at, one) in all.iter().enumerate() {
        if all[..at].iter().any(|other| (other.collector, other.domain) == (one.collector, one.domain)) {
            let Ipfix { collector, domain, .. } = one;
            return Err(D::Error::custom(format!(
                "collector {collector} appears twice with domain {domain}: take one, or another domain"
            )));
        }
    }
    Ok(all)
}

impl TryFrom<Raw> for Ipfix {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        let collector = raw.collector;
        if collector.port() == 0 || collector.ip().is_unspecified() {
            return Err(format!(
                "nobody can listen at {collector}: take an address and a port, \"192.0.2.9:4739\""
            ));
        }
        if let Some(source) = raw.source.filter(|source| source.is_ipv4() != collector.is_ipv4()) {
            return Err(format!("{source} can't send to {collector}: take a source of the same IP version"));
        }
        Ok(Self {
            collector,
            source: raw.source,
            domain: raw.domain,
            template_seconds: raw.template_seconds.unwrap_or(TEMPLATE_SECONDS),
            active_seconds: raw.active_seconds,
            tenants: raw.tenants,
            nat_events: raw.nat_events,
        })
    }
}
