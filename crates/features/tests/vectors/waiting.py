#!/usr/bin/python3
"""Frames for the tests of packets that wait for their neighbour, built by scapy: one line "name hex" each.

Run:  /usr/bin/python3 crates/features/tests/vectors/waiting.py > crates/features/tests/vectors/waiting.txt

The topology is that of `src/ip/topology.rs`: 10.0.2.2 on interface 2 is known, 10.0.1.9 on interface 1 and the router
10.0.2.3 on interface 2 are not.
"""

from scapy.layers.inet import ICMP, IP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
)
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

US1, US2 = "02:fe:00:00:00:01", "02:fe:00:00:00:02"
HOST = "02:00:00:00:01:09"
MOVED = "02:00:00:00:01:0a"
PEER = "02:00:00:00:02:02"
ROUTER = "02:00:00:00:02:03"
ALL, NONE = "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"
DATA = Raw(bytes(range(200)))


def packet(seq, ttl, dst="10.0.1.9"):
    return IP(src="10.0.2.2", dst=dst, ttl=ttl, id=7) / ICMP(type=8, id=1, seq=seq) / DATA


def arp(src, dst, op, hwsrc, psrc, hwdst, pdst):
    return Ether(src=src, dst=dst) / ARP(op=op, hwsrc=hwsrc, psrc=psrc, hwdst=hwdst, pdst=pdst)


def unreachable(seq):
    return (Ether(src=US2, dst=PEER) / IP(src="10.0.2.1", dst="10.0.2.2", ttl=64, id=0, flags="DF", tos=0xC0)
            / ICMP(type=3, code=1) / packet(seq, 64))


def packet6(seq, hlim):
    return IPv6(src="2001:db8:2::2", dst="2001:db8:1::9", hlim=hlim) / ICMPv6EchoRequest(id=1, seq=seq) / DATA


def ns(dst_mac, dst, target, src="2001:db8:1::1", us=US1):
    return (Ether(src=us, dst=dst_mac) / IPv6(src=src, dst=dst, hlim=255) / ICMPv6ND_NS(tgt=target)
            / ICMPv6NDOptSrcLLAddr(lladdr=us))


def na(src_mac, dst_mac, src, dst, **flags):
    return (Ether(src=src_mac, dst=dst_mac) / IPv6(src=src, dst=dst, hlim=255) / ICMPv6ND_NA(tgt=src, **flags)
            / ICMPv6NDOptDstLLAddr(lladdr=src_mac))


US4, AUTO = "02:fe:00:00:00:04", "fe80::fe:ff:fe00:4"  # interface 4 has no other link-local address
LOST = IPv6(src="fe80::9", dst="2001:db8:99::1") / ICMPv6EchoRequest(id=1, seq=1) / DATA

FRAMES = {
    "ping-1": Ether(src=PEER, dst=US2) / packet(1, 64),
    "ping-2": Ether(src=PEER, dst=US2) / packet(2, 64),
    "ping-another": Ether(src=PEER, dst=US2) / packet(1, 64, "10.0.1.10"),
    "ping-1-out": Ether(src=US1, dst=HOST) / packet(1, 63),
    "ping-2-out": Ether(src=US1, dst=HOST) / packet(2, 63),
    "who-has": arp(US1, ALL, 1, US1, "10.0.1.1", NONE, "10.0.1.9"),
    "who-has-alone": arp(US1, HOST, 1, US1, "10.0.1.1", NONE, "10.0.1.9"),
    "is-at": arp(HOST, US1, 2, HOST, "10.0.1.9", US1, "10.0.1.1"),
    "unreachable-1": unreachable(1),
    "unreachable-2": unreachable(2),
    "via-router": Ether(src=PEER, dst=US2) / packet(1, 64, "10.7.0.1"),
    "via-router-out": Ether(src=US2, dst=ROUTER) / packet(1, 63, "10.7.0.1"),
    "who-has-router": arp(US2, ALL, 1, US2, "10.0.2.1", NONE, "10.0.2.3"),
    "router-is-at": arp(ROUTER, US2, 2, ROUTER, "10.0.2.3", US2, "10.0.2.1"),
    "asks-us": arp(HOST, ALL, 1, HOST, "10.0.1.9", NONE, "10.0.1.1"),
    "told": arp(US1, HOST, 2, US1, "10.0.1.1", HOST, "10.0.1.9"),
    "claims-ours": arp(HOST, ALL, 1, HOST, "10.0.1.1", NONE, "10.0.1.1"),
    "announcement": arp(US1, ALL, 1, US1, "10.0.1.1", NONE, "10.0.1.1"),
    "ping6": Ether(src=PEER, dst=US2) / packet6(1, 64),
    "ping6-out": Ether(src=US1, dst=HOST) / packet6(1, 63),
    "solicit": ns("33:33:ff:00:00:09", "ff02::1:ff00:9", "2001:db8:1::9"),
    "solicit-alone": ns(HOST, "2001:db8:1::9", "2001:db8:1::9"),
    "advertise": na(HOST, US1, "2001:db8:1::9", "2001:db8:1::1", R=0, S=1, O=1),
    "advertise-quietly": na(MOVED, US1, "2001:db8:1::9", "2001:db8:1::1", R=0, S=1, O=0),
    "unreachable6": Ether(src=US2, dst=PEER) / IPv6(src="2001:db8:2::1", dst="2001:db8:2::2", hlim=64)
    / ICMPv6DestUnreach(code=3) / packet6(1, 64),
    "claims-ours6": na(HOST, "33:33:00:00:00:01", "2001:db8:1::1", "ff02::1", R=0, S=0, O=1),
    "announcement6": na(US1, "33:33:00:00:00:01", "2001:db8:1::1", "ff02::1", R=1, S=0, O=1),
    "link-ping": Ether(src=HOST, dst=US1) / IPv6(src="fe80::9", dst="fe80::1") / ICMPv6EchoRequest(id=1, seq=1) / DATA,
    "link-solicit": ns("33:33:ff:00:00:09", "ff02::1:ff00:9", "fe80::9", "fe80::1"),
    "link-advertise": na(HOST, US1, "fe80::9", "fe80::1", R=0, S=1, O=1),
    "auto-ping": Ether(src=HOST, dst=US4) / IPv6(src="fe80::9", dst=AUTO) / ICMPv6EchoRequest(id=1, seq=1) / DATA,
    "auto-solicit": ns("33:33:ff:00:00:09", "ff02::1:ff00:9", "fe80::9", AUTO, US4),
    "auto-advertise": na(HOST, US4, "fe80::9", AUTO, R=0, S=1, O=1),
    "auto-pong": Ether(src=US4, dst=HOST) / IPv6(src=AUTO, dst="fe80::9", hlim=64) / ICMPv6EchoReply(id=1, seq=1) / DATA,
    "auto-lost": Ether(src=HOST, dst=US4) / LOST,
    "auto-report": Ether(src=US4, dst=HOST) / IPv6(src=AUTO, dst="fe80::9", hlim=64) / ICMPv6DestUnreach(code=0) / LOST,
    "link-pong": Ether(src=US1, dst=HOST) / IPv6(src="fe80::1", dst="fe80::9", hlim=64) / ICMPv6EchoReply(id=1, seq=1) / DATA,
}

if __name__ == "__main__":
    print("# Made by waiting.py; don't edit.")
    for name, frame in FRAMES.items():
        print(name, bytes(frame).hex())
