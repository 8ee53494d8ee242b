//! How fragments of an IP version are read, and whole packets made of them (RFC 791 section 3.2, RFC 815; RFC 8200 section 4.5, RFC 5722, RFC 6980).

use super::assemble::Loss;
use super::datagram::Piece;
use crate::icmp::request_v6;
use crate::ip::family::{Family, V4, V6};
use core::fmt;
use core::hash::Hash;
use graph::packet::Meta;
use wire::ipv4::{Ipv4Flags, Ipv4Header};
use wire::ipv6::{FragmentHeader, Ipv6Header, UpperLayer, walk};
use wire::{Header, Icmpv6Error, Icmpv6Type, IpProtocol, U16};

/// A fragment that isn't taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bad {
    /// Why.
    pub(super) loss: Loss,
    /// Its sender may be told; the request is in its metadata.
    pub(super) is_told: bool,
}

impl From<Loss> for Bad {
    fn from(loss: Loss) -> Self {
        Self { loss, is_told: false }
    }
}

/// How fragments of an IP version become packets.
pub(crate) trait Joins: Family + Sized {
    /// What packets have that tells them apart.
    type Id: Copy + Eq + Hash + Send;

    /// Reads a fragment, all of whose bytes are in a row. Of what it is told, the headers that stand before the payload are kept of the first fragment.
    fn read<'b>(bytes: &'b [u8], meta: &mut Meta) -> Result<(Self::Id, Piece<'b>), Bad>;

    /// The packet of a first fragment's headers and the whole payload, and where its transport header begins. `atomic`: it keeps a fragment header, where
    /// the version has one.
    fn whole(headers: Vec<u8>, payload: &[u8], atomic: bool) -> Result<(Vec<u8>, u16), Loss>;

    /// Writes which fragment `head` begins with.
    fn describe(head: &[u8], out: &mut dyn fmt::Write) -> fmt::Result;
}

impl Joins for V4 {
    /// Source, destination, protocol, identification.
    type Id = ([u8; 4], [u8; 4], IpProtocol, u16);

    fn read<'b>(bytes: &'b [u8], meta: &mut Meta) -> Result<(Self::Id, Piece<'b>), Bad> {
        let bad = || Bad::from(Loss::BadFragment);
        let (header, _) = Ipv4Header::parse(bytes).map_err(|_| bad())?;
        let (headers, payload) = bytes.split_at_checked(header.header_len()).ok_or_else(bad)?;
        let (offset, more) = (header.fragment_offset(), header.flags().contains(Ipv4Flags::MORE_FRAGMENTS));
        let too_long = headers.len() + offset + payload.len() > usize::from(u16::MAX);
        if too_long || (more && !payload.len().is_multiple_of(8)) {
            return Err(bad());
        }
        let id = (header.src, header.dst, header.protocol, header.id.get());
        Ok((id, Piece { offset, more, payload, headers, decapsulated: meta.decapsulated }))
    }

    fn whole(mut bytes: Vec<u8>, payload: &[u8], _: bool) -> Result<(Vec<u8>, u16), Loss> {
        let l4 = bytes.len();
        let len = u16::try_from(l4 + payload.len()).map_err(|_| Loss::BadFragment)?;
        let (header, options) = Ipv4Header::parse_mut(&mut bytes).map_err(|_| Loss::BadFragment)?;
        header.set_fragment(Ipv4Flags::empty(), 0);
        header.total_len = U16::new(len);
        header.checksum = U16::new(header.compute_checksum(options));
        bytes.extend_from_slice(payload);
        Ok((bytes, l4 as u16))
    }

    fn describe(head: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
        match Ipv4Header::parse(head) {
            Ok((header, _)) => write!(out, "id {} from byte {}", header.id, header.fragment_offset()),
            Err(_) => Ok(()),
        }
    }
}

/// Where the payload length stands in the IPv6 header.
const PAYLOAD_LEN_AT: u32 = 4;
/// Where the offset stands in the fragment header.
const OFFSET_AT: usize = 2;

impl Joins for V6 {
    /// Source, destination, identification.
    type Id = ([u8; 16], [u8; 16], u32);

