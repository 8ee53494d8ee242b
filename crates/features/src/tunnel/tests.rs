//! Tables of packets. The network is that of `ip::topology`; [`setup`] says which tunnels are laid in it.

use super::inner::Inner;
use super::{Dscp, Encapsulation, Tunnel, Tunnels};
use crate::interface::{Interface, Interfaces, Layer2, LinkMode, VlanTags};
use crate::ip::control::{Path, Via};
use crate::ip::topology;
use crate::testing::{Bench, Row, Vectors, Verdict, run_table};
use graph::IfIndex;
use graph::nodes::Injection;
use graph::packet::{Offload, OwnedPacket};
use graph::simd::Tier;
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;
use wire::checksum::{Partial, update_u16};
use wire::{Header, Ipv4Header, MacAddr};

fn vectors() -> Vectors {
    Vectors::read(include_str!("../../tests/vectors/tunnel.txt"))
}

pub(super) fn tunnel(encapsulation: Encapsulation, interface: IfIndex, v6: bool, vni: u32) -> Tunnel {
    let end = |host| match v6 {
        true => topology::address(&format!("2001:db8:{interface}::{host}")),
        false => topology::address(&format!("10.0.{interface}.{host}")),
    };
    Tunnel {
        encapsulation,
        local: end(1),
        remote: end(2),
        vni,
        port: if encapsulation == Encapsulation::Vxlan { 4789 } else { 6081 },
        vrf: 0,
        ttl: 64,
        dscp: Dscp::Fixed(0),
        checksum: v6,
    }
}

/// The tunnel that carries Geneve with IP packets.
const ROUTED: IfIndex = 13;
/// A VLAN of tunnel 10, with room for its tag.
const VLAN: IfIndex = 40;

/// Port 20 + n is cross-connected to tunnel 10 + n:
///
/// | tunnel | what |
/// |---|---|
/// | 10, 11 | VXLAN 100 over IPv4 and IPv6, to interface 2's neighbour |
/// | 12, 18 | Geneve 100, likewise |
/// | 19 | Geneve 103 over IPv6, without UDP checksums |
/// | 14 | VXLAN 101 over IPv4, down |
/// | 15 | VXLAN 100 to 10.20.0.9 in VRF 1, which is behind tunnel 13 |
/// | 16, 17 | VXLAN 100 over IPv4 and IPv6, to interface 5's neighbour: MTU 1280 |
///
/// Tunnel 13 carries IP packets by Geneve 200, copies DSCPs, and routes in VRF 1. So does VLAN 7 of tunnel 10.
pub(super) fn setup(bench: &mut Bench) {
    let mut forwarding = topology::set_up(bench, 1280);
    let tunnels = [
        (10, tunnel(Encapsulation::Vxlan, 2, false, 100)),
        (11, tunnel(Encapsulation::Vxlan, 2, true, 100)),
        (12, tunnel(Encapsulation::Geneve, 2, false, 100)),
        (14, tunnel(Encapsulation::Vxlan, 2, false, 101)),
        (
            15,
            Tunnel {
                remote: topology::address("10.20.0.9"),
                vrf: 1,
                ..tunnel(Encapsulation::Vxlan, 4, false, 100)
            },
        ),
        (16, tunnel(Encapsulation::Vxlan, 5, false, 100)),
        (17, tunnel(Encapsulation::Vxlan, 5, true, 100)),
        (18, tunnel(Encapsulation::Geneve, 2, true, 100)),
        (19, Tunnel { checksum: false, ..tunnel(Encapsulation::Geneve, 2, true, 103) }),
    ];
    for (index, tunnel) in tunnels {
        let cross =
            |peer| Interface { mtu: 1500, layer2: Layer2::CrossConnect { peer }, ..Interface::default() };
        bench.add_port(index + 10, cross(index), "cross-connect");
        bench.set_interface(index, Interface { tunnel: Some(tunnel), ..cross(index + 10) });
        if index != 14 {
            bench.chain("device-input", index, &[], "cross-connect");
        }
        bench.chain("interface-output", index, &[], tunnel.encapsulation.output());
    }
    let routed = Interface {
        exists: true,
        up: true,
        mode: LinkMode::Ip,
        mtu: 1000,
        vrf: 1,
        tunnel: Some(Tunnel { dscp: Dscp::Copied, ..tunnel(Encapsulation::Geneve, 2, false, 200) }),
        ..Interface::default()
    };
    bench.set_interface(ROUTED, routed.clone());
    bench.chain("device-input", ROUTED, &[], "l3-input");
    bench.chain("interface-output", ROUTED, &[], "geneve-output");
    for arc in ["ip4", "ip6"] {
        bench.chain(&format!("{arc}-unicast"), ROUTED, &[], &format!("{arc}-lookup"));
    }
    forwarding.set_interface(ROUTED, Some(&routed)).unwrap();
    forwarding.add_route(1, topology::prefix("10.20.0.0/16"), &[Path::from(Via::Interface(ROUTED))]).unwrap();
    let vlan = Interface {
        exists: true,
        up: true,
        mac: MacAddr([2, 0xfe, 0, 0, 0, VLAN as u8]),
        mtu: 1446,
        vrf: 1,
        vlan: Some((10, VlanTags { outer_type: 0x8100, outer: 7, inner: 0 })),
        ..Interface::default()
    };
    bench.set_interface(VLAN, vlan.clone());
    bench.chain("interface-output", VLAN, &[], "vlan-output");
    forwarding.set_interface(VLAN, Some(&vlan)).unwrap();
    let peer = topology::address("10.0.40.2");
    forwarding.set_neighbour(VLAN, peer, Some(MacAddr([2, 0, 0, 0, VLAN as u8, 2]))).unwrap();
    let via = Via::Address { address: peer, interface: Some(VLAN) };
    forwarding.add_route(1, topology::prefix("10.21.0.0/16"), &[Path::from(via)]).unwrap();
    bench.commit(&mut forwarding);
    publish_tunnels(bench);
}

