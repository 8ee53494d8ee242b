//! Laws of the checksum, held against the RFC's definition, word by word.

use proptest::prelude::*;
use quiver_wire::checksum::{self, Partial};
use quiver_wire::{Header, IntoBytes, IpProtocol, Ipv4Header, U16, U32};

/// RFC 1071 section 1, word by word.
fn slow(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u64::from);
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

proptest! {
    #[test]
    fn a_sum_is_what_the_rfc_says(bytes in prop::collection::vec(any::<u8>(), 0..2100)) {
        let sum = Partial::of(&bytes);
        prop_assert_eq!(sum.fold(), slow(&bytes));
        prop_assert_eq!(sum.checksum(), !slow(&bytes));
    }

    /// However bytes are cut and in whatever order the pieces are summed.
    #[test]
    fn sums_combine(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
        prop_assert_eq!(Partial::of_pieces(pieces.iter().copied()).fold(), slow(&bytes));
        let backwards = cuts.iter().zip(&pieces).rev()
            .fold(Partial::ZERO, |sum, (offset, piece)| sum.plus(Partial::of(piece).at(*offset)));
        prop_assert_eq!(backwards.fold(), slow(&bytes));
    }

    #[test]
    fn taking_away_undoes_adding(a: Vec<u8>, b: Vec<u8>) {
        let both = Partial::of(&a).plus(Partial::of(&b));
        // ones' complement has two zeros: compare the sums as the classes they are
        let class = |sum: Partial| sum.fold() % 0xffff;
        prop_assert_eq!(class(both.minus(Partial::of(&b))), class(Partial::of(&a)));
    }

    /// RFC 1624: changing bytes and the checksum gives what summing anew gives, at even and odd places. (A
    /// packet has bytes other than zero that stay, as every real one: its version.)
    #[test]
    fn incremental_is_full(
        mut bytes in prop::collection::vec(any::<u8>(), 20..200),
        at in any::<prop::sample::Index>(),
        new in prop::collection::vec(any::<u8>(), 1..17),
    ) {
        bytes.insert(0, 0x45);
        let at = 1 + at.index(bytes.len() - new.len());
        let before = Partial::of(&bytes).checksum();
        let old = Partial::of(&bytes[at..at + new.len()]).at(at);
        bytes[at..at + new.len()].copy_from_slice(&new);
        let after = checksum::update(before, old, Partial::of(&new).at(at));
        prop_assert_eq!(after, Partial::of(&bytes).checksum());
    }

    #[test]
    fn incremental_numbers(mut words in prop::collection::vec(any::<u16>(), 4..20), new16: u16, new32: u32) {
        words.insert(0, 0x4500);
        let sum = |words: &[u16]| {
            Partial::of(&words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>()).checksum()
        };
        let before = sum(&words);
        let old = words[1];
        words[1] = new16;
        let changed = checksum::update_u16(before, old, new16);
        prop_assert_eq!(changed, sum(&words));
        let old = u32::from(words[2]) << 16 | u32::from(words[3]);
        words[2] = (new32 >> 16) as u16;
        words[3] = new32 as u16;
        prop_assert_eq!(checksum::update_u32(changed, old, new32), sum(&words));
    }

    /// The fast step of forwarding, for headers of every kind.
    #[test]
    fn one_hop_is_a_new_checksum(bytes: [u8; 20], ttl in 1u8..) {
        let (mut header, _) = Ipv4Header::parse(&bytes).map(|(header, rest)| (*header, rest)).unwrap();
        (header.version_ihl, header.ttl) = (0x45, ttl);
        header.checksum = U16::new(header.compute_checksum(&[]));
        prop_assert!(header.verify_checksum(&[]));
        header.decrement_ttl();
        prop_assert_eq!(header.ttl, ttl - 1);
        prop_assert_eq!(header.checksum.get(), header.compute_checksum(&[]));
        header.set_dscp_ecn(bytes[1] ^ 0xb8);
        prop_assert_eq!(header.checksum.get(), header.compute_checksum(&[]));
    }

    #[test]
    fn pseudo_headers_are_the_bytes_of_the_rfcs(src: [u8; 16], dst: [u8; 16], protocol: u8, len: u32) {
        let (short_src, short_dst) = (*src.first_chunk().unwrap(), *dst.first_chunk().unwrap());
        let v4 = checksum::pseudo_header_v4(short_src, short_dst, IpProtocol(protocol), len as u16);
        let bytes = [&short_src[..], &short_dst, &[0, protocol], U16::new(len as u16).as_bytes()].concat();
        prop_assert_eq!(v4.fold(), slow(&bytes));

        let v6 = checksum::pseudo_header_v6(src, dst, IpProtocol(protocol), len);
        let bytes = [&src[..], &dst, U32::new(len).as_bytes(), &[0, 0, 0, protocol]].concat();
        prop_assert_eq!(v6.fold(), slow(&bytes));
    }
}
