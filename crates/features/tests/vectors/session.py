#!/usr/bin/python3
"""Packets for the tests of sessions, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/session.py 4 > crates/features/tests/vectors/session4.txt   (likewise 6)

The topology is that of `src/ip/topology.rs`. Host A (interface 2) begins, host B is behind interface 3, which has no
link-layer headers. A row's name says what it is; the tests send rows one after the other.
"""

import sys

import two_sides
from scapy.layers.inet import ICMP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6TimeExceeded,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    PadN,
)
from scapy.layers.ipsec import AH, ESP
from scapy.layers.l2 import GRE
from scapy.packet import Raw
from two_sides import V6, A, B, ip

ROUTER = "2001:db8:1002::1" if V6 else "10.2.0.1"


def row(name, there, payload, src=None, **more):
    """`there`: from A to B. A row's packet leaves by the other interface with one hop less."""
    src, dst = (src or A, B) if there else (src or B, A)
    two_sides.row(name, there, lambda hops: ip(src, dst, hops, **more) / payload)


def both(name, there, back):
    row(name, True, there)
    row(f"{name} answer", False, back)


def tcp(there, flags, **more):
    ports = {"sport": 40000, "dport": 80} if there else {"sport": 80, "dport": 40000}
    return TCP(**ports, flags=flags, **more)


def quoted(src, dst, payload):
    """What an error quotes: header and eight bytes."""
    packet = bytes(ip(src, dst, 63) / payload)
    return Raw(packet[: (40 if V6 else 20) + 8])


def unreachable(inner):
    return (ICMPv6DestUnreach(code=4) if V6 else ICMP(type=3, code=3)) / inner


def exceeded(inner):
    return (ICMPv6TimeExceeded() if V6 else ICMP(type=11, code=0)) / inner


print(f"# Made by session.py {sys.argv[1]} with scapy.")
data = Raw(b"payload")
both("udp", UDP(sport=40000, dport=53) / data, UDP(sport=53, dport=40000) / data)
row("another udp", True, UDP(sport=40001, dport=53) / data)
row("a third udp", True, UDP(sport=40002, dport=53) / data)
for flags, name in (("S", "syn"), ("SA", "syn-ack"), ("A", "ack"), ("FA", "fin"), ("R", "rst")):
    both(f"tcp {name}", tcp(True, flags), tcp(False, flags))
if V6:
    both("echo", ICMPv6EchoRequest(id=0x1234, seq=1) / data, ICMPv6EchoReply(id=0x1234, seq=1) / data)
else:
    both("echo", ICMP(type=8, id=0x1234, seq=1) / data, ICMP(type=0, id=0x1234, seq=1) / data)
asked = UDP(sport=40000, dport=53) / data
row("error of the other host", False, unreachable(quoted(A, B, asked)))
row("error of a router", False, exceeded(quoted(A, B, asked)), src=ROUTER)
row("error about the answer", True, unreachable(quoted(B, A, UDP(sport=53, dport=40000) / data)))
row("error about a segment", False, exceeded(quoted(A, B, tcp(True, "A"))), src=ROUTER)
row("unrelated error", True, unreachable(quoted(B, A, UDP(sport=5, dport=6) / data)))
if V6:
    options = IPv6ExtHdrDestOpt()
    row("udp behind options", True, options / UDP(sport=40000, dport=53) / data)
    row("first fragment", True, IPv6ExtHdrFragment(m=1, id=7) / UDP(sport=40000, dport=53, len=32, chksum=1) / Raw(b"x" * 16))
    row("later fragment", True, IPv6ExtHdrFragment(offset=3, id=7, nh=17) / Raw(b"x" * 8))
    row("short tcp", True, Raw(bytes(tcp(True, "S"))[:12]), nh=6)
    row("tcp cut before its flags", True, IPv6ExtHdrFragment(m=1, id=7, nh=6) / Raw(bytes(tcp(True, "S"))[:8]))
    row("tcp from its flags on", True, IPv6ExtHdrFragment(offset=1, id=7, nh=6) / Raw(bytes(tcp(True, "S"))[8:]))
    row("ports far behind", True, IPv6ExtHdrDestOpt(options=[PadN(optdata=b"x" * 124)]) / tcp(True, "S"))
    row("gre", True, GRE() / data)
else:
    row("udp behind options", True, UDP(sport=40000, dport=53) / data, options=[b"\x01\x01\x01\x00"])
    row("first fragment", True, UDP(sport=40000, dport=53, len=32, chksum=1) / Raw(b"x" * 16), flags="MF")
    row("later fragment", True, Raw(b"x" * 8), frag=3, proto=17)
    row("short tcp", True, Raw(bytes(tcp(True, "S"))[:12]), proto=6)
    row("tcp cut before its flags", True, Raw(bytes(tcp(True, "S"))[:8]), proto=6, flags="MF")
    row("tcp from its flags on", True, Raw(bytes(tcp(True, "S"))[8:]), proto=6, frag=1)
    row("gre", True, GRE() / data)

# IPsec: an SPI is its receiver's. The halves of these are equal, and such that they would put the endpoints in the other order.
for spi, name in ((0x00010001, "esp"), (0xFFFF0000, "another esp")):
    both(name, ESP(spi=spi, seq=1, data=b"e" * 32), ESP(spi=spi, seq=1, data=b"e" * 32))