pub(super) fn publish_tunnels(bench: &mut Bench) {
    let (interfaces, tunnels) = (bench.key::<Interfaces>(), bench.key::<Tunnels>());
    bench.publish(|draft| {
        let all = Tunnels::of(draft.get(interfaces));
        draft.set(tunnels, all);
    });
}

/// The frame with the source port that its flow has with us.
fn with_port(mut frame: Vec<u8>, inner: &[u8], mode: LinkMode) -> Vec<u8> {
    let udp = if frame[12] == 8 { 34 } else { 54 };
    let port = Inner::of(inner, mode).src_port();
    assert!(port >= 49_152);
    let field = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let (before, sum) = (field(udp), field(udp + 6));
    frame[udp..udp + 2].copy_from_slice(&port.to_be_bytes());
    if sum != 0 {
        frame[udp + 6..udp + 8].copy_from_slice(&update_u16(sum, before, port).to_be_bytes());
    }
    frame
}

#[test]
fn frames_go_in_behind_the_headers_that_scapy_makes() {
    let v = vectors();
    let row = |name, rx_if, expected: &str| {
        let frame = v.get(name);
        let sent = with_port(v.get(expected), &frame, LinkMode::Ethernet);
        Row { name, rx_if, frame, verdict: Verdict::Sent(vec![(2, sent)]) }
    };
    let rows = [
        row("plain", 20, "vxlan4-plain"),
        row("long", 20, "vxlan4-long"),
        row("tagged", 20, "vxlan4-tagged"),
        row("asked", 20, "vxlan4-asked"),
        row("six", 20, "vxlan4-six"),
        row("tiny", 20, "vxlan4-tiny"),
        row("ef-ect1", 20, "vxlan4-ef-ect1"),
        row("six-af-ce", 20, "vxlan4-six-af-ce"),
        row("plain", 21, "vxlan6-plain"),
        row("long-1300", 21, "vxlan6-long"),
        row("long-1301", 21, "vxlan6-odd"),
        row("plain", 22, "geneve4-plain"),
        Row {
            name: "to-200",
            rx_if: 4,
            frame: v.get("to-200"),
            verdict: Verdict::Sent(vec![(
                2,
                with_port(v.get("geneve4-200"), &v.get("to-200")[14..], LinkMode::Ip),
            )]),
        },
    ];
    run_table(&rows, setup);
}

