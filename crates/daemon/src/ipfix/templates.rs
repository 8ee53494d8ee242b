//! Which information elements records have, and how each is written.
//!
//! Numbers are IANA's (registry "IPFIX Information Elements"). A session is one record of both directions: its initiator's are the elements as they are, the
//! responder's their reverse ones (RFC 5103).

use std::net::IpAddr;

/// Private enterprise number of reverse elements (RFC 5103 section 6.1).
const REVERSE: u32 = 29305;
/// Set in an element's number where an enterprise number follows.
const ENTERPRISE: u16 = 0x8000;
/// Length of an element whose length stands in each record.
const VARIABLE: u16 = 0xffff;

/// `flowEndReason` (RFC 5102 section 5.11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// Nothing was heard of it for long.
    IdleTimeout = 1,
    /// It goes on.
    ActiveTimeout = 2,
    /// Its end was seen.
    EndOfFlow = 3,
    /// Somebody has ended it.
    ForcedEnd = 4,
    /// It had to make room.
    LackOfResources = 5,
}

/// `natEvent` (RFC 8158 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NatEvent {
    /// A session is translated from now on.
    Nat44SessionCreate = 4,
    /// It isn't any more.
    Nat44SessionDelete = 5,
    /// A host is given a block of ports.
    PortBlockAllocation = 16,
    /// It has given it back.
    PortBlockDeallocation = 17,
}

/// `forwardingStatus`: its packets were forwarded.
pub const FORWARDED: u8 = 0b01 << 6;
/// `forwardingStatus`: they were dropped.
pub const DROPPED: u8 = 0b10 << 6;

/// What records are made of. Addresses are of one version.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Names it, as long as quiverd runs.
    pub flow: u64,
    /// When its first packet came, in milliseconds since 1970-01-01 UTC.
    pub start: u64,
    /// When the last one of it came that was believed to be its.
    pub end: u64,
    /// When it happened that there is a record.
    pub observed: u64,
    /// IP protocol.
    pub protocol: u8,
    /// The SPI of ESP and AH, whose ends have no ports; 0: another protocol.
    pub spi: u32,
    /// Who began, and who was asked.
    pub ends: [(IpAddr, u16); 2],
    /// How they are seen on the far side, where that is otherwise.
    pub beyond: [(IpAddr, u16); 2],
    /// Packets from the initiator and to it, since the last record.
    pub packets: [u64; 2],
    /// Their bytes, from the IP header on.
    pub bytes: [u64; 2],
    /// TCP flags of its segments, lowest and highest TTL of its packets, of both sides; 0 where `session-stats` doesn't note them.
    pub seen: [(u8, u8, u8); 2],
    /// Why there is a record.
    pub reason: EndReason,
    /// [`FORWARDED`] or [`DROPPED`].
    pub status: u8,
    /// What `nat` or `balance` did.
    pub nat: NatEvent,
    /// First and last port of the block that the initiator was given or gave back.
    pub block: (u16, u16),
    /// Address space.
    pub context: u16,
    /// Tenant.
    pub tenant: &'a str,
}

/// An information element of a template.
struct Element {
    number: u16,
    /// Bytes, or [`VARIABLE`].
    length: u16,
    is_reverse: bool,
    write: fn(&Record<'_>, &mut Vec<u8>),
}

const fn element(number: u16, length: u16, write: fn(&Record<'_>, &mut Vec<u8>)) -> Element {
    Element { number, length, is_reverse: false, write }
}

const fn reverse(number: u16, length: u16, write: fn(&Record<'_>, &mut Vec<u8>)) -> Element {
    Element { number, length, is_reverse: true, write }
}

/// A kind of records.
#[derive(Debug)]
pub struct Template {
    /// Its number, and that of the sets of its records.
    pub(super) id: u16,
    elements: &'static [&'static [Element]],
}

impl std::fmt::Debug for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.length)
    }
}

