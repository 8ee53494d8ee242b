//! Flows: what is read, that both directions and all fragments agree, and that the hash mixes.

mod vectors;

use proptest::prelude::*;
use quiver_wire::IpProtocol;
use quiver_wire::flow::{Ipv4Flow, Ipv6Flow, pick};
use vectors::packet;

const SEED: u64 = 0x0123_4567_89ab_cdef;

#[test]
fn what_is_read() {
    let flow = Ipv4Flow::of(&packet("ip4-udp-odd")).unwrap();
    let expected = Ipv4Flow {
        src: 0x0a00_0001,
        dst: 0x0a00_0102,
        src_port: 1234,
        dst_port: 80,
        protocol: IpProtocol::UDP,
    };
    assert_eq!(flow, expected);
    // behind 40 bytes of options
    let flow = Ipv4Flow::of(&packet("ip4-all-options")).unwrap();
    assert_eq!((flow.src_port, flow.dst_port, flow.protocol), (40000, 443, IpProtocol::TCP));
    // behind extension headers
    let flow = Ipv6Flow::of(&packet("ip6-destination-options")).unwrap();
    assert_eq!((flow.src_port, flow.dst_port, flow.protocol), (40000, 443, IpProtocol::TCP));
    assert_eq!(flow.src, 0x2001_0db8 << 96 | 1);
    // a head that ends before the ports
    let flow = Ipv4Flow::of(&packet("ip4-udp-odd")[..22]).unwrap();
    assert_eq!((flow.src_port, flow.dst_port), (0, 0));
    assert!(Ipv4Flow::of(&[0x45; 19]).is_err());
    assert!(Ipv6Flow::of(&[0x60; 39]).is_err());
}

#[test]
fn fragments_and_portless_protocols_have_no_ports() {
    let first = Ipv4Flow::of(&packet("ip4-fragment-first")).unwrap();
    let later = Ipv4Flow::of(&packet("ip4-fragment-later")).unwrap();
    assert_eq!(first, later);
    assert_eq!((first.src_port, first.dst_port, first.protocol), (0, 0, IpProtocol::UDP));

    let first = Ipv6Flow::of(&packet("ip6-fragment-first")).unwrap();
    let later = Ipv6Flow::of(&packet("ip6-fragment-later")).unwrap();
    assert_eq!(first, later);
    assert_eq!((first.src_port, first.dst_port, first.protocol), (0, 0, IpProtocol::UDP));
    // a fragment header on a whole packet does not hide the ports
    assert_eq!(Ipv6Flow::of(&packet("ip6-fragment-atomic")).unwrap().dst_port, 80);

    let echo = Ipv4Flow::of(&packet("icmp-port-unreachable")).unwrap();
    assert_eq!((echo.src_port, echo.dst_port), (0, 0));
}

#[test]
fn flows_spread_evenly() {
    // one service, many clients with neighbouring addresses and ports: what a cluster looks like
    for buckets in [2u32, 3, 7, 16] {
        for symmetric in [false, true] {
            let mut counts = vec![0u32; buckets as usize];
            let flows = 16_000;
            for index in 0..flows {
                let flow = Ipv4Flow {
                    src: 0x0a00_0000 + index % 250,
                    dst: 0x0a60_000a,
                    src_port: 32768 + (index / 250) as u16,
                    dst_port: 443,
                    protocol: IpProtocol::TCP,
                };
                let hash = if symmetric { flow.symmetric_hash(SEED) } else { flow.hash(SEED) };
                counts[pick(hash, buckets) as usize] += 1;
            }
            let expected = flows / buckets;
            // six standard deviations of a fair choice
            let tolerance = (6.0 * f64::from(expected).sqrt()) as u32;
            for count in &counts {
                assert!(count.abs_diff(expected) < tolerance, "{buckets} buckets: {counts:?}");
            }
        }
    }
}

