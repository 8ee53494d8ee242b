"""Simulated systems with known capacity and known critical load: what methods are tested against, without a clock or a network."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy

from quiver_bench.generators import Latency, Load, TrialOutput
from quiver_bench.methods import plr
from quiver_bench.noise import Noise
from quiver_bench.trial import Stand, Trial, forwarding

#: Clocks per second that its node takes, whatever the load: so many for each packet.
CLOCKS = 1e9

#: Microseconds that a packet is under way, by placement.
LATENCY_US = {"sibling": 3.0, "near": 5.0, "far": 11.0, "moved": 8.0, "disturbed": 99.0}


@dataclass
class Simulated(Stand):
    """A device whose loss is Poisson distributed around a model, behind a generator with a highest rate."""

    mrr: float
    spread: float
    model: str = "stretch"
    generator_pps: float = 50e6
    #: Placements of the coming trials; the last stays.
    placements: list[str] = field(default_factory=lambda: ["near"])
    #: Relative scatter of the capacity from trial to trial.
    scatter: float = 0.0
    #: Share of a core that it takes with nothing to do, and microseconds that it then takes to wake up.
    idle_share: float = 0.0
    sleeps_us: float = 0.0
    #: Packets lost when the configuration grows.
    reconfiguration_loss: int = 0
    #: Seconds in which it takes nothing when the configuration grows. Who catches up later sends all the same.
    reconfiguration_standstill: float = 0.0
    #: Share of that in which the generator didn't run either.
    overslept: float = 0.0
    #: Seconds for which the generator is kept from running in the coming trials at a rate; the last stays.
    stalls: list[float] = field(default_factory=lambda: [0.0])
    #: Seconds for which the device is kept from running in each trial at a rate.
    waits: float = 0.0
    #: The same at the greatest load, which isn't seen in its figure, and seconds in which the host takes cores away.
    unpaced_waits: float = 0.0
    steal: float = 0.0
    #: Packets that come twice in each trial.
    copies: int = 0
    #: Share of what comes that the generator doesn't take at a rate that was asked for: lost at its own end.
    untaken: float = 0.0
    seed: int = 1
    #: From this trial on nothing is lost.
    better_from: int | None = None
    #: Whether the generator's highest rate is known to who measures.
    limit_known: bool = True
    #: Directions; capacity and critical load are those of both together.
    ways: int = 1

    def __post_init__(self) -> None:
        self.random = numpy.random.default_rng(self.seed)
        self.asked: list[tuple[float, float | None]] = []

    def reconfigure(self) -> str:
        """Grows."""
        return "the simulation grew"

    def busy(self, settle: float, seconds: float) -> float:
        """As idle as it is said to be."""
        return self.idle_share

    def poll(self) -> None:
        """From now on first packets come as others do."""
        self.sleeps_us = 0.0

    def loss_per_second(self, load: float) -> float:
        """The model's."""
        one = numpy.ones(1)
        return math.exp(float(plr.MODELS[self.model](load, self.mrr * one, self.spread * one)[0]))

    def critical_load(self, ratio: float) -> float:
        """The load at which ``ratio`` is lost."""
        return float(
            plr.critical_load(plr.MODELS[self.model], numpy.array([self.mrr]), numpy.array([self.spread]), ratio)[0]
        )

    def offer(self, asked: Load) -> Trial:
        """Sends without waiting, a rate in each direction."""
        seconds, rate_pps = asked.seconds, asked.rate_pps
        self.asked.append((seconds, rate_pps))
        load = min(self.ways * rate_pps if rate_pps else self.generator_pps, self.generator_pps)
        disturbed = 1 + self.scatter * float(self.random.standard_normal())
        sent = round(load * seconds)
        lost = min(sent, int(self.random.poisson(self.loss_per_second(load / disturbed) * disturbed * seconds)))
        if self.better_from is not None and len(self.asked) > self.better_from:
            lost = 0
        missed = None if asked.max_late is None else 0
        if asked.meanwhile:
            asked.meanwhile()
            lost = min(sent, lost + self.reconfiguration_loss)
            if asked.max_late is not None:
                missed = round(load * max(0.0, self.reconfiguration_standstill - asked.max_late))
                sent -= missed
        stalled = self.stalls.pop(0) if len(self.stalls) > 1 and rate_pps else self.stalls[0]
        stalled_packets = round(load * stalled) if rate_pps else 0
        asleep = stalled_packets if asked.max_late is not None else 0
        waited = round(load * self.waits) if rate_pps else 0
        lost = min(sent, lost + waited)
        if asked.max_late is None:
            lost = min(sent, lost + stalled_packets)  # it comes in one burst
        else:
            missed, sent = (missed or 0) + asleep, sent - asleep
        untaken = round(self.untaken * (sent - lost)) if rate_pps else 0
        lost += untaken
        where = self.placements.pop(0) if len(self.placements) > 1 else self.placements[0]
        received = sent - lost + self.copies
        intended = round(self.ways * rate_pps * seconds) if rate_pps else None
        pps = received / seconds
        output = TrialOutput(
            *(sent, received, lost, seconds, pps, pps * 480, intended),
            missed=missed,
            overslept=round(self.overslept * ((missed or 0) - asleep)) + asleep,
            stalled_packets=stalled_packets,
            longest_stall_s=stalled,
            untaken=untaken,
            ways=self.ways,
            latency=_latency(LATENCY_US[where] + self.sleeps_us) if asked.latency else None,
        )
        known = rate_pps is None and self.limit_known
        limited = received / seconds >= 0.9 * self.generator_pps if known else None
        noise = Noise(self.steal, self.steal, seconds, self.waits if rate_pps else self.unpaced_waits)
        clocks = {"simulated": CLOCKS / max(load, 1.0)}
        return forwarding(Trial(output, noise, datetime.now(UTC), where, rate_pps, limited, clocks))


def _latency(us: float) -> Latency:
    """That of packets which all take as long, but for the slowest of a thousand."""
    return Latency(us, us, us, {"50": us, "99.9": 2 * us})
