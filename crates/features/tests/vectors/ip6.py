#!/usr/bin/python3
"""Tables for the tests of IPv6 forwarding, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/ip6.py > crates/features/tests/vectors/ip6.txt

What goes in and what has to come out are built apart from each other, so that the tests compare our bytes with
scapy's and never with our own. The topology is that of `src/ip/topology.rs`.
"""

from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import (
    HBHOptUnknown,
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    Jumbo,
    PadN,
    RouterAlert,
)
from scapy.layers.l2 import Ether
from scapy.packet import Raw

US = {1: "02:fe:00:00:00:01", 2: "02:fe:00:00:00:02", 4: "02:fe:00:00:00:04", 5: "02:fe:00:00:00:05"}
HOST = "02:00:00:00:01:09"  # 2001:db8:1::9, the sender
NEXT = {2: "02:00:00:00:02:02", 4: "02:00:00:00:04:02", 5: "02:00:00:00:05:02"}


def row(name, rx_if, frame, *verdict):
    print(f"\nrow {name}\nin {rx_if} {bytes(frame).hex()}")
    for line in verdict:
        print(line if isinstance(line, str) else f"out {line[0]} {bytes(line[1]).hex()}")


def rx(packet, rx_if=1, dst=None):
    return Ether(dst=dst or US[rx_if], src=HOST, type=0x86DD) / packet


def tx(packet, tx_if=2):
    return tx_if, Ether(dst=NEXT[tx_if], src=US[tx_if], type=0x86DD) / packet


def to(n):
    return f"2001:db8:10{n:02d}::9"


def ip(dst=to(1), hlim=64, src="2001:db8:1::9", **fields):
    return IPv6(src=src, dst=dst, hlim=hlim, **fields)


def data(size):
    return Raw(bytes((7 * i + 1) & 0xFF for i in range(size)))


def udp(size=22):
    return UDP(sport=1234, dport=80) / data(size)


def spoil(packet, at, value):
    """The packet with one byte changed."""
    octets = bytearray(bytes(packet))
    octets[at] = value
    return Raw(bytes(octets))


def padded(frame, size):
    """The frame with bytes behind the packet, as Ethernet's least frame size makes them."""
    return Raw(bytes(frame) + b"\xee" * size)


print("# Made by ip6.py with scapy.")
for size in (0, 2, 30, 66, 67, 200, 1452):
    row(f"forward {size} bytes", 1, rx(ip() / udp(size)), tx(ip(hlim=63) / udp(size)))
for hlim in (2, 255):
    row(f"hop limit {hlim}", 1, rx(ip(hlim=hlim) / udp()), tx(ip(hlim=hlim - 1) / udp()))
for hlim in (0, 1):
    row(f"hop limit {hlim} is used up", 1, rx(ip(hlim=hlim) / udp()), "punt icmp6-error 3 0 0")
row("tcp, class and flow label", 1, rx(ip(tc=0xB9, fl=0x54321) / TCP(sport=1, dport=2) / data(30)),
    tx(ip(tc=0xB9, fl=0x54321, hlim=63) / TCP(sport=1, dport=2) / data(30)))
row("echo request", 1, rx(ip() / ICMPv6EchoRequest(id=1, seq=1, data=b"x" * 56)),
    tx(ip(hlim=63) / ICMPv6EchoRequest(id=1, seq=1, data=b"x" * 56)))
row("padding is cut off", 1, padded(rx(ip() / udp(2)), 16), tx(ip(hlim=63) / udp(2)))
row("padding in the body is cut off", 1, padded(rx(ip() / udp(200)), 16), tx(ip(hlim=63) / udp(200)))
row("no payload", 1, rx(ip(nh=59)), tx(ip(nh=59, hlim=63)))

# headers that aren't believed
good = ip() / udp()
row("shorter than a header", 1, rx(Raw(bytes(good)[:39])), "drop ip6-input too-short")
row("version 5", 1, rx(spoil(good, 0, 0x50)), "drop ip6-input bad-version")
row("payload length above what arrived", 1, rx(ip(plen=31) / udp()), "drop ip6-input bad-payload-length")
jumbo = IPv6ExtHdrHopByHop(options=[Jumbo(jumboplen=100000)])
row("jumbogram", 1, rx(ip(plen=0) / jumbo / udp()), "drop ip6-input jumbo")

# addresses that must not be on a wire
for src in ("::1", "::ffff:10.0.0.1", "ff02::1", "ff0e::1", "::"):
    row(f"source {src}", 1, rx(ip(src=src) / udp()), "drop ip6-input martian-source")
for dst in ("::", "::1", "::ffff:10.0.0.1", "ff01::1", "ff00::1"):
    row(f"destination {dst}", 1, rx(ip(dst=dst) / udp()), "drop ip6-input martian-destination")
for src in ("64:ff9b::1", "fc00::1", "fec0::1"):
    row(f"source {src} is fine", 1, rx(ip(src=src) / udp()), tx(ip(src=src, hlim=63) / udp()))

# to groups
GROUP = "33:33:00:00:00:01"
row("all nodes", 1, rx(ip(dst="ff02::1", hlim=1) / udp(), dst=GROUP), "punt ip6-local")
row("duplicate address detection", 1,
    rx(ip(src="::", dst="ff02::1:ff00:1", hlim=255) / ICMPv6ND_NS(tgt="2001:db8:1::1"), dst="33:33:ff:00:00:01"),
    "punt ip6-local")
row("a group that is routed elsewhere", 1, rx(ip(dst="ff0e::1:2") / udp(), dst="33:33:00:01:00:02"),
    "drop ip6-input multicast")