    /// The headers that are kept of the first fragment end with its fragment header.
    fn read<'b>(bytes: &'b [u8], meta: &mut Meta) -> Result<(Self::Id, Piece<'b>), Bad> {
        let bad = || Bad::from(Loss::BadFragment);
        let (header, _) = Ipv6Header::parse(bytes).map_err(|_| bad())?;
        let upper = walk(bytes).map_err(|_| bad())?;
        let fragment = upper.fragment.ok_or_else(bad)?;
        let before = fragment_header_at(bytes, &upper).ok_or_else(bad)?;
        let (headers, payload) = bytes.split_at_checked(before + FragmentHeader::LEN).ok_or_else(bad)?;
        let (offset, more) = (fragment.offset(), fragment.more());
        let pointer = if more && !payload.len().is_multiple_of(8) {
            Some(PAYLOAD_LEN_AT)
        } else if before - Ipv6Header::LEN + offset + payload.len() > usize::from(u16::MAX) {
            Some((before + OFFSET_AT) as u32)
        } else {
            None
        };
        if let Some(pointer) = pointer {
            request_v6(meta, Icmpv6Error::WrongField { pointer });
            return Err(Bad { loss: Loss::BadLength, is_told: true });
        }
        let id = (header.src, header.dst, fragment.id.get());
        Ok((id, Piece { offset, more, payload, headers, decapsulated: meta.decapsulated }))
    }

    fn whole(headers: Vec<u8>, payload: &[u8], atomic: bool) -> Result<(Vec<u8>, u16), Loss> {
        let whole = if atomic { keep(headers, payload) } else { join(headers, payload) };
        let whole = whole.ok_or(Loss::BadFragment)?;
        let found = walk(&whole).map_err(|_| Loss::BadFragment)?;
        let kind = whole.get(found.offset).copied().map(Icmpv6Type);
        let discovery = kind.is_some_and(Icmpv6Type::is_neighbour_discovery);
        if found.protocol == IpProtocol::ICMPV6 && discovery {
            return Err(Loss::NeighbourDiscovery);
        }
        let l4 = u16::try_from(found.offset).map_err(|_| Loss::BadFragment)?;
        Ok((whole, l4))
    }

    fn describe(head: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
        match walk(head).ok().and_then(|upper| upper.fragment) {
            Some(fragment) => write!(out, "id {:#010x} from byte {}", fragment.id.get(), fragment.offset()),
            None => Ok(()),
        }
    }
}

/// Where the fragment header of a packet stands that has one.
pub(crate) fn fragment_header_at(bytes: &[u8], upper: &UpperLayer) -> Option<usize> {
    let (header, _) = Ipv6Header::parse(bytes).ok()?;
    let (mut protocol, mut at) = (header.next_header, Ipv6Header::LEN);
    while protocol != IpProtocol::FRAGMENT {
        // Lengths of AH are of another unit, and nothing signed is put together here.
        let extension = bytes.get(at..at + 2).filter(|_| protocol != IpProtocol::AH)?;
        (protocol, at) = (IpProtocol(extension[0]), at + (usize::from(extension[1]) + 1) * 8);
        if at >= upper.offset {
            return None;
        }
    }
    Some(at)
}

/// The packet of a first fragment's headers, the last of which is its fragment header, and the whole payload, which begins
/// with what that one names (RFC 8200 section 4.5); what later ones name doesn't count.
fn join(mut bytes: Vec<u8>, payload: &[u8]) -> Option<Vec<u8>> {
    let before = bytes.len().checked_sub(FragmentHeader::LEN)?;
    let protocol = FragmentHeader::parse(bytes.get(before..)?).ok()?.0.next_header;
    bytes.truncate(before);
    let len = u16::try_from(before.checked_sub(Ipv6Header::LEN)? + payload.len()).ok()?;
    let (header, rest) = Ipv6Header::parse_mut(&mut bytes).ok()?;
    header.payload_len = U16::new(len);
    if header.next_header == IpProtocol::FRAGMENT {
        header.next_header = protocol;
    } else {
        // The last header before names what follows.
        let mut at = 0;
        loop {
            let [next, units, ..] = rest.get_mut(at..)? else { return None };
            let len = (usize::from(*units) + 1) * 8;
            if *next == IpProtocol::FRAGMENT.0 {
                *next = protocol.0;
                break;
            }
            at += len;
        }
    }
    bytes.extend_from_slice(payload);
    Some(bytes)
}

/// The same with the fragment header left in its place, which says that nothing is missing: an atomic fragment.
fn keep(mut bytes: Vec<u8>, payload: &[u8]) -> Option<Vec<u8>> {
    let before = bytes.len().checked_sub(FragmentHeader::LEN)?;
    let len = u16::try_from(bytes.len().checked_sub(Ipv6Header::LEN)? + payload.len()).ok()?;
    Ipv6Header::parse_mut(&mut bytes).ok()?.0.payload_len = U16::new(len);
    let (fragment, _) = FragmentHeader::parse_mut(bytes.get_mut(before..)?).ok()?;
    *fragment = FragmentHeader::new(fragment.next_header, 0, false, fragment.id.get());
    bytes.extend_from_slice(payload);
    Some(bytes)
}
