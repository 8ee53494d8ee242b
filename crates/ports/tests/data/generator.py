#!/usr/bin/python3
"""Writes generator.txt: packets as scapy builds them, for the generator's builder and its varying fields.

A line `build LINK PROTOCOL SOURCE DESTINATION PORT PORT HEX`, or a line `vary FIELD COUNT STEP TEMPLATE` with
`packet NUMBER HEX` lines: what packet NUMBER has to be.
"""

from scapy.all import ICMP, IP, TCP, UDP, Dot1Q, Ether, ICMPv6EchoRequest, IPv6, IPv6ExtHdrDestOpt, Raw, raw

MACS = {"src": "02:fe:00:00:00:01", "dst": "02:fe:00:00:00:02"}


def ip(source, destination, **more):
    if ":" in source:
        return IPv6(src=source, dst=destination, hlim=64, **more)
    return IP(src=source, dst=destination, ttl=64, id=0, **more)


def upper(protocol, v6, a, b):
    if protocol == "udp":
        return UDP(sport=a, dport=b)
    if protocol == "tcp":
        return TCP(sport=a, dport=b, flags="S", window=8192, seq=0)
    return ICMPv6EchoRequest(id=a, seq=b) if v6 else ICMP(type=8, id=a, seq=b)


def build(out, link, protocol, source, destination, a, b, payload):
    packet = ip(source, destination) / upper(protocol, ":" in source, a, b)
    packet = packet / Raw(bytes(n % 256 for n in range(payload))) if payload else packet
    packet = Ether(**MACS) / packet if link == "ethernet" else packet
    print("build", link, protocol, source, destination, a, b, raw(packet).hex(), file=out)


def vary(out, field, count, step, make, numbers):
    """make(by): the packet whose field is larger by `by`."""
    print("vary", field, count, step, raw(make(0)).hex(), file=out)
    for number in numbers:
        print("packet", number, raw(make((number % count) * step)).hex(), file=out)


def v4(number):
    number %= 2**32
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


BASE = 10 << 24 | 1
with open(__file__.replace(".py", ".txt"), "w") as out:
    for link in ("ethernet", "ip"):
        for protocol in ("udp", "tcp", "icmp"):
            build(out, link, protocol, "10.9.0.1", "10.9.0.2", 1024, 9, 101)
            build(out, link, protocol, "fd09::1", "fd09::2", 1024, 9, 64)
    build(out, "ethernet", "udp", "10.9.0.1", "10.9.0.2", 1, 2, 0)
    build(out, "ethernet", "udp", "10.9.0.1", "10.9.0.2", 1, 2, 8000)

    ether = Ether(**MACS)
    payload = Raw(b"quiver!")
    some = (0, 1, 2, 99, 100, 101, 2**40 + 7)
    vary(out, "source-address", 100, 1, lambda n: ether / IP(src=v4(BASE + n), dst="10.9.0.2") / UDP(sport=7, dport=8) / payload, some)
    vary(out, "destination-address", 70000, 65537, lambda n: ether / IP(src="10.9.0.1", dst=v4(BASE + n), options=[b"\x94\x04\0\0"]) / TCP(sport=7, dport=8) / payload, (0, 1, 69999))
    vary(out, "source-address", 9, 3, lambda n: ether / IP(src=v4(BASE + n), dst="10.9.0.2") / ICMP(id=1, seq=2) / payload, some)
    vary(out, "source-port", 100, 1, lambda n: ether / IP(src="10.9.0.1", dst="10.9.0.2") / UDP(sport=(65500 + n) % 65536, dport=8) / payload, some)
    vary(out, "destination-port", 100, 7, lambda n: ether / Dot1Q(vlan=5) / IPv6(src="fd09::1", dst="fd09::2") / TCP(sport=7, dport=8 + n) / payload, some)
    vary(out, "source-address", 100, 1, lambda n: ether / IPv6(src=f"fd09::ffff:{n + 1:x}", dst="fd09::2") / UDP(sport=7, dport=8) / payload, some)
    vary(out, "destination-address", 100, 1, lambda n: ether / IPv6(src="fd09::1", dst=f"fd09::{n + 1:x}") / IPv6ExtHdrDestOpt() / UDP(sport=7, dport=8) / payload, some)
    vary(out, "destination-port", 100, 1, lambda n: ether / IPv6(src="fd09::1", dst="fd09::2") / ICMPv6EchoRequest(id=1, seq=n), some)
    vary(out, "source-port", 5, 1, lambda n: ether / IP(src="10.9.0.1", dst="10.9.0.2") / UDP(sport=7 + n, dport=8, chksum=0) / payload, some)
