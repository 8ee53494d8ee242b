"""Two network namespaces with a device between them: what tap suites stand on.

With iperf3 the kernel is at both ends: interfaces have addresses. With quiver-tgen nobody is: packet sockets send and receive, and the
kernel is kept from saying anything of its own.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time

from quiver_bench.devices.base import Device, Setup, call
from quiver_bench.errors import Missing, TrialVoid
from quiver_bench.generators import Endpoint
from quiver_bench.suites import Suite, traffic


class TapPair:
    """A namespace on the left and one on the right, each with an interface ``eth0``."""

    def __init__(self, suite: Suite) -> None:
        if os.geteuid() != 0:
            raise Missing("tap suites need root, for network namespaces: sudo -E bin/quiver-bench …")
        if not shutil.which("ip"):
            raise Missing("tap suites make network namespaces with ip, which is missing: apt-get install iproute2")
        self.suite = suite
        self.bridged = suite.case.forwarding in ("l2xc", "l2bd")
        #: Whether the kernel takes part with addresses of its own.
        self.addressed = suite.case.generator in ("iperf3", "hostile")
        tag = f"qb{os.getpid()}"
        self.left, self.right = f"{tag}-l", f"{tag}-r"

    def make_namespaces(self) -> None:
        """Makes both, empty."""
        for name in (self.left, self.right):
            call("ip", "netns", "add", name)
            call("ip", "-n", name, "link", "set", "lo", "up")
            if not self.addressed:
                quiet = "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"
                call("ip", "netns", "exec", name, "sysctl", "-qw", *quiet)

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
        ours = f', host_addresses = ["{address}"]' if self.addressed else ""
        ours += f', host_gateways = ["{gateway}"]' if self.addressed and gateway else ""
        return f'tap = {{ netns = "{netns}", host_name = "eth0"{ours} }}'

    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Both namespaces, or packet sockets in them."""
        if not self.addressed:
            return Endpoint("packet", "eth0", self.left), Endpoint("packet", "eth0", self.right)
        (left, _), (right, _) = self.addresses()
        return (
            Endpoint("netns", "eth0", self.left, left.split("/")[0]),
            Endpoint("netns", "eth0", self.right, right.split("/")[0]),
        )

    def settle(self, seconds: float = 15) -> None:
        """Waits until links are up, and a ping gets through: then neighbours are known and bridges have learned."""
        if not self.addressed:
            self._links_up(seconds)
            return
        target = self.endpoints()[1].address
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ping = ["ip", "netns", "exec", self.left, "ping", "-c", "1", "-W", "1", str(target)]
            if subprocess.run(ping, capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise TrialVoid(f"no ping got through the device to {target} in {seconds:.0f} s")

    def _links_up(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for name in (self.left, self.right):
            while "LOWER_UP" not in call("ip", "-n", name, "link", "show", "eth0"):
                if time.monotonic() > until:
                    raise TrialVoid(f"eth0 in {name} was not up after {seconds:.0f} s")
                time.sleep(0.05)


class SilentTaps:
    """Taps in one namespace, whose kernel has nothing to say."""

    def __init__(self, count: int) -> None:
        if os.geteuid() != 0:
            raise Missing("suites with many taps need root, for a network namespace: sudo -E bin/quiver-bench …")
        self.count = count
        self.netns = f"qb{os.getpid()}-s"

    def make_namespace(self) -> None:
        """Makes it, empty."""
        call("ip", "netns", "add", self.netns)
        quiet = "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"
        call("ip", "netns", "exec", self.netns, "sysctl", "-qw", *quiet)

    def remove_namespace(self) -> None:
        """Removes it with all that is in it."""
        subprocess.run(["ip", "netns", "del", self.netns], capture_output=True, check=False)

    def ports(self) -> list[str]:
        """Routed interfaces of Quiver, as desired state."""
        return [
            f'[[interface]]\nname = "silent{n}"\naddresses = ["10.100.{n // 64}.{n % 64 * 4 + 1}/30"]\n'
            f'tap = {{ netns = "{self.netns}", host_name = "silent{n}" }}\n'
            for n in range(self.count)
        ]


class Linux(Device):
    """What the kernel itself does between the two namespaces."""

    dut_type = "linux"
    forwards = frozenset({"l2xc", "l2bd", "ip4", "ip6"})
    ports = frozenset({"tap"})

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.taps = TapPair(self.suite)

    def version(self) -> str:
        """The kernel's release."""
        return platform.release()

    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """The namespaces on both sides."""
        return self.taps.endpoints()

    def down(self) -> None:
        """Removes the namespaces, with all that is in them."""
        self.taps.remove_namespaces()
        super().down()
