"""A against B, alternately in one run: what a shared machine does to one trial it does to its neighbour, too.

A verdict is a ratio of neighbours. Only pairs count whose two trials had the same placement throughout; if several
placements had such pairs, the one with the most is reported and the others stand beside it.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from quiver_bench.errors import BenchError, TrialVoid
from quiver_bench.machine import UNSETTLED
from quiver_bench.stats import paired_ratio, verdict
from quiver_bench.trial import Stand, Trial, forwarding

#: How many times the pairs asked for are tried, when the host moves cores about.
PATIENCE = 3

#: Seconds of sending before a trial counts.
WARM_UP_S = 0.2

StandMaker = Callable[[], AbstractContextManager[Stand]]
Told = Callable[[str], None]


@dataclass
class Pair:
    """Two trials, one right after the other."""

    a: Trial
    b: Trial
    number: int

    @property
    def placement(self) -> str | None:
        """Their common placement; None where there isn't one."""
        same = self.a.placement == self.b.placement and self.a.placement not in UNSETTLED
        return self.a.placement if same else None


@dataclass
class Comparison:
    """All pairs of a run."""

    suite: str
    metric: str
    a: str
    b: str
    pairs: list[Pair] = field(default_factory=list)
    voids: list[str] = field(default_factory=list)
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)
    #: Count only pairs of this placement.
    wanted: str | None = None

    def counted(self, where: str) -> list[Pair]:
        """Pairs of one placement."""
        return [pair for pair in self.pairs if pair.placement == where]

    def best_placement(self) -> str | None:
        """The placement that was asked for, or the one with the most pairs."""
        if self.wanted:
            return self.wanted if self.counted(self.wanted) else None
        seen = Counter(pair.placement for pair in self.pairs if pair.placement)
        return seen.most_common(1)[0][0] if seen else None

    def value(self, trial: Trial) -> float:
        """The figure of a trial."""
        return trial.output.rate_bps if self.metric == "bandwidth_bps" else trial.output.rate_pps

    def summary(self, where: str) -> dict[str, Any]:
        """Medians, ratio and verdict of one placement."""
        pairs = self.counted(where)
        a = [self.value(pair.a) for pair in pairs]
        b = [self.value(pair.b) for pair in pairs]
        ratio = paired_ratio(a, b)
        return {
            "a": {"name": self.a, "median": statistics.median(a), "samples": a, **self._state([p.a for p in pairs])},
            "b": {"name": self.b, "median": statistics.median(b), "samples": b, **self._state([p.b for p in pairs])},
            "ratio": {
                "median": ratio.median,
                "low": ratio.low,
                "high": ratio.high,
                "confidence": ratio.confidence,
                "samples": [x / y for x, y in zip(a, b, strict=True)],
            },
            "pairs": len(pairs),
            "placement": where,
            "verdict": verdict(ratio, len(pairs)),
        }

    @staticmethod
    def _state(trials: list[Trial]) -> dict[str, Any]:
        limited = sum(trial.generator_limited for trial in trials)
        state: dict[str, Any] = {"generator_limited": limited * 2 > len(trials)}
        clocks = next((trial.clocks for trial in reversed(trials) if trial.clocks), {})
        return {**state, "clocks": clocks} if clocks else state

    def as_dict(self) -> dict[str, Any]:
        """The object that ``--output json`` prints. Raises :class:`BenchError` where no pair counts."""
        best = self.best_placement()
        if best is None:
            reason = self.voids[-1] if self.voids else "no pair of trials had the same placement throughout: try again"
            raise BenchError(f"nothing could be compared: {reason}")
        others = {pair.placement for pair in self.pairs if pair.placement} - {best}
        return {
            "suite": self.suite,
            "metric": self.metric,
            **self.summary(best),
            "other_placements": [self.summary(str(where)) for where in sorted(map(str, others))],
            "trials": [
                {
                    "pair": pair.number,
                    "counts": pair.placement == best,
                    "a": pair.a.as_dict(),
                    "b": pair.b.as_dict(),
                }
                for pair in self.pairs
            ],
            "void": self.voids,
            "notes": self.notes,
            "interrupted": self.interrupted,
        }


def compare(
    comparison: Comparison,
    make_a: StandMaker,
    make_b: StandMaker,
    pairs: int,
    seconds: float,
    tell: Told = lambda _: None,
    within: float = math.inf,
) -> Comparison:
    """Measures A and B alternately until ``pairs`` pairs of one placement are there, or patience or time is at its end.

    Ctrl-C ends it early; what was measured is kept in ``comparison``.
    """
    tries, until = 0, time.monotonic() + within
    try:
        while tries < PATIENCE * pairs and _complete(comparison) < pairs:
            if time.monotonic() > until:
                tell(f"{within:.0f} s are over")
                break
            tries += 1
            # Whoever goes second may find caches warm: they take turns.
            order = ((make_a, "a"), (make_b, "b")) if tries % 2 else ((make_b, "b"), (make_a, "a"))
            both = {}
            try:
                for make, side in order:
                    both[side] = _one(make, seconds)
                    name = comparison.a if side == "a" else comparison.b
                    value = comparison.value(both[side])
                    tell(f"pair {tries} {name}: {value / 1e6:.2f} M/s, {both[side].placement}")
            except TrialVoid as void:
                comparison.voids.append(
                    f"pair {tries}: {void}" + (f"\n{void.log.strip()[-2000:]}" if void.log.strip() else "")
                )
                tell(f"pair {tries} is void: {void}")
                if len(comparison.voids) >= PATIENCE and not comparison.pairs:
                    break
                continue
            pair = Pair(both["a"], both["b"], tries)
            comparison.pairs.append(pair)
            if pair.placement is None:
                tell(f"pair {tries} doesn't count: {pair.a.placement} and {pair.b.placement}")
    except KeyboardInterrupt:
        comparison.interrupted = True
        tell("stopped; what was measured is kept")
    return comparison


def _complete(comparison: Comparison) -> int:
    best = comparison.best_placement()
    return len(comparison.counted(best)) if best else 0


def _one(make: StandMaker, seconds: float) -> Trial:
    with make() as stand:
        stand.trial(WARM_UP_S)
        stand.clear()
        return replace(forwarding(stand.trial(seconds)), clocks=stand.clocks())
