"""``quiver-trust``: Quiver with a suite's containers in a trust group, whose bodies change hands instead of being copied.

Held against ``quiver`` on the same suite it says what the one copy costs a chain of containers that trust each other. Between containers
only buffers are exchanged; from the generator and to it, and of what is 128 bytes or shorter, packets are copied as ever.
"""

from __future__ import annotations

import json

from quiver_bench.devices import containers
from quiver_bench.devices.quiver import Quiver
from quiver_bench.errors import Unsupported
from quiver_bench.suites import Suite


class TrustingQuiver(Quiver):
    """The containers listen, and Quiver connects to them with buffers of one pool."""

    name = "quiver-trust"
    note = "its containers share buffers: fast, and for containers that trust each other only"

    @classmethod
    def require(cls, suite: Suite) -> None:
        """Raises :class:`Unsupported` where no containers are next to each other behind it."""
        super().require(suite)
        if suite.case.containers < 2 or suite.case.layout != containers.CHAIN:
            raise Unsupported(
                f"{cls.name} is for chains of containers through the device, which {suite.name} isn't about"
            )

    def start_containers(self) -> None:
        """They listen; Quiver comes to them by itself."""
        containers.start(self, listening=True)
        self.wait_for("links of all containers", self._linked)

    def _linked(self) -> bool:
        links = json.loads(self.cli("show", "memif", "-o", "json"))["memifs"]
        return all(link.get("connected") for link in links if link["interface"].startswith("c"))

    def memif(self, name: str) -> str:
        """A client of its container in the group; a queue each, as the containers have."""
        if not name.startswith("c"):
            return super().memif(name)
        return f'memif = {{ socket = "{self.dir}/{name}", role = "client", trust_group = "chain" }}'
