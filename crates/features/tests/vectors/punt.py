#!/usr/bin/python3
"""Frames for the tests of punt and inject, built by scapy: one line "name hex" each.

Run:  /usr/bin/python3 crates/features/tests/vectors/punt.py > crates/features/tests/vectors/punt.txt

The topology is that of `src/ip/topology.rs`; packets come from 10.0.2.2 and 2001:db8:2::2, whose link-layer address is known.
`in/…` comes in by interface 2, `out/…` is the same from the IP header on; `inject/…` is what the application sends, `sent/…` the same
as it leaves by interface 2.
"""

from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import Ether
from scapy.packet import Raw

US, PEER = "02:fe:00:00:00:02", "02:00:00:00:02:02"
THERE4, THERE6 = {"src": "10.0.2.2", "dst": "10.0.2.1"}, {"src": "2001:db8:2::2", "dst": "2001:db8:2::1"}
BACK4, BACK6 = {"src": "10.0.2.1", "dst": "10.0.2.2"}, {"src": "2001:db8:2::1", "dst": "2001:db8:2::2"}
DATA = Raw(bytes((7 * i) & 0xFF for i in range(300)))


def show(before, after, name, packet, frame):
    print(f"{before}/{name}", bytes(packet if before == "inject" else frame).hex())
    print(f"{after}/{name}", bytes(frame if before == "inject" else packet).hex())


print("# Made by punt.py; don't edit.")
punted = {
    "udp4": IP(**THERE4, ttl=64) / UDP(sport=1000, dport=2000) / DATA,
    "tcp4": IP(**THERE4, ttl=1) / TCP(sport=1000, dport=179, flags="S"),
    "gre4": IP(**THERE4, proto=47) / Raw(b"\0\0\x08\0" + b"x" * 60),
    "ospf4": IP(src="10.0.2.2", dst="224.0.0.1", proto=89, ttl=1) / Raw(b"\2\1" + b"y" * 42),
    "udp6": IPv6(**THERE6, hlim=64) / UDP(sport=1000, dport=2000) / DATA,
    "tcp6": IPv6(**THERE6, hlim=1) / TCP(sport=1000, dport=179, flags="S"),
    "ospf6": IPv6(**THERE6, nh=89) / Raw(b"\3\1" + b"z" * 38),
    "part6": IPv6(**THERE6) / IPv6ExtHdrFragment(nh=17, offset=5, m=1, id=7) / Raw(b"w" * 48),
}
for at, part in enumerate(fragment(IP(**THERE4, id=9) / UDP(sport=1, dport=2) / DATA, 200)):
    punted[f"part4-{at}"] = part
for name, packet in punted.items():
    to = "01:00:5e:00:00:01" if name == "ospf4" else US
    show("in", "out", name, packet, Ether(src=PEER, dst=to) / packet)
injected = {
    "udp4": IP(**BACK4, ttl=255) / UDP(sport=2000, dport=1000) / DATA,
    "last4": IP(**BACK4, ttl=1) / TCP(sport=179, dport=1000, flags="SA"),
    "udp6": IPv6(**BACK6, hlim=255) / UDP(sport=2000, dport=1000) / DATA,
    "last6": IPv6(**BACK6, hlim=1) / TCP(sport=179, dport=1000, flags="SA"),
}
for name, packet in injected.items():
    show("inject", "sent", name, packet, Ether(src=US, dst=PEER) / packet)
