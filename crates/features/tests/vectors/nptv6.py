#!/usr/bin/python3
"""Packets for the tests of exchanged prefixes (NPTv6, RFC 6296), built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/nptv6.py > crates/features/tests/vectors/nptv6.txt

The topology is that of `src/ip/topology.rs`. Hosts A and C are inside, behind the neighbour of interface 2, host B is behind interface 3, which has no link-layer headers.
All checksums are scapy's, worked out anew: that they stay as they are is for the tests to see.
"""

import ipaddress

from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, IPv6
from scapy.layers.ipsec import AH, ESP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

INSIDE, OUTSIDE = "2001:db8:1001::/48", "2001:db8:9999::/48"
A, B, C = "2001:db8:1001:1::1234", "2001:db8:1002::9", "2001:db8:1001:2::7"
INSIDE_ROUTER = "2001:db8:1001::1"
DATA = Raw(b"payload")


def words(address):
    bits = int(ipaddress.IPv6Address(address))
    return [bits >> 16 * (7 - at) & 0xFFFF for at in range(8)]


def seen(address):
    """As RFC 6296 section 3.4 has it for prefixes of 48 bits, with sums modulo 0xffff."""
    inside, outside = (words(net.split("/")[0]) for net in (INSIDE, OUTSIDE))
    own = words(address)
    subnet = (own[3] + sum(inside) - sum(outside)) % 0xFFFF
    return str(ipaddress.IPv6Address(b"".join(word.to_bytes(2, "big") for word in (*outside[:3], subnet, *own[4:]))))


def ip(src, dst, hops, payload):
    return bytes(IPv6(src=src, dst=dst, hlim=hops) / payload)


def at(interface, packet, comes):
    """A packet as it comes in by an interface, or leaves."""
    ours, neighbour = "02:fe:00:00:00:02", "02:00:00:00:02:02"
    dst, src = (ours, neighbour) if comes else (neighbour, ours)
    return (bytes(Ether(dst=dst, src=src, type=0x86DD)) if interface == 2 else b"") + packet


def row(name, rx_if, came, tx_if, left):
    print(f"\nrow {name}\nin {rx_if} {at(rx_if, came, True).hex()}\nout {tx_if} {at(tx_if, left, False).hex()}")


def both(name, initiator, responder, make):
    """`initiator` and `responder`: interface, address before and after; `make(answer)`."""
    (rx_if, came_from, seen_as), (tx_if, asked, meant) = initiator, responder
    row(name, rx_if, ip(came_from, asked, 64, make(False)), tx_if, ip(seen_as, meant, 63, make(False)))
    row(f"{name} answer", tx_if, ip(meant, seen_as, 64, make(True)), rx_if, ip(asked, came_from, 63, make(True)))


def udp(answer):
    sport, dport = (53, 40000) if answer else (40000, 53)
    return UDP(sport=sport, dport=dport) / DATA


def syn(answer):
    sport, dport = (80, 4000) if answer else (4000, 80)
    return TCP(sport=sport, dport=dport, flags="SA" if answer else "S")


def echo(answer):
    return (ICMPv6EchoReply if answer else ICMPv6EchoRequest)(id=77, seq=1, data=b"payload")


print("# Made by nptv6.py with scapy.")
for name, make in (("udp", udp), ("tcp", syn), ("echo", echo)):
    both(f"{name} asks", (2, A, seen(A)), (3, B, B), make)
    both(f"{name} asked", (3, B, B), (2, seen(A), A), make)
    both(f"{name} hairpin", (2, C, seen(C)), (2, seen(A), A), make)
quotes = [Raw(ip(B, to, 63, udp(False))[:80]) for to in (A, seen(A))]
unreachable = [ICMPv6DestUnreach(code=4) / quote for quote in quotes]
row("error of the host", 2, ip(A, B, 64, unreachable[0]), 3, ip(seen(A), B, 63, unreachable[1]))
row("error of an inside router", 2, ip(INSIDE_ROUTER, B, 64, unreachable[0]), 3, ip(seen(A), B, 63, unreachable[1]))
full = "2001:db8:1001:ffff::1"
print(f"\nrow subnet of ones\nin 2 {at(2, ip(full, B, 64, udp(False)), True).hex()}\ndrop nat unmappable")
esp = ESP(spi=0x00010001, seq=1, data=b"e" * 32)
row("esp asks", 2, ip(A, B, 64, esp), 3, ip(seen(A), B, 63, esp))
row("esp asked", 3, ip(B, seen(A), 64, esp), 2, ip(B, A, 63, esp))
ah = AH(nh=17, payloadlen=4, spi=0x2000, seq=1, icv=b"i" * 12) / udp(False)
row("ah asks", 2, ip(A, B, 64, ah), 3, ip(seen(A), B, 63, ah))
