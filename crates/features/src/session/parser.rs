//! Parsers: keys of one's own, by which a tenant's sessions are found and made where the parser recognises a packet.
//!
//! Where it doesn't, a packet's session is found by the ordinary tuple. Such a key is in the same table and takes the place of one of IPv6, with an IP version that is none and the parser's
//! number, so that keys of two parsers never meet, nor those of one and an ordinary tuple. Packets at interfaces of tenants without a parser know nothing of all this.
//!
//! A parser is asked about whole packets: a fragment, and an ICMP error, has the session of its ordinary tuple.

use super::entry::Direction;
use super::fragments::Pieces;
use super::tenants::Place;
use super::tuple::{Kind, Mark};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use graph::packet::{Flags, Packets, SlotId};
use std::sync::OnceLock;
use tables::session::{Endpoint, Key};
use wire::ipv4::Ipv4Header;
use wire::ipv6::{Ipv6Header, walk};
use wire::{Header, IpProtocol};

pub use tables::session::PARSED_BYTES as MAX_KEY;

/// What a parser declares.
#[derive(Clone, Copy)]
pub struct Parser {
    /// Name, as tenants say it: lower case, words joined by `-`.
    pub name: &'static str,
    /// One sentence: what it recognises, and what its key is.
    pub help: &'static str,
    /// IP protocol of the packets that it is asked about; not TCP, whose connections are followed by addresses and ports alone.
    pub protocol: IpProtocol,
    /// Bytes of its keys, 1 to [`MAX_KEY`].
    pub key_bytes: usize,
    /// Whether all its packets are in one direction: then a second one establishes a session, since there is no answer.
    pub one_way: bool,
    /// Whether it recognises a packet: writes its key, which is [`Parser::key_bytes`] long and zero before, and says in which direction it is. What comes back has the same key, if it has any. It neither waits nor
    /// allocates, and is asked again about each packet.
    pub parse: fn(&Datagram<'_>, &mut [u8]) -> Option<Direction>,
    /// Writes a key for people.
    pub show: fn(&[u8]) -> String,
    /// Who sends forward and who is sent to, as far as a key says: for filters, events and flow records.
    pub ends: fn(&[u8]) -> [Option<Endpoint>; 2],
}

impl core::fmt::Debug for Parser {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Parser").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for Parser {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Parser {}

/// A whole packet, as a parser sees it.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    header: &'a [u8],
    behind: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// One with an IP header, and its extension headers where it has some, and what is behind. `None` where that is no header.
    #[must_use]
    pub fn new(header: &'a [u8], behind: &'a [u8]) -> Option<Self> {
        let whole = match header.first()? >> 4 {
            4 => Ipv4Header::LEN,
            6 => Ipv6Header::LEN,
            _ => return None,
        };
        (header.len() >= whole).then_some(Self { header, behind })
    }

    /// The IP header, with options or extension headers.
    #[must_use]
    pub const fn header(&self) -> &'a [u8] {
        self.header
    }

    /// What is behind it, from the transport header on: the first bytes of it, so that the packet has 64 in all, or 128 where it is longer than that.
    #[must_use]
    pub const fn behind(&self) -> &'a [u8] {
        self.behind
    }

    /// Who has sent it.
    #[must_use]
    pub fn source(&self) -> IpAddr {
        self.address(12, 8)
    }

    /// Whom it is for.
    #[must_use]
    pub fn destination(&self) -> IpAddr {
        self.address(16, 24)
    }

    fn address(&self, v4: usize, v6: usize) -> IpAddr {
        if self.header[0] >> 4 == 4 {
            let octets = self.header.get(v4..).and_then(|bytes| bytes.first_chunk::<4>());
            return Ipv4Addr::from(octets.copied().unwrap_or_default()).into();
        }
        let octets = self.header.get(v6..).and_then(|bytes| bytes.first_chunk::<16>());
        Ipv6Addr::from(octets.copied().unwrap_or_default()).into()
    }
}

/// All parsers: Quiver's own, and those that were [added](super::service::add_parsers). Their numbers begin at 1.
#[must_use]
pub fn parsers() -> &'static [Parser] {
    ALL.get_or_init(|| OWN.to_vec())
}

