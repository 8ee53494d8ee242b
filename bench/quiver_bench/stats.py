"""Medians, intervals and verdicts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

#: Pairs below which an interval says too little for a verdict: with five, all on one side, chance alone does that once in sixteen.
FEWEST_PAIRS = 5


@dataclass(frozen=True)
class Ratio:
    """How many times A is B: the median of the pairs' ratios, with its interval."""

    median: float
    low: float
    high: float
    confidence: float


def bootstrap_median(values: Sequence[float], confidence: float = 0.95, rounds: int = 10_000, seed: int = 1) -> Ratio:
    """The median of ``values`` with its percentile bootstrap interval (Efron 1979). The seed makes it repeatable."""
    if not values:
        raise ValueError("there are no values")
    sample = numpy.asarray(values, dtype=float)
    chosen = numpy.random.default_rng(seed).integers(0, sample.size, size=(rounds, sample.size))
    medians = numpy.median(sample[chosen], axis=1)
    tail = (1 - confidence) / 2 * 100
    low, high = numpy.percentile(medians, [tail, 100 - tail])
    return Ratio(float(numpy.median(sample)), float(low), float(high), confidence)


def paired_ratio(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Ratio:
    """The ratio of neighbours: ``a[i]`` and ``b[i]`` were measured one right after the other."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values make no pairs")
    return bootstrap_median([x / y for x, y in zip(a, b, strict=True)], confidence)


def verdict(ratio: Ratio, pairs: int) -> str:
    """``A is faster`` or ``B is faster`` only when the whole interval is on that side, and there are pairs enough."""
    if pairs < FEWEST_PAIRS:
        return f"no verdict: {pairs} pairs are too few ({FEWEST_PAIRS})"
    if ratio.low > 1:
        return "A is faster"
    if ratio.high < 1:
        return "B is faster"
    return "no difference shown"


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation, as CSIT's documents have them (0 for one value)."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
