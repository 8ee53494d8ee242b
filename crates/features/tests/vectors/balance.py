#!/usr/bin/python3
"""Packets for the tests of load balancing, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/balance.py 4 > crates/features/tests/vectors/balance4.txt   (likewise 6)

The topology is that of `src/ip/topology.rs`. Client A (interface 2) asks the VIP; backend B is behind interface 3, which has no link-layer
headers, and sees A as it is. A row's name says what it is; the tests send rows one after the other.
All checksums are scapy's, worked out anew.
"""

import sys

from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    fragment6,
)
from scapy.layers.l2 import Ether
from scapy.layers.sctp import SCTP, SCTPChunkData, SCTPChunkInit
from scapy.packet import Raw

V6 = sys.argv[1] == "6"
A, B = ("2001:db8:2::2", "2001:db8:1002::9") if V6 else ("10.0.2.2", "10.2.0.9")
VIP, PORT, LISTENS, CLIENT = "fd96::1" if V6 else "10.96.0.1", 80, 8080, 40000
#: Routers on both sides, and ours: where they report errors from.
NEAR, FAR = ("2001:db8:1001::1", "2001:db8:1002::1") if V6 else ("10.1.0.1", "10.2.0.1")
OWN_NEAR, OWN_FAR = ("2001:db8:2::1", "2001:db8:3::1") if V6 else ("10.0.2.1", "10.0.3.1")
DATA = Raw(b"payload")


def ip(src, dst, ttl, payload, **more):
    return bytes((IPv6(src=src, dst=dst, hlim=ttl, **more) if V6 else IP(src=src, dst=dst, ttl=ttl, id=1, **more)) / payload)


def ethernet(packet, there):
    ours, a = "02:fe:00:00:00:02", "02:00:00:00:02:02"
    dst, src = (ours, a) if there else (a, ours)
    return bytes(Ether(dst=dst, src=src, type=0x86DD if V6 else 0x0800)) + packet


def row(name, there, came, left):
    """`there`: from A to B."""
    if there:
        rx_if, came, tx_if = 2, ethernet(came, True), 3
    else:
        rx_if, tx_if, left = 3, 2, ethernet(left, False)
    print(f"\nrow {name}\nin {rx_if} {came.hex()}\nout {tx_if} {left.hex()}")


def both(name, make, **more):
    """`make(source, destination, answer)` gives the payload."""
    row(name, True, ip(A, VIP, 64, make(CLIENT, PORT, False), **more), ip(A, B, 63, make(CLIENT, LISTENS, False), **more))
    row(
        f"{name} answer",
        False,
        ip(B, A, 64, make(LISTENS, CLIENT, True), **more),
        ip(VIP, A, 63, make(PORT, CLIENT, True), **more),
    )


def udp(sport, dport, _):
    return UDP(sport=sport, dport=dport) / DATA


def tcp(flags, answer):
    return lambda sport, dport, is_answer: (
        TCP(sport=sport, dport=dport, flags=answer if is_answer else flags) / (DATA if flags == "PA" else Raw())
    )


def sctp(chunk):
    return lambda sport, dport, _: SCTP(sport=sport, dport=dport, tag=7) / chunk


def quoted(src, dst, payload, length, ttl=63):
    """What an error quotes: header and as many bytes."""
    return Raw(ip(src, dst, ttl, payload)[: (40 if V6 else 20) + length])


def exceeded(quote):
    return (ICMPv6TimeExceeded() if V6 else ICMP(type=11, code=0)) / quote


def too_big(quote):
    return (ICMPv6PacketTooBig(mtu=1280) if V6 else ICMP(type=3, code=4, nexthopmtu=1280)) / quote


def errors(name, make, length):
    """Errors about what A has sent, by a router near B and by B; about B's answer, by A and by a router near A."""
    there = [quoted(A, dst, make(CLIENT, port, False), length) for dst, port in ((B, LISTENS), (VIP, PORT))]
    back = [quoted(src, A, make(port, CLIENT, True), length) for src, port in ((VIP, PORT), (B, LISTENS))]
    for who, src, seen in (("a router", FAR, FAR), ("the backend", B, VIP)):
        row(f"{name} error of {who}", False, ip(src, A, 64, exceeded(there[0])), ip(seen, A, 63, exceeded(there[1])))
    for who, src in (("the client", A), ("a near router", NEAR)):
        row(f"{name} error of {who}", True, ip(src, VIP, 64, too_big(back[0])), ip(src, B, 63, too_big(back[1])))


def parts(src, dst, ttl, payload):
    """A datagram too long for its way, in three fragments."""
    if V6:
        return [bytes(part) for part in fragment6(IPv6(src=src, dst=dst, hlim=ttl) / IPv6ExtHdrFragment(id=9) / payload, 104)]
    return [bytes(part) for part in fragment(IP(src=src, dst=dst, ttl=ttl, id=9) / payload, 56)]


def long(sport, dport):
    return UDP(sport=sport, dport=dport) / Raw(b"0123456789abcdef" * 9)


