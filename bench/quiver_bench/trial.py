"""One trial: a device that is up, a generator, and what was noticed meanwhile."""

from __future__ import annotations

import contextlib
import statistics
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quiver_bench.devices.base import Device, Setup, Vitals, running
from quiver_bench.devices.floor import Floor
from quiver_bench.devices.revision import binaries
from quiver_bench.devices.wire import Wire
from quiver_bench.errors import NothingThrough, TrialVoid, Unsupported
from quiver_bench.generators import (
    BetweenPods,
    Conversing,
    Flooding,
    Generator,
    Hostile,
    Internal,
    Iperf3,
    Load,
    OneEnd,
    Tgen,
    TrialOutput,
)
from quiver_bench.machine import UNSETTLED, common, placement
from quiver_bench.noise import Noise, Watch

#: Share of the generator's own rate from which on a figure says more about the generator than about the device.
GENERATOR_LIMIT = 0.9

#: Trials with nothing in between that tell what the generator does.
LIMIT_TRIALS = 3

#: Share of a trial's time in which the device may have been kept from running, or had cores taken away, without its figure being marked.
STARVED = 0.05

#: Seconds that sending every flow's first packets may take.
FILL_WITHIN_S = 60.0

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
    #: Whether the figure is the generator's rather than the device's; None where its limit isn't known.
    generator_limited: bool | None = None
    #: Clocks per packet by node, where the device counts them.
    clocks: dict[str, float] = field(default_factory=dict)
    #: How the device was afterwards.
    vitals: Vitals = field(default_factory=Vitals)
    #: Whether it keeps within the loss that was looked for, or not, by what was missed while the generator or the device's busiest
    #: thread was kept from running.
    decided_by_noise: bool = False
    #: Whether the figure rests on it. Others, as those of another placement, are kept with them.
    counts: bool = True

    @property
    def kept_waiting(self) -> float:
        """Share of the time, at most, in which the device's busiest thread waited for its core or the host had taken a core away."""
        watched = self.noise.watched_s or self.output.seconds
        return min(1.0, ((self.noise.wait_s or 0.0) + self.noise.worst_steal_s) / max(watched, 1e-9))

    def as_dict(self) -> dict[str, Any]:
        """For a result document."""
        return {
            "started": self.started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "load_pps": self.load_pps,
            "placement": self.placement,
            "generator_limited": self.generator_limited,
            "counts": self.counts,
            "decided_by_noise": self.decided_by_noise,
            **{name: value for name, value in asdict(self.output).items() if not name.startswith("latency")},
            "vitals": asdict(self.vitals),
            "noise": self.noise.as_dict(),
        }


def forwarding(trial: Trial) -> Trial:
    """The trial. :class:`NothingThrough` where the device let nothing through: that is no rate, but a fault."""
    if not (trial.output.rate_pps or trial.output.rate_bps):
        back = trial.output.misdirected
        where = f": {back} packets came back where they were sent, or elsewhere" if back else ""
        raise NothingThrough(f"the device forwarded nothing{where}: look at its log and configuration")
    return trial


class Stand(ABC):
    """Something that can be measured: a device with a generator, or a simulation of both."""

    @abstractmethod
    def reconfigure(self) -> str:
        """Lets the configuration grow; says what was done."""

    def busy(self, settle: float, seconds: float) -> float:
        """Cores' worth of time that it takes with nothing to do, over so many seconds, after some in which it comes to rest."""
        raise Unsupported("what it takes when it is idle isn't known")

    def poll(self) -> None:
        """Has it poll all queues from now on."""
        raise Unsupported("it can't be told to poll")

    def version(self) -> str:
        """Of what is measured."""
        return UNKNOWN

    def remarks(self) -> list[str]:
        """What must be said of its figures, by how it could be brought up."""
        return []

    @abstractmethod
    def offer(self, load: Load) -> Trial:
        """Sends a load. Raises :class:`TrialVoid` where nothing can be said, as where nothing comes through."""

    def trial(
        self,
        seconds: float,
        rate_pps: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        latency: bool = False,
        max_late: float | None = None,
    ) -> Trial:
        """:meth:`offer` of a :class:`~quiver_bench.generators.Load` of these."""
        return self.offer(Load(seconds, rate_pps, meanwhile, latency, max_late=max_late))

    def warm_up(self, seconds: float) -> None:
        """Sends for so long, whatever comes of it: neighbours are learnt, caches and page tables are filled."""
        with contextlib.suppress(NothingThrough):
            self.trial(seconds)


