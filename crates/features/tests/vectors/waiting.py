#!/usr/bin/python3
"""Frames for the tests of packets that wait for their neighbour, built by scapy: one line "name hex" each.

Run:  /usr/bin/python3 crates/features/tests/vectors/waiting.py > crates/features/tests/vectors/waiting.txt

The topology is that of `src/ip/topology.rs`: 10.0.2.2 on interface 2 is known, 10.0.1.9 on interface 1 and the router
10.0.2.3 on interface 2 are not.
"""

from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

US1, US2 = "02:fe:00:00:00:01", "02:fe:00:00:00:02"
HOST = "02:00:00:00:01:09"
PEER = "02:00:00:00:02:02"
ROUTER = "02:00:00:00:02:03"
ALL, NONE = "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"
DATA = Raw(bytes(range(200)))


def packet(seq, ttl, dst="10.0.1.9"):
    return IP(src="10.0.2.2", dst=dst, ttl=ttl, id=7) / ICMP(type=8, id=1, seq=seq) / DATA


def arp(src, dst, op, hwsrc, psrc, hwdst, pdst):
    return Ether(src=src, dst=dst) / ARP(op=op, hwsrc=hwsrc, psrc=psrc, hwdst=hwdst, pdst=pdst)


def unreachable(seq):
    return (Ether(src=US2, dst=PEER) / IP(src="10.0.2.1", dst="10.0.2.2", ttl=64, id=0, flags="DF", tos=0xC0)
            / ICMP(type=3, code=1) / packet(seq, 64))


FRAMES = {
    "ping-1": Ether(src=PEER, dst=US2) / packet(1, 64),
    "ping-2": Ether(src=PEER, dst=US2) / packet(2, 64),
    "ping-1-out": Ether(src=US1, dst=HOST) / packet(1, 63),
    "ping-2-out": Ether(src=US1, dst=HOST) / packet(2, 63),
    "who-has": arp(US1, ALL, 1, US1, "10.0.1.1", NONE, "10.0.1.9"),
    "who-has-alone": arp(US1, HOST, 1, US1, "10.0.1.1", NONE, "10.0.1.9"),
    "is-at": arp(HOST, US1, 2, HOST, "10.0.1.9", US1, "10.0.1.1"),
    "unreachable-1": unreachable(1),
    "unreachable-2": unreachable(2),
    "via-router": Ether(src=PEER, dst=US2) / packet(1, 64, "10.7.0.1"),
    "via-router-out": Ether(src=US2, dst=ROUTER) / packet(1, 63, "10.7.0.1"),
    "who-has-router": arp(US2, ALL, 1, US2, "10.0.2.1", NONE, "10.0.2.3"),
    "router-is-at": arp(ROUTER, US2, 2, ROUTER, "10.0.2.3", US2, "10.0.2.1"),
    "asks-us": arp(HOST, ALL, 1, HOST, "10.0.1.9", NONE, "10.0.1.1"),
    "told": arp(US1, HOST, 2, US1, "10.0.1.1", HOST, "10.0.1.9"),
    "claims-ours": arp(HOST, ALL, 1, HOST, "10.0.1.1", NONE, "10.0.1.1"),
    "announcement": arp(US1, ALL, 1, US1, "10.0.1.1", NONE, "10.0.1.1"),
}

if __name__ == "__main__":
    print("# Made by waiting.py; don't edit.")
    for name, frame in FRAMES.items():
        print(name, bytes(frame).hex())
