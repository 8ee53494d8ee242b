"""quiver-tgen between two pods' memifs: packets with the pods' own addresses, as policies, Services and checks of sources ask for."""

from __future__ import annotations

from quiver_bench.errors import Unsupported
from quiver_bench.generators.base import Endpoint, Load
from quiver_bench.generators.tgen import Tgen, interface
from quiver_bench.machine import Cores
from quiver_bench.suites.traffic import Traffic

#: Bytes of Ethernet, which frame sizes count and a memif of IP packets doesn't carry.
ETHERNET = 14

#: Where packets go: a port of the pods' memifs.
PORT = 4444
SOURCE_PORT = 33333


class BetweenPods(Tgen):
    """One flow from the left pod to the right one, or to a Service that has the right one only."""

    def require(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint]) -> None:
        """Both ends must have addresses; nothing is sent back, since a Service's answers have others."""
        super().require(traffic, endpoints)
        if any(endpoint.netns is None or endpoint.address is None for endpoint in endpoints):
            raise Unsupported("packets between pods need both pods' networks and addresses")
        if traffic.both_ways:
            raise Unsupported("packets between pods go one way: leave --both-ways out")

    def command(
        self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint] | None, cores: Cores, load: Load
    ) -> list[str]:
        """See :meth:`~quiver_bench.generators.tgen.Program.command`."""
        words: list[object] = [self.program, "--mode", "ip"]
        if endpoints is None:
            words += ["--loop"]
        else:
            for side, endpoint in zip(("tx", "rx"), endpoints, strict=True):
                words += [f"--{side}", interface(endpoint), f"--{side}-netns", f"/run/netns/{endpoint.netns}"]
            words += ["--source", endpoints[0].address, "--destination", endpoints[1].address]
        words += ["--source-port", SOURCE_PORT, "--destination-port", PORT]
        sizes = (int(size) - ETHERNET for size in self.sizes(traffic, load).split(","))
        words += ["--size", ",".join(map(str, sizes)), "--core", cores.generator]
        words += ["--count", load.count] if load.count else ["--seconds", f"{load.seconds:g}"]
        return [str(word) for word in [*words, *self.asked(traffic, load), "--output", "json"]]
