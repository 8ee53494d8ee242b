#!/usr/bin/python3
"""Packets for the tests of parsers, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/gtpu.py 4 > crates/features/tests/vectors/gtpu4.txt   (likewise 6)

The topology is that of `src/ip/topology.rs`, as in `session.py`. Tunnels of GTP-U are `scapy.contrib.gtp`'s (3GPP TS 29.281); "pair" is a parser of the tests: "PAIR", which side sends, and what both sides call the
conversation, whatever their ports.
"""

import sys

import two_sides
from scapy.contrib.gtp import (
    IE_TEIDI,
    GTP_U_Header,
    GTPEchoRequest,
    GTPErrorIndication,
    GTPPDUSessionContainer,
    IE_GSNAddress,
)
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment
from scapy.packet import Raw
from two_sides import V6, A, B, ip

C = "2001:db8:1002::a" if V6 else "10.2.0.10"
ONE, OTHER = 0x00001234, 0x00001235


def row(name, there, payload, to=B, **more):
    """`there`: from A to B. A row's packet leaves by the other interface with one hop less."""
    src, dst = (A, to) if there else (to, A)
    two_sides.row(name, there, lambda hops: ip(src, dst, hops, **more) / payload)


def udp(sport=2152, dport=2152):
    return UDP(sport=sport, dport=dport)


def gtp(teid=ONE, **more):
    return GTP_U_Header(teid=teid, gtp_type=more.pop("gtp_type", 255), **more)


print(f"# Made by gtpu.py {sys.argv[1]} with scapy.")
user = IP(src="172.16.0.1", dst="198.51.100.7") / UDP(sport=1000, dport=53) / Raw(b"user")
options = {} if V6 else {"options": [b"\x01\x01\x01\x00"]}
row("tunnel", True, udp() / gtp() / user)
row("tunnel from another port", True, udp(40001) / gtp() / user)
row("tunnel with a sequence number", True, udp() / gtp(S=1, seq=7) / user)
row("tunnel with an extension header", True, udp() / gtp(E=1, next_ex=0x85) / GTPPDUSessionContainer(type=1, QFI=9) / user)
if V6:
    row("tunnel behind options", True, IPv6ExtHdrDestOpt() / udp() / gtp() / user)
else:
    row("tunnel behind options", True, udp() / gtp() / user, **options)
row("another tunnel", True, udp() / gtp(OTHER) / user)
row("tunnel to another", True, udp() / gtp() / user, to=C)
row("the way back", False, udp() / gtp(0x99) / user)
# What has an ordinary session.
row("echo", True, udp() / gtp(0, gtp_type=1, S=1) / GTPEchoRequest())
row("error indication", True, udp() / gtp(0, gtp_type=26, S=1) / GTPErrorIndication(IE_list=[IE_TEIDI(TEIDI=ONE), IE_GSNAddress(ipv4_address="10.0.2.2")]))
row("version 2", True, udp() / gtp(version=2) / user)
row("cut short", True, udp() / Raw(bytes(gtp() / user)[:7]))
row("another port", True, udp(2152, 2153) / Raw(bytes(gtp() / user)))
row("no tunnel at all", True, UDP(sport=40000, dport=53) / Raw(b"payload"))
whole = bytes(udp() / gtp() / Raw(b"u" * 48))
datagram = bytes(ip(A, B, 64) / udp() / gtp() / Raw(b"u" * 48))[40 if V6 else 20 :]
if V6:
    row("first fragment", True, IPv6ExtHdrFragment(m=1, id=7, nh=17) / Raw(datagram[:32]))
    row("later fragment", True, IPv6ExtHdrFragment(offset=4, id=7, nh=17) / Raw(datagram[32:]))
else:
    row("first fragment", True, Raw(datagram[:32]), proto=17, flags="MF")
    row("later fragment", True, Raw(datagram[32:]), proto=17, frag=4)
quote = Raw(bytes(ip(A, B, 63) / udp() / gtp() / user)[: (40 if V6 else 20) + 16])
row("error about a tunnel", False, (ICMPv6DestUnreach(code=4) if V6 else ICMP(type=3, code=3)) / quote)


def pair(side, name, sport=1111, dport=2222):
    return UDP(sport=sport, dport=dport) / Raw(b"PAIR" + side + name.ljust(32, b"."))


# Keys that differ in their first byte, or in their last.
row("pair", True, pair(b">", b"pair"))
row("pair answer", False, pair(b"<", b"pair", 3333, 4444))
row("another pair", True, pair(b">", b"PAIR"))
row("pair that ends otherwise", True, UDP(sport=1111, dport=2222) / Raw(b"PAIR>" + b"pair".ljust(31, b".") + b"!"))
