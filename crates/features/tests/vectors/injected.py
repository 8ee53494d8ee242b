#!/usr/bin/python3
"""Packets for the tests of what doesn't come from a wire: made here, or super-frames (format: `testing::rows`, without
Ethernet headers on the way in).

Run:  /usr/bin/python3 crates/features/tests/vectors/injected.py > crates/features/tests/vectors/injected.txt

The topology is that of `src/ip/topology.rs`.
"""

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

DATA = Raw(bytes(i & 0xFF for i in range(4000)))


def row(name, packet, after=None):
    """`after`: the packet as it leaves by interface 2, or else what becomes of it."""
    print(f"\nrow {name}\nin 1 {bytes(packet).hex()}")
    if isinstance(after, str):
        print(after)
    else:
        kind = 0x86DD if IPv6 in packet else 0x0800
        frame = Ether(dst="02:00:00:00:02:02", src="02:fe:00:00:00:02", type=kind) / after
        print(f"out 2 {bytes(frame).hex()}")


def v4(ttl, dst="10.1.0.9", **fields):
    return IP(src="10.0.1.9", dst=dst, ttl=ttl, id=7, **fields)


def v6(ttl, dst="2001:db8:1001::9"):
    return IPv6(src="2001:db8:1::9", dst=dst, hlim=ttl)


TCP_DATA = TCP(sport=1, dport=2, options=[("NOP", None), ("NOP", None), ("Timestamp", (1, 2))]) / DATA
UDP_DATA = UDP(sport=1, dport=2) / DATA
SMALL = UDP(sport=1, dport=2) / Raw(b"small")

print("# Made by injected.py with scapy.")
row("super-frame tcp4", v4(64, flags="DF") / TCP_DATA, v4(63, flags="DF") / TCP_DATA)
row("super-frame udp4", v4(64) / UDP_DATA, v4(63) / UDP_DATA)
row("super-frame tcp6", v6(64) / TCP_DATA, v6(63) / TCP_DATA)
row("super-frame udp6", v6(64) / UDP_DATA, v6(63) / UDP_DATA)
for ttl in (64, 1):
    row(f"own ip4 ttl {ttl}", v4(ttl) / SMALL, v4(ttl) / SMALL)
    row(f"own ip6 ttl {ttl}", v6(ttl) / SMALL, v6(ttl) / SMALL)
row("own ip4 without a route", v4(64, dst="192.0.2.1") / SMALL, "drop ip4-lookup no-route")
row("own ip6 without a route", v6(64, dst="2001:db8:ffff::1") / SMALL, "drop ip6-lookup no-route")
row("own ip4 prohibited", v4(64, dst="10.5.0.1") / SMALL, "drop ip4-lookup no-route")
row("own ip4 too big", v4(64, flags="DF") / UDP_DATA, "drop ip4-rewrite too-big")
row("own ip6 to a link-local address", v6(255, dst="fe80::77") / SMALL, "punt ip6-resolve")
