//! The lines a trace shows.

mod vectors;

use proptest::prelude::*;
use quiver_wire::LinkType;
use quiver_wire::describe::{Describe, MAX_LAYERS};
use vectors::packet;

fn ethernet(name: &str) -> String {
    Describe::new(LinkType::ETHERNET, &packet(name)).to_string()
}

fn raw(name: &str) -> String {
    Describe::new(LinkType::RAW, &packet(name)).to_string()
}

#[test]
fn whole_packets() {
    assert_eq!(
        ethernet("ip4-tcp-syn"),
        "ETH: 02:fe:00:00:00:01 -> 02:fe:00:00:00:02 IP4\n\
         IP4: 10.0.0.1 -> 10.0.1.2 TCP ttl 64 len 60\n\
         TCP: 40000 -> 80 SYN seq 1 ack 0 window 64240 mss 1460 sack-permitted ts 123456/0 wscale 7"
    );
    assert_eq!(
        ethernet("qinq"),
        "ETH: 02:fe:00:00:00:01 -> 02:fe:00:00:00:02 802.1ad\n\
         VLAN: id 7 priority 0 802.1Q\n\
         VLAN: id 100 priority 0 IP4\n\
         IP4: 10.0.0.1 -> 10.0.1.2 UDP ttl 64 len 48\n\
         UDP: 1234 -> 80 len 28"
    );
    assert_eq!(
        ethernet("arp-request"),
        "ETH: 02:fe:00:00:00:01 -> ff:ff:ff:ff:ff:ff ARP\n\
         ARP: who has 10.0.0.2? tell 10.0.0.1 at 02:fe:00:00:00:01"
    );
    assert_eq!(
        ethernet("ndp-solicitation"),
        "ETH: 02:fe:00:00:00:01 -> 33:33:ff:00:00:02 IP6\n\
         IP6: fe80::fe:ff:fe00:1 -> ff02::1:ff00:2 ICMP6 hop-limit 255 len 72\n\
         ICMP6: neighbor-solicitation target fe80::fe:ff:fe00:2"
    );
}

#[test]
fn quoted_packets_extensions_fragments() {
    assert_eq!(
        raw("icmp-fragmentation-needed"),
        "IP4: 10.0.0.1 -> 10.0.1.2 ICMP ttl 64 len 64\n\
         ICMP: unreachable fragmentation-needed mtu 1400\n\
         IP4: 10.0.1.2 -> 192.0.2.9 UDP ttl 64 len 36\n\
         UDP: 1234 -> 80 len 16"
    );
    assert_eq!(
        raw("ip6-chain"),
        "IP6: 2001:db8::1 -> 2001:db8:1::2 hop-by-hop hop-limit 64 len 108\n\
         IP6 extensions: hop-by-hop routing fragment destination-options id 0xdeadbeef offset 0 more then UDP\n\
         UDP: 1234 -> 80 len 12"
    );
    assert_eq!(
        raw("ip4-fragment-later"),
        "IP4: 10.0.0.1 -> 10.0.1.2 UDP ttl 64 len 36 fragment id 77 offset 24"
    );
    assert_eq!(
        raw("ip6-class-flow"),
        "IP6: 2001:db8::1 -> 2001:db8::2 UDP hop-limit 3 len 48 dscp 46 ecn 1 flow 0xabcde\n\
         UDP: 1234 -> 80 len 8"
    );
}

#[test]
fn what_is_wrong_is_said() {
    let mut bytes = packet("hop-before");
    bytes[8] = 63;
    assert_eq!(
        Describe::new(LinkType::RAW, &bytes[..24]).to_string(),
        "IP4: 10.0.0.1 -> 10.0.1.2 UDP ttl 63 len 28 bad-checksum(should be 0x66ce)\n\
         UDP: cut off: header takes 8 bytes, 4 are there"
    );
    assert_eq!(Describe::new(LinkType::RAW, &[0x15; 40]).to_string(), "payload: IP version 1");
    assert_eq!(Describe::new(LinkType(113), &[]).to_string(), "payload: link type 113");
    assert_eq!(
        Describe::new(LinkType::RAW, &packet("ip6-hop-by-hop")[..44]).to_string(),
        "IP6: 2001:db8::1 -> 2001:db8:1::2 hop-by-hop hop-limit 64 len 60\n\
         IP6 extensions: hop-by-hop then UDP\n\
         UDP: cut off: header takes 8 bytes, 0 are there"
    );
    assert_eq!(
        Describe::new(LinkType::RAW, &packet("ip6-hop-by-hop")[..41]).to_string(),
        "IP6: 2001:db8::1 -> 2001:db8:1::2 hop-by-hop hop-limit 64 len 60\n\
         IP6 extensions: cut off: 42 bytes of the packet are needed"
    );
}

#[test]
fn a_deep_stack_is_bounded() {
    let mut frame = packet("vlan");
    for _ in 0..40 {
        frame.splice(12..12, [0x81, 0, 0, 1]);
    }
    assert_eq!(Describe::new(LinkType::ETHERNET, &frame).layers().count(), MAX_LAYERS);
}

proptest! {
    #[test]
    fn any_head_can_be_described(
        name in prop::sample::select(vectors::packets().iter().map(|vector| vector.name).collect::<Vec<_>>()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        link in prop::sample::select(vec![LinkType::ETHERNET, LinkType::RAW, LinkType::IPV4, LinkType::IPV6]),
    ) {
        let mut bytes = packet(name);
        for (index, value) in changes {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        let describe = Describe::new(link, &bytes[..cut.index(bytes.len() + 1)]);
        let text = describe.to_string();
        prop_assert_eq!(text.lines().count(), describe.layers().count());
        prop_assert!(text.lines().count() <= MAX_LAYERS);
    }
}
