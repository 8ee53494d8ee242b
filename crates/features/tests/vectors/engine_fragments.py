#!/usr/bin/python3
"""Datagrams in fragments that visit an engine, built by scapy: one line "name hex" each; fragments are numbered from 0.

Run:  /usr/bin/python3 crates/features/tests/vectors/engine_fragments.py > crates/features/tests/vectors/engine_fragments.txt

The topology is that of `src/ip/topology.rs`; the engine lies between interfaces 1 and 5. Each datagram is there as it comes, as the engine sees its parts
(`seen`) or, put together, the whole (`whole`: with IPv6, that keeps its fragment header), and as it leaves. Client A (interface 2) is behind a pool's address, or
asks a VIP; B is behind interface 3.
"""

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, PadN
from scapy.layers.l2 import Ether
from scapy.packet import Raw

MACS = {1: "02:fe:00:00:00:01", 2: "02:fe:00:00:00:02", 5: "02:fe:00:00:00:05"}
NEIGHBOUR = "02:00:00:00:02:02"
POOL, VIP = "192.0.2.1", {4: "10.96.0.1", 6: "fd96::1"}
A, B = {4: "10.0.2.2", 6: "2001:db8:2::2"}, {4: "10.2.0.9", 6: "2001:db8:1002::9"}
ID = 7
#: What fits into 1500 bytes.
STEP = {4: 1480, 6: 1448}


def data(size):
    return Raw(bytes((7 * i + i // 256) & 0xFF for i in range(size)))


def framed(version, dst, src, packet):
    return bytes(Ether(dst=dst, src=src, type=0x0800 if version == 4 else 0x86DD)) + packet


def part(version, src, dst, ttl, payload, offset, more, headers=None):
    """A fragment of so many bytes from `offset` on."""
    if version == 4:
        return bytes(IP(src=src, dst=dst, ttl=ttl, id=ID, proto=17, flags="MF" if more else 0, frag=offset // 8) / Raw(payload))
    packet = IPv6(src=src, dst=dst, hlim=ttl)
    if headers:
        packet /= headers
    return bytes(packet / IPv6ExtHdrFragment(nh=17, id=ID, offset=offset // 8, m=int(more)) / Raw(payload))


def parts(version, src, dst, ttl, payload, step=None, headers=None):
    step = step or (STEP[version] if headers is None else 1424)
    ends = range(0, len(payload), step)
    return [part(version, src, dst, ttl, payload[at : at + step], at, at + step < len(payload), headers) for at in ends]


def upper(version, src, dst, sport, dport, size):
    """A UDP datagram, its checksum in place."""
    ip = IP(src=src, dst=dst) if version == 4 else IPv6(src=src, dst=dst)
    return bytes(ip / UDP(sport=sport, dport=dport) / data(size))[20 if version == 4 else 40 :]


def show(name, frames):
    for at, frame in enumerate(frames):
        print(f"{name}/{at}", frame.hex())


def datagram(name, version, near, own, far, size=4000, headers=None):
    """`near`: A's endpoint; `own`: whom A asks; `far`: A and B as B sees them. There and, as an answer, back."""
    ways = ((name, (near, own), (near, own), far), (f"{name}-answer", far[::-1], (own, near), (own, near)))
    for words, came, seen, left in ways:
        there = words == name
        (src, dst), (a, b), (x, y) = came, seen, left
        come = parts(version, src[0], dst[0], 64, upper(version, src[0], dst[0], src[1], dst[1], size), headers=headers)
        visit = upper(version, a[0], b[0], a[1], b[1], size)
        go = parts(version, x[0], y[0], 63, upper(version, x[0], y[0], x[1], y[1], size), headers=headers)
        to, by = (MACS[5], MACS[1]) if there else (MACS[1], MACS[5])
        show(f"{words}/came", [framed(version, MACS[2], NEIGHBOUR, one) for one in come] if there else come)
        show(f"{words}/seen", [framed(version, to, by, one) for one in parts(version, a[0], b[0], 64, visit, headers=headers)])
        whole = parts(version, a[0], b[0], 64, visit, len(visit), headers)
        show(f"{words}/whole", [framed(version, to, by, one) for one in whole])
        show(f"{words}/left", go if there else [framed(version, NEIGHBOUR, MACS[2], one) for one in go])


def bad(name, version, pieces):
    """Parts of a datagram from A to B that comes to nothing: offset, length, whether more follow."""
    whole = upper(version, A[version], B[version], 40000, 53, 65000)
    come = [part(version, A[version], B[version], 64, whole[at : at + size] or whole[:size], at, more) for at, size, more in pieces]
    show(f"{name}{version}/came", [framed(version, MACS[2], NEIGHBOUR, one) for one in come])


print("# Made by engine_fragments.py with scapy; don't edit.")
for version in (4, 6):
    a, b = (A[version], 40000), (B[version], 53)
    datagram(f"plain{version}", version, a, b, (a, b))
    far = ((A[version], 40000), (B[version], 8080))
    datagram(f"vip{version}", version, a, (VIP[version], 80), far)
    bad("overlap", version, [(0, 800, True), (792, 800, True), (1592, 100, False)])
    bad("twice", version, [(0, 800, True), (0, 800, True)])
    bad("last-missing", version, [(0, 800, True), (800, 800, True)])
    bad("many", version, [(8 * at, 8, True) for at in range(130)])
    bad("large", version, [(0, 800, True), (65528, 800, False)])
datagram("nat4", 4, (A[4], 40000), (B[4], 53), ((POOL, 5000), (B[4], 53)))
options = IPv6ExtHdrHopByHop(options=[PadN(optdata=b"x" * 4)]) / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"x" * 12)])
datagram("headers6", 6, (A[6], 40000), (B[6], 53), ((A[6], 40000), (B[6], 53)), 2000, options)
