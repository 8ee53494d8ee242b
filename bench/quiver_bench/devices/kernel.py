"""Linux' own bridge and forwarding, in a network namespace of its own between two veth pairs."""

from __future__ import annotations

import os
import subprocess

from quiver_bench.devices.base import Setup, call
from quiver_bench.devices.hostile import HostilePods
from quiver_bench.devices.taps import Linux
from quiver_bench.suites import traffic

#: Routes that a reconfiguration adds while packets flow.
GROWTH = 10_000

#: Addresses of its own interfaces, and of whom the generator plays behind them.
MACS = {
    "left": (traffic.DEVICE_LEFT_MAC, traffic.PEER_LEFT_MAC),
    "right": (traffic.DEVICE_RIGHT_MAC, traffic.PEER_RIGHT_MAC),
}


class Kernel(Linux):
    """The kernel this runs on."""

    name = "kernel"
    hostile = frozenset({"tap"})
    note = "veth pairs; works in the sender's time, on whatever core that is"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.netns = f"qb{os.getpid()}-k"
        self.hostile_pods = HostilePods(self.suite, self.taps.left) if self.suite.case.attack else None

    def up(self) -> None:
        """Makes the namespaces, the wires between them, and a bridge or routes."""
        self.taps.make_namespaces()
        call("ip", "netns", "add", self.netns)
        sides = traffic.sides(self.suite.case.ipv6)
        bridged = self.taps.bridged
        if bridged:
            self.inside("link", "add", "bench", "type", "bridge")
            self.inside("link", "set", "bench", "up")
        ends = zip(("left", "right"), (self.taps.left, self.taps.right), sides, self.taps.addresses(), strict=True)
        for name, peer, side, (address, gateway) in ends:
            mac, neighbour = MACS[name]
            jumbo = ("mtu", "9000") if self.suite.jumbo else ()
            self.inside(
                "link", "add", name, "address", mac, *jumbo, "type", "veth", "peer", "name", "eth0", "netns", peer
            )
            if jumbo:
                call("ip", "-n", peer, "link", "set", "eth0", *jumbo)
            self.inside("link", "set", name, "up")
            call("ip", "-n", peer, "link", "set", "eth0", "up")
            if self.taps.addressed:
                call("ip", "-n", peer, "addr", "add", address, "dev", "eth0", *self._nodad())
            if bridged:
                self.inside("link", "set", name, "master", "bench")
                continue
            self.inside("addr", "add", f"{side.device}/{side.prefix}", "dev", name, *self._nodad())
            if self.taps.addressed:
                call("ip", "-n", peer, "route", "add", "default", "via", gateway or side.device)
            else:
                self.inside("neigh", "add", side.peer, "lladdr", neighbour, "dev", name, "nud", "permanent")
        if not bridged:
            forwarding = "net.ipv6.conf.all.forwarding=1" if self.suite.case.ipv6 else "net.ipv4.ip_forward=1"
            call("ip", "netns", "exec", self.netns, "sysctl", "-qw", forwarding)
        if self.hostile_pods:
            self.hostile_pods.make_namespaces()
            self.hostile_pods.kernel(self.inside, self.netns)
        self.taps.settle()
        if self.hostile_pods:
            self.hostile_pods.settle()

    def inside(self, *words: object) -> None:
        """``ip`` in the device's namespace."""
        call("ip", "-n", self.netns, *words)

    def _nodad(self) -> tuple[str, ...]:
        return ("nodad",) if self.suite.case.ipv6 else ()

    def reconfigure(self) -> str:
        """Adds routes nobody sends to, and takes them away again."""
        side = traffic.sides(self.suite.case.ipv6)[1]
        grown = traffic.Addresses(
            side.device, side.peer, "2001:9::1" if self.suite.case.ipv6 else "30.0.0.1", side.prefix
        )
        prefixes = traffic.routes(grown, GROWTH)
        for verb in ("add", "del"):
            batch = "".join(f"route {verb} {prefix} via {side.peer}\n" for prefix in prefixes)
            call("ip", "-n", self.netns, "-batch", "-", stdin=batch)
        return f"{GROWTH} routes added, and removed"

    def down(self) -> None:
        """Removes the namespaces."""
        if self.hostile_pods:
            self.hostile_pods.remove_namespaces()
        subprocess.run(["ip", "netns", "del", self.netns], capture_output=True, check=False)
        super().down()