#[test]
fn what_is_inside_comes_out_of_the_tunnel_it_came_through() {
    let v = vectors();
    let row = |name, tx_if, expected: &str| {
        let verdict = Verdict::Sent(vec![(tx_if, v.get(expected))]);
        Row { name, rx_if: 2, frame: v.get(name), verdict }
    };
    let rows = [
        row("from-vxlan4-plain", 20, "plain"),
        row("from-vxlan4-summed", 20, "plain"),
        row("from-vxlan4-reserved", 20, "plain"),
        row("from-vxlan4-long", 20, "long"),
        row("from-vxlan4-six-long", 20, "six-long"),
        row("from-vxlan4-asked", 20, "asked"),
        row("from-vxlan4-tiny", 20, "tiny"),
        row("from-vxlan4-options", 20, "plain"),
        row("from-vxlan4-padded", 20, "plain"),
        row("from-vxlan4-datagram-padded", 20, "plain"),
        row("from-vxlan4-ce-ef-ect1", 20, "ef-ce"),
        row("from-vxlan4-ce-six-af-ect0", 20, "six-af-ce"),
        row("from-vxlan4-ect1-ect0", 20, "ect1"),
        row("from-vxlan6-plain", 21, "plain"),
        row("from-vxlan6-zero", 21, "plain"),
        row("from-vxlan6-six-long", 21, "six-long"),
        row("from-vxlan6-ce-ef-ect1", 21, "ef-ce"),
        row("from-vxlan6-extended", 21, "plain"),
        row("from-geneve4-plain", 22, "plain"),
        row("from-geneve4-option", 22, "plain"),
        row("from-geneve4-many", 22, "plain"),
        row("from-geneve4-many-long", 22, "long"),
        row("from-geneve6-many-long", 28, "long"),
        row("from-geneve4-200", 4, "routed-from-200"),
        row("from-geneve4-summed", 22, "plain"),
        row("from-geneve4-summed-long", 22, "long"),
        row("from-geneve4-zero-damaged", 22, "plain-damaged"),
        row("from-geneve6-plain", 28, "plain"),
        row("from-geneve6-long", 28, "long"),
        row("from-geneve6-zero-103", 29, "plain"),
        row("from-geneve6-summed-103", 29, "plain"),
    ];
    run_table(&rows, setup);
}

#[test]
fn what_is_no_tunnel_s_is_dropped_and_named() {
    let v = vectors();
    let row =
        |name, rx_if, reason| Row { name, rx_if, frame: v.get(name), verdict: Verdict::Dropped(reason) };
    let rows = [
        row("from-vxlan4-vni-7", 2, "ip4-vxlan-input unknown-vni"),
        row("from-vxlan4-vni-101", 2, "ip4-vxlan-input tunnel-down"),
        row("from-vxlan4-stranger", 2, "ip4-vxlan-input unknown-peer"),
        row("from-vxlan4-invalid", 2, "ip4-vxlan-input bad-header"),
        row("from-vxlan4-empty", 2, "ip4-vxlan-input truncated"),
        row("from-vxlan4-cut", 2, "ip4-vxlan-input truncated"),
        row("from-vxlan4-udp-short", 2, "ip4-vxlan-input truncated"),
        row("from-vxlan4-udp-long", 2, "ip4-vxlan-input truncated"),
        row("from-vxlan4-ce", 2, "ip4-vxlan-input congested"),
        row("from-vxlan6-vni-7", 2, "ip6-vxlan-input unknown-vni"),
        row("from-vxlan6-stranger", 2, "ip6-vxlan-input unknown-peer"),
        row("from-geneve4-critical", 2, "ip4-geneve-input critical-option"),
        row("from-geneve4-many-critical", 2, "ip4-geneve-input critical-option"),
        row("from-geneve4-bad-options", 2, "ip4-geneve-input bad-header"),
        row("from-geneve4-version-1", 2, "ip4-geneve-input bad-header"),
        row("from-geneve4-control", 2, "ip4-geneve-input control"),
        row("from-geneve4-ip", 2, "ip4-geneve-input unknown-protocol"),
        row("from-geneve4-200-frame", 2, "ip4-geneve-input unknown-protocol"),
        row("from-geneve4-cut", 2, "ip4-geneve-input truncated"),
        row("from-geneve4-vni-7", 2, "ip4-geneve-input unknown-vni"),
        row("from-geneve4-damaged", 2, "ip4-geneve-input bad-checksum"),
        row("from-geneve4-damaged-long", 2, "ip4-geneve-input bad-checksum"),
        row("from-geneve4-damaged-option", 2, "ip4-geneve-input bad-checksum"),
        row("from-geneve6-damaged", 2, "ip6-geneve-input bad-checksum"),
        row("from-geneve6-damaged-103", 2, "ip6-geneve-input bad-checksum"),
        row("from-geneve6-zero", 2, "ip6-geneve-input no-checksum"),
        row("from-vxlan4-damaged", 2, "ip4-vxlan-input bad-checksum"),
        row("from-vxlan6-damaged", 2, "ip6-vxlan-input bad-checksum"),
        // On the way in: round in circles, too big for the way (nothing is cut), through a tunnel that is none.
        row("plain", 25, "geneve-output recursion"),
        row("frame-1250", 26, "ip4-rewrite too-big"),
        row("frame-1250", 27, "ip6-rewrite too-big"),
    ];
    run_table(&rows, setup);
}

