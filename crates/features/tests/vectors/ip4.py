#!/usr/bin/python3
"""Tables for the tests of IPv4 forwarding, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/ip4.py > crates/features/tests/vectors/ip4.txt

What goes in and what has to come out are built apart from each other, so that the tests compare our bytes with
scapy's and never with our own. The topology is that of `src/ip/topology.rs`.
"""

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption, IPOption_LSRR, IPOption_Router_Alert, IPOption_RR
from scapy.layers.l2 import Ether
from scapy.packet import Raw

US = {1: "02:fe:00:00:00:01", 2: "02:fe:00:00:00:02", 4: "02:fe:00:00:00:04", 5: "02:fe:00:00:00:05"}
HOST = "02:00:00:00:01:09"  # 10.0.1.9, the sender
NEXT = {2: "02:00:00:00:02:02", 4: "02:00:00:00:04:02", 5: "02:00:00:00:05:02"}


def row(name, rx_if, frame, *verdict):
    print(f"\nrow {name}\nin {rx_if} {bytes(frame).hex()}")
    for line in verdict:
        print(line if isinstance(line, str) else f"out {line[0]} {bytes(line[1]).hex()}")


def rx(packet, rx_if=1, dst=None):
    return Ether(dst=dst or US[rx_if], src=HOST, type=0x0800) / packet


def tx(packet, tx_if=2):
    return tx_if, Ether(dst=NEXT[tx_if], src=US[tx_if], type=0x0800) / packet


def ip(dst="10.1.0.9", ttl=64, src="10.0.1.9", **fields):
    return IP(src=src, dst=dst, ttl=ttl, id=0x1234, **fields)


def data(size):
    return Raw(bytes((7 * i + 1) & 0xFF for i in range(size)))


def udp(size=22):
    return UDP(sport=1234, dport=80) / data(size)


def spoil(packet, at, value):
    """The packet with one byte changed and nothing made right again."""
    octets = bytearray(bytes(packet))
    octets[at] = value
    return Raw(bytes(octets))


def padded(frame, size):
    """The frame with bytes behind the packet, as Ethernet's least frame size makes them."""
    return Raw(bytes(frame) + b"\xee" * size)


print("# Made by ip4.py with scapy.")
for size in (18, 22, 50, 86, 87, 200, 1472):
    row(f"forward {size} bytes", 1, rx(ip() / udp(size)), tx(ip(ttl=63) / udp(size)))
for ttl in (2, 255):
    row(f"ttl {ttl}", 1, rx(ip(ttl=ttl) / udp()), tx(ip(ttl=ttl - 1) / udp()))
for ttl in (0, 1):
    row(f"ttl {ttl} is used up", 1, rx(ip(ttl=ttl) / udp()), "punt icmp4-error 11 0 0")
# The checksum field goes through 0xffff -> 0x0000: ids are chosen so that it is fffe, ff00, feff and ffff's neighbours.
for ident in range(0, 65536, 4099):
    row(f"checksum of id {ident}", 1, rx(IP(src="10.0.1.9", dst="10.1.0.9", id=ident) / udp()),
        tx(IP(src="10.0.1.9", dst="10.1.0.9", id=ident, ttl=63) / udp()))
base = IP(bytes(IP(src="10.0.1.9", dst="10.1.0.9", id=0) / udp())).chksum
for want in (0xFFFE, 0xFEFF, 0xFF00, 0xFEFE, 0x0000, 0x0001):
    ident = (base - want) % 0xFFFF
    first = IP(bytes(IP(src="10.0.1.9", dst="10.1.0.9", id=ident) / udp()))
    row(f"checksum {first.chksum:#06x}", 1, rx(first),
        tx(IP(src="10.0.1.9", dst="10.1.0.9", id=ident, ttl=63) / udp()))
row("tcp, dscp and ecn", 1, rx(ip(tos=0xB9) / TCP(sport=1, dport=2) / data(30)),
    tx(ip(tos=0xB9, ttl=63) / TCP(sport=1, dport=2) / data(30)))
