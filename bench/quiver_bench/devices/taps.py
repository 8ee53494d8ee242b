"""Two network namespaces with a device between them: what tap suites stand on."""

from __future__ import annotations

import os
import subprocess
import time

from quiver_bench.devices.base import call
from quiver_bench.errors import Missing, TrialVoid
from quiver_bench.generators import Endpoint
from quiver_bench.suites import Suite, traffic


class TapPair:
    """A namespace on the left and one on the right, each with an interface ``eth0``."""

    def __init__(self, suite: Suite) -> None:
        if os.geteuid() != 0:
            raise Missing("tap suites need root, for network namespaces: sudo -E bin/quiver-bench …")
        self.suite = suite
        self.bridged = suite.case.forwarding in ("l2xc", "l2bd")
        tag = f"qb{os.getpid()}"
        self.left, self.right = f"{tag}-l", f"{tag}-r"

    def make_namespaces(self) -> None:
        """Makes both, empty."""
        for name in (self.left, self.right):
            call("ip", "netns", "add", name)
            call("ip", "-n", name, "link", "set", "lo", "up")

    def remove_namespaces(self) -> None:
        """Removes both with all that is in them."""
        for name in (self.left, self.right):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def addresses(self) -> tuple[tuple[str, str | None], tuple[str, str | None]]:
        """Address with prefix, and gateway where the device routes, of both ends."""
        left, right = traffic.sides(self.suite.case.ipv6)
        if self.bridged:
            other = left.peer.rsplit(".", 1)[0] + ".3" if not self.suite.case.ipv6 else "fd00:a::3"
            return (f"{left.peer}/{left.prefix}", None), (f"{other}/{left.prefix}", None)
        return (f"{left.peer}/{left.prefix}", left.device), (f"{right.peer}/{right.prefix}", right.device)

    def port(self, side: str) -> str:
        """A tap of Quiver in a namespace, as desired state."""
        index = 0 if side == "left" else 1
        address, gateway = self.addresses()[index]
        netns = (self.left, self.right)[index]
        route = f', host_gateways = ["{gateway}"]' if gateway else ""
        return f'tap = {{ netns = "{netns}", host_name = "eth0", host_addresses = ["{address}"]{route} }}'

    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Both namespaces."""
        (left, _), (right, _) = self.addresses()
        return (
            Endpoint("netns", "eth0", self.left, left.split("/")[0]),
            Endpoint("netns", "eth0", self.right, right.split("/")[0]),
        )

    def settle(self, seconds: float = 15) -> None:
        """Waits until a ping gets through: then neighbours are known and bridges have learned."""
        target = self.endpoints()[1].address
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ping = ["ip", "netns", "exec", self.left, "ping", "-c", "1", "-W", "1", str(target)]
            if subprocess.run(ping, capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise TrialVoid(f"no ping got through the device to {target} in {seconds:.0f} s")
