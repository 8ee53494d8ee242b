"""The floor: a bare copy loop over the project's own memif library, with no graph, no tables and no counters.

What the library wastes, both it and Quiver waste: a ratio to it says what the graph costs, and nothing of what memif allows.
"""

from __future__ import annotations

import subprocess

from quiver_bench.devices.base import Device, Setup
from quiver_bench.errors import Missing, Unsupported
from quiver_bench.suites import Suite


class Floor(Device):
    """quiver-floor: every packet from the left interface to the right one, copied once."""

    name = "floor"
    dut_type = "floor"
    forwards = frozenset({"l2xc", "l2bd", "ip4", "ip6", "ip4session", "ip6session"})
    ours = True
    note = "copies frames from left to right, counts TTL or hop limit down, and looks at nothing else"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        program = setup.binaries / "quiver-floor"
        if not program.exists():
            raise Missing(f"{program} is missing: make build, or set QUIVER_BIN to where it is")

    @classmethod
    def require(cls, suite: Suite) -> None:
        """One loop on one core."""
        super().require(suite)
        if suite.cores > 1:
            raise Unsupported(f"{cls.name} is one loop on one core: choose 1c instead of {suite.name}")

    def version(self) -> str:
        """Its own."""
        out = subprocess.run(
            [self.setup.binaries / "quiver-floor", "--version"], capture_output=True, text=True, check=False
        )
        return out.stdout.strip().removeprefix("quiver-floor ")

    def up(self) -> None:
        """Starts it."""
        program = self.setup.binaries / "quiver-floor"
        both = ["--bidirectional"] if self.suite.direction == "both ways" else []
        ends = "--rx", self.dir / "left", "--tx", self.dir / "right"
        self.start(program, *ends, "--core", self.setup.cores.worker, *both)
        self.wait_for("memif socket", (self.dir / "right").exists)
