//! Nothing in a packet makes a parser panic, and what passes is what smoltcp accepts, too.

use proptest::prelude::*;
use quiver_wire::ipv6::Ipv6Options;
use quiver_wire::ndp::{self, NdpOptions};
use quiver_wire::{
    ArpPacket, EthernetHeader, Header, Icmpv4Header, Icmpv6Header, Ipv4Header, Ipv6Header, Tci, TcpHeader,
    TcpOption, TcpOptions, UdpHeader, VlanTag,
};
use smoltcp::wire;

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

/// Mostly small numbers: kinds and lengths that mean something.
fn option_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![4 => 0u8..12, 1 => any::<u8>()], 0..41)
}

proptest! {
    #[test]
    fn every_parser_takes_everything(bytes in bytes(160), len in 0usize..200) {
        prop_assert_eq!(EthernetHeader::parse(&bytes).is_ok(), bytes.len() >= 14);
        prop_assert_eq!(VlanTag::parse(&bytes).is_ok(), bytes.len() >= 4);
        prop_assert_eq!(Icmpv4Header::parse(&bytes).is_ok(), bytes.len() >= 8);
        prop_assert_eq!(Icmpv6Header::parse(&bytes).is_ok(), bytes.len() >= 8);
        let _ = ArpPacket::check(&bytes);
        if let Ok(udp) = UdpHeader::check(&bytes, len) {
            prop_assert!(usize::from(udp.len.get()) <= len);
        }
        if let Ok((tcp, options)) = TcpHeader::check(&bytes, len) {
            prop_assert!(tcp.header_len() >= 20 && tcp.header_len() <= len);
            prop_assert!(options.count() <= 40);
        }
        if let Ok((ip, options)) = Ipv4Header::check(&bytes, len) {
            prop_assert!(usize::from(ip.total_len.get()) <= len);
            prop_assert!(options.count() <= 40);
        }
        if let Ok(ip) = Ipv6Header::check(&bytes, len) {
            prop_assert!(ip.total_len() <= len);
            let _ = ndp::check(ip, &bytes[40..]);
        }
        prop_assert!(TcpOptions::new(&bytes).count() <= 40);
        prop_assert!(NdpOptions::new(&bytes).count() <= bytes.len() / 8 + 1);
        prop_assert!(Ipv6Options::new(&bytes).count() <= bytes.len() / 2 + 1);
    }

    /// What is emitted is what is parsed, and a slice too short is left alone.
    #[test]
    fn emit_and_parse(bytes: [u8; 20], room in 0usize..30) {
        let (header, _) = Ipv4Header::parse(&bytes).unwrap();
        let mut out = vec![0; room];
        match header.emit(&mut out) {
            Ok(rest) => {
                prop_assert_eq!(rest.len(), room - 20);
                prop_assert_eq!(&out[..20], &bytes);
            }
            Err(truncated) => {
                prop_assert_eq!((truncated.need, truncated.have), (20, room));
                prop_assert!(out.iter().all(|byte| *byte == 0));
            }
        }
    }

    /// Headers with valid first bytes and random rest: both accept or both refuse, and both read the same.
    #[test]
    fn ipv4_as_smoltcp_reads_it(
        mut bytes in prop::collection::vec(any::<u8>(), 20..90),
        version_ihl in 0x44u8..=0x50,
        fix: bool,
    ) {
        bytes[0] = version_ihl;
        let total = bytes.len() as u16 - u16::from(bytes[1] & 1);
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        let header_len = usize::from(version_ihl & 15) * 4;
        if fix && header_len >= 20 && header_len <= bytes.len() {
            wire::Ipv4Packet::new_unchecked(&mut bytes).fill_checksum();
        }
        let ours = Ipv4Header::check(&bytes, bytes.len());
        let theirs = wire::Ipv4Packet::new_checked(&bytes);
        let accepted = theirs.is_ok_and(|theirs| {
            theirs.version() == 4 && theirs.header_len() >= 20 && theirs.verify_checksum()
        });
        prop_assert_eq!(ours.is_ok(), accepted, "{:?}", ours.err());
        if let Ok((ours, _)) = ours {
            let theirs = wire::Ipv4Packet::new_unchecked(&bytes);
            prop_assert_eq!(ours.dscp(), theirs.dscp());
            prop_assert_eq!(ours.ecn(), theirs.ecn());
            prop_assert_eq!(ours.fragment_offset(), usize::from(theirs.frag_offset()));
            prop_assert_eq!(ours.src(), theirs.src_addr());
            prop_assert_eq!(ours.dst(), theirs.dst_addr());
        }
    }

    #[test]
    fn tcp_options_as_smoltcp_reads_them(options in option_bytes()) {
        // smoltcp's parser refuses known kinds with a length that isn't theirs; ours calls them "other"
        let mut rest = &options[..];
        for ours in TcpOptions::new(&options) {
            // padding is not an option to us
            let theirs = loop {
                match wire::TcpOption::parse(rest) {
                    Ok((after, wire::TcpOption::NoOperation)) => rest = after,
                    other => break other,
                }
            };
            match (ours, theirs) {
                (Err(_), theirs) => prop_assert!(theirs.is_err()),
                (Ok(TcpOption::Other { .. } | TcpOption::Sack(_)), Err(_)) => break,
                (Ok(ours), Ok((after, theirs))) => {
                    rest = after;
                    match (ours, theirs) {
                        (TcpOption::MaximumSegmentSize(a), wire::TcpOption::MaxSegmentSize(b)) => {
                            prop_assert_eq!(a, b);
                        }
                        (TcpOption::WindowScale(a), wire::TcpOption::WindowScale(b)) => prop_assert_eq!(a, b),
                        (TcpOption::SackPermitted, wire::TcpOption::SackPermitted) => {}
                        (TcpOption::Sack(a), wire::TcpOption::SackRange(b)) => {
                            prop_assert_eq!(a.len() / 8, b.iter().flatten().count());
                        }
                        (TcpOption::Timestamps { value, echo }, wire::TcpOption::TimeStamp { tsval, tsecr }) => {
                            prop_assert_eq!((value, echo), (tsval, tsecr));
                        }
                        (TcpOption::Other { kind: a, data: x }, wire::TcpOption::Unknown { kind: b, data: y }) => {
                            prop_assert_eq!((a, x), (b, y));
                        }
                        (ours, theirs) => prop_assert!(false, "{:?} is not {:?}", ours, theirs),
                    }
                }
                (ours, theirs) => prop_assert!(false, "{:?} is not {:?}", ours, theirs),
            }
        }
    }

    #[test]
    fn tci_keeps_its_pieces(priority in 0u8..8, drop_eligible: bool, id in 0u16..4096) {
        let tci = Tci::new(priority, drop_eligible, id);
        prop_assert_eq!((tci.priority(), tci.drop_eligible(), tci.id()), (priority, drop_eligible, id));
        prop_assert_eq!(Tci::from(tci.get()), tci);
    }
}
