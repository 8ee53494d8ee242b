#!/usr/bin/python3
"""Packets for the tests of tunnels, built by scapy: one line "name hex" each.

Run:  /usr/bin/python3 crates/features/tests/vectors/tunnel.py > crates/features/tests/vectors/tunnel.txt

What goes in and what has to come out are built apart from each other. Outer source ports of what we send follow from a
hash of ours: they are 49152 here, and the tests put in the one that is expected.
"""

from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, fragment6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Padding, Raw

OURS, PEER = "02:fe:00:00:00:02", "02:00:00:00:02:02"
A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
HASHED = 49152

V4 = {"src": "10.0.2.1", "dst": "10.0.2.2"}
V6 = {"src": "2001:db8:2::1", "dst": "2001:db8:2::2"}
BACK4 = {"src": "10.0.2.2", "dst": "10.0.2.1"}
BACK6 = {"src": "2001:db8:2::2", "dst": "2001:db8:2::1"}


def data(size):
    return Raw(bytes(i & 0xFF for i in range(size)))


def inner(size=40, tos=0, **more):
    """An IPv4 packet in a frame."""
    return Ether(src=A, dst=B) / IP(src="10.1.1.1", dst="10.1.1.2", tos=tos, **more) / UDP(sport=1000, dport=2000) / data(size)


def inner6(size=40, tc=0):
    return Ether(src=A, dst=B) / IPv6(src="fd00::1", dst="fd00::2", tc=tc) / TCP(sport=1000, dport=80) / data(size)


def ip(dst, ttl=64, src="10.1.1.1", size=40, tos=0):
    return IP(src=src, dst=dst, ttl=ttl, tos=tos) / UDP(sport=1000, dport=2000) / data(size)


def vlan_ip(size, ttl=64):
    return IP(src="10.0.4.2", dst="10.21.0.1", flags="DF", ttl=ttl) / UDP(sport=1000, dport=2000) / data(size - 28)


def sent(tunnelled, v6=False, tos=0, dport=4789, **udp):
    """As we send it to the neighbour."""
    frame = Ether(src=OURS, dst=PEER)
    frame /= IPv6(**V6, tc=tos, hlim=64) if v6 else IP(**V4, tos=tos, ttl=64, id=0, flags="DF")
    return frame / UDP(sport=HASHED, dport=dport, **udp) / tunnelled


def received(tunnelled, v6=False, tos=0, dport=4789, ip_more=None, **udp):
    """As the neighbour sends it to us."""
    frame = Ether(src=PEER, dst=OURS)
    frame /= IPv6(**{**BACK6, **(ip_more or {})}, tc=tos) if v6 else IP(**{**BACK4, **(ip_more or {})}, tos=tos)
    return frame / UDP(sport=54321, dport=dport, **udp) / tunnelled


def vxlan(frame, vni=100, **more):
    return VXLAN(vni=vni, **{"flags": "Instance", **more}) / frame


def geneve(packet, vni=100, options=(), **more):
    # scapy 2.5 makes a length of its own that loses a bit of the longest.
    words = sum(len(one) for one in options) // 4
    return GENEVE(vni=vni, options=list(options), **{"proto": 0x6558, "optionlen": words, **more}) / packet


def option(kind, words=1, length=None):
    return GeneveOptions(classid=0x0102, type=kind, length=words if length is None else length, data=bytes([0xAB]) * (4 * words))


def damaged(frame, at=-1):
    """One bit is another: the last byte's, which is in what is carried, unless another is said."""
    octets = bytearray(bytes(frame))
    octets[at] ^= 1
    return Raw(bytes(octets))


PLAIN, LONG = inner(), inner(1400)
TAGGED = Ether(src=A, dst=B) / Dot1Q(vlan=7) / IP(src="10.1.1.1", dst="10.1.1.2", tos=0x02) / UDP(sport=1000, dport=2000) / data(40)
ASKED = Ether(src=A, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=A, psrc="10.1.1.1", pdst="10.1.1.2")
MANY = [option(1, 31), option(2, 30)]  # 252 bytes with their headers
SUM0 = {"chksum": 0}