/// Each bit of the flow turns each bit of the hash in about half of all cases.
#[test]
fn every_bit_counts() {
    let mut state = 1u64;
    let mut random = move || {
        // xorshift, only to have various flows
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let rounds = 2000;
    let v4 = |bits: u128| Ipv4Flow {
        src: bits as u32,
        dst: (bits >> 32) as u32,
        src_port: (bits >> 64) as u16,
        dst_port: (bits >> 80) as u16,
        protocol: IpProtocol((bits >> 96) as u8),
    };
    for bit in 0..104 {
        let mut turned = [0u32; 32];
        for _ in 0..rounds {
            let bits = u128::from(random()) << 64 | u128::from(random());
            let changed = v4(bits).hash(SEED) ^ v4(bits ^ 1 << bit).hash(SEED);
            for (out, count) in turned.iter_mut().enumerate() {
                *count += changed >> out & 1;
            }
        }
        for (out, count) in turned.iter().enumerate() {
            assert!(
                (rounds * 2 / 5..rounds * 3 / 5).contains(count),
                "bit {bit} turns bit {out} {count} times"
            );
        }
    }
    let v6 = |bits: u128, ports: u64| Ipv6Flow {
        src: bits,
        dst: 0x2001_0db8 << 96 | 7,
        src_port: ports as u16,
        dst_port: (ports >> 16) as u16,
        protocol: IpProtocol((ports >> 32) as u8),
    };
    for bit in 0..168 {
        let mut turned = [0u32; 32];
        for _ in 0..rounds {
            let (bits, ports) = (u128::from(random()) << 64 | u128::from(random()), random());
            let (other_bits, other_ports) =
                if bit < 128 { (bits ^ 1 << bit, ports) } else { (bits, ports ^ 1 << (bit - 128)) };
            let changed = v6(bits, ports).hash(SEED) ^ v6(other_bits, other_ports).hash(SEED);
            for (out, count) in turned.iter_mut().enumerate() {
                *count += changed >> out & 1;
            }
        }
        for (out, count) in turned.iter().enumerate() {
            assert!(
                (rounds * 2 / 5..rounds * 3 / 5).contains(count),
                "bit {bit} turns bit {out} {count} times"
            );
        }
    }
}

#[test]
fn another_seed_makes_another_choice() {
    let flows = (0..4000).map(|index| Ipv4Flow {
        src: index,
        dst: 1,
        src_port: 1,
        dst_port: 1,
        protocol: IpProtocol::UDP,
    });
    let agree = flows.filter(|flow| pick(flow.hash(1), 2) == pick(flow.hash(2), 2)).count();
    assert!((1800..2200).contains(&agree), "{agree}");
}

#[test]
fn pick_keeps_its_bounds() {
    assert_eq!((pick(0, 5), pick(u32::MAX, 5), pick(7, 0), pick(u32::MAX, 1)), (0, 4, 0, 0));
    assert_eq!(pick(u32::MAX, u32::MAX), u32::MAX - 1);
}

proptest! {
    #[test]
    fn both_directions_agree(src: u128, dst: u128, src_port: u16, dst_port: u16, protocol: u8, seed: u64) {
        let protocol = IpProtocol(protocol);
        let flow = Ipv6Flow { src, dst, src_port, dst_port, protocol };
        prop_assert_eq!(flow.symmetric_hash(seed), flow.reversed().symmetric_hash(seed));
        let (src, dst) = (src as u32, dst as u32);
        let flow = Ipv4Flow { src, dst, src_port, dst_port, protocol };
        prop_assert_eq!(flow.symmetric_hash(seed), flow.reversed().symmetric_hash(seed));
        prop_assert_eq!(flow.reversed().reversed(), flow);
    }

    #[test]
    fn noise_does_no_harm(head in prop::collection::vec(any::<u8>(), 0..160)) {
        let _ = Ipv4Flow::of(&head);
        let _ = Ipv6Flow::of(&head);
    }
}