class DeviceStand(Stand):
    """A device that is up, and its generator."""

    def __init__(self, device: Device, generator: Generator, limit: Limit | None = None) -> None:
        self.device = device
        self.generator = generator
        self.limit = limit
        self.suite = device.suite
        self.cores = device.setup.cores

    def reconfigure(self) -> str:
        """See :meth:`Stand.reconfigure`."""
        return self.device.reconfigure()

    def busy(self, settle: float, seconds: float) -> float:
        """See :meth:`Stand.busy`."""
        time.sleep(settle)
        with Watch(self.device.pids(), []) as watch:
            time.sleep(seconds)
        self.device.check_alive()
        return watch.noise.run_s / watch.noise.watched_s

    def poll(self) -> None:
        """See :meth:`Stand.poll`."""
        self.device.poll()

    def version(self) -> str:
        """See :meth:`Stand.version`."""
        return self.device.version()

    def remarks(self) -> list[str]:
        """See :meth:`Stand.remarks`."""
        return self.device.remarks

    def offer(self, load: Load) -> Trial:
        """Sends a load. Raises :class:`TrialVoid` with the device's log if it doesn't live to the end, or lets nothing through."""
        try:
            # Beside an attack a device may let nothing through: that is its figure.
            return self._offer(load) if load.attacked else forwarding(self._offer(load))
        except TrialVoid as void:
            self.device.check_alive()  # where it died, that is the reason
            raise type(void)(str(void), void.log + "\n" + self.device.log()) from void

    def warm_up(self, seconds: float) -> None:
        """Besides, and before: every flow and station is there. Drawn at random some would come for the first time in each trial, and
        beginning would be measured, the more of it the slower the device is."""
        if traffic := self.suite.traffic.in_turn:
            fill = Load(FILL_WITHIN_S, count=2 * traffic.members)
            try:
                self.generator.trial(traffic, self.device.endpoints(), self.cores, fill)
            except TrialVoid as void:
                self.device.check_alive()
                raise TrialVoid(f"before the trial: {void}", void.log + "\n" + self.device.log()) from void
        super().warm_up(seconds)

    def _offer(self, load: Load) -> Trial:
        started = datetime.now(UTC)
        if self.suite.method == "create":
            self.device.forget()
            load = replace(load, seconds=FILL_WITHIN_S, count=self.suite.traffic.members)
        # Outside of what is watched: whoever measures it takes the worker's core for some milliseconds.
        before = round_trip(self.device.setup)
        self.device.clear()
        with Watch(self.device.pids(), [self.cores.generator, *self.cores.workers]) as watch:
            output = self.generator.trial(self.suite.traffic, self.device.endpoints(), self.cores, load)
        self.device.check_alive()
        clocks, vitals = self.device.clocks(), self.device.vitals()
        self._all_held(vitals)
        after = round_trip(self.device.setup)
        output = replace(output, round_trip_ns=(before, after) if before and after else None)
        where = placement_of(output)
        # At a rate that is asked for it doesn't go as fast as it can.
        limited = self.limit.reached(output, where) if self.limit and load.rate_pps is None else None
        if self.suite.case.generator == "internal":
            limited = False  # its generator is part of what is measured
        if output.untaken > (1 - GENERATOR_LIMIT) / 10 * output.received:
            limited = True  # it fell short at its own end, at whatever rate
        return Trial(output, watch.noise, started, where, load.rate_pps, limited, clocks, vitals)

    def _all_held(self, vitals: Vitals) -> None:
        """Raises :class:`TrialVoid` where fewer sessions are there than the figure is to be of."""
        held = self.suite.case.held
        if vitals.sessions is not None and vitals.sessions < held:
            raise TrialVoid(f"the device holds {vitals.sessions} sessions of {held}")


@dataclass(frozen=True)
class Limit:
    """What the generator does with the least that can stand between: more isn't to be had from it, in that placement."""

    rate_pps: float
    placement: str
    #: For generators that count no packets.
    rate_bps: float = 0.0

    def reached(self, output: TrialOutput, where: str) -> bool | None:
        """Whether a figure comes so near that it is the generator's. None in another placement, of which nothing is known."""
        if where != self.placement:
            return None
        if self.rate_pps:
            return (output.rate_pps or 0.0) >= GENERATOR_LIMIT * self.rate_pps
        return (output.rate_bps or 0.0) >= GENERATOR_LIMIT * self.rate_bps


