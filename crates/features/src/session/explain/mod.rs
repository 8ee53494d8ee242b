//! What a packet would meet here as things are now: tenant, session, services with what they look up, and what becomes of it.
//! Nothing is changed and nothing counted; no packet has to be there.
//!
//! * [`Imagined`]: the packet; [`Explained`]: what it meets, in order.
//! * `walk`: goes its way, as `input` and `serving` do with one that is there; a worker does so between two rounds.
//! * [`Meeting`]: the packet at one service. Each service says itself what it would do ([`Service::explain`](super::services::Service)).

mod meeting;
mod walk;

pub(super) use meeting::shown;
pub use meeting::{Meeting, Meets};

use super::entry::Direction;
use super::look::Seen;
use super::parser::{self, Datagram};
use super::tenants::{Place, Tenants};
use super::tuple::has_sessions;
use crate::ip::{Fibs, NextHops};
use core::net::IpAddr;
use graph::IfIndex;
use graph::plan::Plan;
use std::sync::Arc;
use tables::session::{Endpoint, Key};
use wire::IpProtocol;

/// A packet that is asked about. Whole, with a good header, and no ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imagined {
    /// Where it comes in.
    pub interface: IfIndex,
    /// The VRF that its destination is looked up in.
    pub vrf: u16,
    /// IP protocol.
    pub protocol: IpProtocol,
    /// Who sends it: address and port. Of an ICMP echo, both ports are its identifier; of ESP and AH, they are the halves of the SPI.
    pub source: Endpoint,
    /// Whom it is for, likewise.
    pub destination: Endpoint,
    /// TCP flags.
    pub flags: u8,
    /// Type and code of an ICMP message.
    pub icmp: (u8, u8),
    /// What it carries behind its transport header, for parsers.
    pub payload: Payload,
}

/// What a packet carries: its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    bytes: [u8; Self::MOST],
    len: u8,
}

impl Default for Payload {
    fn default() -> Self {
        Self { bytes: [0; Self::MOST], len: 0 }
    }
}

impl Payload {
    /// Bytes at most.
    pub const MOST: usize = 64;

    /// These bytes; `None` where they are too many.
    #[must_use]
    pub fn new(said: &[u8]) -> Option<Self> {
        let mut payload = Self { len: said.len().min(255) as u8, ..Self::default() };
        payload.bytes.get_mut(..said.len())?.copy_from_slice(said);
        Some(payload)
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }
}

impl Imagined {
    /// What its session is found by, and whether its source is the higher endpoint; `None` where it can have no session.
    pub(super) fn key(&self, place: Place) -> Option<(Key, bool)> {
        if let Some((key, direction)) = self.parsed(place) {
            return Some((key, direction == Direction::Reverse));
        }
        let is_echo = match self.protocol {
            IpProtocol::ICMP => matches!(self.icmp.0, 0 | 8),
            IpProtocol::ICMPV6 => matches!(self.icmp.0, 128 | 129),
            _ => false,
        };
        let is_icmp = matches!(self.protocol, IpProtocol::ICMP | IpProtocol::ICMPV6);
        let tracked = if is_icmp { is_echo } else { has_sessions(self.protocol) };
        Key::of(place.context, self.protocol.0, self.source, self.destination).filter(|_| tracked)
    }

    /// The same by the parser of its interface's tenant, where that recognises it: as it would be with these addresses and ports, and nothing else in its headers.
    pub(super) fn parsed(&self, place: Place) -> Option<(Key, Direction)> {
        let mut header = match (self.source.0, self.destination.0) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, self.protocol.0, 0, 0];
                header.extend([source.octets(), destination.octets()].concat());
                header
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut header = vec![0x60, 0, 0, 0, 0, 0, self.protocol.0, 64];
                header.extend([source.octets(), destination.octets()].concat());
                header
            }
            _ => return None,
        };
        let ports = [self.source.1.to_be_bytes(), self.destination.1.to_be_bytes()].concat();
        let mut behind = ports;
        match self.protocol {
            IpProtocol::TCP => {
                let rest = [0, 0, 0, 0, 0, 0, 0, 0, 0x50, self.flags, 0xff, 0xff, 0, 0, 0, 0];
                behind.extend(rest);
            }
            IpProtocol::UDP => {
                behind.extend((8 + u16::from(self.payload.len)).to_be_bytes());
                behind.extend([0; 2]);
            }
            _ => {}
        }
        behind.extend(self.payload.bytes());
        let total = (header.len() + behind.len()) as u16;
        let (at, length) = if self.source.0.is_ipv4() { (2, total) } else { (4, behind.len() as u16) };
        header.get_mut(at..at + 2)?.copy_from_slice(&length.to_be_bytes());
        let datagram = Datagram::new(&header, &behind)?;
        parser::key(place.parser, place.context, self.protocol, &datagram)
    }

    /// The worker that has its flow, and is to be asked.
    #[must_use]
    pub fn owner(&self, tenants: &Tenants) -> u32 {
        let place = tenants.place(self.interface).unwrap_or_default();
        self.key(place).filter(|_| tenants.workers > 1).map_or(0, |(key, _)| tenants.owner(&key))
    }

    /// The node that finds its session.
    pub(super) const fn node(&self) -> &'static str {
        if self.source.0.is_ipv4() { "ip4-session-input" } else { "ip6-session-input" }
    }
}

/// What workers know, for whoever explains.
#[derive(Clone, Debug)]
pub struct Known {
    /// Tenants, VIPs and rules.
    pub tenants: Arc<Tenants>,
    /// Forwarding tables.
    pub fibs: Arc<Fibs>,
    /// What they lead to.
    pub hops: Arc<NextHops>,
    /// Names of nodes and drop reasons.
    pub plan: Arc<Plan>,
    /// Monotonic nanoseconds.
    pub now: u64,
}

/// What was looked at, for whoever knows its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// The tenant of that number.
    Tenant(u16),
    /// A list of rules, and the rule in it, from 0 on.
    Acl(Arc<str>, Option<u32>),
    /// The VIP of that context and protocol, where it is asked.
    Vip(u16, u8, Endpoint),
    /// A pool.
    NatPool(Arc<str>),
    /// A policer.
    Policer(Arc<str>),
    /// The interface of that index.
    Interface(IfIndex),
}

/// Something that the packet meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The node that looks.
    pub node: &'static str,
    /// What it looks at, if that is something configured.
    pub object: Option<Object>,
    /// What comes of it, in words.
    pub found: String,
}

/// What becomes of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on to the look-up of its destination.
    Passes,
    /// It is dropped.
    Dropped {
        /// By that node.
        node: &'static str,
        /// For that reason of it.
        reason: &'static str,
    },
}

/// What a packet meets.
#[derive(Clone, Debug)]
pub struct Explained {
    /// In order.
    pub steps: Vec<Step>,
    /// Its tenant's number, if it is anybody's.
    pub tenant: Option<u16>,
    /// Its session, if that is there.
    pub session: Option<Seen>,
    /// What becomes of it.
    pub outcome: Outcome,
    /// Source and destination as it goes on.
    pub ends: [Endpoint; 2],
    /// The neighbour that it goes to whatever its destination, if to one.
    pub direct: Option<IpAddr>,
}
