#!/usr/bin/python3
"""Packets for the tests of port splits, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/port_split.py 4 > crates/features/tests/vectors/port_split4.txt   (likewise 6)

The topology is that of `src/ip/topology.rs`, with a pod that has one address and two interfaces: 2 (Ethernet) for TCP ports 5000 to 5010
and UDP port 6081, and 3 (IP) for all others. Its peer is behind interface 1. A row's name says where the packet goes;
rows whose name begins with "then" depend on those before, and tests send them one after the other.
"""

import sys

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP, IPOption_RR, IPOption_Timestamp
from scapy.layers.inet6 import (
    HBHOptUnknown,
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
)
from scapy.layers.l2 import GRE, Ether
from scapy.layers.sctp import SCTP, SCTPChunkInit
from scapy.packet import Raw

V6 = sys.argv[1] == "6"
POD, PEER = ("2001:db8:50::1", "2001:db8:1::2") if V6 else ("10.50.0.1", "10.0.1.2")
ROUTER = "2001:db8:1::77" if V6 else "10.0.1.77"
TYPE = 0x86DD if V6 else 0x0800
# Interface: the router's address, the other side's.
MACS = {1: ("02:fe:00:00:00:01", "02:00:00:00:01:02"), 2: ("02:fe:00:00:00:02", "02:00:00:00:00:01")}
DATA = Raw(b"payload")


def ip(src, dst, ttl, **more):
    return IPv6(src=src, dst=dst, hlim=ttl, **more) if V6 else IP(src=src, dst=dst, ttl=ttl, **{"id": 1, **more})


def framed(packet, interface, sent):
    if interface == 3:
        return bytes(packet)
    ours, theirs = MACS[interface]
    src, dst = (ours, theirs) if sent else (theirs, ours)
    return bytes(Ether(dst=dst, src=src, type=TYPE) / packet)


def row(name, rx_if, tx_if, payload, src=PEER, dst=POD, **more):
    came, left = (ip(src, dst, ttl, **more) / payload for ttl in (64, 63))
    print(f"\nrow {name}\nin {rx_if} {framed(came, rx_if, False).hex()}\nout {tx_if} {framed(left, tx_if, True).hex()}")


def to(name, tx_if, payload, **more):
    """From the peer to the pod."""
    row(name, 1, tx_if, payload, **more)


def out(name, rx_if, payload, **more):
    """From the pod to the peer."""
    row(name, rx_if, 1, payload, src=POD, dst=PEER, **more)


def echo(kind, number):
    if V6:
        return (ICMPv6EchoRequest if kind == "request" else ICMPv6EchoReply)(id=number, seq=1, data=b"payload")
    return ICMP(type=8 if kind == "request" else 0, id=number, seq=1) / DATA


def quote(payload, **more):
    """What an error quotes of a packet from the pod: headers and eight bytes."""
    packet = ip(POD, PEER, 60, **more) / payload
    return Raw(bytes(packet)[: len(packet) - len(payload) + 8])


def unreachable(inner):
    return (ICMPv6DestUnreach(code=4) if V6 else ICMP(type=3, code=3)) / inner


def too_big(inner):
    return (ICMPv6PacketTooBig(mtu=1400) if V6 else ICMP(type=3, code=4, nexthopmtu=1400)) / inner


print(f"# Made by port_split.py {sys.argv[1]} with scapy.")
# By port.
for port, tx_if in ((4999, 3), (5000, 2), (5010, 2), (5011, 3)):
    to(f"tcp {port}", tx_if, TCP(sport=40000, dport=port, flags="S"))
to("udp 6081", 2, UDP(sport=40000, dport=6081) / DATA)
to("udp, a port of tcp's", 3, UDP(sport=40000, dport=5000) / DATA)
to("tcp, a port of udp's", 3, TCP(sport=40000, dport=6081, flags="S"))
to("tcp, the source has such a port", 3, TCP(sport=5000, dport=80, flags="S"))
to("udp without data", 2, UDP(sport=40000, dport=6081))
to("udp, larger than a head", 2, UDP(sport=40000, dport=6081) / Raw(bytes(range(256)) * 4))
# Without ports, or not of the split's protocols.
to("echo request", 3, echo("request", 5000))
to("echo reply nobody asked for", 3, echo("reply", 5000))
to("sctp", 3, SCTP(sport=40000, dport=5000, tag=1) / SCTPChunkInit())
to("gre", 3, GRE(proto=TYPE) / Raw(bytes(20)))
to("tcp that ends before its ports", 3, Raw(b"\x9c\x40"), **({"nh": 6} if V6 else {"proto": 6}))
# Errors about what the pod has sent.
to("error about a port of the split", 2, unreachable(quote(UDP(sport=6081, dport=53) / DATA)), src=ROUTER)
to("error about another port", 3, unreachable(quote(UDP(sport=40000, dport=53) / DATA)), src=ROUTER)
to("error about a packet to such a port", 3, unreachable(quote(TCP(sport=40000, dport=5000))), src=ROUTER)
to("too big, of a port of the split", 2, too_big(quote(TCP(sport=5000, dport=40000))), src=ROUTER)
to("error about an echo", 3, unreachable(quote(echo("request", 5000))), src=ROUTER)
to("first fragment to a port of the split", 2, **(
    {"payload": IPv6ExtHdrFragment(id=9, m=1, nh=17) / UDP(sport=40000, dport=6081, len=1000, chksum=1) / Raw(bytes(64))} if V6
    else {"payload": UDP(sport=40000, dport=6081, len=1000, chksum=1) / Raw(bytes(64)), "flags": "MF", "id": 9}))  # fmt: skip