row("icmp", 1, rx(ip() / ICMP(id=1, seq=1) / data(56)), tx(ip(ttl=63) / ICMP(id=1, seq=1) / data(56)))
row("padding is cut off", 1, padded(rx(ip() / udp(2)), 16), tx(ip(ttl=63) / udp(2)))
row("padding in the body is cut off", 1, padded(rx(ip() / udp(200)), 16), tx(ip(ttl=63) / udp(200)))
row("padding that ends in the head is cut off", 1, padded(rx(ip() / udp(80)), 90), tx(ip(ttl=63) / udp(80)))
row("a later fragment", 1, rx(ip(frag=100) / data(40)), tx(ip(frag=100, ttl=63) / data(40)))

# headers that aren't believed
good = ip() / udp()
row("shorter than a header", 1, rx(Raw(bytes(good)[:19])), "drop ip4-input too-short")
row("nothing behind the link-layer header", 1, rx(Raw(b"")), "drop ip4-input too-short")
row("version 5", 1, rx(spoil(good, 0, 0x55)), "drop ip4-input bad-version")
row("header of 4 words", 1, rx(spoil(good, 0, 0x44)), "drop ip4-input bad-header-length")
row("header of 15 words that isn't there", 1, rx(Raw(bytes(spoil(good, 0, 0x4F))[:40])), "drop ip4-input too-short")
row("total length above what arrived", 1, rx(ip(len=51) / udp()), "drop ip4-input bad-total-length")
row("total length below the header", 1, rx(ip(len=19) / udp()), "drop ip4-input bad-total-length")
row("total length of zero", 1, rx(ip(len=0) / udp()), "drop ip4-input bad-total-length")
row("bad checksum", 1, rx(spoil(good, 10, bytes(good)[10] ^ 1)), "drop ip4-input bad-checksum")
for at in (1, 8, 9, 13, 19):
    row(f"byte {at} has changed on the way", 1, rx(spoil(good, at, bytes(good)[at] ^ 0x10)),
        "drop ip4-input bad-checksum")

# addresses that must not be on a wire
for src in ("0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.255", "224.0.0.1", "239.1.1.1", "240.0.0.1",
            "255.255.255.255"):
    row(f"source {src}", 1, rx(ip(src=src) / udp()), "drop ip4-input martian-source")
for dst in ("0.0.0.0", "0.0.0.1", "127.0.0.1", "240.0.0.1", "255.255.255.254"):
    row(f"destination {dst}", 1, rx(ip(dst=dst) / udp()), "drop ip4-input martian-destination")
for src in ("1.0.0.1", "126.255.255.255", "128.0.0.1", "169.254.1.1", "223.255.255.255"):
    row(f"source {src} is fine", 1, rx(ip(src=src) / udp()), tx(ip(src=src, ttl=63) / udp()))

# link-local addresses (RFC 3927): only where a network or route of their own says so, never by a shorter route
row("somebody's link-local address", 4, rx(ip(dst="169.254.7.7") / udp(), 4), "drop ip4-lookup link-local")
row("a service's link-local address", 1, rx(ip(dst="169.254.20.10") / udp()), tx(ip(dst="169.254.20.10", ttl=63) / udp()))
row("what a service answers", 1, rx(ip(src="169.254.20.10") / udp()), tx(ip(src="169.254.20.10", ttl=63) / udp()))

# to all, to groups
ALL = "ff:ff:ff:ff:ff:ff"
row("limited broadcast", 1, rx(ip(dst="255.255.255.255") / udp(), dst=ALL), "punt ip4-local")
row("a host that asks for its address", 1, rx(ip(src="0.0.0.0", dst="255.255.255.255") / udp(), dst=ALL),
    "punt ip4-local")
row("a host without an address sends to one", 1, rx(ip(src="0.0.0.0", dst="10.0.1.1") / udp()),
    "drop ip4-input martian-source")
row("all hosts", 1, rx(ip(dst="224.0.0.1", ttl=1) / udp(), dst="01:00:5e:00:00:01"), "punt ip4-local")
row("a group that is routed elsewhere", 1, rx(ip(dst="239.1.1.1") / udp(), dst="01:00:5e:01:01:01"),
    "drop ip4-input multicast")
row("unicast in a broadcast frame", 1, rx(ip() / udp(), dst=ALL), "drop ip4-input link-broadcast")
for dst in ("10.0.2.255", "10.0.2.0", "10.0.1.255"):
    row(f"directed broadcast {dst}", 1, rx(ip(dst=dst) / udp()), "drop ip4-lookup blackhole")

