#!/usr/bin/python3
"""Packets for the tests of direct server return, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/direct.py 4 > crates/features/tests/vectors/direct4.txt   (likewise 6)

The topology is that of `src/ip/topology.rs`. Client A (interface 2) asks the VIP; backend B is the neighbour of interface 5, and gets what A has
sent, at its link-layer address: nothing but the time to live is another. A row's name says what it is; the tests send rows one after the other.
"""

import sys

from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import (
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrFragment,
    fragment6,
)
from scapy.layers.l2 import ARP, Ether
from scapy.layers.sctp import SCTP, SCTPChunkInit
from scapy.packet import Raw

V6 = sys.argv[1] == "6"
A, B = ("2001:db8:2::2", "2001:db8:5::2") if V6 else ("10.0.2.2", "10.0.5.2")
#: One whose link-layer address isn't known, and ours beside it.
SILENT, OWN = ("2001:db8:5::9", "2001:db8:5::1") if V6 else ("10.0.5.9", "10.0.5.1")
VIP, PORT, CLIENT = "fd96::1" if V6 else "10.96.0.1", 80, 40000
#: A router near A, and our address there.
NEAR, OWN_NEAR = ("2001:db8:1001::1", "2001:db8:2::1") if V6 else ("10.1.0.1", "10.0.2.1")
#: Link-layer addresses by interface: ours and the neighbour's.
MACS = {n: (f"02:fe:00:00:00:0{n}", f"02:00:00:00:0{n}:02") for n in (2, 5)}
SILENT_MAC = "02:00:00:00:05:09"
DATA = Raw(b"payload")


def ip(src, dst, ttl, payload):
    return bytes((IPv6(src=src, dst=dst, hlim=ttl) if V6 else IP(src=src, dst=dst, ttl=ttl, id=1)) / payload)


def comes(n, packet):
    ours, other = MACS[n]
    return bytes(Ether(dst=ours, src=other, type=0x86DD if V6 else 0x0800)) + packet


def leaves(n, packet, to=None):
    ours, other = MACS[n]
    return bytes(Ether(dst=to or other, src=ours, type=0x86DD if V6 else 0x0800)) + packet


def row(name, rx_if, came, tx_if, left):
    print(f"\nrow {name}\nin {rx_if} {came.hex()}\nout {tx_if} {left.hex()}")


def there(name, make, src=A):
    row(name, 2, comes(2, ip(src, VIP, 64, make)), 5, leaves(5, ip(src, VIP, 63, make)))


def tcp(flags, seq, ack=0, data=b""):
    return TCP(sport=CLIENT, dport=PORT, flags=flags, seq=seq, ack=ack, window=1000) / Raw(data)


def udp(sport=CLIENT, dport=PORT):
    return UDP(sport=sport, dport=dport) / DATA


print("# Made by direct.py with scapy.")
there("udp", udp())
there("sctp", SCTP(sport=CLIENT, dport=PORT, tag=7) / SCTPChunkInit(init_tag=5))
# A connection of which one side is seen: the server's numbers begin with 7001.
there("tcp syn", tcp("S", 1000))
there("tcp ack", tcp("A", 1001, 7001))
there("tcp data", tcp("PA", 1001, 7001, b"x" * 100))
there("tcp more", tcp("PA", 1101, 500_001, b"x" * 100))
there("tcp fin", tcp("FA", 1201, 900_000))
there("tcp last ack", tcp("A", 1202, 900_001))
there("tcp rst", tcp("R", 1201))
# The server has forgotten it, and the client takes the same port again: with numbers that the first connection can't have.
there("tcp syn of another", tcp("S", 0xA000_0000))
there("tcp ack of another", tcp("A", 0xA000_0001, 0x9000_0000))
there("tcp data of another", tcp("PA", 0xA000_0001, 0x9000_0000, b"x" * 100))
# An answer that comes here all the same passes as it is.
answer = TCP(sport=PORT, dport=CLIENT, flags="SA", seq=7000, ack=1001, window=1000)
row("tcp syn answer", 5, comes(5, ip(VIP, A, 64, answer)), 2, leaves(2, ip(VIP, A, 63, answer)))
# A router near A says that the answer is too long: the server has to hear of it.
quote = Raw(ip(VIP, A, 60, udp(PORT, CLIENT))[: 48 if V6 else 28])
error = (ICMPv6PacketTooBig(mtu=1280) if V6 else ICMP(type=3, code=4, nexthopmtu=1280)) / quote
there("error about an answer", error, NEAR)
# Time is used up here: A is told of what it has sent.
came = ip(A, VIP, 1, udp())
if V6:
    told = bytes(IPv6(src=OWN_NEAR, dst=A, hlim=64) / ICMPv6TimeExceeded() / Raw(came))
else:
    told = bytes(IP(src=OWN_NEAR, dst=A, ttl=64, id=0, tos=0xC0, flags="DF") / ICMP(type=11, code=0) / Raw(came))
row("expires", 2, comes(2, came), 2, leaves(2, told))
# In three parts.
long = UDP(sport=CLIENT, dport=PORT) / Raw(b"0123456789abcdef" * 9)
for n in range(3):
    if V6:
        sides = [bytes(fragment6(IPv6(src=A, dst=VIP, hlim=ttl) / IPv6ExtHdrFragment(id=9) / long, 104)[n]) for ttl in (64, 63)]
    else:
        sides = [bytes(fragment(IP(src=A, dst=VIP, ttl=ttl, id=9) / long, 56)[n]) for ttl in (64, 63)]
    row(f"part {n + 1}", 2, comes(2, sides[0]), 5, leaves(5, sides[1]))
# By an interface without link-layer headers.
row("udp by a tunnel", 2, comes(2, ip(A, VIP, 64, udp())), 3, ip(A, VIP, 63, udp()))
# A backend that has to be asked for.
if V6:
    group, mac = "ff02::1:ff00:9", "33:33:ff:00:00:09"
    asks = (
        Ether(dst=mac, src=MACS[5][0])
        / IPv6(src=OWN, dst=group, hlim=255)
        / ICMPv6ND_NS(tgt=SILENT)
        / ICMPv6NDOptSrcLLAddr(lladdr=MACS[5][0])
    )
    says = Ether(dst=MACS[5][0], src=SILENT_MAC) / IPv6(src=SILENT, dst=OWN, hlim=255)
    says = says / ICMPv6ND_NA(R=0, S=1, O=1, tgt=SILENT) / ICMPv6NDOptDstLLAddr(lladdr=SILENT_MAC)
else:
    asks = Ether(dst="ff:ff:ff:ff:ff:ff", src=MACS[5][0]) / ARP(op=1, hwsrc=MACS[5][0], psrc=OWN, pdst=SILENT)
    says = Ether(dst=MACS[5][0], src=SILENT_MAC) / ARP(op=2, hwsrc=SILENT_MAC, psrc=SILENT, hwdst=MACS[5][0], pdst=OWN)
row("who has it", 5, bytes(says), 5, bytes(asks))
row("udp when it has answered", 2, comes(2, ip(A, VIP, 64, udp())), 5, leaves(5, ip(A, VIP, 63, udp()), SILENT_MAC))