if V6:
    bait = HBHOptUnknown(otype=0x1E, optdata=b"\x13\x88" * 4)
    for name, chain in (
        ("hop-by-hop options", IPv6ExtHdrHopByHop(options=[PadN(optdata=bytes(4))])),
        ("destination options", IPv6ExtHdrDestOpt(options=[bait])),
        ("routing header", IPv6ExtHdrRouting(type=0, segleft=0, addresses=["2001:db8::99"])),
        ("three headers", IPv6ExtHdrHopByHop(options=[PadN(optdata=bytes(4))]) / IPv6ExtHdrRouting(segleft=0) / IPv6ExtHdrDestOpt()),
        ("atomic fragment", IPv6ExtHdrFragment(id=4)),
    ):
        to(f"{name}, tcp 5000", 2, chain / TCP(sport=40000, dport=5000, flags="S"))
        to(f"{name}, tcp 80", 3, chain / TCP(sport=40000, dport=80, flags="S"))
        to(f"{name}, error", 2, chain / unreachable(quote(TCP(sport=5000, dport=80))), src=ROUTER)
    inner = bytes(IPv6(src=POD, dst=PEER, hlim=60) / IPv6ExtHdrDestOpt(options=[bait]) / TCP(sport=5000, dport=80))
    to("error about a packet with destination options", 2, unreachable(Raw(inner)), src=ROUTER)
else:
    # Read as ports, the first bytes of these options would be 5000.
    for name, options in (
        ("record route", [IPOption_RR(routers=["19.136.19.136", "19.136.19.136"])]),
        ("timestamp", [IPOption_Timestamp(pointer=9, timestamp=0x13881388), IPOption_NOP()]),
        ("no operation", [IPOption_NOP(), IPOption_NOP(), IPOption_NOP(), IPOption_NOP()]),
        ("forty bytes", [IPOption_NOP()] * 40),
    ):
        to(f"{name}, tcp 5000", 2, TCP(sport=40000, dport=5000, flags="S"), options=options)
        to(f"{name}, tcp 80", 3, TCP(sport=40000, dport=80, flags="S"), options=options)
    options = [IPOption_RR(routers=["19.136.19.136", "19.136.19.136"])]
    to("error about a packet with options", 2, unreachable(quote(TCP(sport=5000, dport=80), options=options)), src=ROUTER)

# Flows that the pod begins.
DNS = UDP(sport=40000, dport=53) / DATA
ANSWER = UDP(sport=53, dport=40000) / DATA
ABOUT = unreachable(quote(DNS))
out("then the memif asks", 2, DNS)
out("then the tun asks", 3, DNS)
to("then the memif is answered", 2, ANSWER)
to("then the tun is answered", 3, ANSWER)
to("then the memif is told of an error", 2, ABOUT, src=ROUTER)
to("then the tun is told of an error", 3, ABOUT, src=ROUTER)
to("then another flow is answered", 3, UDP(sport=54, dport=40000) / DATA)
out("then the memif connects", 2, TCP(sport=40000, dport=80, flags="S"))
to("then the memif is connected", 2, TCP(sport=80, dport=40000, flags="SA"))
to("then the tun is connected", 3, TCP(sport=80, dport=40000, flags="SA"))
out("then the memif answers from a port of the split", 2, TCP(sport=5000, dport=80, flags="SA"))
out("then the memif pings", 2, echo("request", 77))
to("then the memif's ping is answered", 2, echo("reply", 77))
to("then the tun's ping is answered", 3, echo("reply", 77))
to("then the peer pings under the same number", 3, echo("request", 77))


# Fragments.
def fragment(name, tx_if, number, offset, more, payload):
    if V6:
        to(name, tx_if, IPv6ExtHdrFragment(id=number, offset=offset // 8, m=more, nh=17) / payload)
    else:
        to(name, tx_if, payload, id=number, flags="MF" if more else 0, frag=offset // 8, proto=17)


def first(port):
    return UDP(sport=40000, dport=port, len=200, chksum=1) / Raw(bytes(56))


LATER = Raw(b"\x13\x88\x17\xc1" * 16)
fragment("then first", 2, 9, 0, 1, first(6081))
fragment("then second", 2, 9, 64, 1, LATER)
fragment("then last", 2, 9, 128, 0, LATER)
fragment("then last of none", 3, 9, 128, 0, LATER)
fragment("then last of another", 3, 10, 128, 0, LATER)
fragment("then first of others", 3, 9, 0, 1, first(53))
