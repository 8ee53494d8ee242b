#!/usr/bin/python3
"""Tables for the tests of ICMP and local delivery over IPv4, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/icmp4.py > crates/features/tests/vectors/icmp4.txt

What goes in and what has to come out are built apart from each other. The topology is that of `src/ip/topology.rs`;
packets come from 10.0.2.2, whose link-layer address is known.
"""

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_RR, IPOption_Timestamp
from scapy.layers.l2 import Ether
from scapy.packet import Raw

US = "02:fe:00:00:00:02"
PEER = "02:00:00:00:02:02"
ALL = "ff:ff:ff:ff:ff:ff"


def row(name, frame, *verdict):
    print(f"\nrow {name}\nin 2 {bytes(frame).hex()}")
    for line in verdict:
        print(line if isinstance(line, str) else f"out 2 {bytes(line).hex()}")


def rx(packet, dst=US):
    return Ether(dst=dst, src=PEER, type=0x0800) / packet


def tx(packet):
    return Ether(dst=PEER, src=US, type=0x0800) / packet


def ip(dst="10.0.2.1", src="10.0.2.2", ttl=61, **fields):
    return IP(src=src, dst=dst, ttl=ttl, id=0x4321, **fields)


def back(src="10.0.2.1", **fields):
    return IP(src=src, dst="10.0.2.2", ttl=64, id=0x4321, **fields)


def data(size):
    return Raw(bytes((7 * i + 1) & 0xFF for i in range(size)))


def report(about, kind, code, src="10.0.2.1", **fields):
    """The error message about a packet, as RFC 1812 wants it: 576 bytes, quoting what fits."""
    quote = Raw(bytes(IP(bytes(about)))[: 576 - 28])
    return tx(IP(src=src, dst="10.0.2.2", ttl=64, id=0, flags="DF", tos=0xC0) / ICMP(type=kind, code=code, **fields) / quote)


def spoil(packet, at, value):
    octets = bytearray(bytes(packet))
    octets[at] = value
    return Raw(bytes(octets))


print("# Made by icmp4.py with scapy.")

# echo
for size in (0, 1, 18, 56, 86, 87, 200, 1472):
    ping, pong = ICMP(type=8, id=0x77, seq=3) / data(size), ICMP(type=0, id=0x77, seq=3) / data(size)
    row(f"ping with {size} bytes", rx(ip() / ping), tx(back() / pong))
ping, pong = ICMP(type=8, id=1, seq=2) / data(56), ICMP(type=0, id=1, seq=2) / data(56)
row("ping of another interface's address", rx(ip("10.0.1.1") / ping), tx(back("10.0.1.1") / pong))
row("ping that can't be forwarded any further", rx(ip(ttl=1) / ping), tx(back() / pong))
row("ping with DF and ECN", rx(ip(flags="DF", tos=2) / ping), tx(back(flags="DF", tos=2) / pong))
options = [IPOption_RR(pointer=4, routers=["0.0.0.0"] * 3), IPOption_Timestamp()]
row("ping with options", rx(ip(options=options) / ping), tx(back(options=options) / pong))
for sequence in range(0, 65536, 9973):
    row(f"ping {sequence}", rx(ip() / ICMP(type=8, id=0xF700, seq=sequence) / data(8)),
        tx(back() / ICMP(type=0, id=0xF700, seq=sequence) / data(8)))
wrong = ICMP(type=8, id=1, seq=2, chksum=0x1234) / data(56)
row("a wrong checksum stays wrong by as much", rx(ip() / wrong), tx(back() / ICMP(type=0, id=1, seq=2, chksum=0x1A34) / data(56)))
row("ping of all", rx(ip("255.255.255.255") / ping, ALL), "drop icmp4-echo group")
row("ping of all hosts", rx(ip("224.0.0.1") / ping, "01:00:5e:00:00:01"), "drop icmp4-echo group")
row("ping cut off", rx(ip(len=27, proto=1) / Raw(bytes(ICMP(type=8))[:7])), "drop icmp4-input too-short")

# other messages to us
row("a reply", rx(ip() / pong), "drop icmp4-input unknown-type")
row("a timestamp request", rx(ip() / ICMP(type=13)), "drop icmp4-input unknown-type")
row("an error", rx(ip() / ICMP(type=3, code=1) / IP(src="10.0.2.1", dst="10.0.2.2") / UDP()), "drop icmp4-input error-report")

