//! What a destination does with IPv6 extension headers (RFC 8200 section 4): options that it doesn't know, and routing
//! headers that want the packet to go elsewhere.

use wire::ipv6::{ExtensionHeader, Ipv6Options, UnknownOption};
use wire::{Header, Icmpv6Error, IpProtocol, Ipv6Header};

/// Why a packet with extension headers isn't taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Drop it silently.
    Drop,
    /// Drop it and tell its sender.
    Tell(Icmpv6Error),
}

/// Where `next_header` stands in the IPv6 header.
pub(super) const NEXT_HEADER_AT: usize = 6;

/// Looks at the options of the extension headers up to the upper layer at `upper` (bytes from the start of the IPv6
/// header at the start of `head`). Later fragments and what else [`wire::ipv6::walk`] refuses must not come here.
pub(super) fn check(head: &[u8], upper: usize) -> Result<(), Refusal> {
    let Ok((ip, _)) = Ipv6Header::parse(head) else { return Err(Refusal::Drop) };
    let (mut protocol, mut at, mut named_at) = (ip.next_header, Ipv6Header::LEN, NEXT_HEADER_AT);
    while at < upper && protocol.is_extension() {
        let rest = head.get(at..upper).unwrap_or_default();
        let Ok((header, _)) = ExtensionHeader::parse(rest) else { return Err(Refusal::Drop) };
        let len = match protocol {
            IpProtocol::FRAGMENT => 8,
            IpProtocol::AH => (usize::from(header.len) + 2) * 4,
            _ => (usize::from(header.len) + 1) * 8,
        };
        let bytes = rest.get(..len).ok_or(Refusal::Drop)?;
        match protocol {
            IpProtocol::HOP_BY_HOP | IpProtocol::DESTINATION_OPTIONS => {
                options(bytes, at, ip.dst().is_multicast())?;
            }
            // Segments left, at byte 3: nothing here follows a route, of whatever type (byte 2).
            IpProtocol::ROUTING if bytes.get(3).is_some_and(|left| *left > 0) => {
                return Err(Refusal::Tell(Icmpv6Error::WrongField { pointer: at as u32 + 2 }));
            }
            // Nothing here has a key to check it with (RFC 4302 section 3.4.2).
            IpProtocol::AH => {
                return Err(Refusal::Tell(Icmpv6Error::UnknownNextHeader { pointer: named_at as u32 }));
            }
            _ => {}
        }
        named_at = at;
        (protocol, at) = (header.next_header, at + len);
    }
    Ok(())
}

/// Options in an extension header that begins `at` bytes from the IPv6 header. None is known, but for those whose type
/// says that it doesn't matter.
fn options(header: &[u8], at: usize, to_group: bool) -> Result<(), Refusal> {
    for option in Ipv6Options::new(header) {
        let tell =
            |offset: usize| Refusal::Tell(Icmpv6Error::UnknownOption { pointer: (at + offset) as u32 });
        let option = option
            .map_err(|offset| Refusal::Tell(Icmpv6Error::WrongField { pointer: (at + offset) as u32 }))?;
        match option.when_unknown() {
            UnknownOption::Skip => {}
            UnknownOption::DropAndTell => return Err(tell(option.offset)),
            UnknownOption::DropAndTellUnicast if !to_group => return Err(tell(option.offset)),
            UnknownOption::Drop | UnknownOption::DropAndTellUnicast => return Err(Refusal::Drop),
        }
    }
    Ok(())
}
