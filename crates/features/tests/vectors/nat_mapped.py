#!/usr/bin/python3
"""Packets for the tests of mapped hosts, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/nat_mapped.py > crates/features/tests/vectors/nat_mapped.txt

The topology is that of `src/ip/topology.rs`. Hosts A and C are inside (interface 2), host B is behind interface 3, which has no link-layer headers. A is seen
as 192.0.2.5, C's TCP port 80 as 8080 of 192.0.2.6, all others by port 50000 of 192.0.2.1, and so is who asks C's UDP port 53, which is 5353 of 192.0.2.6. All checksums are scapy's, worked out anew.
"""

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.ipsec import AH, ESP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

A, B, C = "10.0.2.2", "10.2.0.9", "10.1.0.7"
A_OUTSIDE, C_OUTSIDE, POOL = "192.0.2.5", "192.0.2.6", "192.0.2.1"
INSIDE_ROUTER, ROUTER = "10.1.0.1", "10.2.0.1"
DATA = Raw(b"payload")


def ip(src, dst, ttl, payload):
    return bytes(IP(src=src, dst=dst, ttl=ttl, id=1) / payload)


def at(interface, packet, comes):
    """A packet as it comes in by an interface, or leaves."""
    ours, neighbour = "02:fe:00:00:00:02", "02:00:00:00:02:02"
    dst, src = (ours, neighbour) if comes else (neighbour, ours)
    return (bytes(Ether(dst=dst, src=src, type=0x0800)) if interface == 2 else b"") + packet


def row(name, rx_if, came, tx_if, left):
    print(f"\nrow {name}\nin {rx_if} {at(rx_if, came, True).hex()}\nout {tx_if} {at(tx_if, left, False).hex()}")


def both(name, initiator, responder, make):
    """`initiator` and `responder`: interface, and endpoints before and after; `make(source port, destination port, answer)`."""
    (rx_if, came_from, seen_as), (tx_if, asked, meant) = initiator, responder
    row(
        name,
        rx_if,
        ip(came_from[0], asked[0], 64, make(came_from[1], asked[1], False)),
        tx_if,
        ip(seen_as[0], meant[0], 63, make(seen_as[1], meant[1], False)),
    )
    row(
        f"{name} answer",
        tx_if,
        ip(meant[0], seen_as[0], 64, make(meant[1], seen_as[1], True)),
        rx_if,
        ip(asked[0], came_from[0], 63, make(asked[1], came_from[1], True)),
    )


def udp(sport, dport, _):
    return UDP(sport=sport, dport=dport) / DATA


def syn(sport, dport, answer):
    return TCP(sport=sport, dport=dport, flags="SA" if answer else "S")


def echo(sport, dport, answer):
    return ICMP(type=0 if answer else 8, id=dport if answer else sport, seq=1) / DATA


def error(name, there, quote_there, quote_back):
    """An error from inside or from outside: of whom, to whom, and the packet that it quotes, as it comes and as it leaves."""
    (rx_if, src, dst), (tx_if, new_src, new_dst) = there
    messages = [ICMP(type=3, code=3) / Raw(ip(*quote)[:28]) for quote in (quote_there, quote_back)]
    row(name, rx_if, ip(src, dst, 64, messages[0]), tx_if, ip(new_src, new_dst, 63, messages[1]))


print("# Made by nat_mapped.py with scapy.")
outside_asks = (3, (B, 40001), (B, 40001))
both("asked", outside_asks, (2, (A_OUTSIDE, 53), (A, 53)), udp)
both("pinged", (3, (B, 77), (B, 77)), (2, (A_OUTSIDE, 77), (A, 77)), echo)
both("asks", (2, (A, 40000), (A_OUTSIDE, 40000)), (3, (B, 53), (B, 53)), udp)
both("pings", (2, (A, 78), (A_OUTSIDE, 78)), (3, (B, 78), (B, 78)), echo)
both("port", outside_asks, (2, (C_OUTSIDE, 8080), (C, 80)), syn)
both("from its port", (2, (C, 80), (C_OUTSIDE, 8080)), (3, (B, 4000), (B, 4000)), syn)
both("from another port", (2, (C, 81), (POOL, 50000)), (3, (B, 4000), (B, 4000)), syn)
both("hairpin", (2, (C, 5000), (POOL, 50000)), (2, (A_OUTSIDE, 53), (A, 53)), udp)
both("mapped hairpin", (2, (A, 5000), (A_OUTSIDE, 5000)), (2, (C_OUTSIDE, 8080), (C, 80)), syn)
both("to itself", (2, (A, 5001), (A_OUTSIDE, 5001)), (2, (A_OUTSIDE, 53), (A, 53)), udp)
both("twice", (3, (B, 40001), (POOL, 50000)), (2, (C_OUTSIDE, 5353), (C, 53)), udp)
quoted = (B, A, 63, udp(40001, 53, False)), (B, A_OUTSIDE, 63, udp(40001, 53, False))
error("error of the host", ((2, A, B), (3, A_OUTSIDE, B)), *quoted)
error("error of an inside router", ((2, INSIDE_ROUTER, B), (3, A_OUTSIDE, B)), *quoted)
quoted = (A_OUTSIDE, B, 63, udp(53, 40001, True)), (A, B, 63, udp(53, 40001, True))
error("error about its answer", ((3, ROUTER, A_OUTSIDE), (2, ROUTER, A)), *quoted)
quoted = (POOL, C, 63, udp(50000, 53, False)), (B, C_OUTSIDE, 63, udp(40001, 5353, False))
error("error of the host that is asked twice", ((2, C, POOL), (3, C_OUTSIDE, B)), *quoted)
quoted = (C_OUTSIDE, B, 63, udp(5353, 40001, True)), (C, POOL, 63, udp(53, 50000, True))
error("error about its answer, twice", ((3, ROUTER, C_OUTSIDE), (2, POOL, C)), *quoted)
row("nobody's port", 3, ip(B, C_OUTSIDE, 64, syn(40001, 8081, False)), 3, ip(B, C_OUTSIDE, 63, syn(40001, 8081, False)))

# ESP has an SPI each way, and addresses alone are replaced.
esp = ESP(spi=0x00010001, seq=1, data=b"e" * 32)
row("esp asks", 2, ip(A, B, 64, esp), 3, ip(A_OUTSIDE, B, 63, esp))
row("esp asked", 3, ip(B, A_OUTSIDE, 64, esp), 2, ip(B, A, 63, esp))
row("esp of one who isn't mapped", 2, ip(C, B, 64, esp), 3, ip(POOL, B, 63, esp))
ah = AH(nh=17, payloadlen=4, spi=0x2000, seq=1, icv=b"i" * 12) / udp(40000, 53, False)
row("ah asks", 2, ip(A, B, 64, ah), 3, ip(A_OUTSIDE, B, 63, ah))
row("ah asked", 3, ip(B, A_OUTSIDE, 64, ah), 2, ip(B, A, 63, ah))
error("error about esp", ((3, ROUTER, A_OUTSIDE), (2, ROUTER, A)), (A_OUTSIDE, B, 63, esp), (A, B, 63, esp))