/// A sender on this machine leaves the checksum inside to the device, or the outer one: nothing of that was on a wire. Where it has left the inner one, the outer one is
/// right for what that will be.
#[test]
fn checksums_that_are_left_to_the_device_are_reckoned_with() {
    let whole = vectors().get("from-geneve4-summed")[14..].to_vec();
    // Headers: IP, UDP, Geneve, Ethernet, IP; and where checksums are in that of UDP.
    let (outer, inner, field) = (20, 20 + 8 + 8 + 14 + 20, 6);
    let mut pending = whole.clone();
    let ip = Ipv4Header::parse(&whole[inner - 20..]).unwrap().0;
    let pseudo = ip.pseudo_header((whole.len() - inner) as u16).fold();
    pending[inner + field..inner + field + 2].copy_from_slice(&pseudo.to_be_bytes());
    let damaged = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    let bad = Err("ip4-geneve-input bad-checksum".to_string());
    for (bytes, start, verdict) in [
        (whole.clone(), None, Ok(())),
        (pending.clone(), None, bad.clone()),
        (pending.clone(), Some(inner), Ok(())),
        // The source port, which nothing else covers.
        (damaged(&pending, outer + 1), Some(inner), bad.clone()),
        (damaged(&whole, outer + 1), None, bad),
        (damaged(&whole, outer + field), Some(outer), Ok(())),
    ] {
        let mut bench = Bench::new(Tier::detect());
        setup(&mut bench);
        let mut packet = OwnedPacket::new(2, bytes);
        let meta = packet.meta_mut();
        meta.l4 = meta.l3 + outer as u16;
        if let Some(start) = start {
            let (checksum_start, checksum_offset) = (meta.l3 + start as u16, field as u16);
            meta.offload =
                Offload { checksum_start, checksum_offset, checksum_needed: true, ..Offload::default() };
        }
        let injection = Injection { target: crate::ip4::INJECT_KEY, packet };
        bench.graph.injector().unwrap().send(injection).unwrap();
        let outcome = bench.run(2, &[], 1);
        let dropped = outcome.drops.keys().next().cloned();
        assert_eq!(dropped.map_or(Ok(()), Err), verdict, "{start:?}");
        assert_eq!(outcome.sent.get(&22).map_or(0, Vec::len), usize::from(verdict.is_ok()));
    }
}

