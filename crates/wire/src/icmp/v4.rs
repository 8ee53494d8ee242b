//! ICMP for IPv4.

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Header, checksum};

/// ICMP message type (IANA registry).
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct Icmpv4Type(pub u8);

impl Icmpv4Type {
    /// Echo reply.
    pub const ECHO_REPLY: Self = Self(0);
    /// Destination unreachable; the code says why.
    pub const DESTINATION_UNREACHABLE: Self = Self(3);
    /// Source quench (deprecated by RFC 6633).
    pub const SOURCE_QUENCH: Self = Self(4);
    /// Redirect.
    pub const REDIRECT: Self = Self(5);
    /// Echo request.
    pub const ECHO_REQUEST: Self = Self(8);
    /// Router advertisement (RFC 1256).
    pub const ROUTER_ADVERTISEMENT: Self = Self(9);
    /// Router solicitation (RFC 1256).
    pub const ROUTER_SOLICITATION: Self = Self(10);
    /// Time exceeded: code 0 TTL, code 1 reassembly.
    pub const TIME_EXCEEDED: Self = Self(11);
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: Self = Self(12);
    /// Timestamp.
    pub const TIMESTAMP: Self = Self(13);
    /// Timestamp reply.
    pub const TIMESTAMP_REPLY: Self = Self(14);

    /// Whether it reports an error, so that no error may be sent about it (RFC 1122 section 3.2.2).
    #[inline]
    #[must_use]
    pub const fn is_error(self) -> bool {
        matches!(
            self,
            Self::DESTINATION_UNREACHABLE
                | Self::SOURCE_QUENCH
                | Self::REDIRECT
                | Self::TIME_EXCEEDED
                | Self::PARAMETER_PROBLEM
        )
    }
}

impl fmt::Display for Icmpv4Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::ECHO_REPLY => "echo-reply",
            Self::DESTINATION_UNREACHABLE => "unreachable",
            Self::SOURCE_QUENCH => "source-quench",
            Self::REDIRECT => "redirect",
            Self::ECHO_REQUEST => "echo-request",
            Self::ROUTER_ADVERTISEMENT => "router-advertisement",
            Self::ROUTER_SOLICITATION => "router-solicitation",
            Self::TIME_EXCEEDED => "time-exceeded",
            Self::PARAMETER_PROBLEM => "parameter-problem",
            Self::TIMESTAMP => "timestamp",
            Self::TIMESTAMP_REPLY => "timestamp-reply",
            Self(other) => return write!(f, "type {other}"),
        })
    }
}

impl fmt::Debug for Icmpv4Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Icmpv4Type({})", self.0)
    }
}

/// ICMP header: 8 bytes. The last four depend on the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Icmpv4Header {
    /// Message type.
    pub kind: Icmpv4Type,
    /// Code within the type.
    pub code: u8,
    /// Checksum over header and data.
    pub checksum: U16,
    /// Echo: identifier. Errors: unused, pointer in the first byte, or upper half of a gateway's address.
    pub rest_high: U16,
    /// Echo: sequence number. Errors: unused, MTU, or lower half of a gateway's address.
    pub rest_low: U16,
}

impl Header for Icmpv4Header {
    const NAME: &'static str = "ICMP";
}

impl Icmpv4Header {
    /// Longest error message with its IP header, in bytes (RFC 1812 section 4.3.2.3).
    pub const MAX_ERROR_LEN: usize = 576;

    /// An echo request with checksum 0.
    #[must_use]
    pub fn echo_request(id: u16, sequence: u16) -> Self {
        Self {
            kind: Icmpv4Type::ECHO_REQUEST,
            code: 0,
            checksum: U16::ZERO,
            rest_high: U16::new(id),
            rest_low: U16::new(sequence),
        }
    }

    /// Echo: identifier.
    #[inline]
    #[must_use]
    pub fn echo_id(&self) -> u16 {
        self.rest_high.get()
    }

    /// Echo: sequence number.
    #[inline]
    #[must_use]
    pub fn echo_sequence(&self) -> u16 {
        self.rest_low.get()
    }

    /// Turns an echo request into its reply, and its checksum with it; the data isn't looked at.
    #[inline]
    pub fn turn_into_reply(&mut self) {
        let old = u16::from_be_bytes([self.kind.0, self.code]);
        self.kind = Icmpv4Type::ECHO_REPLY;
        let new = u16::from_be_bytes([self.kind.0, self.code]);
        self.checksum = U16::new(checksum::update_u16(self.checksum.get(), old, new));
    }
}

/// An error that is reported, with what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmpv4Error {
    /// No route (type 3 code 0).
    NetUnreachable,
    /// The host does not answer (type 3 code 1).
    HostUnreachable,
    /// Nothing here takes this protocol (type 3 code 2).
    ProtocolUnreachable,
    /// Nothing listens on this port (type 3 code 3).
    PortUnreachable,
    /// Packet is too big and must not be fragmented (type 3 code 4, RFC 1191).
    FragmentationNeeded {
        /// MTU of the next hop in bytes.
        mtu: u16,
    },
    /// A source route can't be followed (type 3 code 5).
    SourceRouteFailed,
    /// Forbidden by a filter (type 3 code 13, RFC 1812).
    AdministrativelyProhibited,
    /// TTL went to zero (type 11 code 0).
    TtlExceeded,
    /// Fragments are missing (type 11 code 1).
    ReassemblyTimeExceeded,
    /// The header is wrong (type 12 code 0).
    ParameterProblem {
        /// Offset of the wrong byte from the start of the IP header.
        pointer: u8,
    },
}

impl Icmpv4Error {
    /// The message's header with checksum 0. The offending packet's first bytes follow it.
    #[must_use]
    pub fn header(self) -> Icmpv4Header {
        let unreachable = |code, mtu| (Icmpv4Type::DESTINATION_UNREACHABLE, code, [0, 0], mtu);
        let (kind, code, high, low) = match self {
            Self::NetUnreachable => unreachable(0, 0),
            Self::HostUnreachable => unreachable(1, 0),
            Self::ProtocolUnreachable => unreachable(2, 0),
            Self::PortUnreachable => unreachable(3, 0),
            Self::FragmentationNeeded { mtu } => unreachable(4, mtu),
            Self::SourceRouteFailed => unreachable(5, 0),
            Self::AdministrativelyProhibited => unreachable(13, 0),
            Self::TtlExceeded => (Icmpv4Type::TIME_EXCEEDED, 0, [0, 0], 0),
            Self::ReassemblyTimeExceeded => (Icmpv4Type::TIME_EXCEEDED, 1, [0, 0], 0),
            Self::ParameterProblem { pointer } => (Icmpv4Type::PARAMETER_PROBLEM, 0, [pointer, 0], 0),
        };
        Icmpv4Header {
            kind,
            code,
            checksum: U16::ZERO,
            rest_high: U16::from_bytes(high),
            rest_low: U16::new(low),
        }
    }
}
