//! Header stacks: what a stream's packets begin with, from the outside in.

mod check;

use super::setting::Setting;
use core::net::{Ipv4Addr, Ipv6Addr};
use serde::Deserialize;
use wire::{EtherType, IpProtocol, MacAddr};

pub use check::{StackError, check};

/// One header.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Layer {
    /// Ethernet II.
    Ethernet(Ethernet),
    /// A VLAN tag; two of them are QinQ.
    Vlan(Vlan),
    /// IPv4.
    Ipv4(Ipv4),
    /// IPv6.
    Ipv6(Ipv6),
    /// UDP.
    Udp(Udp),
    /// TCP: one segment, without a connection.
    Tcp(Tcp),
    /// ICMP echo request.
    Icmp(Echo),
    /// ICMPv6 echo request.
    Icmpv6(Echo),
    /// VXLAN, in which another frame follows.
    Vxlan(Vxlan),
}

/// Ethernet header.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ethernet {
    /// Destination.
    pub dst: Setting<MacAddr>,
    /// Source.
    pub src: Setting<MacAddr>,
}

/// VLAN tag.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vlan {
    /// VLAN id, 0 to 4095.
    pub id: Setting<u16>,
    /// Priority, 0 to 7.
    #[serde(default)]
    pub priority: u8,
    /// Service tag (IEEE 802.1ad, 0x88a8) instead of a customer tag (802.1Q, 0x8100).
    #[serde(default)]
    pub service: bool,
}

/// IPv4 header, without options.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ipv4 {
    /// Source.
    pub src: Setting<Ipv4Addr>,
    /// Destination.
    pub dst: Setting<Ipv4Addr>,
    /// Time to live.
    #[serde(default = "sixty_four")]
    pub ttl: Setting<u8>,
    /// DSCP and ECN, the whole byte.
    #[serde(default = "zero8")]
    pub tos: Setting<u8>,
    /// Identification.
    #[serde(default = "zero16")]
    pub id: Setting<u16>,
    /// Don't fragment.
    #[serde(default)]
    pub dont_fragment: bool,
}

/// IPv6 header.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ipv6 {
    /// Source.
    pub src: Setting<Ipv6Addr>,
    /// Destination.
    pub dst: Setting<Ipv6Addr>,
    /// Hop limit.
    #[serde(default = "sixty_four")]
    pub hop_limit: Setting<u8>,
    /// DSCP and ECN.
    #[serde(default)]
    pub traffic_class: u8,
    /// Flow label, 0 to 1048575.
    #[serde(default = "zero32")]
    pub flow_label: Setting<u32>,
}

/// UDP header.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Udp {
    /// Source port.
    pub src: Setting<u16>,
    /// Destination port.
    pub dst: Setting<u16>,
}

/// TCP header, without options.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// Source port.
    pub src: Setting<u16>,
    /// Destination port.
    pub dst: Setting<u16>,
    /// Sequence number.
    #[serde(default = "zero32")]
    pub seq: Setting<u32>,
    /// Acknowledgement number.
    #[serde(default = "zero32")]
    pub ack: Setting<u32>,
    /// Flags as a number: 2 is SYN, 16 is ACK.
    #[serde(default = "ack_flag")]
    pub flags: Setting<u8>,
    /// Window.
    #[serde(default = "window")]
    pub window: Setting<u16>,
}

/// Echo request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Echo {
    /// Identifier.
    #[serde(default = "zero16")]
    pub id: Setting<u16>,
    /// Sequence number.
    #[serde(default = "zero16")]
    pub sequence: Setting<u16>,
}

/// VXLAN header (RFC 7348).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vxlan {
    /// Network identifier, 0 to 16777215.
    pub vni: Setting<u32>,
}

const fn sixty_four() -> Setting<u8> {
    Setting::fixed(64)
}

const fn zero8() -> Setting<u8> {
    Setting::fixed(0)
}

const fn zero16() -> Setting<u16> {
    Setting::fixed(0)
}

const fn zero32() -> Setting<u32> {
    Setting::fixed(0)
}

const fn ack_flag() -> Setting<u8> {
    Setting::fixed(0x10)
}

const fn window() -> Setting<u16> {
    Setting::fixed(0xffff)
}

impl Ipv4 {
    /// With everything else as is usual.
    #[must_use]
    pub fn new(src: Setting<Ipv4Addr>, dst: Setting<Ipv4Addr>) -> Self {
        Self { src, dst, ttl: sixty_four(), tos: zero8(), id: zero16(), dont_fragment: false }
    }
}