# options
alert = [IPOption_Router_Alert()]
row("router alert", 1, rx(ip(options=alert) / udp()), tx(ip(options=alert, ttl=63) / udp()))
record = [IPOption_RR(routers=["0.0.0.0"] * 9)]
row("record route, 60 bytes of header", 1, rx(ip(options=record) / udp(100)), tx(ip(options=record, ttl=63) / udp(100)))
row("options and a bad checksum", 1, rx(spoil(ip(options=alert) / udp(), 21, 9)), "drop ip4-input bad-checksum")
row("options and padding", 1, padded(rx(ip(options=alert) / udp(2)), 16), tx(ip(options=alert, ttl=63) / udp(2)))
row("source route", 1, rx(ip(options=[IPOption_LSRR(routers=["10.0.2.2"])]) / udp()), "drop ip4-input source-route")
broken = [IPOption(b"\x01\x01\x07\x03"), IPOption(b"\x04\x44\x22\x05")]
row("an option longer than the header", 1, rx(ip(options=broken) / udp()), "punt icmp4-error 12 0 25")

# where routes lead
row("an own address", 1, rx(ip(dst="10.0.2.1") / udp()), "punt ip4-local")
row("an own address, ttl 1", 1, rx(ip(dst="10.0.1.1", ttl=1) / udp()), "punt ip4-local")
row("a neighbour", 1, rx(ip(dst="10.0.2.2") / udp()), tx(ip(dst="10.0.2.2", ttl=63) / udp()))
row("a neighbour that isn't known", 1, rx(ip(dst="10.0.2.77") / udp()), "punt ip4-resolve")
row("a router that isn't known", 1, rx(ip(dst="10.7.0.1") / udp()), "punt ip4-resolve")
row("no route", 1, rx(ip(dst="192.0.2.1") / udp()), "punt icmp4-error 3 0 0")
row("blackhole", 1, rx(ip(dst="10.3.0.1") / udp()), "drop ip4-lookup blackhole")
row("unreachable", 1, rx(ip(dst="10.4.0.1") / udp()), "punt icmp4-error 3 1 0")
row("prohibited", 1, rx(ip(dst="10.5.0.1") / udp()), "punt icmp4-error 3 13 0")
row("into another VRF", 1, rx(ip(dst="10.6.0.1") / udp()), tx(ip(dst="10.6.0.1", ttl=63) / udp(), 4))
row("from another VRF", 4, rx(ip(dst="10.1.0.9") / udp(), 4), "punt icmp4-error 3 0 0")
row("VRFs that lead to each other", 1, rx(ip(dst="10.10.0.1") / udp()), "drop ip4-lookup loop")
row("an interface that is down", 1, rx(ip(dst="10.11.0.1") / udp()), "punt icmp4-error 3 0 0")

# interfaces without link-layer headers
row("ethernet to ip", 1, rx(ip(dst="10.2.0.1") / udp()), (3, ip(dst="10.2.0.1", ttl=63) / udp()))
row("ip to ethernet", 3, ip() / udp(), tx(ip(ttl=63) / udp()))
row("ip to ip", 3, ip(dst="10.2.0.1") / udp(300), (3, ip(dst="10.2.0.1", ttl=63) / udp(300)))
row("a neighbour on an ip interface", 1, rx(ip(dst="10.0.3.200") / udp()), (3, ip(dst="10.0.3.200", ttl=63) / udp()))

# MTU: interface 5 has 300
row("exactly the MTU", 1, rx(ip(dst="10.8.0.1", flags="DF") / udp(272)),
    tx(ip(dst="10.8.0.1", flags="DF", ttl=63) / udp(272), 5))
row("one byte too many", 1, rx(ip(dst="10.8.0.1", flags="DF") / udp(273)), "punt icmp4-error 3 4 300")
row("a fragment that would end beyond the longest packet isn't cut", 1, rx(ip(dst="10.8.0.1", frag=8150, proto=17) / data(400)),
    "drop ip4-fragment bad-packet")
row("too big and ttl 1", 1, rx(ip(dst="10.8.0.1", flags="DF", ttl=1) / udp(273)), "punt icmp4-error 11 0 0")
