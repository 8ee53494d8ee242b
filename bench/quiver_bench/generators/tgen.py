"""quiver-tgen. Its flags and its JSON are known here and nowhere else."""

from __future__ import annotations

import functools
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quiver_bench.errors import Missing, TrialVoid, Unsupported
from quiver_bench.generators.base import Endpoint, Generator, TrialOutput
from quiver_bench.machine import Cores
from quiver_bench.suites.traffic import DEVICE_LEFT_MAC, PEER_LEFT_MAC, Traffic

#: Seconds a trial may take besides sending: to connect, to wait for late packets, to measure round trips.
GRACE_S = 30.0


class Tgen(Generator):
    """quiver-tgen from a directory of binaries."""

    def __init__(self, binaries: Path, destination_mac: str = DEVICE_LEFT_MAC) -> None:
        self.program = binaries / "quiver-tgen"
        self.destination_mac = destination_mac
        if not self.program.exists():
            raise Missing(f"{self.program} is missing: make build, or set QUIVER_BIN to where it is")

    @functools.cache  # noqa: B019 - a generator lives as long as the program
    def version(self) -> str:
        """Name and version."""
        return self._ask("--version")

    @functools.cache  # noqa: B019
    def _help(self) -> str:
        return self._ask("--help")

    def _ask(self, what: str) -> str:
        return subprocess.run(
            [self.program, what], capture_output=True, text=True, timeout=10, check=False
        ).stdout.strip()

    def require(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint]) -> None:
        """Raises :class:`Unsupported` where this version of it can't send that."""
        lacking = []
        if any(endpoint.kind != "memif" for endpoint in endpoints):
            lacking.append("kernel interfaces")
        if traffic.ipv6:
            lacking.append("IPv6")
        if traffic.vlan:
            lacking.append("VLAN tags")
        if traffic.random:
            lacking.append("destinations in random order")
        if len(traffic.sizes) > 1:
            lacking.append("mixed frame sizes")
        if lacking:
            raise Unsupported(f"{self.version() or 'quiver-tgen'} doesn't know {', '.join(lacking)}")

    def command(
        self,
        traffic: Traffic,
        endpoints: tuple[Endpoint, Endpoint],
        cores: Cores,
        seconds: float,
        rate_pps: float | None,
    ) -> list[str]:
        """Its command line for a trial."""
        ((size, _),) = traffic.sizes
        words: list[object] = [self.program, "--tx", endpoints[0].name, "--rx", endpoints[1].name]
        for side, endpoint in zip(("--tx-netns", "--rx-netns"), endpoints, strict=True):
            words += [side, endpoint.netns] if endpoint.netns else []
        words += ["--size", size, "--seconds", f"{seconds:g}", "--core", cores.generator, "--peer-core", cores.worker]
        words += [
            "--source",
            traffic.source,
            "--destination",
            traffic.destination,
            "--destinations",
            traffic.destinations,
        ]
        words += ["--source-mac", PEER_LEFT_MAC, "--destination-mac", self.destination_mac]
        words += ["--rate", f"{rate_pps:.3f}"] if rate_pps else []
        words += ["--full"] if traffic.full else []
        return [str(word) for word in [*words, "--output", "json"]]

    def trial(
        self,
        traffic: Traffic,
        endpoints: tuple[Endpoint, Endpoint],
        cores: Cores,
        seconds: float,
        rate_pps: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> TrialOutput:
        """Sends for so long; see :meth:`Generator.trial`."""
        self.require(traffic, endpoints)
        command = self.command(traffic, endpoints, cores, seconds, rate_pps)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            if meanwhile:
                time.sleep(seconds / 4)
                meanwhile()
            out, err = process.communicate(timeout=seconds + GRACE_S)
        except subprocess.TimeoutExpired as error:
            raise TrialVoid(f"quiver-tgen did not end {GRACE_S:.0f} s after its time", " ".join(command)) from error
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode != 0:
            raise TrialVoid(f"quiver-tgen: {err.strip() or f'exit status {process.returncode}'}", err)
        return output(json.loads(out))


def output(report: dict[str, Any]) -> TrialOutput:
    """A trial's output from its JSON."""
    trips = report.get("round_trip_ns")
    return TrialOutput(
        sent=report["sent"],
        received=report["received"] - report.get("odd_length", 0),
        lost=report["lost"],
        seconds=report["seconds"],
        rate_pps=report["received_pps"],
        rate_bps=report["received_bps"],
        round_trip_ns=(trips[0], trips[1]) if trips else None,
        foreign=report.get("odd_length", 0),
    )
