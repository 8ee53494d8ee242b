"""One trial: a device that is up, a generator, and what was noticed meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from quiver_bench.devices.base import Device, Setup, running
from quiver_bench.devices.floor import Floor
from quiver_bench.devices.revision import binaries
from quiver_bench.errors import TrialVoid, Unsupported
from quiver_bench.generators import Conversing, Generator, Iperf3, OneEnd, Tgen, TrialOutput
from quiver_bench.machine import common, placement
from quiver_bench.noise import Noise, Watch

#: Share of the floor's rate from which on a figure says more about the generator than about the device.
GENERATOR_LIMIT = 0.9

#: Where the round trip isn't known.
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Trial:
    """What came of one trial."""

    output: TrialOutput
    noise: Noise
    started: datetime
    #: ``sibling``, ``near``, ``far``; ``moved`` if it differed before and after; ``disturbed``; ``unknown``.
    placement: str
    load_pps: float | None = None
    generator_limited: bool = False
    clocks: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For a result document."""
        return {
            "started": self.started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "load_pps": self.load_pps,
            "placement": self.placement,
            "generator_limited": self.generator_limited,
            **{name: value for name, value in asdict(self.output).items() if not name.startswith("latency")},
            "noise": self.noise.as_dict(),
        }


def forwarding(trial: Trial) -> Trial:
    """The trial. :class:`TrialVoid` where the device let nothing through: that is no rate, but a fault."""
    if not (trial.output.rate_pps or trial.output.rate_bps):
        raise TrialVoid("the device forwarded nothing: look at its log and configuration")
    return trial


class Stand(Protocol):
    """Something that can be measured: a device with a generator, or a simulation of both."""

    def clear(self) -> None:
        """Sets the clocks to zero."""
        ...

    def clocks(self) -> dict[str, float]:
        """Clocks per packet by node since then, where the device counts them."""
        ...

    def reconfigure(self) -> str:
        """Lets the configuration grow; says what was done."""
        ...

    def trial(
        self,
        seconds: float,
        rate_pps: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        latency: bool = False,
    ) -> Trial:
        """Sends for so long, as fast as can be or at a rate in each direction, with packets that measure latency besides."""
        ...


class DeviceStand:
    """A device that is up, and its generator."""

    def __init__(self, device: Device, generator: Generator, limit: Limit | None = None) -> None:
        self.device = device
        self.generator = generator
        self.limit = limit
        self.suite = device.suite
        self.cores = device.setup.cores
        self.clear = device.clear
        self.clocks = device.clocks
        self.reconfigure = device.reconfigure

    def trial(
        self,
        seconds: float,
        rate_pps: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        latency: bool = False,
    ) -> Trial:
        """Sends for so long. Raises :class:`TrialVoid` with the device's log if it doesn't live to the end."""
        started = datetime.now(UTC)
        own_trips = isinstance(self.generator, Tgen)
        before = None if own_trips else round_trip(self.device.setup)
        try:
            with Watch(self.device.pids(), [self.cores.generator, *self.cores.workers]) as watch:
                output = self.generator.trial(
                    self.suite.traffic, self.device.endpoints(), self.cores, seconds, rate_pps, meanwhile, latency
                )
            self.device.check_alive()
        except TrialVoid as void:
            self.device.check_alive()  # where it died, that is the reason
            raise TrialVoid(str(void), void.log + "\n" + self.device.log()) from void
        if not own_trips:
            after = round_trip(self.device.setup)
            output = replace(output, round_trip_ns=(before, after) if before and after else None)
        where = placement_of(output)
        limited = rate_pps is None and self.limit is not None and self.limit.reached(output.rate_pps, where)
        return Trial(output, watch.noise, started, where, rate_pps, limited)


@dataclass(frozen=True)
class Limit:
    """What the generator does with the floor: more isn't to be had from it, in that placement."""

    rate_pps: float
    placement: str

    def reached(self, rate_pps: float, where: str) -> bool:
        """Whether a figure comes so near that it is the generator's."""
        return where == self.placement and rate_pps >= GENERATOR_LIMIT * self.rate_pps


def placement_of(output: TrialOutput) -> str:
    """Where the cores were throughout a trial."""
    if output.round_trip_ns is None:
        return UNKNOWN
    return common(set(map(placement, output.round_trip_ns)))


def generator_for(setup: Setup) -> Generator:
    """The generator that the suite asks for."""
    if setup.suite.case.generator == "iperf3":
        return Iperf3()
    if setup.suite.case.generator == "one-end":
        return OneEnd(setup.binaries, setup.suite.case.forwarding)
    return Conversing(setup.binaries) if setup.suite.traffic.conversations else Tgen(setup.binaries)


@contextlib.contextmanager
def standing(
    kind: type[Device], setup: Setup, limit: Limit | None = None, generator_binaries: Path | None = None
) -> Iterator[DeviceStand]:
    """A device that is up, with its generator; taken down afterwards. The generator may come from another build."""
    kind.require(setup.suite)
    with running(kind(setup)) as device:
        ours = replace(setup, binaries=generator_binaries) if generator_binaries else setup
        generator = generator_for(ours)
        generator.require(setup.suite.traffic, device.endpoints())
        yield DeviceStand(device, generator, limit)


def generator_limit(setup: Setup, seconds: float = 0.5) -> Limit | None:
    """What the generator does with the floor. None where the floor can't stand in: kernel ports, several cores, containers."""
    try:
        Floor.require(setup.suite)
    except Unsupported:
        return None
    # Builds of a commit have neither generator nor floor: those are this checkout's.
    with standing(Floor, replace(setup, binaries=binaries())) as stand:
        stand.trial(seconds / 2)  # warm-up
        trial = stand.trial(seconds)
    return Limit(trial.output.rate_pps, trial.placement)


def round_trip(setup: Setup) -> float | None:
    """Round trip between generator's and worker's core, for generators that don't measure it."""
    with contextlib.suppress(TrialVoid):
        return Tgen(binaries()).round_trip(setup.cores)
    return None