/// Both ends of a tunnel are ours: 10 to 10.0.2.2, which here is a VRF's own address, and what comes from there is 19's, cross-connected to 10.
#[test]
fn a_tunnel_from_us_to_us_ends_the_second_time() {
    let mut bench = Bench::new(Tier::detect());
    let mut forwarding = topology::set_up(&mut bench, 1280);
    let there = tunnel(Encapsulation::Vxlan, 2, false, 100);
    let back = Tunnel { local: there.remote, remote: there.local, vrf: 1, ..there };
    for (index, tunnel, peer) in [(10, there, 19), (19, back, 10)] {
        let layer2 = Layer2::CrossConnect { peer };
        bench.set_interface(
            index,
            Interface {
                exists: true,
                up: true,
                mtu: 1200,
                layer2,
                tunnel: Some(tunnel),
                ..Interface::default()
            },
        );
        bench.chain("device-input", index, &[], "cross-connect");
        bench.chain("interface-output", index, &[], "vxlan-output");
    }
    let to_ten = Interface { mtu: 1500, layer2: Layer2::CrossConnect { peer: 10 }, ..Interface::default() };
    bench.add_port(20, to_ten, "cross-connect");
    let own = Path::from(Via::Local(2));
    forwarding.add_route(1, topology::prefix("10.0.2.2/32"), &[own]).unwrap();
    forwarding.add_route(0, topology::prefix("10.0.2.2/32"), &[Path::from(Via::Vrf(1))]).unwrap();
    bench.commit(&mut forwarding);
    publish_tunnels(&mut bench);
    let outcome = bench.run(20, &[vectors().get("plain")], 1);
    assert_eq!(outcome.drops, [("vxlan-output recursion".into(), 1)].into());
}

#[test]
fn a_port_nobody_listens_on_is_refused_as_ever() {
    let v = vectors();
    let frame = v.get("from-port-4790");
    let mut bench = Bench::new(Tier::detect());
    setup(&mut bench);
    let outcome = bench.run(2, &[frame], 1);
    assert_eq!(outcome.drops, [("ip4-local port-unreachable".into(), 1)].into());
    assert_eq!(outcome.sent[&2].len(), 1, "its sender is told");
}

#[test]
fn a_routed_packet_too_big_for_the_tunnel_is_told_its_mtu() {
    let mut bench = Bench::new(Tier::detect());
    setup(&mut bench);
    let outcome = bench.run(4, &[vectors().get("to-200-big")], 1);
    assert_eq!(outcome.drops, [("ip4-rewrite too-big".into(), 1)].into());
    let told = &outcome.sent[&4][0];
    // Type 3, code 4; the MTU in the lower half of the second word (RFC 1191).
    assert_eq!((&told[34..36], &told[40..42]), (&[3, 4][..], &1000_u16.to_be_bytes()[..]));
}

#[test]
fn a_vlan_of_a_tunnel_has_room_for_its_tag() {
    let v = vectors();
    let mut bench = Bench::new(Tier::detect());
    setup(&mut bench);
    let outcome = bench.run(4, &[v.get("to-vlan")], 1);
    assert_eq!(outcome.drops, [].into());
    let sent = &outcome.sent[&2][0];
    // The tagged frame begins behind 50 bytes of outer headers.
    let expected = with_port(v.get("vxlan4-vlan"), &sent[50..], LinkMode::Ethernet);
    assert_eq!((sent, sent.len()), (&expected, 14 + 1500));
    let outcome = bench.run(4, &[v.get("to-vlan-big")], 1);
    assert_eq!(outcome.drops, [("ip4-rewrite too-big".into(), 1)].into());
    assert_eq!(outcome.sent[&4][0][40..42], 1446_u16.to_be_bytes());
}

#[test]
fn fragments_of_a_tunnel_s_packet_are_put_together_first() {
    let v = vectors();
    for (of, tx_if) in [("from-vxlan4-long-piece-", 20), ("from-vxlan6-long-piece-", 21)] {
        let names: Vec<_> = v.names().filter(|name| name.starts_with(of)).collect();
        assert!(names.len() > 1);
        let pieces: Vec<_> = names.iter().rev().map(|name| v.get(name)).collect();
        let mut bench = Bench::new(Tier::detect());
        setup(&mut bench);
        let outcome = bench.run(2, &pieces, 8);
        assert_eq!(outcome.drops, [].into(), "{of}");
        assert_eq!(outcome.sent[&tx_if], [v.get("long")]);
    }
}

