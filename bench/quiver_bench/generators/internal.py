"""Packets that the device makes itself: a generator among its own interfaces is told to go, and its counters are read."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quiver_bench.errors import Missing, TrialVoid, Unsupported
from quiver_bench.generators.base import Endpoint, Generator, Load, TrialOutput
from quiver_bench.machine import Cores, core_list
from quiver_bench.suites.traffic import Traffic

#: Nodes by which packets come and go.
SOURCE, SINK = "generator-input", "sink-tx"

#: Seconds that ``quiver`` may take.
PATIENCE_S = 60.0

#: Packets per second between trials: as good as none.
IDLE_PPS = 1


@dataclass(frozen=True)
class Seen:
    """What all workers together have made and taken at one moment."""

    #: Seconds on the device's own clock.
    at: float
    made: int
    taken: int


class Internal(Generator):
    """Quiver's generator interface ``left``, whose packets end in ``right``. Sent is what is made, received what is taken there."""

    def __init__(self, binaries: Path) -> None:
        self.program = binaries / "quiver"
        if not self.program.exists():
            raise Missing(f"{self.program} is missing: make build, or set QUIVER_BIN to where it is")

    def version(self) -> str:
        """Name and version."""
        return self._run([str(self.program), "--version"])

    def require(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint]) -> None:
        """Both ends must be the daemon's API socket."""
        if any(endpoint.kind != "api" for endpoint in endpoints):
            raise Unsupported("packets can be made within a quiverd only")

    def measure(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint], cores: Cores, load: Load) -> TrialOutput:
        """See :meth:`~quiver_bench.generators.base.Generator.measure`. The rate is that between two looks while packets are made."""
        if load.latency or load.count:
            raise Unsupported("a generator within the device measures no latency, and isn't told how many")
        client = self._client(endpoints[0].name, cores)
        before = self._look(client)
        self._go(client, int(load.rate_pps or 0))
        try:
            first = self._look(client)
            time.sleep(load.seconds / 4)
            if load.meanwhile:
                load.meanwhile()
            time.sleep(load.seconds * 3 / 4)
            last = self._look(client)
        finally:
            self._go(client, IDLE_PPS)
        after = self._look(client)
        sent, taken = after.made - before.made, after.taken - before.taken
        seconds = last.at - first.at
        if seconds <= 0:
            raise TrialVoid("quiverd's clock stood still, or its counters were cleared meanwhile")
        rate = (last.taken - first.taken) / seconds
        return TrialOutput(
            sent=sent,
            received=min(sent, taken),
            lost=max(0, sent - taken),
            seconds=seconds,
            rate_pps=rate,
            rate_bps=rate * 8 * traffic.mean_size,
        )

    def _client(self, socket: str, cores: Cores) -> list[str]:
        """``quiver``, where it takes no time from a worker if there is such a core."""
        return ["taskset", "--cpu-list", core_list(cores.aside), str(self.program), "--socket", socket]

    def _go(self, client: list[str], rate: int) -> None:
        """Has it make so many packets per second; 0: as many as can be. All else of the interface stays as it is."""
        config: dict[str, Any] = json.loads(self._run([*client, "get", "interface", "left", "-o", "json"]))
        for interface in config["interface"]:
            interface["generator"]["rate"] = rate
        self._run([*client, "apply", "-f", "-"], json.dumps(config))

    def _look(self, client: list[str]) -> Seen:
        return seen(json.loads(self._run([*client, "show", "runtime", "-o", "json"]))["workers"])

    def _run(self, command: list[str], stdin: str | None = None) -> str:
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise TrialVoid(f"{' '.join(command)} did not end in {PATIENCE_S:.0f} s") from error
        if done.returncode != 0:
            raise TrialVoid(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}", done.stderr)
        return done.stdout.strip()


def seen(workers: list[dict[str, Any]]) -> Seen:
    """What ``quiver show runtime`` says of all of them; a node that hasn't had a packet isn't listed."""
    counts = dict.fromkeys((SOURCE, SINK), 0)
    for worker in workers:
        for node in worker.get("nodes", []):
            if node["name"] in counts:
                counts[node["name"]] += int(node.get("packets", 0))
    return Seen(float(workers[0].get("seconds", 0.0)), counts[SOURCE], counts[SINK])