# nobody listens
for size in (0, 60, 100, 508, 520, 521, 1000):
    packet = ip() / UDP(sport=40000, dport=33434) / data(size)
    row(f"traceroute with {size} bytes", rx(packet), report(packet, 3, 3), "drop ip4-local port-unreachable")
packet = ip(ttl=1) / UDP(sport=40000, dport=33434)
row("the end of a traceroute", rx(packet), report(packet, 3, 3), "drop ip4-local port-unreachable")
packet = ip() / TCP(sport=40000, dport=80, flags="S")
row("TCP", rx(packet), report(packet, 3, 3), "drop ip4-local port-unreachable")
packet = ip("10.0.1.1") / UDP(sport=1, dport=2)
row("UDP to another interface's address", rx(packet), report(packet, 3, 3, "10.0.1.1"), "drop ip4-local port-unreachable")
packet = ip(proto=89) / data(40)
row("another protocol", rx(packet), report(packet, 3, 2), "drop ip4-local protocol-unreachable")
row("UDP to all", rx(ip("255.255.255.255") / UDP(sport=68, dport=67), ALL), "drop ip4-local no-listener")
row("OSPF hello", rx(ip("224.0.0.5", proto=89) / data(40), "01:00:5e:00:00:05"), "drop ip4-local no-listener")

# errors of forwarding
udp = UDP(sport=1, dport=2) / data(30)
packet = ip("10.2.0.1", ttl=1) / udp
row("time exceeded", rx(packet), report(packet, 11, 0), "drop ip4-rewrite ttl-expired")
packet = ip("10.99.0.1") / udp
row("no route", rx(packet), report(packet, 3, 0), "drop ip4-lookup no-route")
packet = ip("10.4.0.1") / udp
row("unreachable", rx(packet), report(packet, 3, 1), "drop ip4-lookup unreachable")
packet = ip("10.5.0.1") / udp
row("prohibited", rx(packet), report(packet, 3, 13), "drop ip4-lookup prohibited")
packet = ip("10.8.0.1", flags="DF") / UDP(sport=1, dport=2) / data(300)
row("too big", rx(packet), report(packet, 3, 4, nexthopmtu=300), "drop ip4-rewrite too-big")
packet = ip("10.2.0.1", options=[IPOption_RR(pointer=4, routers=["0.0.0.0"] * 2)]) / udp
broken = spoil(packet, 21, 60)
fixed = bytearray(bytes(broken))
fixed[10:12] = b"\0\0"
total = 0
for at in range(0, 28, 2):
    total += int.from_bytes(fixed[at : at + 2], "big")
while total >> 16:
    total = (total & 0xFFFF) + (total >> 16)
fixed[10:12] = (~total & 0xFFFF).to_bytes(2, "big")
broken = Raw(bytes(fixed))
quote = Raw(bytes(broken)[:548])
row("broken options", rx(broken),
    tx(IP(src="10.0.2.1", dst="10.0.2.2", ttl=64, id=0, flags="DF", tos=0xC0) / ICMP(type=12, code=0, ptr=20) / quote), "drop ip4-input bad-options")
packet = ip("10.99.0.1", src="10.1.0.77") / udp
row("the sender is behind a router", rx(packet),
    Ether(dst=PEER, src=US) / IP(src="10.0.2.1", dst="10.1.0.77", ttl=64, id=0, flags="DF", tos=0xC0)
    / ICMP(type=3, code=0) / Raw(bytes(packet)), "drop ip4-lookup no-route")

packet = ip("10.7.0.1", ttl=1) / udp
row("time exceeded, before anybody is asked for the next router", rx(packet), report(packet, 11, 0), "drop ip4-resolve hops-used-up")

# errors that must not be reported
for kind in (3, 4, 5, 11, 12):
    row(f"no error about an error of type {kind}", rx(ip("10.99.0.1") / ICMP(type=kind) / data(28)), "drop ip4-lookup no-route")
packet = ip("10.99.0.1") / ICMP(type=8) / data(28)
row("but about a ping", rx(packet), report(packet, 3, 0), "drop ip4-lookup no-route")
row("no error about what may be an error", rx(ip("10.99.0.1", proto=1)), "drop ip4-lookup no-route")
row("no error about a later fragment", rx(ip("10.99.0.1", frag=10, proto=17) / data(40)), "drop ip4-lookup no-route")
packet = ip("10.99.0.1", flags="MF", proto=17) / data(40)
row("but about the first", rx(packet), report(packet, 3, 0), "drop ip4-lookup no-route")
