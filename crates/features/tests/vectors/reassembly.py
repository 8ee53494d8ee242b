#!/usr/bin/python3
"""Frames for the tests of reassembly, built by scapy: one line "name hex" each; fragments are numbered from 0.

Run:  /usr/bin/python3 crates/features/tests/vectors/reassembly.py > crates/features/tests/vectors/reassembly.txt

The topology is that of `src/ip/topology.rs`; packets come from 10.0.2.2 and 2001:db8:2::2, whose link-layer address is
known. Identifications of IPv6 replies are 0 here: each is another one.
"""

from scapy.layers.inet import ICMP, IP, UDP, IPOption_RR, fragment
from scapy.layers.inet6 import (
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    ICMPv6NDOptSrcLLAddr,
    ICMPv6ParamProblem,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    PadN,
    RouterAlert,
)
from scapy.layers.l2 import Ether
from scapy.packet import Raw

US = "02:fe:00:00:00:02"
PEER = "02:00:00:00:02:02"

def data(size):
    return Raw(bytes((7 * i + i // 256) & 0xFF for i in range(size)))

def show(name, packets):
    for at, packet in enumerate(packets):
        print(f"{name}/{at}", bytes(packet).hex())

def rx(packets, ethertype=0x0800):
    return [Ether(src=PEER, dst=US, type=ethertype) / packet for packet in packets]

def tx(packets, ethertype=0x0800):
    return [Ether(src=US, dst=PEER, type=ethertype) / packet for packet in packets]

def ping(size, **fields):
    return IP(src="10.0.2.2", dst="10.0.2.1", id=0x4321, **fields) / ICMP(type=8, id=1, seq=1) / data(size)

def pong(size, **fields):
    return IP(src="10.0.2.1", dst="10.0.2.2", id=0x4321, **fields) / ICMP(type=0, id=1, seq=1) / data(size)

def cut6(payload, size, before=None, dst="2001:db8:2::1", src="2001:db8:2::2", nh=58):
    """Fragments of these bytes, their checksum in place."""
    pieces = [payload[at : at + size] for at in range(0, len(payload), size)]
    for at, piece in enumerate(pieces):
        ip = IPv6(src=src, dst=dst, hlim=64)
        if before:
            ip = ip / before
        more = int(at + 1 < len(pieces))
        yield ip / IPv6ExtHdrFragment(nh=nh, offset=at * size // 8, m=more, id=0x1234) / Raw(piece)

def message6(kind, size, src, dst):
    whole = IPv6(bytes(IPv6(src=src, dst=dst) / kind(id=1, seq=1) / data(size)))
    return bytes(whole.payload)

PING6 = ICMPv6EchoRequest, "2001:db8:2::2", "2001:db8:2::1"
PONG6 = ICMPv6EchoReply, "2001:db8:2::1", "2001:db8:2::2"

def ping6(size):
    return message6(PING6[0], size, *PING6[1:])

def pong6(size):
    return message6(PONG6[0], size, *PONG6[1:])

print("# Made by reassembly.py; don't edit.")
for size in (1473, 4000, 9000):
    show(f"ping-{size}", rx(fragment(ping(size), 1480)))
    show(f"pong-{size}", tx(fragment(pong(size), 1480)))
show("ping-tiny", rx(fragment(ping(100), 8)))
show("pong-tiny", tx([pong(100)]))
options = [IPOption_RR(pointer=4, routers=["0.0.0.0"] * 3)]
show("ping-options", rx(fragment(ping(200, options=options), 104)))
show("pong-options", tx([pong(200, options=options)]))
show("udp", rx(fragment(IP(src="10.0.2.2", dst="10.0.2.1", id=5) / UDP(sport=1, dport=2) / data(2000), 1480)))
# 200 bytes whose last fragment begins within the one before
overlap = fragment(ping(192), 104)
overlap[1].frag -= 1
show("overlap", rx(overlap))
# who sent the first fragment is told: 576 bytes in all
first = bytes(fragment(ping(4000), 1480)[0])
late = IP(src="10.0.2.1", dst="10.0.2.2", ttl=64, id=0, flags="DF", tos=0xC0) / ICMP(type=11, code=1) / Raw(first[:548])
show("late-report", tx([late]))
odd = fragment(ping(200), 104)[:1]
odd[0].payload = Raw(bytes(odd[0].payload)[:-1])
del odd[0].len, odd[0].chksum
show("odd", rx([IP(bytes(odd[0]))]))
beyond = IP(src="10.0.2.2", dst="10.0.2.1", id=9, proto=1, frag=8189) / data(40)
show("beyond", rx([beyond]))

for size in (1453, 4000, 9000):
    show(f"ping6-{size}", rx(cut6(ping6(size), 1448), 0x86DD))
    reply = list(cut6(pong6(size), 1448, dst="2001:db8:2::2", src="2001:db8:2::1"))
    for packet in reply:
        packet[IPv6ExtHdrFragment].id = 0
    show(f"pong6-{size}", tx(reply, 0x86DD))
show("ping6-headers", rx(cut6(bytes(IPv6ExtHdrDestOpt(nh=58, options=[PadN(optdata=bytes(4))])) + ping6(200), 104,
                              IPv6ExtHdrHopByHop(options=[RouterAlert()]), nh=60), 0x86DD))
show("pong6-headers", tx([IPv6(src="2001:db8:2::1", dst="2001:db8:2::2", nh=58) / Raw(pong6(200))], 0x86DD))
# later fragments name another protocol: only the first one's counts (RFC 8200 section 4.5)
named = list(cut6(ping6(400), 104))
for packet in named[1:]:
    packet[IPv6ExtHdrFragment].nh = 60
show("ping6-named", rx(named, 0x86DD))
show("pong6-named", tx([IPv6(src="2001:db8:2::1", dst="2001:db8:2::2", nh=58) / Raw(pong6(400))], 0x86DD))
overlap = list(cut6(ping6(192), 104))
overlap[1][IPv6ExtHdrFragment].offset -= 1
show("overlap6", rx(overlap, 0x86DD))
odd = next(cut6(ping6(200), 104))
odd[IPv6ExtHdrFragment].payload = Raw(bytes(odd[IPv6ExtHdrFragment].payload)[:-1])
odd = IPv6(bytes(odd))
del odd.plen
show("odd6", rx([odd], 0x86DD))
first = bytes(next(cut6(ping6(4000), 1448)))
late = IPv6(src="2001:db8:2::1", dst="2001:db8:2::2", hlim=64) / ICMPv6TimeExceeded(code=1) / Raw(first[:1232])
show("late6-report", tx([late], 0x86DD))
back = IPv6(src="2001:db8:2::1", dst="2001:db8:2::2", hlim=64)
show("odd6-report", tx([back / ICMPv6ParamProblem(code=0, ptr=4) / Raw(bytes(odd))], 0x86DD))
beyond = IPv6(src="2001:db8:2::2", dst="2001:db8:2::1") / IPv6ExtHdrFragment(nh=58, offset=8190, m=0, id=9) / data(40)
show("beyond6", rx([beyond], 0x86DD))
show("beyond6-report", tx([back / ICMPv6ParamProblem(code=0, ptr=42) / Raw(bytes(beyond))], 0x86DD))
ns = IPv6(bytes(IPv6(src="2001:db8:2::2", dst="2001:db8:2::1", hlim=255)
                / ICMPv6ND_NS(tgt="2001:db8:2::1") / ICMPv6NDOptSrcLLAddr(lladdr=PEER)))
show("ns", rx(cut6(bytes(ns.payload), 16), 0x86DD))
