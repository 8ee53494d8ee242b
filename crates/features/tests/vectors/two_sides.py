"""What scripts share whose packets pass from host A (interface 2) to host B behind interface 3, which has no link-layer headers, or back, with one hop less and no other change:
the topology is that of `src/ip/topology.rs`. Rows are as `testing::rows` reads them.
"""

import sys

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

V6 = sys.argv[1] == "6"
A, B = ("2001:db8:2::2", "2001:db8:1002::9") if V6 else ("10.0.2.2", "10.2.0.9")


def ip(src, dst, ttl, **more):
    return IPv6(src=src, dst=dst, hlim=ttl, **more) if V6 else IP(src=src, dst=dst, ttl=ttl, id=1, **more)


def row(name, there, packet, reason=None):
    """`there`: from A to B; `packet(hops)` is what comes in and leaves; `reason`: why it doesn't leave."""
    ethernet = {"type": 0x86DD if V6 else 0x0800}
    came, left = (bytes(packet(hops)) for hops in (64, 63))
    if there:
        rx_if, came = 2, bytes(Ether(dst="02:fe:00:00:00:02", src="02:00:00:00:02:02", **ethernet)) + came
        tx_if = 3
    else:
        rx_if, tx_if = 3, 2
        left = bytes(Ether(dst="02:00:00:00:02:02", src="02:fe:00:00:00:02", **ethernet)) + left
    print(f"\nrow {name}\nin {rx_if} {came.hex()}")
    print(f"drop {reason}" if reason else f"out {tx_if} {left.hex()}")