/// What all records of sessions begin with.
const SESSION: &[Element] = &[
    element(148, 8, |record, out| out.extend(record.flow.to_be_bytes())), // flowId
    element(152, 8, |record, out| out.extend(record.start.to_be_bytes())), // flowStartMilliseconds
    element(153, 8, |record, out| out.extend(record.end.to_be_bytes())),  // flowEndMilliseconds
    element(4, 1, |record, out| out.push(record.protocol)),               // protocolIdentifier
    element(7, 2, |record, out| out.extend(record.ends[0].1.to_be_bytes())), // sourceTransportPort
    element(11, 2, |record, out| out.extend(record.ends[1].1.to_be_bytes())), // destinationTransportPort
    element(295, 4, |record, out| out.extend(record.spi.to_be_bytes())),  // ipsecSPI
    element(2, 8, |record, out| out.extend(record.packets[0].to_be_bytes())), // packetDeltaCount
    element(1, 8, |record, out| out.extend(record.bytes[0].to_be_bytes())), // octetDeltaCount
    reverse(2, 8, |record, out| out.extend(record.packets[1].to_be_bytes())),
    reverse(1, 8, |record, out| out.extend(record.bytes[1].to_be_bytes())),
    element(6, 2, |record, out| out.extend(u16::from(record.seen[0].0).to_be_bytes())), // tcpControlBits
    element(52, 1, |record, out| out.push(record.seen[0].1)),                           // minimumTTL
    element(53, 1, |record, out| out.push(record.seen[0].2)),                           // maximumTTL
    reverse(6, 2, |record, out| out.extend(u16::from(record.seen[1].0).to_be_bytes())),
    reverse(52, 1, |record, out| out.push(record.seen[1].1)),
    reverse(53, 1, |record, out| out.push(record.seen[1].2)),
    element(239, 1, |_, out| out.push(1)), // biflowDirection: its initiator's
    element(136, 1, |record, out| out.push(record.reason as u8)), // flowEndReason
    element(89, 1, |record, out| out.push(record.status)), // forwardingStatus
    element(234, 4, |record, out| out.extend(u32::from(record.context).to_be_bytes())), // ingressVRFID
    element(371, VARIABLE, |record, out| text(record.tenant, out)), // userName
];
const ADDRESSES4: &[Element] = &[
    element(8, 4, |record, out| address4(record.ends[0].0, out)), // sourceIPv4Address
    element(12, 4, |record, out| address4(record.ends[1].0, out)), // destinationIPv4Address
];
const ADDRESSES6: &[Element] = &[
    element(27, 16, |record, out| address6(record.ends[0].0, out)), // sourceIPv6Address
    element(28, 16, |record, out| address6(record.ends[1].0, out)), // destinationIPv6Address
];
const BEYOND4: &[Element] = &[
    element(225, 4, |record, out| address4(record.beyond[0].0, out)), // postNATSourceIPv4Address
    element(226, 4, |record, out| address4(record.beyond[1].0, out)), // postNATDestinationIPv4Address
];
const BEYOND6: &[Element] = &[
    element(281, 16, |record, out| address6(record.beyond[0].0, out)), // postNATSourceIPv6Address
    element(282, 16, |record, out| address6(record.beyond[1].0, out)), // postNATDestinationIPv6Address
];
const PORTS_BEYOND: &[Element] = &[
    element(227, 2, |record, out| out.extend(record.beyond[0].1.to_be_bytes())), // postNAPTSourceTransportPort
    element(228, 2, |record, out| out.extend(record.beyond[1].1.to_be_bytes())), // postNAPTDestinationTransportPort
];
/// RFC 8158 section 5.6.
const NAT44: &[Element] = &[
    element(323, 8, |record, out| out.extend(record.observed.to_be_bytes())), // observationTimeMilliseconds
    element(230, 1, |record, out| out.push(record.nat as u8)),                // natEvent
    element(148, 8, |record, out| out.extend(record.flow.to_be_bytes())),
    element(4, 1, |record, out| out.push(record.protocol)),
    element(7, 2, |record, out| out.extend(record.ends[0].1.to_be_bytes())),
    element(11, 2, |record, out| out.extend(record.ends[1].1.to_be_bytes())),
    element(234, 4, |record, out| out.extend(u32::from(record.context).to_be_bytes())),
    element(371, VARIABLE, |record, out| text(record.tenant, out)),
];

