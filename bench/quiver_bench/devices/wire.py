"""The wire: one veth pair between the two namespaces, and nothing else. The generator's own limit where ports are the kernel's."""

from __future__ import annotations

from quiver_bench.devices.base import call
from quiver_bench.devices.taps import Linux


class Wire(Linux):
    """A veth pair from the left namespace to the right one: what the generator and the kernel do with no device between."""

    name = "wire"
    note = "a veth pair: frames arrive as they were sent"

    def up(self) -> None:
        """Makes the namespaces and the pair."""
        self.taps.make_namespaces()
        left, right = self.taps.left, self.taps.right
        jumbo = ("mtu", "9000") if self.suite.jumbo else ()
        peer = ("peer", "name", "eth0", *jumbo, "netns", right)
        call("ip", "-n", left, "link", "add", "eth0", *jumbo, "type", "veth", *peer)
        for netns, (address, _) in zip((left, right), self.taps.addresses(), strict=True):
            call("ip", "-n", netns, "link", "set", "eth0", "up")
            if self.taps.addressed:
                call("ip", "-n", netns, "addr", "add", address, "dev", "eth0")
                call("ip", "-n", netns, "route", "add", "default", "dev", "eth0")
        self.taps.settle()