def clocks_of(trials: list[Trial]) -> dict[str, float]:
    """Clocks per packet by node: the median of the trials that counted them."""
    counted = [trial.clocks for trial in trials if trial.clocks]
    nodes = dict.fromkeys(node for clocks in counted for node in clocks)
    return {node: statistics.median(clocks[node] for clocks in counted if node in clocks) for node in nodes}


def clocks_near(trials: list[Trial], load_pps: float) -> dict[str, float]:
    """Clocks per packet by node at a load of all directions together: those of the counting trial that came nearest to it."""
    loaded = [trial for trial in trials if trial.counts and trial.clocks and trial.load_pps]
    nearest = min(loaded, key=lambda trial: abs((trial.load_pps or 0.0) * trial.output.ways - load_pps), default=None)
    return nearest.clocks if nearest else {}


def multiplied(trials: list[Trial]) -> bool:
    """Whether in one of them packets came that nobody sent."""
    return any(trial.output.multiplied for trial in trials)


def limited_in(trials: list[Trial]) -> bool | None:
    """Whether most of the trials whose generator's limit is known are at it; None where it is known of none."""
    if any(trial.generator_limited and trial.load_pps is not None for trial in trials):
        return True
    known = [trial.generator_limited for trial in trials if trial.generator_limited is not None]
    return sum(known) * 2 > len(known) if known else None


def limited_in_words(limited: bool | None) -> list[str]:
    """What must be said of the generator's limit."""
    if limited is None:
        return ["generator limit unknown"]
    return ["generator-limited"] if limited else []


def placement_of(output: TrialOutput) -> str:
    """Where the cores were throughout a trial."""
    if output.round_trip_ns is None:
        return UNKNOWN
    return common(set(map(placement, output.round_trip_ns)))


def generator_for(setup: Setup) -> Generator:
    """The generator that the suite asks for."""
    if setup.suite.case.generator == "iperf3":
        return Iperf3(setup.suite.case.connections)
    if setup.suite.case.generator == "internal":
        return Internal(setup.binaries)
    if setup.suite.case.generator == "flood":
        return Flooding(setup.binaries, setup.suite.case.hosts)
    if setup.suite.case.generator == "hostile":
        return Hostile(setup.suite)
    if setup.suite.case.generator == "one-end":
        return OneEnd(setup.binaries, setup.suite.case.forwarding)
    if setup.suite.case.path:
        return BetweenPods(setup.binaries)
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
    """What the generator does with the floor, or with a wire where ports are the kernel's. None where neither can stand in."""
    kind = Wire if setup.suite.port == "tap" else Floor
    if setup.suite.method in ("idle", "change", "flood", "hostile"):
        return None  # it sends far less than it could, or what it can't send is no figure
    # They can't be reconfigured, and have no sessions: they needn't.
    other = {"reconf": "ndrpdr", "create": "mrr"}.get(setup.suite.method, setup.suite.method)
    suite = replace(setup.suite, method=other)
    try:
        kind.require(suite)
    except Unsupported:
        return None
    # Builds of a commit have neither generator nor floor: those are this checkout's.
    with standing(kind, replace(setup, suite=suite, binaries=binaries())) as stand:
        stand.warm_up(seconds / 2)
        return limit_of([stand.trial(seconds) for _ in range(LIMIT_TRIALS)])


def limit_of(trials: list[Trial]) -> Limit:
    """The median of those trials that stood alike, in the placement that most of them had: one that the host spoilt decides nothing."""
    settled = [trial for trial in trials if trial.placement not in UNSETTLED] or trials
    where = Counter(trial.placement for trial in settled).most_common(1)[0][0]
    outputs = [trial.output for trial in settled if trial.placement == where]
    rates = (statistics.median(getattr(output, of) or 0.0 for output in outputs) for of in ("rate_pps", "rate_bps"))
    return Limit(next(rates), where, next(rates))


def round_trip(setup: Setup) -> float | None:
    """Round trip of a cache line between generator's and worker's core, in nanoseconds."""
    with contextlib.suppress(TrialVoid):
        return Tgen(binaries()).round_trip(setup.cores)
    return None