/// RFC 8158: port block allocation and de-allocation.
const PORT_BLOCK: &[Element] = &[
    element(323, 8, |record, out| out.extend(record.observed.to_be_bytes())), // observationTimeMilliseconds
    element(230, 1, |record, out| out.push(record.nat as u8)),                // natEvent
    element(8, 4, |record, out| address4(record.ends[0].0, out)),             // sourceIPv4Address
    element(225, 4, |record, out| address4(record.beyond[0].0, out)),         // postNATSourceIPv4Address
    element(361, 2, |record, out| out.extend(record.block.0.to_be_bytes())),  // portRangeStart
    element(362, 2, |record, out| out.extend(record.block.1.to_be_bytes())),  // portRangeEnd
    element(234, 4, |record, out| out.extend(u32::from(record.context).to_be_bytes())),
    element(371, VARIABLE, |record, out| text(record.tenant, out)),
];

/// Sessions of IPv4.
const FLOW4: Template = Template { id: 256, elements: &[SESSION, ADDRESSES4] };
/// Sessions of IPv6.
const FLOW6: Template = Template { id: 257, elements: &[SESSION, ADDRESSES6] };
/// Sessions of IPv4 that are translated.
const TRANSLATED4: Template = Template { id: 258, elements: &[SESSION, ADDRESSES4, BEYOND4, PORTS_BEYOND] };
/// Sessions of IPv6 that are translated.
const TRANSLATED6: Template = Template { id: 259, elements: &[SESSION, ADDRESSES6, BEYOND6, PORTS_BEYOND] };
/// Translations of IPv4 that come and go.
const EVENTS4: Template = Template { id: 260, elements: &[NAT44, ADDRESSES4, BEYOND4, PORTS_BEYOND] };
/// Blocks of ports that come and go.
const BLOCKS: Template = Template { id: 262, elements: &[PORT_BLOCK] };

impl Template {
    /// All of them.
    pub(super) const ALL: [&'static Self; 6] =
        [&FLOW4, &FLOW6, &TRANSLATED4, &TRANSLATED6, &EVENTS4, &BLOCKS];

    /// That of a session's record.
    #[must_use]
    pub const fn of_session(is_v4: bool, is_translated: bool) -> &'static Self {
        match (is_v4, is_translated) {
            (true, false) => &FLOW4,
            (false, false) => &FLOW6,
            (true, true) => &TRANSLATED4,
            (false, true) => &TRANSLATED6,
        }
    }

    /// That of translations of IPv4 that come and go.
    #[must_use]
    pub const fn of_nat_event() -> &'static Self {
        &EVENTS4
    }

    /// That of blocks of ports that come and go.
    #[must_use]
    pub const fn of_port_block() -> &'static Self {
        &BLOCKS
    }

    /// Writes the template (RFC 7011 section 3.4.1).
    pub(super) fn describe(&self, out: &mut Vec<u8>) {
        let elements = || self.elements.iter().copied().flatten();
        out.extend(self.id.to_be_bytes());
        out.extend((elements().count() as u16).to_be_bytes());
        for element in elements() {
            let enterprise = if element.is_reverse { ENTERPRISE } else { 0 };
            out.extend((element.number | enterprise).to_be_bytes());
            out.extend(element.length.to_be_bytes());
            if element.is_reverse {
                out.extend(REVERSE.to_be_bytes());
            }
        }
    }

    /// Writes a record of it.
    pub(super) fn write(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        self.elements.iter().copied().flatten().for_each(|element| (element.write)(record, out));
    }
}

/// An address in four bytes: of one that isn't IPv4's, none.
fn address4(address: IpAddr, out: &mut Vec<u8>) {
    let IpAddr::V4(address) = address.to_canonical() else { return out.extend([0; 4]) };
    out.extend(address.octets());
}

/// An address in sixteen bytes: one of IPv4 is mapped.
fn address6(address: IpAddr, out: &mut Vec<u8>) {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    out.extend(address.octets());
}

/// A text with its length before it (RFC 7011 section 7). Of one that is too long for one byte of length, the first part.
fn text(text: &str, out: &mut Vec<u8>) {
    let bytes = &text.as_bytes()[..text.floor_char_boundary(254)];
    out.push(bytes.len() as u8);
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn an_address_takes_the_bytes_that_its_element_says() {
        for address in [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let (mut narrow, mut wide) = (Vec::new(), Vec::new());
            address4(address, &mut narrow);
            address6(address, &mut wide);
            assert_eq!((narrow.len(), wide.len()), (4, 16), "{address}");
        }
    }
}