/// Quiver's own.
#[cfg(not(test))]
pub(super) const OWN: &[Parser] = &[super::gtpu::PARSER];
#[cfg(test)]
pub(super) const OWN: &[Parser] = &[super::gtpu::PARSER, super::tests::PAIR];

pub(super) static ALL: OnceLock<Vec<Parser>> = OnceLock::new();

/// The number of the parser of that name; `None` where there is none.
#[must_use]
pub fn number(name: &str) -> Option<u8> {
    parsers().iter().position(|parser| parser.name == name).map(|at| at as u8 + 1)
}

/// The parser of that number.
#[must_use]
pub fn by_number(number: u8) -> Option<&'static Parser> {
    parsers().get(usize::from(number).checked_sub(1)?)
}

/// A key that a parser has given.
#[derive(Clone, Copy, Debug)]
pub struct Parsed {
    /// Which parser.
    pub parser: &'static Parser,
    bytes: [u8; MAX_KEY],
}

impl Parsed {
    /// That of a session, if a parser has given it.
    #[must_use]
    pub fn of(key: &Key) -> Option<Self> {
        let (number, bytes) = key.parsed_by()?;
        Some(Self { parser: by_number(number)?, bytes })
    }

    /// The key's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.parser.key_bytes).unwrap_or_default()
    }

    /// The key, as its parser writes it.
    #[must_use]
    pub fn text(&self) -> String {
        (self.parser.show)(self.bytes())
    }

    /// Who sends forward and who is sent to. Whom the key doesn't say has the address that says nothing.
    fn ends(&self) -> [Endpoint; 2] {
        let ends = (self.parser.ends)(self.bytes());
        let v4 = ends.iter().flatten().any(|(address, _)| address.is_ipv4());
        let nobody = if v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        ends.map(|end| end.unwrap_or((nobody, 0)))
    }
}

/// The lower and the higher endpoint of a key; of one that a parser has given, who sends forward and who is sent to.
pub(super) fn endpoints(key: &Key) -> (Endpoint, Endpoint) {
    match Parsed::of(key) {
        Some(parsed) => parsed.ends().into(),
        None => key.endpoints(),
    }
}

/// The IP protocol of a key's packets.
pub(super) fn protocol(key: &Key) -> IpProtocol {
    Parsed::of(key).map_or(IpProtocol(key.protocol()), |parsed| parsed.parser.protocol)
}

/// The key of a packet, and its direction, as the parser of that number has it. `None` where it doesn't recognise it.
pub(super) fn key(
    number: u8,
    context: u16,
    protocol: IpProtocol,
    datagram: &Datagram<'_>,
) -> Option<(Key, Direction)> {
    let parser = by_number(number).filter(|parser| parser.protocol == protocol)?;
    let mut bytes = [0; MAX_KEY];
    let direction = (parser.parse)(datagram, bytes.get_mut(..parser.key_bytes)?)?;
    if parser.one_way && direction == Direction::Reverse {
        return None;
    }
    Some((Key::parsed(context, number, parser.one_way, &bytes), direction))
}

/// The same of a packet whose network header is in place, at an interface of a tenant with a parser.
#[inline(never)]
pub(super) fn read<F: Pieces>(packets: &Packets, slot: SlotId, place: Place) -> Option<(Key, Mark)> {
    let meta = packets.meta(slot);
    let (l3, end) = (usize::from(meta.l3), usize::from(meta.end));
    if meta.flags.has(Flags::FRAGMENT) {
        return None;
    }
    let area = packets.area(slot);
    let (protocol, at) = if F::IS_V6 {
        let header = packets.header::<Ipv6Header>(slot, meta.l3)?;
        if header.next_header.is_extension() {
            let upper = walk(area.get(l3..end)?).ok().filter(|upper| !upper.is_fragment())?;
            (upper.protocol, l3 + upper.offset)
        } else {
            (header.next_header, usize::from(meta.l4))
        }
    } else {
        let header = packets.header::<Ipv4Header>(slot, meta.l3).filter(|header| !header.is_fragment())?;
        (header.protocol, usize::from(meta.l4))
    };
    let datagram = Datagram::new(area.get(l3..at)?, area.get(at..end)?)?;
    let (key, direction) = key(place.parser, place.context, protocol, &datagram)?;
    Some((key, Mark { kind: Kind::Parsed, from_high: direction == Direction::Reverse }))
}