/// Every length of every packet, and bytes turned over in its headers: something is sent or dropped, once.
#[test]
fn broken_packets_end_somewhere() {
    let v = vectors();
    let mut bench = Bench::new(Tier::detect());
    setup(&mut bench);
    for name in [
        "from-vxlan4-six-long",
        "from-vxlan6-plain",
        "from-geneve4-option",
        "from-geneve6-many-long",
        "from-geneve4-200",
    ] {
        let whole = v.get(name);
        let cut = (1..whole.len().min(400)).map(|len| whole[..len].to_vec());
        let turned = (14..whole.len().min(340)).flat_map(|at| {
            [0x01, 0x80, 0xff].map(|bits| {
                let mut frame = whole.clone();
                frame[at] ^= bits;
                frame
            })
        });
        for frame in cut.chain(turned) {
            let outcome = bench.run(2, &[frame], 1);
            let ends = outcome.drops.values().sum::<u64>()
                + outcome.sent.values().map(|all| all.len() as u64).sum::<u64>();
            // A refusal is counted, and tells the sender.
            let waits = outcome.punts.len() as u64;
            assert!((1..=2).contains(&(ends + waits)), "{name}: {outcome:?}");
        }
    }
}

proptest! {
    /// Whatever stands behind UDP: it is dropped, or comes out somewhere.
    #[test]
    fn noise_behind_udp_does_no_harm(
        noise in vec(any::<u8>(), 0..400),
        (geneve, flags, options, vni) in (any::<bool>(), any::<u8>(), any::<u8>(), prop::sample::select(vec![100_u32, 200])),
    ) {
        let mut frame = vectors().get(if geneve { "from-geneve4-plain" } else { "from-vxlan4-plain" });
        frame.truncate(42);
        // A header that is nearly right, so that noise comes further than the first check.
        frame.extend_from_slice(&[if geneve { options & 0x3f } else { 8 | flags }, if geneve { flags } else { 0 }, 0x65, 0x58]);
        frame.extend_from_slice(&(vni << 8).to_be_bytes());
        frame.extend_from_slice(&noise);
        let ip_len = frame.len() as u16 - 14;
        frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
        frame[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
        frame[24..26].fill(0);
        let sum = Partial::of(&frame[14..34]).checksum();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        thread_local!(static BENCH: RefCell<Bench> = RefCell::new({
            let mut bench = Bench::new(Tier::detect());
            setup(&mut bench);
            bench
        }));
        let outcome = BENCH.with(|bench| bench.borrow_mut().run(2, &[frame], 1));
        let ends = outcome.drops.values().sum::<u64>() as usize + outcome.sent.values().map(Vec::len).sum::<usize>();
        prop_assert!(ends + outcome.punts.len() >= 1, "{outcome:?}");
    }
}

#[test]
fn a_tunnel_s_own_interface_counts_what_passes_without_outer_headers() {
    let v = vectors();
    let mut bench = Bench::new(Tier::detect());
    setup(&mut bench);
    bench.run(2, &[v.get("from-vxlan4-plain"), v.get("from-vxlan4-long")], 2);
    bench.run(20, &[v.get("plain")], 1);
    let counters = bench.graph.counters().interface(10);
    let len = |name| v.get(name).len() as u64;
    assert_eq!((counters.rx_packets.get(), counters.rx_bytes.get()), (2, len("plain") + len("long")));
    assert_eq!((counters.tx_packets.get(), counters.tx_bytes.get()), (1, len("plain")));
}

#[test]
fn removed_tunnels_are_found_no_more() {
    let mut interfaces = Interfaces::default();
    let tunnel = tunnel(Encapsulation::Vxlan, 2, false, 100);
    let interface =
        Interface { exists: true, tunnel: Some(tunnel), name: Arc::from("t"), ..Interface::default() };
    interfaces.set(7, Some(interface));
    let tunnels = Tunnels::of(&interfaces);
    assert_eq!(tunnels.listener(0, tunnel.local, 4789), Some(Encapsulation::Vxlan));
    assert_eq!(
        (tunnels.listener(1, tunnel.local, 4789), tunnels.listener(0, tunnel.remote, 4789)),
        (None, None)
    );
    assert!(tunnels.has_end(0, tunnel.local) && tunnels.outer(7).is_some() && tunnels.outer(6).is_none());
    interfaces.set(7, None);
    assert!(Tunnels::of(&interfaces).is_empty());
}
