#!/usr/bin/python3
"""Frames for the tests of the L2 features, built by scapy: one line "name hex" each.

Run:  /usr/bin/python3 crates/features/tests/vectors/l2.py > crates/features/tests/vectors/l2.txt

What goes in and what has to come out are built apart from each other, so that the tests compare our bytes with
scapy's and never with our own.
"""

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import (
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
)
from scapy.layers.l2 import ARP, LLC, STP, Dot1AD, Dot1Q, Dot3, Ether
from scapy.packet import Raw

OURS = "02:fe:00:00:00:01"
SUB = "02:fe:00:00:00:05"
BVI = "02:fe:00:00:00:b1"
A = "02:00:00:00:00:0a"
B = "02:00:00:00:00:0b"
C = "02:00:00:00:00:0c"
EXPERIMENTAL = 0x88B5  # IEEE 802, local experimental ethertype 1

PAYLOAD = Raw(bytes(range(46)))
LONG = Raw(bytes(i & 0xFF for i in range(200)))  # the MTU of the tests


def payload(dst, src=A, data=PAYLOAD):
    """An untagged frame of the experimental ethertype."""
    return Ether(dst=dst, src=src, type=EXPERIMENTAL) / data


def q(dst, *ids, src=A, outer=Dot1Q, data=PAYLOAD, prio=0):
    """A tagged frame, outer id first."""
    frame = Ether(dst=dst, src=src)
    for at, vlan in enumerate(ids):
        frame /= (outer if at == 0 else Dot1Q)(vlan=vlan, prio=prio)
    frame.lastlayer().type = EXPERIMENTAL
    return frame / data


def ip(dst, src=A, ttl=64, size=18):
    """An IPv4 packet in a frame."""
    return Ether(dst=dst, src=src) / IP(src="10.0.0.1", dst="10.0.0.2", ttl=ttl) / UDP(sport=1, dport=2) / Raw(bytes(size))


def arp(psrc="10.0.0.1", pdst="10.0.0.2", src=A, hwsrc=None, dst="ff:ff:ff:ff:ff:ff"):
    """An ARP request."""
    request = ARP(op="who-has", hwsrc=hwsrc or src, psrc=psrc, hwdst="00:00:00:00:00:00", pdst=pdst)
    return Ether(dst=dst, src=src) / request


def ns(target="fd00::2", src="fd00::1", option=A, **fields):
    """A neighbour solicitation, to the group of its target."""
    group = "ff02::1:ff00:" + target[-1]
    frame = Ether(dst="33:33:ff:00:00:0" + target[-1], src=A) / IPv6(src=src, dst=group, hlim=255)
    frame /= ICMPv6ND_NS(tgt=target, **fields)
    return frame / ICMPv6NDOptSrcLLAddr(lladdr=option) if option else frame