FRAMES = {
    "plain": PLAIN, "long": LONG, "tagged": TAGGED, "asked": ASKED, "six": inner6(), "six-long": inner6(1300),
    "tiny": Raw(bytes.fromhex("020000000001")),
    # RFC 7348 over IPv4
    "vxlan4-plain": sent(vxlan(PLAIN), **SUM0),
    "vxlan4-long": sent(vxlan(LONG), **SUM0),
    "vxlan4-tagged": sent(vxlan(TAGGED), tos=0x02, **SUM0),
    "vxlan4-asked": sent(vxlan(ASKED), **SUM0),
    "vxlan4-six": sent(vxlan(inner6()), **SUM0),
    "vxlan4-tiny": sent(vxlan(Raw(bytes.fromhex("020000000001"))), **SUM0),
    "ef-ect1": inner(tos=0xB9), "six-af-ce": inner6(tc=0x2B),
    "vxlan4-ef-ect1": sent(vxlan(inner(tos=0xB9)), tos=0x01, **SUM0),
    "vxlan4-six-af-ce": sent(vxlan(inner6(tc=0x2B)), tos=0x03, **SUM0),
    "from-vxlan4-plain": received(vxlan(PLAIN), **SUM0),
    "from-vxlan4-summed": received(vxlan(PLAIN)),
    "from-vxlan4-reserved": received(Raw(bytes.fromhex("ffffffff000064ff")) / PLAIN, **SUM0),
    "from-vxlan4-long": received(vxlan(LONG), **SUM0),
    "from-vxlan4-six-long": received(vxlan(inner6(1300)), **SUM0),
    "from-vxlan4-asked": received(vxlan(ASKED), **SUM0),
    "from-vxlan4-tiny": received(vxlan(Raw(bytes.fromhex("020000000001"))), **SUM0),
    "from-vxlan4-options": received(vxlan(PLAIN), ip_more={"options": b"\x01" * 40}, **SUM0),
    "from-vxlan4-padded": received(vxlan(PLAIN), **SUM0) / Padding(bytes(20)),
    "from-vxlan4-datagram-padded": received(vxlan(Raw(bytes(PLAIN) + bytes(20))), len=8 + 8 + len(PLAIN), **SUM0),
    "from-vxlan4-vni-7": received(vxlan(PLAIN, 7), **SUM0),
    "from-vxlan4-vni-101": received(vxlan(PLAIN, 101), **SUM0),
    "from-vxlan4-stranger": received(vxlan(PLAIN), ip_more={"src": "10.0.2.3"}, **SUM0),
    "from-vxlan4-invalid": received(vxlan(PLAIN, flags=0), **SUM0),
    "from-vxlan4-empty": received(VXLAN(vni=100, flags="Instance"), **SUM0),
    "from-vxlan4-cut": received(Raw(bytes([8, 0, 0, 0, 0, 0])), **SUM0),
    "from-vxlan4-udp-short": received(vxlan(PLAIN), len=7, **SUM0),
    "from-vxlan4-udp-long": received(vxlan(PLAIN), len=2000, **SUM0),
    "from-port-4790": received(vxlan(PLAIN), dport=4790, **SUM0),
    # RFC 6040
    "from-vxlan4-ce": received(vxlan(PLAIN), tos=3, **SUM0),
    "from-vxlan4-ce-ef-ect1": received(vxlan(inner(tos=0xB9)), tos=3, **SUM0),
    "ef-ce": inner(tos=0xBB),
    "from-vxlan4-ce-six-af-ect0": received(vxlan(inner6(tc=0x2A)), tos=3, **SUM0),
    "from-vxlan4-ect1-ect0": received(vxlan(inner(tos=2)), tos=1, **SUM0),
    "ect1": inner(tos=1),
    # over IPv6, where ours have checksums (RFC 8200 section 8.1), and others may have none (RFC 6935)
    "vxlan6-plain": sent(vxlan(PLAIN), v6=True),
    "vxlan6-long": sent(vxlan(inner(1300)), v6=True), "long-1300": inner(1300),
    "vxlan6-odd": sent(vxlan(inner(1301)), v6=True), "long-1301": inner(1301),
    "from-vxlan6-plain": received(vxlan(PLAIN), v6=True),
    "from-vxlan6-zero": received(vxlan(PLAIN), v6=True, **SUM0),
    "from-vxlan6-six-long": received(vxlan(inner6(1300)), v6=True),
    "from-vxlan6-ce-ef-ect1": received(vxlan(inner(tos=0xB9)), v6=True, tos=3),
    "from-vxlan6-vni-7": received(vxlan(PLAIN, 7), v6=True),
    "from-vxlan6-stranger": received(vxlan(PLAIN), v6=True, ip_more={"src": "2001:db8:2::3"}),
    "from-vxlan6-extended": Ether(src=PEER, dst=OURS) / IPv6(**BACK6) / IPv6ExtHdrDestOpt() / UDP(sport=54321, dport=4789) / vxlan(PLAIN),
    # RFC 8926
    "geneve4-plain": sent(geneve(PLAIN), dport=6081, **SUM0),
    "from-geneve4-plain": received(geneve(PLAIN), dport=6081, **SUM0),
    "from-geneve4-option": received(geneve(PLAIN, options=[option(0x7F)]), dport=6081, **SUM0),
    "from-geneve4-many": received(geneve(PLAIN, options=MANY), dport=6081, **SUM0),
    "from-geneve4-many-long": received(geneve(LONG, options=MANY), dport=6081, **SUM0),
    "from-geneve6-many-long": received(geneve(LONG, options=MANY), v6=True, dport=6081),
    "from-geneve4-critical": received(geneve(PLAIN, options=[option(1), option(0x80)], critical=1), dport=6081, **SUM0),
    "from-geneve4-many-critical": received(geneve(PLAIN, options=[option(1, 31), option(0x82, 30)], critical=1), dport=6081, **SUM0),
    "from-geneve4-bad-options": received(geneve(PLAIN, options=[option(1, length=9)]), dport=6081, **SUM0),
    "from-geneve4-version-1": received(geneve(PLAIN, version=1), dport=6081, **SUM0),
    "from-geneve4-control": received(geneve(PLAIN, oam=1), dport=6081, **SUM0),
    "from-geneve4-ip": received(geneve(ip("10.6.0.1"), proto=0x0800), dport=6081, **SUM0),
    "from-geneve4-cut": received(GENEVE(vni=100, proto=0x6558, optionlen=4) / Raw(bytes(12)), dport=6081, **SUM0),
    "from-geneve4-vni-7": received(geneve(PLAIN, 7), dport=6081, **SUM0),
    # RFC 8926 section 3.3 and RFC 7348 section 5: damaged on the way, in what is carried or in the headers; and without checksums
    "from-geneve4-summed": received(geneve(PLAIN), dport=6081),
    "from-geneve4-summed-long": received(geneve(LONG, options=MANY), dport=6081),
    "from-geneve4-damaged": damaged(received(geneve(PLAIN), dport=6081)),
    "from-geneve4-damaged-long": damaged(received(geneve(LONG, options=MANY), dport=6081)),
    "from-geneve4-damaged-option": damaged(received(geneve(PLAIN, options=[option(1, 3)]), dport=6081), 14 + 20 + 8 + 8 + 6),
    "from-geneve4-zero-damaged": damaged(received(geneve(PLAIN), dport=6081, **SUM0)),
    "plain-damaged": damaged(PLAIN),
    "from-geneve6-plain": received(geneve(PLAIN), v6=True, dport=6081),
    "from-geneve6-long": received(geneve(LONG), v6=True, dport=6081),
    "from-geneve6-damaged": damaged(received(geneve(PLAIN), v6=True, dport=6081)),
    "from-geneve6-zero": received(geneve(PLAIN), v6=True, dport=6081, **SUM0),
    "from-geneve6-zero-103": received(geneve(PLAIN, 103), v6=True, dport=6081, **SUM0),
    "from-geneve6-summed-103": received(geneve(PLAIN, 103), v6=True, dport=6081),
    "from-geneve6-damaged-103": damaged(received(geneve(PLAIN, 103), v6=True, dport=6081)),
    "from-vxlan4-damaged": damaged(received(vxlan(LONG))),
    "from-vxlan6-damaged": damaged(received(vxlan(PLAIN), v6=True)),
    # Geneve with IP packets: tunnel 200 of VRF 1, where 10.6/16 is behind interface 4's neighbour and 10.20/16 behind the tunnel
    "from-geneve4-200": received(geneve(ip("10.6.0.1"), 200, proto=0x0800), dport=6081, **SUM0),
    "routed-from-200": Ether(src="02:fe:00:00:00:04", dst="02:00:00:00:04:02") / ip("10.6.0.1", 63),
    "from-geneve4-200-frame": received(geneve(PLAIN, 200), dport=6081, **SUM0),
    "to-200": Ether(src="02:00:00:00:04:02", dst="02:fe:00:00:00:04") / ip("10.20.0.1", tos=0xB8),
    "geneve4-200": sent(geneve(ip("10.20.0.1", 63, tos=0xB8), 200, proto=0x0800), tos=0xB8, dport=6081, **SUM0),
    "to-200-big": Ether(src="02:00:00:00:04:02", dst="02:fe:00:00:00:04") / IP(src="10.0.4.2", dst="10.20.0.1", flags="DF") / ICMP() / data(1200),
    # VLAN 7 in tunnel 10, of VRF 1 too: MTU 1446; 10.21/16 is behind its neighbour
    "to-vlan": Ether(src="02:00:00:00:04:02", dst="02:fe:00:00:00:04") / vlan_ip(1446),
    "vxlan4-vlan": sent(vxlan(Ether(src="02:fe:00:00:00:28", dst="02:00:00:00:28:02") / Dot1Q(vlan=7) / vlan_ip(1446, 63)), **SUM0),
    "to-vlan-big": Ether(src="02:00:00:00:04:02", dst="02:fe:00:00:00:04") / vlan_ip(1447),
    # too big for the way
    "frame-1250": inner(1250 - 42), "frame-250": inner(250 - 42),
}


