#!/usr/bin/python3
"""Packets for the tests of engines that see translated sessions, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/redirected.py > crates/features/tests/vectors/redirected.txt

The topology is that of `src/ip/topology.rs`; the engine lies between interfaces 1 and 5. Each packet is two rows: how it comes and what the engine sees
of it, and that coming back and how it leaves. Client A (interface 2) is behind a pool's address, or asks a VIP; B is behind interface 3.
"""

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.layers.sctp import SCTP, SCTPChunkInit
from scapy.packet import Raw

MACS = {1: "02:fe:00:00:00:01", 2: "02:fe:00:00:00:02", 5: "02:fe:00:00:00:05"}
NEIGHBOUR = "02:00:00:00:02:02"
POOL, VIP = "192.0.2.1", {4: "10.96.0.1", 6: "fd96::1"}
A, B = {4: "10.0.2.2", 6: "2001:db8:2::2"}, {4: "10.2.0.9", 6: "2001:db8:1002::9"}
DATA = Raw(b"payload")


def ip(version, src, dst, ttl, payload):
    return bytes((IP(src=src, dst=dst, ttl=ttl, id=1) if version == 4 else IPv6(src=src, dst=dst, hlim=ttl)) / payload)


def framed(version, dst, src, packet):
    return bytes(Ether(dst=dst, src=src, type=0x0800 if version == 4 else 0x86DD)) + packet


def conversation(name, version, make, near, own, far):
    """`near`: A's endpoint; `own`: whom A asks; `far`: A and B as B sees them. `make(sport, dport)` gives the payload."""
    there = [(near, own), (near, own), far]
    back = [far[::-1], (own, near), (own, near)]
    for words, ways, there_it_is in ((name, there, True), (f"{name} answer", back, False)):
        came, seen, left = (
            ip(version, src[0], dst[0], ttl, make(src[1], dst[1])) for (src, dst), ttl in zip(ways, (64, 64, 63), strict=True)
        )
        if there_it_is:
            came, rx_if, left, tx_if = framed(version, MACS[2], NEIGHBOUR, came), 2, left, 3
            by, other = 1, 5
        else:
            rx_if, left, tx_if = 3, framed(version, NEIGHBOUR, MACS[2], left), 2
            by, other = 5, 1
        seen = framed(version, MACS[other], MACS[by], seen)
        print(f"\nrow {words}\nin {rx_if} {came.hex()}\nout {by} {seen.hex()}")
        print(f"\nrow {words} back\nin {other} {seen.hex()}\nout {tx_if} {left.hex()}")


def udp(sport, dport):
    return UDP(sport=sport, dport=dport) / DATA


def tcp(flags):
    return lambda sport, dport: TCP(sport=sport, dport=dport, flags=flags) / (DATA if flags == "PA" else Raw())


def sctp(sport, dport):
    return SCTP(sport=sport, dport=dport, tag=7) / SCTPChunkInit(init_tag=5)


print("# Made by redirected.py with scapy.")
for name, make in (("udp", udp), ("tcp syn", tcp("S")), ("tcp data", tcp("PA"))):
    conversation(f"nat {name}", 4, make, (A[4], 40000), (B[4], 53), ((POOL, 5000), (B[4], 53)))
for version in (4, 6):
    for name, make in (("udp", udp), ("tcp syn", tcp("S")), ("tcp data", tcp("PA")), ("sctp", sctp)):
        far = ((A[version], 40000), (B[version], 8080))
        conversation(f"vip{version} {name}", version, make, (A[version], 40000), (VIP[version], 80), far)
# Time is used up behind the engine: A is told of what it has sent.
came = ip(4, A[4], B[4], 1, udp(40000, 53))
seen = framed(4, MACS[5], MACS[1], came)
print(f"\nrow nat expires\nin 2 {framed(4, MACS[2], NEIGHBOUR, came).hex()}\nout 1 {seen.hex()}")
told = bytes(IP(src="10.0.5.1", dst=A[4], ttl=64, id=0, tos=0xC0, flags="DF") / ICMP(type=11, code=0) / Raw(came))
print(f"\nrow nat expires back\nin 5 {seen.hex()}\nout 2 {framed(4, NEIGHBOUR, MACS[2], told).hex()}")
