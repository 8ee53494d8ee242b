//! Walking the chain of extension headers (RFC 8200 section 4), bounded and on a head alone.

use core::fmt;

use bitflags::bitflags;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Ipv6Header, Ipv6Reason};
use crate::{Header, IpProtocol};

/// Extension headers that [`walk`] steps over at most (the limit RFC 8504 section 5.3 suggests).
pub const MAX_EXTENSIONS: usize = 8;

/// The two bytes that hop-by-hop, routing, destination options and (with its own unit) AH begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ExtensionHeader {
    /// What follows this header.
    pub next_header: IpProtocol,
    /// Length: in units of 8 bytes without the first 8; for AH in units of 4 without the first 8.
    pub len: u8,
}

impl Header for ExtensionHeader {
    const NAME: &'static str = "IPv6 extension";
}

/// Fragment header (RFC 8200 section 4.5): 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FragmentHeader {
    /// What follows, in the first fragment.
    pub next_header: IpProtocol,
    /// Zero.
    pub reserved: u8,
    /// Offset in units of 8 bytes (13 bits), reserved (2 bits), more fragments (1 bit).
    pub offset_more: U16,
    /// Common to all fragments of a packet.
    pub id: U32,
}

impl Header for FragmentHeader {
    const NAME: &'static str = "IPv6 fragment";
}

impl FragmentHeader {
    /// A fragment at `offset` bytes (cut to a multiple of 8 below 65536).
    #[must_use]
    pub fn new(next_header: IpProtocol, offset: usize, more: bool, id: u32) -> Self {
        let offset_more = U16::new(offset as u16 & 0xfff8 | u16::from(more));
        Self { next_header, reserved: 0, offset_more, id: U32::new(id) }
    }

    /// Where this fragment's payload belongs in the whole fragmentable part, in bytes.
    #[inline]
    #[must_use]
    pub fn offset(&self) -> usize {
        usize::from(self.offset_more.get() & 0xfff8)
    }

    /// Whether more fragments follow.
    #[inline]
    #[must_use]
    pub fn more(&self) -> bool {
        self.offset_more.get() & 1 != 0
    }

    /// A whole packet that merely wears a fragment header (RFC 6946).
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        self.offset_more.get() & 0xfff9 == 0
    }
}

bitflags! {
    /// Which extension headers a packet has.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ExtensionSet: u8 {
        /// Hop-by-hop options.
        const HOP_BY_HOP = 1;
        /// Routing header.
        const ROUTING = 2;
        /// Fragment header.
        const FRAGMENT = 4;
        /// Destination options.
        const DESTINATION_OPTIONS = 8;
        /// Authentication header.
        const AH = 16;
    }
}

/// What [`walk`] found behind the extension headers. Offsets count bytes from the start of the IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// The upper layer's protocol; [`IpProtocol::NO_NEXT_HEADER`] when nothing follows.
    pub protocol: IpProtocol,
    /// Where it starts. In a later fragment: where the fragment's bytes start, and no header is there.
    pub offset: usize,
    /// The byte that named it: the pointer of an ICMPv6 "unrecognized next header".
    pub next_header_at: usize,
    /// The fragment header, if there is one.
    pub fragment: Option<FragmentHeader>,
    /// Which extension headers were passed.
    pub extensions: ExtensionSet,
    /// Where a fragment header goes if the packet must be fragmented: behind hop-by-hop and routing headers and
    /// what precedes them (RFC 8200 section 4.5).
    pub unfragmentable_len: usize,
    /// The byte that must then name the fragment header.
    pub unfragmentable_next_header_at: usize,
}

impl UpperLayer {
    /// Whether this is one of several fragments, the first included: ports must not be relied on.
    #[inline]
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| !fragment.is_atomic())
    }

    /// Whether no upper header is here because the packet is a later fragment.
    #[inline]
    #[must_use]
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.offset() != 0)
    }
}

/// Why [`walk`] gave up, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkError {
    /// What is wrong.
    pub reason: Ipv6Reason,
    /// The byte it concerns, from the start of the IPv6 header (ICMPv6's pointer); with
    /// [`Ipv6Reason::HeadTooShort`] how many bytes the head must have to get on.
    pub offset: usize,
}

impl fmt::Display for WalkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Ipv6Reason::HeadTooShort => write!(f, "{} (take {} bytes)", self.reason, self.offset),
            reason => write!(f, "{reason} (at byte {})", self.offset),
        }
    }
}

impl core::error::Error for WalkError {}

