#!/usr/bin/python3
"""Tables for the tests of the reverse path filter, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/rpf.py 4 > crates/features/tests/vectors/rpf4.txt   (likewise 6)

The topology is that of `src/ip/topology.rs`; interfaces 1, 2 and 5 are strict (1 with sources that are allowed besides), 3 is loose, 4 has no filter.
"""

import sys

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

V6 = sys.argv[1] == "6"
OTHER = "2001:db8:ffff::1" if V6 else "192.0.2.1"


def ip(src, dst, ttl):
    return IPv6(src=src, dst=dst, hlim=ttl) if V6 else IP(src=src, dst=dst, ttl=ttl, id=1)


def host(interface, number=9):
    return f"2001:db8:{interface}::{number}" if V6 else f"10.0.{interface}.{number}"


def to(n):
    return f"2001:db8:10{n:02d}::9" if V6 else f"10.{n}.0.9"


def row(name, rx_if, src, verdict=None, dst=to(2)):
    """Without a verdict the packet is forwarded by interface 3, which has no link-layer headers."""
    data = UDP(sport=1, dport=2) / Raw(b"payload")
    ethernet = Ether(dst=f"02:fe:00:00:00:0{rx_if}", src="02:00:00:00:00:99", type=0x86DD if V6 else 0x0800)
    frame = ip(src, dst, 64) / data
    print(f"\nrow {name}\nin {rx_if} {bytes(frame if rx_if == 3 else ethernet / frame).hex()}")
    print(verdict or f"out 3 {bytes(ip(src, dst, 63) / data).hex()}")


NODE = f"ip{sys.argv[1]}-rpf"
print(f"# Made by rpf.py {sys.argv[1]} with scapy.")
row("strict, from the connected network", 1, host(1))
row("strict, from a network behind a router", 2, to(1))
row("strict, from a router that isn't resolved", 2, to(7))
row("strict, from another interface's network", 1, host(2), f"drop {NODE} wrong-interface")
row("strict, routed elsewhere", 1, to(1), f"drop {NODE} wrong-interface")
row("strict, from nowhere", 1, OTHER, f"drop {NODE} no-route-back")
row("strict, from a blackhole", 1, to(3), f"drop {NODE} no-route-back")
row("strict, from what is unreachable", 1, to(4), f"drop {NODE} no-route-back")
row("strict, from ourselves", 1, host(2, 1), f"drop {NODE} own-address")
row("strict, one of two ways back", 2, to(9))
row("strict, the other of two ways back", 5, to(9))
row("strict, neither of two ways back", 1, to(9), f"drop {NODE} wrong-interface")
row("strict, from a network of another VRF", 1, to(6), f"drop {NODE} wrong-interface")
row("strict, VRFs that lead to each other", 1, to(10), f"drop {NODE} no-route-back")
row("loose, from its own network", 3, host(3))
row("loose, routed elsewhere", 3, to(1))
row("loose, several ways back", 3, to(9))
row("loose, from a network of another VRF", 3, to(6))
row("loose, from nowhere", 3, OTHER, f"drop {NODE} no-route-back")
row("loose, from ourselves", 3, host(3, 1), f"drop {NODE} own-address")
row("strict, allowed besides, from nowhere", 1, "2001:db8:f::9" if V6 else "198.51.100.9")
row("strict, allowed besides, first", 1, host(2, 20))
row("strict, allowed besides, last", 1, host(2, 22))
row("strict, before what is allowed", 1, host(2, "1f" if V6 else 19), f"drop {NODE} wrong-interface")
row("strict, behind what is allowed", 1, host(2, 23), f"drop {NODE} wrong-interface")
row("strict, allowed for another interface", 2, "2001:db8:f::9" if V6 else "198.51.100.9", f"drop {NODE} no-route-back")
row("strict, allowed but our own", 1, host(3, 1), f"drop {NODE} own-address")
local = "ip6-local" if V6 else "ip4-local"
row("off, from nowhere", 4, OTHER, f"punt {local}", dst=host(4, 1))
if V6:
    row("strict, from a link-local address", 1, "fe80::9", "punt ip6-local", dst=host(1, 1))
