"""What a method brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from quiver_bench.stats import mean_and_deviation
from quiver_bench.trial import Trial, limited_in, multiplied

Told = Callable[[str], None]

MULTIPLIED = "packets came twice, or more came than was sent"


@dataclass
class Figure:
    """One result: the ``result`` of a document, the trials it rests on, and what must be said of it."""

    result: dict[str, Any]
    trials: list[Trial]
    placement: str
    #: A bound is missing, the search ended before it was sure, or packets came that nobody sent.
    irregular: bool = False
    message: str = ""
    clocks: dict[str, float] = field(default_factory=dict)

    #: What a reader must know of it besides.
    remarks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if multiplied(self.counting):
            self.irregular = True
            self.remarks = list(dict.fromkeys([*self.remarks, MULTIPLIED]))

    @property
    def generator_limited(self) -> bool | None:
        """Whether it is the generator's figure rather than the device's; None where its limit isn't known."""
        return limited_in(self.counting)

    @property
    def counting(self) -> list[Trial]:
        """The trials that it rests on."""
        return [trial for trial in self.trials if trial.counts]


def rate(value: float, frame_bits: float) -> dict[str, Any]:
    """A rate with its bandwidth, as in CSIT's documents."""
    return {"rate": {"value": value, "unit": "pps"}, "bandwidth": {"value": value * frame_bits, "unit": "bps"}}


def series(values: list[float], unit: str) -> dict[str, Any]:
    """Values with mean and standard deviation, as in CSIT's documents."""
    mean, deviation = mean_and_deviation(values)
    return {"values": values, "avg": mean, "stdev": deviation, "unit": unit}
