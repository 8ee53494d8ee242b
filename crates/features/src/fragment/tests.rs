//! Fragmentation as a whole.

use crate::ip::topology;
use crate::testing::{Bench, Row, Verdict, forwarding_nodes, rows};
use graph::nodes::Injection;
use graph::packet::{Offload, OwnedPacket};
use graph::simd::Tier;
use wire::{EtherType, EthernetHeader, Header, IntoBytes, IpProtocol, Ipv4Header, MacAddr};

/// Alone a packet's fragments come out in order; in a vector those of several packets mix, as the last one of each takes
/// the way of the packet itself.
fn run(rows: &[Row], mtu: u16) {
    for tier in Tier::available() {
        for (row, count) in rows.iter().flat_map(|row| [(row, 1), (row, 256)]) {
            let mut bench = Bench::with_nodes(tier, &forwarding_nodes());
            topology::set_up(&mut bench, mtu);
            let outcome = bench.run(row.rx_if, &vec![row.frame.clone(); count], count);
            let Verdict::Sent(expected) = &row.verdict else { panic!("row {:?}", row.name) };
            let mut want: Vec<_> = expected.iter().map(|(_, frame)| frame.clone()).collect();
            want = core::iter::repeat_n(want, count).flatten().collect();
            let mut got = outcome.sent.get(&5).cloned().unwrap_or_default();
            if count > 1 {
                want.sort();
                got.sort();
            }
            let place = format!("row {:?}, mtu {mtu}, tier {}, vector of {count}", row.name, tier.name());
            assert_eq!(outcome.drops, [].into(), "{place}");
            assert!(got == want, "{place}\n got  {got:02x?}\n want {want:02x?}");
        }
    }
}

#[test]
fn packets_too_big_for_the_next_hop_are_cut() {
    run(&rows(include_str!("../../tests/vectors/fragment-300.txt")), 300);
}

#[test]
fn pieces_may_be_smaller_than_the_head() {
    run(&rows(include_str!("../../tests/vectors/fragment-68.txt")), 68);
}

/// A tap leaves the transport checksum to the device; whoever cuts the packet has to finish it.
#[test]
fn a_checksum_left_to_the_device_is_completed_first() {
    let rows = rows(include_str!("../../tests/vectors/fragment-300.txt"));
    let row = rows.iter().find(|row| row.name == "1472 bytes of payload").unwrap();
    let Verdict::Sent(expected) = &row.verdict else { panic!("it is sent") };
    let mut packet = row.frame[14..].to_vec();
    let header = Ipv4Header::parse(&packet).unwrap().0;
    let pseudo = header.pseudo_header((packet.len() - Ipv4Header::LEN) as u16).fold();
    packet[26..28].copy_from_slice(&pseudo.to_be_bytes());
    for tier in Tier::available() {
        let mut bench = Bench::with_nodes(tier, &forwarding_nodes());
        topology::set_up(&mut bench, 300);
        let mut owned = OwnedPacket::new(1, packet.clone());
        let meta = owned.meta_mut();
        let l4 = meta.l3 + Ipv4Header::LEN as u16;
        meta.l4 = l4;
        meta.offload =
            Offload { checksum_start: l4, checksum_offset: 6, checksum_needed: true, ..Offload::default() };
        let injection = Injection { target: crate::ip4::INJECT_KEY, packet: owned };
        bench.graph.injector().unwrap().send(injection).unwrap();
        bench.round();
        let want: Vec<_> = expected.iter().map(|(_, frame)| frame.clone()).collect();
        assert_eq!(bench.wires[&5].take(), want, "tier {}", tier.name());
    }
}

#[test]
fn a_packet_with_more_fragments_than_there_are_slots_is_dropped_whole() {
    let (src, dst) = ("10.0.1.9".parse().unwrap(), "10.8.0.1".parse().unwrap());
    let header = Ipv4Header::new(src, dst, IpProtocol::UDP, 64, 3020);
    let ethernet = EthernetHeader {
        dst: MacAddr([2, 0xfe, 0, 0, 0, 1]),
        src: MacAddr([2, 0, 0, 0, 1, 9]),
        ethertype: EtherType::IPV4,
    };
    let frame = [ethernet.as_bytes(), header.as_bytes(), &[0; 3000]].concat();
    let mut bench = Bench::with_nodes(Tier::detect(), &forwarding_nodes());
    topology::set_up(&mut bench, 68);
    let outcome = bench.run(1, &vec![frame; 256], 256);
    let (each, packets) = (3000usize.div_ceil(48), outcome.sent[&5].len());
    assert_eq!(packets % each, 0, "no packet is sent in part");
    assert_eq!(outcome.drops["ip4-fragment no-slot"], (256 - packets / each) as u64);
    assert!(packets > 0);
}
