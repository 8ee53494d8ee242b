//! ICMP for IPv6.

use core::fmt;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Header, checksum};

/// ICMPv6 message type (IANA registry).
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct Icmpv6Type(pub u8);

impl Icmpv6Type {
    /// Destination unreachable; the code says why.
    pub const DESTINATION_UNREACHABLE: Self = Self(1);
    /// Packet too big.
    pub const PACKET_TOO_BIG: Self = Self(2);
    /// Time exceeded: code 0 hop limit, code 1 reassembly.
    pub const TIME_EXCEEDED: Self = Self(3);
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: Self = Self(4);
    /// Echo request.
    pub const ECHO_REQUEST: Self = Self(128);
    /// Echo reply.
    pub const ECHO_REPLY: Self = Self(129);
    /// Multicast listener query (RFC 2710).
    pub const LISTENER_QUERY: Self = Self(130);
    /// Multicast listener report (RFC 2710).
    pub const LISTENER_REPORT: Self = Self(131);
    /// Multicast listener done (RFC 2710).
    pub const LISTENER_DONE: Self = Self(132);
    /// Router solicitation (RFC 4861).
    pub const ROUTER_SOLICITATION: Self = Self(133);
    /// Router advertisement (RFC 4861).
    pub const ROUTER_ADVERTISEMENT: Self = Self(134);
    /// Neighbour solicitation (RFC 4861).
    pub const NEIGHBOR_SOLICITATION: Self = Self(135);
    /// Neighbour advertisement (RFC 4861).
    pub const NEIGHBOR_ADVERTISEMENT: Self = Self(136);
    /// Redirect (RFC 4861).
    pub const REDIRECT: Self = Self(137);
    /// Multicast listener report, version 2 (RFC 3810).
    pub const LISTENER_REPORT_V2: Self = Self(143);

    /// Whether it reports an error, so that no error may be sent about it: types below 128
    /// (RFC 4443 section 2.1). Redirect counts too (section 2.4 e.2).
    #[inline]
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 < 128 || self.0 == Self::REDIRECT.0
    }

    /// Whether it belongs to neighbour discovery, see [`crate::ndp`].
    #[inline]
    #[must_use]
    pub const fn is_neighbour_discovery(self) -> bool {
        self.0 >= Self::ROUTER_SOLICITATION.0 && self.0 <= Self::REDIRECT.0
    }
}

impl fmt::Display for Icmpv6Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::DESTINATION_UNREACHABLE => "unreachable",
            Self::PACKET_TOO_BIG => "packet-too-big",
            Self::TIME_EXCEEDED => "time-exceeded",
            Self::PARAMETER_PROBLEM => "parameter-problem",
            Self::ECHO_REQUEST => "echo-request",
            Self::ECHO_REPLY => "echo-reply",
            Self::LISTENER_QUERY => "listener-query",
            Self::LISTENER_REPORT | Self::LISTENER_REPORT_V2 => "listener-report",
            Self::LISTENER_DONE => "listener-done",
            Self::ROUTER_SOLICITATION => "router-solicitation",
            Self::ROUTER_ADVERTISEMENT => "router-advertisement",
            Self::NEIGHBOR_SOLICITATION => "neighbor-solicitation",
            Self::NEIGHBOR_ADVERTISEMENT => "neighbor-advertisement",
            Self::REDIRECT => "redirect",
            Self(other) => return write!(f, "type {other}"),
        })
    }
}

impl fmt::Debug for Icmpv6Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Icmpv6Type({})", self.0)
    }
}

/// ICMPv6 header: 8 bytes. The last four depend on the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Icmpv6Header {
    /// Message type.
    pub kind: Icmpv6Type,
    /// Code within the type.
    pub code: u8,
    /// Checksum over pseudo header, header and data.
    pub checksum: U16,
    /// Echo: identifier and sequence number. Errors: unused, MTU or pointer.
    pub rest: U32,
}

impl Header for Icmpv6Header {
    const NAME: &'static str = "ICMPv6";
}

impl Icmpv6Header {
    /// Longest error message with its IPv6 header, in bytes (RFC 4443 section 2.4 c: the minimum MTU).
    pub const MAX_ERROR_LEN: usize = 1280;

