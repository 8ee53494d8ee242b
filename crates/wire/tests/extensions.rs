//! The walk over IPv6 extension headers: what stops it, and that the end of a head is not that of a packet.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod vectors;

use proptest::prelude::*;
use quiver_wire::ipv6::{self, ExtensionSet, FragmentHeader, MAX_EXTENSIONS, WalkError};
use quiver_wire::{Header, IntoBytes, IpProtocol, Ipv6Header, Ipv6Reason};
use vectors::packet;

/// An IPv6 packet with this payload.
fn ipv6(next: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let address = "2001:db8::1".parse().unwrap();
    [Ipv6Header::new(address, address, next, 64, payload.len() as u16).as_bytes(), payload].concat()
}

/// An extension header of 8 bytes full of padding.
fn extension(next: IpProtocol) -> [u8; 8] {
    [next.0, 0, 1, 4, 0, 0, 0, 0]
}

fn error(packet: &[u8]) -> (Ipv6Reason, usize) {
    let WalkError { reason, offset } = ipv6::walk(packet).unwrap_err();
    (reason, offset)
}

#[test]
fn pointers_and_insertion_points() {
    // hop-by-hop, destination options, routing, fragment, destination options, UDP
    let bytes = packet("ip6-chain");
    let found = ipv6::walk(&bytes).unwrap();
    assert_eq!((found.protocol, found.offset), (IpProtocol::UDP, bytes.len() - 12));
    assert_eq!(bytes[found.next_header_at], IpProtocol::UDP.0);
    assert_eq!(found.unfragmentable_len, 40 + 8 + 8 + 24);
    assert_eq!(bytes[found.unfragmentable_next_header_at], IpProtocol::FRAGMENT.0);
    assert!(found.is_fragment() && !found.is_later_fragment());

    let found = ipv6::walk(&packet("ip6-class-flow")).unwrap();
    assert_eq!((found.offset, found.next_header_at, found.unfragmentable_len), (40, 6, 40));
    assert_eq!((found.extensions, found.fragment), (ExtensionSet::empty(), None));

    let found = ipv6::walk(&packet("ip6-fragment-atomic")).unwrap();
    assert!(!found.is_fragment(), "RFC 6946: a whole packet");
    assert!(ipv6::walk(&packet("ip6-fragment-later")).unwrap().is_later_fragment());
}

#[test]
fn what_ends_the_walk() {
    for name in ["ip6-esp", "ip6-nothing", "ip6-in-ip6"] {
        let bytes = packet(name);
        let found = ipv6::walk(&bytes).unwrap();
        assert_eq!((found.protocol.0, found.offset), (bytes[6], 40), "{name}");
    }
    // the bytes of a later fragment are no headers, whatever they look like
    let fragment = FragmentHeader::new(IpProtocol::DESTINATION_OPTIONS, 8, true, 1);
    let bytes = ipv6(IpProtocol::FRAGMENT, &[fragment.as_bytes(), &extension(IpProtocol::UDP)].concat());
    let found = ipv6::walk(&bytes).unwrap();
    assert_eq!((found.protocol, found.offset), (IpProtocol::DESTINATION_OPTIONS, 48));
}

#[test]
fn hop_by_hop_comes_first_or_not_at_all() {
    let options = extension(IpProtocol::HOP_BY_HOP);
    let bytes = ipv6(IpProtocol::DESTINATION_OPTIONS, &[options, extension(IpProtocol::UDP)].concat());
    assert_eq!(error(&bytes), (Ipv6Reason::HopByHopNotFirst, 40));
    let bytes = ipv6(IpProtocol::HOP_BY_HOP, &[options, extension(IpProtocol::UDP)].concat());
    assert_eq!(error(&bytes), (Ipv6Reason::HopByHopNotFirst, 40));
}

#[test]
fn a_long_chain_is_bounded() {
    let chain = |count: usize| {
        let mut payload = extension(IpProtocol::DESTINATION_OPTIONS).repeat(count - 1);
        payload.extend(extension(IpProtocol::NO_NEXT_HEADER));
        ipv6(IpProtocol::DESTINATION_OPTIONS, &payload)
    };
    let longest = ipv6::walk(&chain(MAX_EXTENSIONS)).unwrap();
    assert_eq!((longest.protocol, longest.offset), (IpProtocol::NO_NEXT_HEADER, 40 + 8 * MAX_EXTENSIONS));
    assert_eq!(error(&chain(MAX_EXTENSIONS + 1)), (Ipv6Reason::TooManyExtensions, 40 + 8 * MAX_EXTENSIONS));
}

#[test]
fn beyond_the_packet_or_only_beyond_the_head() {
    // length field goes beyond the payload
    let bytes = ipv6(IpProtocol::DESTINATION_OPTIONS, &[17, 1, 1, 4, 0, 0, 0, 0]);
    assert_eq!(error(&bytes), (Ipv6Reason::ExtensionTruncated, 40));
    // payload ends inside the two fixed bytes; what follows is Ethernet's padding
    let mut bytes = ipv6(IpProtocol::DESTINATION_OPTIONS, &[17]);
    bytes.extend([0; 19]);
    assert_eq!(error(&bytes), (Ipv6Reason::ExtensionTruncated, 40));

    let bytes = packet("ip6-chain");
    for len in 0..bytes.len() {
        match ipv6::walk(&bytes[..len]) {
            Ok(found) => assert!(found.offset == 96 && len >= 90, "{len}"),
            Err(WalkError { reason: Ipv6Reason::TooShort, .. }) => assert!(len < Ipv6Header::LEN),
            Err(WalkError { reason, offset }) => {
                assert_eq!(reason, Ipv6Reason::HeadTooShort, "{len}");
                assert!(offset > len, "{len}: more must be asked for than is there");
                let again = ipv6::walk(&bytes[..offset]);
                assert_ne!(again, Err(WalkError { reason, offset }), "{len}: what was asked for helps");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_chain_ends(
        kinds in prop::collection::vec(prop::sample::select(vec![0u8, 43, 44, 51, 60, 17, 59]), 0..14),
        noise in prop::collection::vec(any::<u8>(), 0..200),
        cut in any::<prop::sample::Index>(),
    ) {
        let first = IpProtocol(kinds.first().copied().unwrap_or(60));
        let mut payload: Vec<u8> = kinds.iter().skip(1).flat_map(|kind| extension(IpProtocol(*kind))).collect();
        payload.extend(&noise);
        let bytes = ipv6(first, &payload);
        let head = &bytes[..cut.index(bytes.len() + 1)];
        match ipv6::walk(head) {
            Ok(found) => {
                prop_assert!(found.offset <= bytes.len());
                prop_assert!(found.next_header_at < found.offset);
                prop_assert_eq!(bytes[found.next_header_at], found.protocol.0);
                prop_assert!(found.unfragmentable_len <= found.offset);
                prop_assert!(found.is_later_fragment() || !found.protocol.is_extension());
            }
            Err(WalkError { reason: Ipv6Reason::HeadTooShort, offset }) => {
                prop_assert!(offset > head.len() && offset <= bytes.len());
            }
            Err(WalkError { offset, .. }) => prop_assert!(offset <= bytes.len()),
        }
    }
}
