"""Medians, intervals and verdicts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

#: Pairs below which no interval holds the median with 95 %: that of five, from the least to the greatest, does with 93.75 %.
FEWEST_PAIRS = 6

#: What a verdict ends with where the slower one's figure is the generator's.
LIMITED = "is at the generator's limit"


@dataclass(frozen=True)
class Ratio:
    """How many times A is B: the median of the pairs' ratios, with its interval."""

    median: float
    low: float
    high: float
    #: How often such an interval holds the median: what was asked for, or less where there are too few values for it.
    confidence: float


def median_interval(values: Sequence[float], confidence: float = 0.95, rounds: int = 10_000, seed: int = 1) -> Ratio:
    """The median of ``values`` with an interval: percentile bootstrap (Efron 1979), widened to the order statistics that hold the
    median of whatever distribution. The bootstrap alone is too narrow for few values:
    of seven it gives the second to the sixth, which holds the median with 87.5 %. The seed makes it repeatable.
    """
    if not values:
        raise ValueError("there are no values")
    sample = numpy.sort(numpy.asarray(values, dtype=float))
    chosen = numpy.random.default_rng(seed).integers(0, sample.size, size=(rounds, sample.size))
    medians = numpy.median(sample[chosen], axis=1)
    tail = (1 - confidence) / 2 * 100
    low, high = numpy.percentile(medians, [tail, 100 - tail])
    outer, reached = order_statistics(sample.size, confidence)
    return Ratio(
        float(numpy.median(sample)),
        min(float(low), float(sample[outer])),
        max(float(high), float(sample[-1 - outer])),
        min(confidence, reached),
    )


def order_statistics(count: int, confidence: float) -> tuple[int, float]:
    """How many values may lie outside on either side, and how often the rest then holds the median.

    The median lies outside the values from the ``k``-th least to the ``k``-th greatest when fewer than ``k`` of them lie on one side
    of it, and each does with probability one half. With too few values none may lie outside.
    """
    outside, tail = 0, 0.5**count
    while outside < count and 1 - 2 * (wider := tail + math.comb(count, outside + 1) * 0.5**count) >= confidence:
        outside, tail = outside + 1, wider
    return outside, 1 - 2 * tail


def paired_ratio(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Ratio:
    """The ratio of neighbours: ``a[i]`` and ``b[i]`` were measured one right after the other."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values make no pairs")
    return median_interval([x / y for x, y in zip(a, b, strict=True)], confidence)


def verdict(ratio: Ratio | None, pairs: int, a_limited: bool | None = None, b_limited: bool | None = None) -> str:
    """``A is faster`` or ``B is faster`` only when the whole interval is on that side, there are pairs enough, and the slower one's figure
    isn't the generator's: then nobody knows what it could do."""
    if ratio is None or pairs < FEWEST_PAIRS:
        return f"no verdict: {pairs} pair{'s are' if pairs != 1 else ' is'} too few ({FEWEST_PAIRS} are needed)"
    sides = ("A", "B", ratio.low > 1, b_limited), ("B", "A", ratio.high < 1, a_limited)
    for name, other, faster, slower_is_limited in sides:
        if faster:
            return f"no verdict: {other} {LIMITED}" if slower_is_limited else f"{name} is faster"
    return "no difference shown"


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation, as CSIT's documents have them (0 for one value)."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def with_deviation(mean: float, deviation: float, count: int, scale: float, digits: int) -> str:
    """The mean of so many values and their standard deviation, which one value hasn't, in words."""
    said = f"{mean / scale:.{digits}f}"
    return f"{said} ± {deviation / scale:.{digits}f}" if count > 1 else said


def series_in_words(found: dict[str, Any], scale: float, digits: int) -> str:
    """:func:`with_deviation` of values as documents have them."""
    return with_deviation(found["avg"], found["stdev"], len(found["values"]), scale, digits)