    /// An echo request with checksum 0.
    #[must_use]
    pub fn echo_request(id: u16, sequence: u16) -> Self {
        Self {
            kind: Icmpv6Type::ECHO_REQUEST,
            code: 0,
            checksum: U16::ZERO,
            rest: U32::new(u32::from(id) << 16 | u32::from(sequence)),
        }
    }

    /// Echo: identifier.
    #[inline]
    #[must_use]
    pub fn echo_id(&self) -> u16 {
        (self.rest.get() >> 16) as u16
    }

    /// Echo: sequence number.
    #[inline]
    #[must_use]
    pub fn echo_sequence(&self) -> u16 {
        self.rest.get() as u16
    }

    /// Turns an echo request into its reply, and its checksum with it; the data isn't looked at. Exchanging
    /// the IPv6 addresses does not change the checksum, replacing one (a multicast destination) does.
    #[inline]
    pub fn turn_into_reply(&mut self) {
        let old = u16::from_be_bytes([self.kind.0, self.code]);
        self.kind = Icmpv6Type::ECHO_REPLY;
        let new = u16::from_be_bytes([self.kind.0, self.code]);
        self.checksum = U16::new(checksum::update_u16(self.checksum.get(), old, new));
    }
}

/// An error that is reported, with what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmpv6Error {
    /// No route (type 1 code 0).
    NoRoute,
    /// Forbidden by a filter (type 1 code 1).
    AdministrativelyProhibited,
    /// Would leave the scope of the source address (type 1 code 2).
    BeyondScope,
    /// The host does not answer (type 1 code 3).
    AddressUnreachable,
    /// Nothing listens on this port (type 1 code 4).
    PortUnreachable,
    /// Source address failed a policy, e.g. the reverse path check (type 1 code 5).
    SourcePolicyFailed,
    /// The route says to refuse (type 1 code 6).
    RejectRoute,
    /// Packet is too big for the next link (type 2).
    PacketTooBig {
        /// MTU of the next link in bytes.
        mtu: u32,
    },
    /// Hop limit went to zero (type 3 code 0).
    HopLimitExceeded,
    /// Fragments are missing (type 3 code 1).
    ReassemblyTimeExceeded,
    /// A header field is wrong (type 4 code 0).
    WrongField {
        /// Offset of the wrong byte from the start of the IPv6 header.
        pointer: u32,
    },
    /// A next header isn't known (type 4 code 1).
    UnknownNextHeader {
        /// Offset of the byte that names it from the start of the IPv6 header.
        pointer: u32,
    },
    /// An option isn't known (type 4 code 2).
    UnknownOption {
        /// Offset of the option from the start of the IPv6 header.
        pointer: u32,
    },
}

impl Icmpv6Error {
    /// The message's header with checksum 0. The offending packet's first bytes follow it.
    #[must_use]
    pub fn header(self) -> Icmpv6Header {
        let (kind, code, rest) = match self {
            Self::NoRoute => (Icmpv6Type::DESTINATION_UNREACHABLE, 0, 0),
            Self::AdministrativelyProhibited => (Icmpv6Type::DESTINATION_UNREACHABLE, 1, 0),
            Self::BeyondScope => (Icmpv6Type::DESTINATION_UNREACHABLE, 2, 0),
            Self::AddressUnreachable => (Icmpv6Type::DESTINATION_UNREACHABLE, 3, 0),
            Self::PortUnreachable => (Icmpv6Type::DESTINATION_UNREACHABLE, 4, 0),
            Self::SourcePolicyFailed => (Icmpv6Type::DESTINATION_UNREACHABLE, 5, 0),
            Self::RejectRoute => (Icmpv6Type::DESTINATION_UNREACHABLE, 6, 0),
            Self::PacketTooBig { mtu } => (Icmpv6Type::PACKET_TOO_BIG, 0, mtu),
            Self::HopLimitExceeded => (Icmpv6Type::TIME_EXCEEDED, 0, 0),
            Self::ReassemblyTimeExceeded => (Icmpv6Type::TIME_EXCEEDED, 1, 0),
            Self::WrongField { pointer } => (Icmpv6Type::PARAMETER_PROBLEM, 0, pointer),
            Self::UnknownNextHeader { pointer } => (Icmpv6Type::PARAMETER_PROBLEM, 1, pointer),
            Self::UnknownOption { pointer } => (Icmpv6Type::PARAMETER_PROBLEM, 2, pointer),
        };
        Icmpv6Header { kind, code, checksum: U16::ZERO, rest: U32::new(rest) }
    }
}