sealed = AH(nh=17, payloadlen=4, spi=0x2000, seq=1, icv=b"i" * 12) / UDP(sport=40000, dport=53) / data
both("ah", sealed, sealed)
row("error about esp", False, exceeded(quoted(A, B, ESP(spi=0x00010001, seq=1, data=b"e" * 32))), src=ROUTER)
quote = bytes(ip(A, B, 63) / sealed)
row("error about ah", False, exceeded(Raw(quote[: (40 if V6 else 20) + 8])), src=ROUTER)
row("esp without an spi", True, ESP(spi=0, seq=1, data=b"e" * 32))
row("short esp", True, Raw(b"\0\1\0"), **({"nh": 50} if V6 else {"proto": 50}))
if not V6:  # of IPv6 it is an extension header, which is checked before
    row("short ah", True, Raw(bytes(sealed)[:7]), proto=51)
row("esp in udp", True, UDP(sport=4500, dport=4500) / ESP(spi=0x00010001, seq=1, data=b"e" * 32))
first, later = bytes(ESP(spi=0x00010001, seq=1, data=b"e" * 16)), Raw(b"e" * 8)
if V6:
    row("first fragment of esp", True, IPv6ExtHdrFragment(m=1, id=8, nh=50) / Raw(first))
    row("later fragment of esp", True, IPv6ExtHdrFragment(offset=3, id=8, nh=50) / later)
    row("first fragment of ah", True, IPv6ExtHdrFragment(m=1, id=9, nh=51) / Raw(bytes(sealed)[:32]))
    row("later fragment of ah", True, IPv6ExtHdrFragment(offset=4, id=9, nh=51) / Raw(bytes(sealed)[32:]))
    row("ah behind options", True, options / sealed)
else:
    row("first fragment of esp", True, Raw(first), proto=50, flags="MF")
    row("later fragment of esp", True, later, proto=50, frag=3)
    row("first fragment of ah", True, Raw(bytes(sealed)[:32]), proto=51, flags="MF")
    row("later fragment of ah", True, Raw(bytes(sealed)[32:]), proto=51, frag=4)
    row("ah behind options", True, sealed, options=[b"\x01\x01\x01\x00"])

# An ICMP error, itself in fragments, about a fragment that has no ports.
if V6:
    quote = IPv6ExtHdrFragment(offset=3, id=7, nh=17) / Raw(b"x" * 8)
    error = bytes(ip(A, B, 64) / unreachable(Raw(bytes(ip(B, A, 63) / quote))))[40:]
    row("first fragment of an error about a later fragment", True, IPv6ExtHdrFragment(m=1, id=11, nh=58) / Raw(error[:64]))
else:
    error = bytes(unreachable(Raw(bytes(ip(B, A, 63, frag=3, proto=17) / Raw(b"x" * 8)))))
    row("first fragment of an error about a later fragment", True, Raw(error[:32]), proto=1, flags="MF")

# What calls itself a link's own business, and is sent to another one.
if V6:
    for kind, name in ((136, "advertisement"), (143, "listener report")):
        row(f"{name} to another link", True, Raw(bytes([kind, 0, 0, 0, 0, 0, 0, 0]) + b"payload"), nh=58)

# What nobody should send.
row("udp from port 0", True, UDP(sport=0, dport=53) / data)
row("udp to port 0", True, UDP(sport=40000, dport=0) / data)
row("tcp between ports 0", True, TCP(sport=0, dport=0, flags="S"))
row("land", True, TCP(sport=80, dport=80, flags="S"), src=B)
row("land from another port", True, TCP(sport=40000, dport=80, flags="S"), src=B)
if V6:
    row("echo of which the lower half is the same", True, ICMPv6EchoRequest(id=0x5634, seq=1) / data)
    wide = bytes(ip(A, B, 64) / ICMPv6EchoRequest(id=0x5634, seq=2, data=b"x" * 16))[40:]
    row("first fragment of an echo", True, IPv6ExtHdrFragment(m=1, id=10, nh=58) / Raw(wide[:16]))
    row("later fragment of an echo", True, IPv6ExtHdrFragment(offset=2, id=10, nh=58) / Raw(wide[16:]))
    for kind in (64, 100, 127, 200, 255):
        row(f"icmp of type {kind}", True, Raw(bytes([kind, 0, 0, 0, 0x12, 0x34, 0, 1]) + b"payload"), nh=58)
else:
    row("echo of which the lower half is the same", True, ICMP(type=8, id=0x5634, seq=1) / data)
    wide = bytes(ICMP(type=8, id=0x5634, seq=2) / Raw(b"x" * 16))
    row("first fragment of an echo", True, Raw(wide[:16]), proto=1, flags="MF")
    row("later fragment of an echo", True, Raw(wide[16:]), proto=1, frag=2)
    for kind in (19, 64, 100, 127, 200, 255):
        row(f"icmp of type {kind}", True, Raw(bytes([kind, 0, 0, 0, 0x12, 0x34, 0, 1]) + b"payload"), proto=1)
# UDP whose own length isn't that of its packet (RFC 768: at least 8; RFC 2675: 0 is a jumbogram's).
for length, name in ((0, "0"), (7, "7"), (9, "less than there is"), (15 + 64, "more than there is"), (65535, "65535")):
    row(f"udp of length {name}", True, UDP(sport=40000, dport=53, len=length) / data)
row("udp without a whole header", True, Raw(bytes(UDP(sport=40000, dport=53, len=8))[:3]), **({"nh": 17} if V6 else {"proto": 17}))
