"""What a method brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from quiver_bench.machine import common
from quiver_bench.stats import mean_and_deviation
from quiver_bench.trial import Trial

Told = Callable[[str], None]


@dataclass
class Figure:
    """One result: the ``result`` of a document, the trials it rests on, and what must be said of it."""

    result: dict[str, Any]
    trials: list[Trial]
    placement: str
    #: A bound is missing, or the search ended before it was sure.
    irregular: bool = False
    message: str = ""
    clocks: dict[str, float] = field(default_factory=dict)

    @property
    def generator_limited(self) -> bool:
        """Whether it is the generator's figure rather than the device's."""
        unpaced = [trial for trial in self.trials if trial.load_pps is None]
        return sum(trial.generator_limited for trial in unpaced) * 2 > len(unpaced) > 0


def rate(value: float, frame_bits: float) -> dict[str, Any]:
    """A rate with its bandwidth, as in CSIT's documents."""
    return {"rate": {"value": value, "unit": "pps"}, "bandwidth": {"value": value * frame_bits, "unit": "bps"}}


def series(values: list[float], unit: str) -> dict[str, Any]:
    """Values with mean and standard deviation, as in CSIT's documents."""
    mean, deviation = mean_and_deviation(values)
    return {"values": values, "avg": mean, "stdev": deviation, "unit": unit}


def common_placement(trials: list[Trial]) -> str:
    """Where the cores were in all trials; ``moved`` if that changed."""
    return common({trial.placement for trial in trials})
