"""quiver-tgen's packets. Its flags and its JSON are known here, and those of its connections in ``conversations``."""

from __future__ import annotations

import functools
import json
import subprocess
import tempfile
import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quiver_bench.errors import Missing, TrialVoid, Unsupported
from quiver_bench.generators.base import Endpoint, Generator, Latency, Load, TrialOutput
from quiver_bench.machine import Cores
from quiver_bench.suites.traffic import (
    DEVICE_LEFT_MAC,
    DEVICE_RIGHT_MAC,
    SIGNATURE,
    Traffic,
)

#: Seconds a trial may take besides sending: to connect, to wait for late packets, to measure round trips.
GRACE_S = 30.0

#: Packets with timestamps per second and direction, as many as CSIT sends.
LATENCY_PPS = 9000.0

#: What its kinds of interface are called on its command line.
_KINDS = {"memif": "", "packet": "packet:"}

_PERCENTILES = {"50": "p50", "90": "p90", "99": "p99", "99.9": "p99_9", "99.99": "p99_99", "99.999": "p99_999"}


class Program(Generator):
    """What all of quiver-tgen's kinds of traffic have in common."""

    def __init__(self, binaries: Path) -> None:
        self.program = binaries / "quiver-tgen"
        if not self.program.exists():
            raise Missing(f"{self.program} is missing: make build, or set QUIVER_BIN to where it is")

    @functools.cache  # noqa: B019 - a generator lives as long as the program
    def version(self) -> str:
        """Name and version."""
        return subprocess.run(
            [self.program, "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout.strip()

    def require(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint]) -> None:
        """Raises :class:`Unsupported` for interfaces that it doesn't know."""
        for endpoint in endpoints:
            if endpoint.kind not in _KINDS:
                raise Unsupported(f"quiver-tgen has no interfaces of kind {endpoint.kind}")

    @abstractmethod
    def command(
        self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint] | None, cores: Cores, load: Load
    ) -> list[str]:
        """Its command line for a trial; without end points, with no device between its own two ends."""

    @abstractmethod
    def read(self, report: dict[str, Any], traffic: Traffic) -> TrialOutput:
        """A trial's output from its JSON."""

    def measure(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint], cores: Cores, load: Load) -> TrialOutput:
        """See :meth:`~quiver_bench.generators.base.Generator.measure`."""
        return self.read(self.run(self.command(traffic, endpoints, cores, load), load), traffic)

    def run(self, command: Sequence[str], load: Load) -> dict[str, Any]:
        """Runs it; returns its JSON. Raises :class:`TrialVoid`."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            if load.meanwhile:
                time.sleep(load.seconds / 4)
                load.meanwhile()
            out, err = process.communicate(timeout=load.seconds + GRACE_S)
        except subprocess.TimeoutExpired as error:
            raise TrialVoid(f"quiver-tgen did not end {GRACE_S:.0f} s after its time", " ".join(command)) from error
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode != 0:
            raise TrialVoid(f"quiver-tgen: {err.strip() or f'exit status {process.returncode}'}", err)
        return dict(json.loads(out))


def interface(endpoint: Endpoint) -> str:
    """An interface as its command line has it."""
    return f"{_KINDS[endpoint.kind]}{endpoint.name}"


class Tgen(Program):
    """quiver-tgen, single packets."""

    def __init__(self, binaries: Path) -> None:
        super().__init__(binaries)
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def command(
        self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint] | None, cores: Cores, load: Load
    ) -> list[str]:
        """See :meth:`Program.command`."""
        words: list[object] = [self.program]
        if endpoints is None:
            words += ["--loop"]
        else:
            words += ["--tx", interface(endpoints[0]), "--rx", interface(endpoints[1])]
            for side, endpoint in zip(("--tx-netns", "--rx-netns"), endpoints, strict=True):
                words += [side, endpoint.netns] if endpoint.netns else []
            if len(cores.workers) > 1 and all(endpoint.kind == "memif" for endpoint in endpoints):
                words += ["--queues", len(cores.workers)]
        words += ["--ring-size", traffic.ring_size] if traffic.ring_size else []
        words += ["--size", self.sizes(traffic, load)]
        words += ["--count", load.count] if load.count else ["--seconds", f"{load.seconds:g}"]
        words += ["--core", cores.generator]
        words += ["--source", traffic.source, "--sources", traffic.sources]
        if traffic.listed:
            words += ["--destination-list", self._list(traffic.listed)]
        else:
            words += ["--destination", traffic.destination, "--destinations", traffic.addressed]
        words += ["--random"] if traffic.random else []
        words += ["--vlan", traffic.vlan] if traffic.vlan else []
        left, right = traffic.macs
        there, back = (right, left) if traffic.bridged else (DEVICE_LEFT_MAC, DEVICE_RIGHT_MAC)
        words += ["--source-mac", left, "--destination-mac", there]
        if traffic.both_ways:
            words += ["--bidirectional", "--reverse-source-mac", right, "--reverse-destination-mac", back]
        if traffic.stations > 1:
            words += ["--source-macs", traffic.stations, "--destination-macs", traffic.stations]
        return [str(word) for word in [*words, *self.asked(traffic, load), "--output", "json"]]

    @staticmethod
    def asked(traffic: Traffic, load: Load) -> list[object]:
        """What a load and its packets ask for, whatever lies between."""
        words: list[object] = []
        words += ["--latency", f"{load.latency_pps or LATENCY_PPS:g}"] if load.latency else []
        words += ["--rate", f"{load.rate_pps:.3f}"] if load.rate_pps else []
        words += ["--max-late", f"{load.max_late:g}"] if load.max_late is not None else []
        words += ["--check", "sequence"] if traffic.sequenced else []
        words += ["--full"] if traffic.full else []
        return words

    @staticmethod
    def sizes(traffic: Traffic, load: Load) -> str:
        """Frame lengths in turn. Where latency is measured every frame has room for a signature."""
        least = traffic.headers + SIGNATURE if load.latency else 0
        return ",".join(str(max(size, least)) for size in traffic.pattern)

    def read(self, report: dict[str, Any], traffic: Traffic) -> TrialOutput:
        """See :meth:`Program.read`."""
        return output(report, traffic.ways)

    @functools.cache  # noqa: B019 - a generator lives as long as the program
    def _list(self, addresses: tuple[str, ...]) -> Path:
        """A file with them, as long as the generator is there."""
        self._directory = self._directory or tempfile.TemporaryDirectory(prefix="qb-")
        path = Path(self._directory.name) / f"destinations-{addresses[0]}"
        path.write_text("\n".join(addresses))
        return path

    def round_trip(self, cores: Cores) -> float | None:
        """Round trip of a cache line between the generator's core and the worker's, in nanoseconds, with no device."""
        words = ["--loop", "--seconds", "0.001", "--core", cores.generator, "--peer-core", cores.worker, "-o", "json"]
        trips = self.run([str(word) for word in (self.program, *words)], Load(0.001))["round_trip_ns"]
        return min(trips) if trips else None


def output(report: dict[str, Any], ways: int = 1) -> TrialOutput:
    """A trial's output from its JSON."""
    trips = report.get("round_trip_ns")
    streams = {stream["name"]: stream for stream in report.get("streams", [])}
    return TrialOutput(
        sent=report["sent"],
        received=report["received"],
        lost=report["lost"],
        seconds=report["seconds"],
        rate_pps=report["received_pps"],
        rate_bps=report["received_bps"],
        intended=report.get("intended"),
        round_trip_ns=(trips[0], trips[1]) if trips else None,
        latency=_latency(streams.get("forward-latency")),
        latency_reverse=_latency(streams.get("reverse-latency")),
        missed=report.get("missed"),
        overslept=report.get("overslept") or 0,
        untaken=report["receive_drops"] or 0,
        stalled_packets=report["stalled_packets"],
        longest_stall_s=report["longest_stall_ns"] / 1e9,
        duplicated=report.get("duplicated") or 0,
        reordered=report.get("reordered") or 0,
        corrupted=report.get("corrupted") or 0,
        foreign=report["foreign"],
        misdirected=report["misdirected"],
        ways=ways,
    )


def _latency(stream: dict[str, Any] | None) -> Latency | None:
    """Nanoseconds as microseconds; the histogram stays as it is."""
    found = stream and stream["latency_ns"]
    if not found:
        return None
    percentiles = {percent: found[field] / 1e3 for percent, field in _PERCENTILES.items()}
    percentiles["99.9999"] = found["p99_9999"] / 1e3
    return Latency(found["min"] / 1e3, found["mean"] / 1e3, found["max"] / 1e3, percentiles, found["hdrh"])