def pieces():
    """A tunnel's packet in fragments (RFC 7348 section 4.3: none of ours, but others may send some)."""
    whole = received(vxlan(LONG), **SUM0)
    whole4 = fragment(IP(bytes(whole[IP])), 600)
    for number, piece in enumerate(whole4):
        yield f"from-vxlan4-long-piece-{number}", Ether(src=PEER, dst=OURS) / piece
    six = IPv6(**BACK6) / IPv6ExtHdrFragment(id=7) / UDP(sport=54321, dport=4789) / vxlan(LONG)
    for number, piece in enumerate(fragment6(six, 1280)):
        yield f"from-vxlan6-long-piece-{number}", Ether(src=PEER, dst=OURS) / piece


# Tunnels that are routed where their own ends are: format, IP version, whether frames are carried, and network identifier.
# 55 is a member of a bridge whose routed leg has the MAC address 02:fe:00:00:00:38.
NESTED = {
    50: (vxlan, False, True, 300), 51: (vxlan, True, True, 300), 52: (geneve, False, True, 300), 53: (geneve, True, True, 300),
    54: (geneve, False, False, 301), 55: (vxlan, False, True, 302),
}


def nested(tunnels, **innermost):
    """A packet to 10.1.0.1 within these tunnels, the first one outermost."""
    packet = ip("10.1.0.1", **innermost)
    for tunnel in reversed(tunnels):
        kind, v6, ethernet, vni = NESTED[tunnel]
        if ethernet:
            mac = 56 if tunnel == 55 else tunnel
            packet = Ether(src=PEER, dst=f"02:fe:00:00:00:{mac:02x}") / packet
        else:
            packet = geneve(packet, vni, proto=0x86DD if isinstance(packet, IPv6) else 0x0800)
        if ethernet:
            packet = kind(packet, vni)
        udp = UDP(sport=54321, dport=4789 if kind is vxlan else 6081, **({} if v6 else SUM0)) / Raw(bytes(packet))
        packet = (IPv6(**BACK6) if v6 else IP(**BACK4)) / udp
    return Ether(src=PEER, dst=OURS) / packet


def all_nested():
    yield "forwarded-10.1", Ether(src=OURS, dst=PEER) / ip("10.1.0.1", 63)
    # Each format in itself, and any mix, also by way of a bridge.
    for tunnel in NESTED:
        for depth in (4, 5):
            yield f"nested-{depth}-{tunnel}", nested([tunnel] * depth)
    for first in range(6):
        mix = [50 + (first + step) % 6 for step in range(5)]
        yield f"nested-4-mix-{first}", nested(mix[:4])
        yield f"nested-5-mix-{first}", nested(mix)


if __name__ == "__main__":
    print("# Made by tunnel.py; don't edit.")
    for name, frame in [*FRAMES.items(), *pieces(), *all_nested()]:
        print(name, bytes(frame).hex())
