#!/usr/bin/python3
"""Tables for the tests of IPv4 fragmentation, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/fragment.py MTU > crates/features/tests/vectors/fragment-MTU.txt

The topology is that of `src/ip/topology.rs`, with MTU on interface 5.
"""

import sys

from scapy.layers.inet import IP, UDP, IPOption_NOP, IPOption_Router_Alert, IPOption_RR
from scapy.layers.l2 import Ether
from scapy.packet import Raw

MTU = int(sys.argv[1])
OURS, HOST = "02:fe:00:00:00:01", "02:00:00:00:01:09"
OUT, NEXT = "02:fe:00:00:00:05", "02:00:00:00:05:02"


def ip(**fields):
    return IP(src="10.0.1.9", dst="10.8.0.1", id=0x4321, proto=17, **fields)


def header_len(options):
    return len(bytes(IP(options=options)))


def row(name, payload, options=(), copied=(), frag=0, flags=0, tos=0):
    """A packet with `options`, and its fragments: `copied` stand in all but the first."""
    print(f"\nrow {name}")
    packet = ip(ttl=64, options=list(options), frag=frag, flags=flags, tos=tos) / Raw(payload)
    print(f"in 1 {bytes(Ether(dst=OURS, src=HOST, type=0x0800) / packet).hex()}")
    at = 0
    while at < len(payload):
        own = list(options if at == 0 else copied)
        room = (MTU - header_len(own)) // 8 * 8
        piece = payload[at : at + room]
        more = flags or int(at + len(piece) < len(payload))
        fragment = ip(ttl=63, options=own, frag=frag + at // 8, flags=more, tos=tos) / Raw(piece)
        assert len(fragment) <= MTU
        print(f"out 5 {bytes(Ether(dst=NEXT, src=OUT, type=0x0800) / fragment).hex()}")
        at += len(piece)


def udp(size):
    return bytes(IP(src="10.0.1.9", dst="10.8.0.1") / UDP(sport=1234, dport=80) / Raw(bytes(7 * i & 0xFF for i in range(size))))[20:]


print(f"# Made by fragment.py {MTU} with scapy.")
ROOM = (MTU - 20) // 8 * 8
for size in (MTU - 20 + 1, ROOM * 2, ROOM * 2 + 1, ROOM * 3 - 1, 1472):
    row(f"{size} bytes of payload", udp(size - 8))
row("dscp and ecn", udp(600), tos=0xB9)
alert, record = IPOption_Router_Alert(), IPOption_RR(routers=["0.0.0.0"] * 3)
row("options of both kinds", udp(500), [alert, IPOption_NOP(), record], [alert])
row("only options that aren't copied", udp(500), [record], [])
row("only options that are copied", udp(500), [alert], [alert])
row("the first fragment of a packet", bytes(range(256)) * 2, flags=1)
row("a fragment from the middle", bytes(range(256)) * 2, frag=185, flags=1)
row("the last fragment", bytes(range(256)) * 2 + b"end", frag=370)
