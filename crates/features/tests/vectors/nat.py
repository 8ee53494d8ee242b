#!/usr/bin/python3
"""Packets for the tests of NAT, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/nat.py > crates/features/tests/vectors/nat.txt

The topology is that of `src/ip/topology.rs`. Host A (interface 2) is inside, host B is behind interface 3, which has no link-layer
headers, and knows A by the pool's address and port only. A row's name says what it is; the tests send rows one after the other.
All checksums are scapy's, worked out anew.
"""

from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.l2 import Ether
from scapy.layers.sctp import SCTP, SCTPChunkInit
from scapy.packet import Raw

A, B = "10.0.2.2", "10.2.0.9"
POOL, PORT = "192.0.2.1", 50000
#: Routers on both sides, and ours: where they report errors from.
INSIDE_ROUTER, ROUTER = "10.1.0.1", "10.2.0.1"
OWN_INSIDE, OWN_OUTSIDE = "10.0.2.1", "10.0.3.1"
DATA = Raw(b"payload")


def ip(src, dst, ttl, payload, **more):
    return bytes(IP(src=src, dst=dst, ttl=ttl, id=1, **more) / payload)


def ethernet(packet, there):
    ours, a = "02:fe:00:00:00:02", "02:00:00:00:02:02"
    dst, src = (ours, a) if there else (a, ours)
    return bytes(Ether(dst=dst, src=src, type=0x0800)) + packet


def row(name, there, came, left):
    """`there`: from A to B."""
    if there:
        rx_if, came, tx_if = 2, ethernet(came, True), 3
    else:
        rx_if, tx_if, left = 3, 2, ethernet(left, False)
    print(f"\nrow {name}\nin {rx_if} {came.hex()}\nout {tx_if} {left.hex()}")


def both(name, make, port=40000, **more):
    """`make(source, destination, answer)` gives the payload."""
    row(
        name,
        True,
        ip(A, B, 64, make(port, 53, False), **more),
        ip(POOL, B, 63, make(PORT, 53, False), **more),
    )
    row(
        f"{name} answer",
        False,
        ip(B, POOL, 64, make(53, PORT, True), **more),
        ip(B, A, 63, make(53, port, True), **more),
    )


def udp(sport, dport, _):
    return UDP(sport=sport, dport=dport) / DATA


def tcp(flags, answer):
    return lambda sport, dport, is_answer: (
        TCP(sport=sport, dport=dport, flags=answer if is_answer else flags) / (DATA if flags == "PA" else Raw())
    )


def echo(sport, dport, answer):
    return ICMP(type=0 if answer else 8, id=dport if answer else sport, seq=1) / DATA


def quoted(src, dst, payload, length, ttl=63):
    """What an error quotes: header and as many bytes."""
    return Raw(ip(src, dst, ttl, payload)[: 20 + length])


def errors(name, make, length):
    """Errors about what A has sent, by a router outside and by B; about B's answer, by A and by a router inside."""
    there = [quoted(src, B, make(port, 53, False), length) for src, port in ((POOL, PORT), (A, 40000))]
    back = [quoted(B, dst, make(53, port, True), length) for dst, port in ((A, 40000), (POOL, PORT))]
    for who, src in (("a router", ROUTER), ("the other host", B)):
        exceeded = [ICMP(type=11, code=0) / it for it in there]
        row(f"{name} error of {who}", False, ip(src, POOL, 64, exceeded[0]), ip(src, A, 63, exceeded[1]))
    for who, src in (("the host", A), ("an inside router", INSIDE_ROUTER)):
        needed = [ICMP(type=3, code=4, nexthopmtu=1280) / it for it in back]
        row(f"{name} error of {who}", True, ip(src, B, 64, needed[0]), ip(POOL, B, 63, needed[1]))


print("# Made by nat.py with scapy.")
both("udp", udp)
both("udp without checksum", lambda sport, dport, _: UDP(sport=sport, dport=dport, chksum=0) / DATA)
for flags, answer, name in (("S", "SA", "syn"), ("A", "A", "ack"), ("PA", "PA", "data"), ("FA", "FA", "fin"), ("R", "R", "rst")):
    both(f"tcp {name}", tcp(flags, answer))