FRAMES = {
    # ethernet-input, routed
    "payload": PAYLOAD,
    "to-us": payload(OURS),
    "to-broadcast": payload("ff:ff:ff:ff:ff:ff"),
    "to-multicast": payload("01:00:5e:00:00:05"),
    "to-other": payload(B),
    "long-payload": LONG,
    "long-to-us": payload(OURS, data=LONG),
    "mpls-to-us": Ether(dst=OURS, src=A, type=0x8847) / PAYLOAD,
    "stp": Dot3(dst="01:80:c2:00:00:00", src=A) / LLC() / STP(),
    "lldp": Ether(dst="01:80:c2:00:00:0e", src=A, type=0x88CC) / Raw(bytes.fromhex("0000")),
    # tags
    "vlan-5-to-sub": q(SUB, 5),
    "vlan-5-prio-7-to-sub": q(SUB, 5, prio=7),
    "vlan-5-to-us": q(OURS, 5),
    "vlan-6-to-us": q(OURS, 6),
    "vlan-7-to-sub": q(SUB, 7),
    "vlan-8-to-sub": q(SUB, 8),
    "service-5-to-sub": q(SUB, 5, outer=Dot1AD),
    "qinq-100-200-to-sub": q(SUB, 100, 200, outer=Dot1AD),
    "qinq-100-201-to-sub": q(SUB, 100, 201, outer=Dot1AD),
    "q-100-200-to-sub": q(SUB, 100, 200),
    "vlan-5-inner-9-to-sub": q(SUB, 5, 9),
    "vlan-5-inner-priority-to-sub": q(SUB, 5, 0, prio=3),
    "priority-to-us": q(OURS, 0, prio=5),
    "priority-and-vlan-5-to-sub": q(SUB, 0, 5, prio=5),
    "two-priority-to-us": q(OURS, 0, 0),
    "vlan-4095-to-us": q(OURS, 4095),
    # passed on as frames
    "a-to-b": payload(B),
    "b-to-a": payload(A, src=B),
    "a-to-c": payload(C),
    "c-to-a": payload(A, src=C),
    "a-to-all": payload("ff:ff:ff:ff:ff:ff"),
    "b-to-all": payload("ff:ff:ff:ff:ff:ff", src=B),
    "a-to-group": payload("33:33:00:00:00:01"),
    "a-to-bvi": payload(BVI),
    "b-to-bvi": payload(BVI, src=B),
    "a-to-a": payload(A),
    "bvi-to-b": payload(B, src=BVI),
    "group-to-b": payload(B, src="01:00:5e:00:00:01"),
    "zero-to-b": payload(B, src="00:00:00:00:00:00"),
    "vlan-5-a-to-b": q(B, 5),
    "vlan-8-a-to-b": q(B, 8),
    "vlan-5-a-to-all": q("ff:ff:ff:ff:ff:ff", 5),
    "vlan-7-a-to-b": q(B, 7),
    "vlan-300-a-to-b": q(B, 300),
    "vlan-5-b-to-a": q(A, 5, src=B),
    "qinq-100-200-a-to-b": q(B, 100, 200, outer=Dot1AD),
    "qinq-100-200-a-to-all": q("ff:ff:ff:ff:ff:ff", 100, 200, outer=Dot1AD),
    "long-a-to-b": payload(B, data=LONG),
    "long-a-to-all": payload("ff:ff:ff:ff:ff:ff", data=LONG),
    "longer-a-to-b": payload(B, data=LONG / Raw(b"\x00")),
    "longer-a-to-all": payload("ff:ff:ff:ff:ff:ff", data=LONG / Raw(b"\x00")),
    "long-vlan-300-a-to-b": q(B, 300, data=LONG),
    "long-qinq-300-301-a-to-b": q(B, 300, 301, data=LONG),
    "longer-vlan-300-a-to-b": q(B, 300, data=LONG / Raw(b"\x00")),
    "long-vlan-5-a-to-b": q(B, 5, data=LONG),
    # without a link-layer header
    "ip4": ip(OURS)[IP],
    "ip4-long": ip(OURS, size=172)[IP],
    "ip4-longer": ip(OURS, size=173)[IP],
    # questions for neighbours
    "arp-for-2": arp(),
    "arp-answer-of-2": Ether(dst=A, src=B) / ARP(op="is-at", hwsrc=B, psrc="10.0.0.2", hwdst=A, pdst="10.0.0.1"),
    "arp-answer-to-all": Ether(dst="ff:ff:ff:ff:ff:ff", src=A)
    / ARP(op="is-at", hwsrc=A, psrc="10.0.0.1", hwdst=B, pdst="10.0.0.2"),
    "arp-for-2-padded": arp() / Raw(bytes(18)),
    "arp-for-2-tagged": Ether(dst="ff:ff:ff:ff:ff:ff", src=A) / Dot1Q(vlan=7) / arp()[ARP],
    "arp-for-3": arp(pdst="10.0.0.3"),
    "arp-for-9": arp(pdst="10.0.0.9"),
    "arp-probe-for-2": arp(psrc="0.0.0.0"),
    "arp-gratuitous-2": arp(psrc="10.0.0.2"),
    "arp-for-2-from-b": arp(src=B),
    "arp-for-2-pretending": arp(hwsrc=C),
    "ns-for-2": ns(),
    "ns-for-2-without-option": ns(option=None),
    "na-of-2": Ether(dst=A, src=B)
    / IPv6(src="fd00::2", dst="fd00::1", hlim=255)
    / ICMPv6ND_NA(R=0, S=1, O=0, tgt="fd00::2")
    / ICMPv6NDOptDstLLAddr(lladdr=B),
    "ns-for-3": ns(target="fd00::3"),
    "ns-free-2": ns(src="::", option=None),
    "ns-for-2-pretending": ns(option=C),
    "ns-for-2-bad-checksum": ns(cksum=1),
    "echo-to-group": Ether(dst="33:33:00:00:00:01", src=A) / IPv6(src="fd00::1", dst="ff02::1") / UDP() / PAYLOAD,
}


if __name__ == "__main__":
    print("# Made by l2.py; don't edit.")
    for name, frame in FRAMES.items():
        print(name, bytes(frame).hex())