/// Steps over extension headers to the upper layer. `head` starts with the IPv6 header, which
/// [`Ipv6Header::check`] has passed, and may end before the packet does.
///
/// ESP, unknown protocols and the start of a later fragment end the walk: they are what is found.
///
/// # Errors
/// [`WalkError`] with [`Ipv6Reason::TooShort`], [`Ipv6Reason::HeadTooShort`],
/// [`Ipv6Reason::ExtensionTruncated`], [`Ipv6Reason::TooManyExtensions`] or [`Ipv6Reason::HopByHopNotFirst`].
#[inline]
pub fn walk(head: &[u8]) -> Result<UpperLayer, WalkError> {
    let (header, upper) = begin(head)?;
    if header.next_header.is_extension() {
        walk_extensions(head, header.total_len(), upper, true)
    } else {
        Ok(upper)
    }
}

/// As [`walk`], but an authentication header (RFC 4302) ends the walk, too: for whoever takes it for the upper layer that has the SPI.
///
/// # Errors
/// As [`walk`].
pub fn walk_to_authentication(head: &[u8]) -> Result<UpperLayer, WalkError> {
    let (header, upper) = begin(head)?;
    walk_extensions(head, header.total_len(), upper, false)
}

#[inline]
fn begin(head: &[u8]) -> Result<(&Ipv6Header, UpperLayer), WalkError> {
    let (header, _) = Ipv6Header::parse(head)
        .map_err(|_| WalkError { reason: Ipv6Reason::TooShort, offset: head.len() })?;
    let upper = UpperLayer {
        protocol: header.next_header,
        offset: Ipv6Header::LEN,
        next_header_at: NEXT_HEADER_AT,
        fragment: None,
        extensions: ExtensionSet::empty(),
        unfragmentable_len: Ipv6Header::LEN,
        unfragmentable_next_header_at: NEXT_HEADER_AT,
    };
    Ok((header, upper))
}

/// Where `next_header` stands in the IPv6 header.
const NEXT_HEADER_AT: usize = 6;

#[cold]
fn walk_extensions(
    head: &[u8],
    total_len: usize,
    mut upper: UpperLayer,
    passes_authentication: bool,
) -> Result<UpperLayer, WalkError> {
    let mut count = 0;
    while upper.protocol.is_extension() && (passes_authentication || upper.protocol != IpProtocol::AH) {
        let here = upper.offset;
        if count == MAX_EXTENSIONS {
            return Err(WalkError { reason: Ipv6Reason::TooManyExtensions, offset: here });
        }
        if upper.protocol == IpProtocol::HOP_BY_HOP && count > 0 {
            return Err(WalkError { reason: Ipv6Reason::HopByHopNotFirst, offset: upper.next_header_at });
        }
        count += 1;

        let extension: &ExtensionHeader = at(head, here, total_len)?;
        let (kind, len) = match upper.protocol {
            IpProtocol::HOP_BY_HOP => (ExtensionSet::HOP_BY_HOP, (usize::from(extension.len) + 1) * 8),
            IpProtocol::ROUTING => (ExtensionSet::ROUTING, (usize::from(extension.len) + 1) * 8),
            IpProtocol::FRAGMENT => (ExtensionSet::FRAGMENT, FragmentHeader::LEN),
            IpProtocol::AH => (ExtensionSet::AH, (usize::from(extension.len) + 2) * 4),
            _ => (ExtensionSet::DESTINATION_OPTIONS, (usize::from(extension.len) + 1) * 8),
        };
        if here + len > total_len {
            return Err(WalkError { reason: Ipv6Reason::ExtensionTruncated, offset: here });
        }
        if kind == ExtensionSet::FRAGMENT {
            let fragment: &FragmentHeader = at(head, here, total_len)?;
            upper.fragment = Some(*fragment);
        }
        upper.extensions |= kind;
        upper.protocol = extension.next_header;
        upper.next_header_at = here;
        upper.offset = here + len;
        if kind == ExtensionSet::HOP_BY_HOP || kind == ExtensionSet::ROUTING {
            upper.unfragmentable_len = upper.offset;
            upper.unfragmentable_next_header_at = here;
        }
        if upper.is_later_fragment() {
            break;
        }
    }
    Ok(upper)
}

/// The header at `offset` of the head, told apart: beyond the packet, or only beyond the head.
fn at<H: Header>(head: &[u8], offset: usize, total_len: usize) -> Result<&H, WalkError> {
    if offset + H::LEN > total_len {
        return Err(WalkError { reason: Ipv6Reason::ExtensionTruncated, offset });
    }
    match H::parse(head.get(offset..).unwrap_or_default()) {
        Ok((header, _)) => Ok(header),
        Err(_) => Err(WalkError { reason: Ipv6Reason::HeadTooShort, offset: offset + H::LEN }),
    }
}