impl Ipv6 {
    /// With everything else as is usual.
    #[must_use]
    pub fn new(src: Setting<Ipv6Addr>, dst: Setting<Ipv6Addr>) -> Self {
        Self { src, dst, hop_limit: sixty_four(), traffic_class: 0, flow_label: zero32() }
    }
}

impl Tcp {
    /// An acknowledgement, with everything else as is usual.
    #[must_use]
    pub fn new(src: Setting<u16>, dst: Setting<u16>) -> Self {
        Self { src, dst, seq: zero32(), ack: zero32(), flags: ack_flag(), window: window() }
    }
}

impl Default for Echo {
    fn default() -> Self {
        Self { id: zero16(), sequence: zero16() }
    }
}

impl Layer {
    /// Its name in profiles.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ethernet(_) => "ethernet",
            Self::Vlan(_) => "vlan",
            Self::Ipv4(_) => "ipv4",
            Self::Ipv6(_) => "ipv6",
            Self::Udp(_) => "udp",
            Self::Tcp(_) => "tcp",
            Self::Icmp(_) => "icmp",
            Self::Icmpv6(_) => "icmpv6",
            Self::Vxlan(_) => "vxlan",
        }
    }

    /// Its bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Ethernet(_) => 14,
            Self::Vlan(_) => 4,
            Self::Ipv4(_) | Self::Tcp(_) => 20,
            Self::Ipv6(_) => 40,
            Self::Udp(_) | Self::Icmp(_) | Self::Icmpv6(_) | Self::Vxlan(_) => 8,
        }
    }

    /// Whether it has no bytes: never.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Whether `next` (`None`: the payload) may follow; else what may.
    const fn takes(&self, next: Option<&Self>) -> Result<(), &'static str> {
        match (self, next) {
            (
                Self::Ethernet(_) | Self::Vlan(_),
                None | Some(Self::Vlan(_) | Self::Ipv4(_) | Self::Ipv6(_)),
            )
            | (
                Self::Ipv4(_),
                None | Some(Self::Udp(_) | Self::Tcp(_) | Self::Icmp(_) | Self::Ipv4(_) | Self::Ipv6(_)),
            )
            | (
                Self::Ipv6(_),
                None | Some(Self::Udp(_) | Self::Tcp(_) | Self::Icmpv6(_) | Self::Ipv4(_) | Self::Ipv6(_)),
            )
            | (Self::Udp(_), None | Some(Self::Vxlan(_)))
            | (Self::Tcp(_) | Self::Icmp(_) | Self::Icmpv6(_), None)
            | (Self::Vxlan(_), Some(Self::Ethernet(_))) => Ok(()),
            (Self::Ethernet(_) | Self::Vlan(_), _) => Err("vlan, ipv4 or ipv6"),
            (Self::Ipv4(_), _) => Err("udp, tcp, icmp, ipv4 or ipv6"),
            (Self::Ipv6(_), _) => Err("udp, tcp, icmpv6, ipv4 or ipv6"),
            (Self::Udp(_), _) => Err("vxlan, or nothing"),
            (Self::Vxlan(_), _) => Err("ethernet"),
            (Self::Tcp(_) | Self::Icmp(_) | Self::Icmpv6(_), _) => Err("nothing"),
        }
    }

    /// What an EtherType in front says; local experiments (IEEE 802) for a payload.
    pub(super) const fn ethertype(next: Option<&Self>) -> EtherType {
        match next {
            Some(Self::Vlan(Vlan { service: true, .. })) => EtherType::SERVICE_VLAN,
            Some(Self::Vlan(_)) => EtherType::VLAN,
            Some(Self::Ipv4(_)) => EtherType::IPV4,
            Some(Self::Ipv6(_)) => EtherType::IPV6,
            _ => EtherType::new(0x88b5),
        }
    }

    /// What the protocol field of an IP header in front says; experiments (RFC 3692) for a payload.
    pub(super) const fn protocol(next: Option<&Self>) -> IpProtocol {
        match next {
            Some(Self::Udp(_)) => IpProtocol::UDP,
            Some(Self::Tcp(_)) => IpProtocol::TCP,
            Some(Self::Icmp(_)) => IpProtocol::ICMP,
            Some(Self::Icmpv6(_)) => IpProtocol::ICMPV6,
            Some(Self::Ipv4(_)) => IpProtocol::IPV4,
            Some(Self::Ipv6(_)) => IpProtocol::IPV6,
            _ => IpProtocol(253),
        }
    }
}
