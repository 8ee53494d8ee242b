"""The wire: one veth pair between the two namespaces, and nothing else. The generator's own limit where ports are the kernel's."""

from __future__ import annotations

import platform

from quiver_bench.devices.base import Device, Setup, call
from quiver_bench.devices.taps import TapPair
from quiver_bench.generators import Endpoint


class Wire(Device):
    """A veth pair from the left namespace to the right one: what the generator and the kernel do with no device between."""

    name = "wire"
    dut_type = "linux"
    forwards = frozenset({"l2xc", "l2bd", "ip4", "ip6"})
    ports = frozenset({"tap"})
    note = "a veth pair: frames arrive as they were sent"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.taps = TapPair(self.suite)

    def version(self) -> str:
        """The kernel's release."""
        return platform.release()

    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """The namespaces on both sides."""
        return self.taps.endpoints()

    def up(self) -> None:
        """Makes the namespaces and the pair."""
        self.taps.make_namespaces()
        left, right = self.taps.left, self.taps.right
        jumbo = ("mtu", "9000") if self.suite.frame == "9000b" else ()
        peer = ("peer", "name", "eth0", *jumbo, "netns", right)
        call("ip", "-n", left, "link", "add", "eth0", *jumbo, "type", "veth", *peer)
        for netns, (address, _) in zip((left, right), self.taps.addresses(), strict=True):
            call("ip", "-n", netns, "link", "set", "eth0", "up")
            if self.taps.addressed:
                call("ip", "-n", netns, "addr", "add", address, "dev", "eth0")
                call("ip", "-n", netns, "route", "add", "default", "dev", "eth0")
        self.taps.settle()

    def down(self) -> None:
        """Removes the namespaces, and the pair with them."""
        self.taps.remove_namespaces()
        super().down()
