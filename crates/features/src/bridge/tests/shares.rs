//! One member floods: it neither fills the table nor takes addresses from others.

use super::*;
use crate::bridge::control::{HeldAddress, default_share, review_moves};
use graph::simd::Tier;

/// A frame from `src` to `dst`.
fn frame(src: MacAddr, dst: MacAddr) -> Vec<u8> {
    [&dst.0[..], &src.0, &[0x88, 0xb5], &[0; 46]].concat()
}

fn station(number: u16) -> MacAddr {
    let [high, low] = number.to_be_bytes();
    MacAddr([2, 0, 0, 1, high, low])
}

fn lab(config: &BridgeConfig) -> Bench {
    let mut bench = Bench::new(Tier::detect());
    ports(&mut bench);
    bridge(&mut bench, config);
    bench
}

fn all_buckets(bench: &Bench) -> Vec<HeldAddress> {
    review_moves(&bridges(bench), bench.now, usize::MAX)
}

#[test]
fn a_member_has_a_share_of_the_table() {
    let mut bench = lab(&BridgeConfig { learn_limit: 40, ..BridgeConfig::default() });
    let flood: Vec<_> = (0..1000).map(|number| frame(station(number), MAC_B)).collect();
    let _ = bench.run(C, &flood, 256);
    assert_eq!(known(&bench).len(), 16);
    assert_eq!(counter(&bench, "bridge-input", "member-limit"), 1000 - 16);
    let _ = bench.run(A, &[frame(MAC_A, MAC_B)], 1);
    assert_eq!(by(&bench.run(B, &[frame(MAC_B, MAC_A)], 1).sent), [A], "nobody else sees it");
    assert_eq!(
        by(&bench.run(C, &[frame(station(999), MAC_A)], 1).sent),
        [A],
        "what isn't learned is forwarded"
    );
}

#[test]
fn shares_are_what_configuration_says() {
    for (limit, members, share) in [
        (65_536, 1, 32_768),
        (65_536, 2, 32_768),
        (65_536, 3, 21_845),
        (65_536, 8, 8192),
        (65_536, 500, 8192),
        (100, 3, 33),
        (100, 50, 16),
        (20, 50, 10),
        (3, 2, 1),
        (1, 2, 1),
        (0, 2, 1),
    ] {
        assert_eq!(default_share(limit, members), share, "of {limit} for {members}");
    }
    let flood =
        |member: u16| (0..100).map(|number| frame(station(member << 8 | number), MAC_B)).collect::<Vec<_>>();
    let config =
        BridgeConfig { max_macs: Some(5), members_max_macs: [(C, 7)].into(), ..BridgeConfig::default() };
    let mut bench = lab(&config);
    for member in [A, C] {
        let _ = bench.run(member, &flood(member), 256);
    }
    let learned_at = |bench: &Bench, member| {
        known(bench).iter().filter(|(_, place)| *place == Place::Interface(member)).count()
    };
    assert_eq!((learned_at(&bench, A), learned_at(&bench, C)), (5, 7));
    // More at once; fewer once they are forgotten.
    bridge(&mut bench, &BridgeConfig { members_max_macs: [(C, 20)].into(), max_macs: Some(3), ..config });
    for member in [A, C] {
        let _ = bench.run(member, &flood(member), 256);
    }
    assert_eq!((learned_at(&bench, A), learned_at(&bench, C)), (5, 20));
}

#[test]
fn an_address_that_is_stolen_over_and_over_stays_where_it_was() {
    for tier in Tier::available() {
        let mut bench = Bench::new(tier);
        ports(&mut bench);
        bridge(&mut bench, &BridgeConfig::default());
        let _ = bench.run(B, &[frame(MAC_B, MAC_A)], 1);
        let _ = bench.run(A, &[frame(MAC_A, MAC_B)], 1);
        let mut lost = 0;
        for step in 0..1000 {
            let _ = bench.run(C, &[frame(MAC_A, MAC_B)], 1);
            lost += usize::from(by(&bench.run(B, &[frame(MAC_B, MAC_A)], 1).sent) != [A]);
            if step % 10 == 0 {
                let _ = bench.run(A, &[frame(MAC_A, MAC_B)], 1);
            }
        }
        assert_eq!(lost, 1 + 10, "two thefts, each until the owner sends its next frame");
        assert_eq!(known(&bench), [(MAC_A, Place::Interface(A)), (MAC_B, Place::Interface(B))]);
        assert_eq!(counter(&bench, "bridge-input", "moved"), 4);
        assert_eq!(counter(&bench, "bridge-input", "held"), 1000 - 11);
        let told = all_buckets(&bench);
        let held = HeldAddress {
            bridge: BRIDGE,
            mac: MAC_A,
            place: Place::Interface(A),
            contender: C,
            begins: true,
        };
        assert_eq!((told, all_buckets(&bench)), (vec![held], vec![]), "once");
        // A minute later nobody else has used it.
        bench.now += 61_000_000_000;
        assert_eq!(all_buckets(&bench), [HeldAddress { begins: false, ..held }]);
        let _ = bench.run(C, &[frame(MAC_A, MAC_B)], 1);
        assert_eq!(known(&bench)[0], (MAC_A, Place::Interface(C)), "a move is instant again");
    }
}