row("unicast in a multicast frame", 1, rx(ip() / udp(), dst=GROUP), "drop ip6-input link-broadcast")

# link-local addresses
row("our own link-local address", 1, rx(ip(src="fe80::9", dst="fe80::1") / udp()), "punt ip6-local")
row("our link-local address made from the MAC", 1, rx(ip(src="fe80::9", dst="fe80::fe:ff:fe00:1") / udp()), "punt ip6-local")
row("our link-local address of another link", 1, rx(ip(src="fe80::9", dst="fe80::2") / udp()), "drop ip6-lookup link-local")
row("another's link-local address", 1, rx(ip(dst="fe80::22") / udp()), "drop ip6-lookup link-local")
row("from link-local to us", 1, rx(ip(src="fe80::9", dst="2001:db8:2::1") / udp()), "punt ip6-local")
row("from link-local beyond the link", 1, rx(ip(src="fe80::9") / udp()), "punt icmp6-error 1 2 0")
row("from link-local back to the link", 2, rx(ip(src="fe80::22") / udp(), 2), tx(ip(src="fe80::22", hlim=63) / udp()))

# extension headers
hop = IPv6ExtHdrHopByHop(options=[RouterAlert()])
row("hop-by-hop options", 1, rx(ip() / hop / udp()), tx(ip(hlim=63) / hop / udp()))
strange = IPv6ExtHdrHopByHop(options=[HBHOptUnknown(otype=0x9E, optdata=b"ab")])
row("a hop-by-hop option that nobody knows", 1, rx(ip() / strange / udp()), tx(ip(hlim=63) / strange / udp()))
chain = IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)]) / IPv6ExtHdrRouting(addresses=[to(2)]) / IPv6ExtHdrDestOpt()
row("a chain", 1, rx(ip() / chain / udp()), tx(ip(hlim=63) / chain / udp()))
late = IPv6ExtHdrDestOpt() / IPv6ExtHdrHopByHop()
row("hop-by-hop options behind others", 1, rx(ip() / late / udp()), "punt icmp6-error 4 1 40")
row("the first fragment", 1, rx(ip() / IPv6ExtHdrFragment(id=7, m=1) / udp(24)),
    tx(ip(hlim=63) / IPv6ExtHdrFragment(id=7, m=1) / udp(24)))
row("a later fragment", 1, rx(ip() / IPv6ExtHdrFragment(id=7, offset=4, nh=17) / data(24)),
    tx(ip(hlim=63) / IPv6ExtHdrFragment(id=7, offset=4, nh=17) / data(24)))
row("an extension header beyond the packet", 1, rx(ip(nh=60) / Raw(b"\x11\x05" + b"\0" * 14)),
    "drop ip6-input bad-extension")
long = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 200)])
row("extension headers longer than the head", 1, rx(ip() / long / IPv6ExtHdrDestOpt() / udp()),
    tx(ip(hlim=63) / long / IPv6ExtHdrDestOpt() / udp()))
many = IPv6ExtHdrDestOpt() / IPv6ExtHdrDestOpt() / IPv6ExtHdrDestOpt()
row("nine extension headers", 1, rx(ip() / many / many / many / udp()), tx(ip(hlim=63) / many / many / many / udp()))

# where routes lead
row("an own address", 1, rx(ip(dst="2001:db8:2::1") / udp()), "punt ip6-local")
row("an own address, hop limit 1", 1, rx(ip(dst="2001:db8:1::1", hlim=1) / udp()), "punt ip6-local")
row("a neighbour", 1, rx(ip(dst="2001:db8:2::2") / udp()), tx(ip(dst="2001:db8:2::2", hlim=63) / udp()))
row("a neighbour that isn't known", 1, rx(ip(dst="2001:db8:2::77") / udp()), "punt ip6-resolve")
row("a router that isn't known", 1, rx(ip(dst=to(7)) / udp()), "punt ip6-resolve")
row("no route", 1, rx(ip(dst="2001:db8:ffff::1") / udp()), "punt icmp6-error 1 0 0")
row("blackhole", 1, rx(ip(dst=to(3)) / udp()), "drop ip6-lookup blackhole")
row("unreachable", 1, rx(ip(dst=to(4)) / udp()), "punt icmp6-error 1 3 0")
row("prohibited", 1, rx(ip(dst=to(5)) / udp()), "punt icmp6-error 1 1 0")
row("into another VRF", 1, rx(ip(dst=to(6)) / udp()), tx(ip(dst=to(6), hlim=63) / udp(), 4))
row("from another VRF", 4, rx(ip() / udp(), 4), "punt icmp6-error 1 0 0")
row("VRFs that lead to each other", 1, rx(ip(dst=to(10)) / udp()), "drop ip6-lookup loop")
row("an interface that is down", 1, rx(ip(dst=to(11)) / udp()), "punt icmp6-error 1 0 0")

# interfaces without link-layer headers
row("ethernet to ip", 1, rx(ip(dst=to(2)) / udp()), (3, ip(dst=to(2), hlim=63) / udp()))
row("ip to ethernet", 3, ip() / udp(), tx(ip(hlim=63) / udp()))
row("ip to ip", 3, ip(dst=to(2)) / udp(300), (3, ip(dst=to(2), hlim=63) / udp(300)))

# MTU: interface 5 has 1280
row("exactly the MTU", 1, rx(ip(dst=to(8)) / udp(1232)), tx(ip(dst=to(8), hlim=63) / udp(1232), 5))
row("one byte too many", 1, rx(ip(dst=to(8)) / udp(1233)), "punt icmp6-error 2 0 1280")
row("too big and hop limit 1", 1, rx(ip(dst=to(8), hlim=1) / udp(1233)), "punt icmp6-error 3 0 0")
