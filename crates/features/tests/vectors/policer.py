#!/usr/bin/python3
"""Packets for the tests of policers, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/policer.py 4 > crates/features/tests/vectors/policer4.txt   (likewise 6, and l2 > …/policer-l2.txt)

4 and 6: the topology of `src/ip/topology.rs`. Host A (interface 2) begins, host B is behind interface 3, which has no link-layer headers. Packets
come with the DSCP that the row's name says, and leave with 46, one hop less and the same ECN.
l2: frames of interface 1, which is cross-connected to 2, and packets of 3, to 4; those that are IP leave with DSCP 46 and are else unchanged.
"""

import sys

from scapy.layers.inet import IP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw

EF = 46
MACS = {"dst": "02:fe:00:00:00:02", "src": "02:00:00:00:02:02"}
BACK = {"dst": "02:00:00:00:02:02", "src": "02:fe:00:00:00:02"}


def udp(ports=(40000, 53)):
    return UDP(sport=ports[0], dport=ports[1]) / Raw(b"payload")


def ip4(dscp, ecn=0, ttl=64, src="10.0.2.2", dst="10.2.0.9", ports=(40000, 53), **more):
    return bytes(IP(src=src, dst=dst, ttl=ttl, id=1, tos=dscp << 2 | ecn, **more) / udp(ports))


def ip6(dscp, ecn=0, ttl=64, src="2001:db8:2::2", dst="2001:db8:1002::9", ports=(40000, 53), **more):
    return bytes(IPv6(src=src, dst=dst, hlim=ttl, tc=dscp << 2 | ecn, fl=0x12345, **more) / udp(ports))


def row(name, rx_if, came, tx_if, left):
    print(f"\nrow {name}\nin {rx_if} {came.hex()}\nout {tx_if} {left.hex()}")


def routed(version):
    ip, kind = (ip6, 0x86DD) if version == "6" else (ip4, 0x0800)
    ends = {"src": "2001:db8:1002::9", "dst": "2001:db8:2::2"} if version == "6" else {"src": "10.2.0.9", "dst": "10.0.2.2"}
    ether = bytes(Ether(**MACS, type=kind))
    for dscp, ecn in [(0, 0), (0, 3), (10, 0), (12, 1), (14, 2), (22, 0), (28, 0), (46, 0), (63, 3)]:
        row(f"dscp {dscp} ecn {ecn}", 2, ether + ip(dscp, ecn), 3, ip(EF, ecn, 63))
    answer = {**ends, "ports": (53, 40000)}
    row("answer", 3, ip(0, **answer), 2, bytes(Ether(**BACK, type=kind)) + ip(EF, ttl=63, **answer))
    row("unmarked", 2, ether + ip(0), 3, ip(0, ttl=63))
    row("another", 2, ether + ip(0, ports=(40001, 53)), 3, ip(EF, ttl=63, ports=(40001, 53)))


def layer2():
    def same(name, head, ip, dscp, ecn=0, ports=(1, 2), **more):
        came, left = (bytes(head) + ip(value, ecn, **more) for value in (dscp, EF))
        row(name, *((ports[0], came, ports[1], left)))

    same("ip4", Ether(**MACS, type=0x0800), ip4, 0)
    same("ip4 with options", Ether(**MACS, type=0x0800), ip4, 12, 3, options=[IPOption_Router_Alert()])
    same("ip6", Ether(**MACS, type=0x86DD), ip6, 9, 1)
    same("tagged ip4", Ether(**MACS) / Dot1Q(vlan=5, type=0x0800), ip4, 63)
    same("twice tagged ip6", Ether(**MACS) / Dot1AD(vlan=5) / Dot1Q(vlan=6, type=0x86DD), ip6, 0)
    same("ip4 without frame", b"", ip4, 0, ports=(3, 4))
    same("ip6 without frame", b"", ip6, 32, ports=(3, 4))
    for name, frame in [
        ("arp", Ether(**MACS) / ARP(psrc="10.0.2.2", pdst="10.0.2.1")),
        ("three tags", Ether(**MACS) / Dot1AD(vlan=5) / Dot1Q(vlan=6) / Dot1Q(vlan=7, type=0x0800) / Raw(ip4(0))),
        ("no ip behind its ethertype", Ether(**MACS, type=0x0800) / Raw(b"\x00" * 46)),
        ("cut in its header", Ether(**MACS, type=0x0800) / Raw(ip4(0)[:11])),
    ]:
        row(name, 1, bytes(frame), 2, bytes(frame))
    options = IPv6ExtHdrDestOpt() / udp()
    came, left = (
        bytes(Ether(**MACS, type=0x86DD) / IPv6(src="2001:db8:2::2", dst="2001:db8:1002::9", tc=dscp << 2) / options) for dscp in (7, EF)
    )
    row("ip6 with extension headers", 1, came, 2, left)


print(f"# Made by policer.py {sys.argv[1]} with scapy.")
layer2() if sys.argv[1] == "l2" else routed(sys.argv[1])