def in_parts():
    """The same there and back, part by part."""
    there = zip(parts(A, VIP, 64, long(CLIENT, PORT)), parts(A, B, 63, long(CLIENT, LISTENS)), strict=True)
    back = zip(parts(B, A, 64, long(LISTENS, CLIENT)), parts(VIP, A, 63, long(PORT, CLIENT)), strict=True)
    for n, (came, left) in enumerate(there, start=1):
        row(f"part {n}", True, came, left)
    for n, (came, left) in enumerate(back, start=1):
        row(f"answer's part {n}", False, came, left)


print("# Made by balance.py with scapy.")
both("udp", udp)
for flags, answer, name in (("S", "SA", "syn"), ("A", "A", "ack"), ("PA", "PA", "data"), ("FA", "FA", "fin"), ("R", "R", "rst")):
    both(f"tcp {name}", tcp(flags, answer))
both("sctp", sctp(SCTPChunkInit(init_tag=5)))
both("long sctp", sctp(SCTPChunkData(data=b"x" * 1301)))
if V6:
    behind = lambda sport, dport, _: IPv6ExtHdrDestOpt() / UDP(sport=sport, dport=dport) / DATA
    both("udp behind options", behind)
else:
    both("udp behind options", udp, options=[b"\x01\x01\x01\x00"])
    both("udp without checksum", lambda sport, dport, _: UDP(sport=sport, dport=dport, chksum=0) / DATA)
errors("udp", udp, 8)
errors("long udp", udp, 15)
errors("tcp", tcp("A", "A"), 20)
errors("short tcp", tcp("A", "A"), 8)
errors("sctp", sctp(SCTPChunkInit(init_tag=5)), 8)
in_parts()
# The backend asks the VIP, and is seen by itself with the VIP's address: by the same port, since that is free.
for name, src, dst, sport, dport, seen in (
    ("a backend asks itself", B, VIP, CLIENT, PORT, (VIP, B, CLIENT, LISTENS)),
    ("a backend asks itself answer", B, VIP, LISTENS, CLIENT, (VIP, B, PORT, CLIENT)),
):
    came = ip(src, dst, 64, udp(sport, dport, 0))
    left = ip(seen[0], seen[1], 63, udp(seen[2], seen[3], 0))
    print(f"\nrow {name}\nin 3 {came.hex()}\nout 3 {left.hex()}")
# Time is used up here: whoever sent the packet is told of it as he sent it.
for name, there, src, dst, sport, dport, own in (
    ("expires on its way there", True, A, VIP, CLIENT, PORT, OWN_NEAR),
    ("expires on its way back", False, B, A, LISTENS, CLIENT, OWN_FAR),
):
    came = ip(src, dst, 1, udp(sport, dport, 0))
    if V6:
        left = bytes(IPv6(src=own, dst=src, hlim=64) / ICMPv6TimeExceeded() / Raw(came))
    else:
        left = bytes(IP(src=own, dst=src, ttl=64, id=0, tos=0xC0, flags="DF") / ICMP(type=11, code=0) / Raw(came))
    if there:
        came, left, rx_if = ethernet(came, True), ethernet(left, False), 2
    else:
        rx_if = 3
    print(f"\nrow {name}\nin {rx_if} {came.hex()}\nout {rx_if} {left.hex()}")


# Nobody takes the session: A is told, by a RST (RFC 9293 section 3.10.7.1, first case) or by an error that quotes what it has sent.
def refused(name, came, left):
    print(f"\nrow {name}\nin 2 {ethernet(came, True).hex()}\nout 2 {ethernet(left, False).hex()}\ndrop balance rejected")


def own_ip(src, tos):
    return IPv6(src=src, dst=A, hlim=64) if V6 else IP(src=src, dst=A, ttl=64, id=0, tos=tos, flags="DF")


for name, flags, data, answer in (
    ("refused syn", "S", b"", {"flags": "RA", "seq": 0, "ack": 1001}),
    ("refused syn with data", "SEC", b"x" * 90, {"flags": "RA", "seq": 0, "ack": 1091}),
    ("refused fin with data", "FP", b"x" * 7, {"flags": "RA", "seq": 0, "ack": 1008}),
    ("refused ack", "A", b"x" * 7, {"flags": "R", "seq": 77, "ack": 0}),
    ("refused syn-ack", "SA", b"", {"flags": "R", "seq": 77, "ack": 0}),
):
    options = [("MSS", 1460), ("WScale", 7)] if "S" in flags else []
    segment = TCP(sport=CLIENT, dport=PORT, flags=flags, seq=1000, ack=77 if "A" in flags else 0, options=options) / Raw(data)
    left = own_ip(VIP, 0) / TCP(sport=PORT, dport=CLIENT, window=0, **answer)
    refused(name, ip(A, VIP, 64, segment), bytes(left))
port = (lambda came: ICMPv6DestUnreach(code=4) / Raw(came)) if V6 else (lambda came: ICMP(type=3, code=3) / Raw(came))
for name, payload in (("refused udp", udp(CLIENT, PORT, 0)), ("refused sctp", SCTP(sport=CLIENT, dport=PORT, tag=7) / SCTPChunkInit(init_tag=5))):
    came = ip(A, VIP, 64, payload)
    refused(name, came, bytes(own_ip(OWN_NEAR, 0xC0) / port(came)))
silent = ip(A, VIP, 64, TCP(sport=CLIENT, dport=PORT, flags="R", seq=1000))
print(f"\nrow refused rst\nin 2 {ethernet(silent, True).hex()}\ndrop balance rejected")