both("udp behind options", udp, options=[b"\x01\x01\x01\x00"])
both("echo", echo)
PORT = 40000
both("sctp", lambda sport, dport, _: SCTP(sport=sport, dport=dport, tag=7) / SCTPChunkInit(init_tag=5))
both("udp with its own port", udp)
PORT = 50000
errors("udp", udp, 8)
errors("long udp", udp, 15)
errors("tcp", tcp("A", "A"), 20)
errors("short tcp", tcp("A", "A"), 8)
errors("echo", echo, 15)


def zero_sum(src, dst, sport, dport):
    """A payload with which the checksum of a datagram is 0, that is to say 0xffff."""
    for word in range(0x10000):
        datagram = UDP(sport=sport, dport=dport) / Raw(word.to_bytes(2, "big"))
        if ip(src, dst, 64, datagram)[26:28] == b"\xff\xff":
            return Raw(word.to_bytes(2, "big"))
    raise ValueError("none")


zero = zero_sum(POOL, B, PORT, 53)
row(
    "checksum that becomes zero",
    True,
    ip(A, B, 64, UDP(sport=40000, dport=53) / zero),
    ip(POOL, B, 63, UDP(sport=PORT, dport=53) / zero),
)
zero = zero_sum(A, B, 40000, 53)
row(
    "checksum that was zero",
    True,
    ip(A, B, 64, UDP(sport=40000, dport=53) / zero),
    ip(POOL, B, 63, UDP(sport=PORT, dport=53) / zero),
)
# A fragment has the checksum of the whole, of which it doesn't have all: one is as good as another, and changes by as much.


def first_fragment(src, dst, ttl, sport, checksum):
    return ip(src, dst, ttl, UDP(sport=sport, dport=53, len=48, chksum=checksum) / Raw(b"x" * 16), flags="MF")


def summed(src, sport):
    return int.from_bytes(ip(src, B, 64, UDP(sport=sport, dport=53) / Raw(b"x" * 40))[26:28], "big")


row(
    "first fragment",
    True,
    first_fragment(A, B, 64, 40000, summed(A, 40000)),
    first_fragment(POOL, B, 63, PORT, summed(POOL, PORT)),
)
# A datagram too long for its way, in fragments, there and back.
long = Raw(b"0123456789abcdef" * 9)


def parts(src, dst, ttl, sport, dport):
    return [bytes(part) for part in fragment(IP(src=src, dst=dst, ttl=ttl, id=9) / UDP(sport=sport, dport=dport) / long, 56)]


for n, (came, left) in enumerate(zip(parts(A, B, 64, 40000, 53), parts(POOL, B, 63, PORT, 53), strict=True), start=1):
    row(f"part {n}", True, came, left)
for n, (came, left) in enumerate(zip(parts(B, POOL, 64, 53, PORT), parts(B, A, 63, 53, 40000), strict=True), start=1):
    row(f"answer's part {n}", False, came, left)
# Time is used up here: whoever sent the packet is told of it as he sent it.
for name, there, came, src, dst, about in (
    ("expires on its way out", True, ip(A, B, 1, udp(40000, 53, 0)), OWN_INSIDE, A, (A, B, udp(40000, 53, 0))),
    ("expires on its way in", False, ip(B, POOL, 1, udp(53, PORT, 0)), OWN_OUTSIDE, B, (B, POOL, udp(53, PORT, 0))),
):
    message = IP(src=src, dst=dst, ttl=64, id=0, tos=0xC0, flags="DF") / ICMP(type=11, code=0) / Raw(ip(about[0], about[1], 1, about[2]))
    left = bytes(message)
    if there:
        came, left, rx_if, tx_if = ethernet(came, True), ethernet(left, False), 2, 2
    else:
        rx_if, tx_if = 3, 3
    print(f"\nrow {name}\nin {rx_if} {came.hex()}\nout {tx_if} {left.hex()}")
