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

from quiver_bench.errors import TrialVoid
from quiver_bench.machine import UNSETTLED
from quiver_bench.methods.base import judged
from quiver_bench.stats import paired_ratio, verdict
from quiver_bench.trial import Stand, Trial, clocks_of, limited_in

#: How many times the pairs asked for are tried, when the host moves cores about.
PATIENCE = 3

#: Seconds of sending before a trial counts.
WARM_UP_S = 0.2

StandMaker = Callable[[], AbstractContextManager[Stand]]
Told = Callable[[str], None]


@dataclass
class Pair:
    """Two trials, one right after the other. Where one of them is void, or was stopped, the other is kept alone."""

    number: int
    a: Trial | None = None
    b: Trial | None = None

    @property
    def placement(self) -> str | None:
        """Their common placement; None where there isn't one."""
        if self.a is None or self.b is None:
            return None
        same = self.a.placement == self.b.placement and self.a.placement not in UNSETTLED
        return self.a.placement if same else None

    def as_dict(self, counts: bool) -> dict[str, Any]:
        """For a result document."""
        sides = {
            side: trial and replace(trial, counts=counts).as_dict() for side, trial in (("a", self.a), ("b", self.b))
        }
        return {"pair": self.number, "counts": counts, **sides}


@dataclass
class Comparison:
    """All pairs of a run."""

    suite: str
    metric: str
    a: str
    b: str
    pairs: list[Pair] = field(default_factory=list)
    voids: list[str] = field(default_factory=list)
    #: What devices said before they died.
    logs: list[str] = field(default_factory=list)
    interrupted: bool = False
    #: What ended it that was no fault of a trial's; empty where nothing did.
    broken: str = ""
    notes: list[str] = field(default_factory=list)
    #: How long a trial is. How many pairs there are stands beside; it doesn't move the ratio.
    effort: str = ""
    #: Count only pairs of this placement.
    wanted: str | None = None
    #: Of devices, by side, as they tell when they are up.
    versions: dict[str, str] = field(default_factory=dict)
    #: What must be said of a side, by how it could be brought up.
    remarks: dict[str, list[str]] = field(default_factory=dict)

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
        return (trial.output.rate_bps if self.metric == "bandwidth_bps" else trial.output.rate_pps) or 0.0

    def summary(self, where: str) -> dict[str, Any]:
        """Medians, ratio and verdict of one placement."""
        pairs = [(pair.a, pair.b) for pair in self.counted(where) if pair.a and pair.b]
        a, b = ([self.value(trial) for trial in side] for side in zip(*pairs, strict=True))
        ratio = paired_ratio(a, b)
        return {
            "a": {
                "name": self.a,
                "median": statistics.median(a),
                "samples": a,
                **self._state("a", [a for a, _ in pairs]),
            },
            "b": {
                "name": self.b,
                "median": statistics.median(b),
                "samples": b,
                **self._state("b", [b for _, b in pairs]),
            },
            "ratio": {
                "median": ratio.median,
                "low": ratio.low,
                "high": ratio.high,
                "confidence": ratio.confidence,
                "samples": [x / y for x, y in zip(a, b, strict=True)],
            },
            "pairs": len(pairs),
            "placement": where,
            "verdict": verdict(ratio, len(pairs), *(limited_in(list(side)) for side in zip(*pairs, strict=True))),
        }

    @property
    def failure(self) -> str:
        """Why nothing could be compared; empty where something could."""
        if self.best_placement():
            return ""
        if self.voids:
            return f"nothing could be compared: {self.voids[-1].splitlines()[0]}"
        if self.interrupted:
            return "stopped before a pair was measured"
        wanted = f"was {self.wanted}" if self.wanted else "had the same placement"
        return f"nothing could be compared: no pair of trials {wanted} throughout: try again"

    def _nothing(self) -> dict[str, Any]:
        unknown: dict[str, Any] = {
            "median": None,
            "samples": [],
            "generator_limited": None,
            "irregular": False,
            "remarks": [],
        }
        return {
            "a": {"name": self.a, **unknown},
            "b": {"name": self.b, **unknown},
            "ratio": None,
            "pairs": 0,
            "placement": None,
            "verdict": verdict(None, 0),
        }

    def _state(self, side: str, trials: list[Trial]) -> dict[str, Any]:
        irregular, remarks = judged(trials)
        remarks = [*self.remarks.get(side, []), *remarks]
        state: dict[str, Any] = {"generator_limited": limited_in(trials), "irregular": irregular, "remarks": remarks}
        clocks = clocks_of(trials)
        return {**state, "clocks": clocks} if clocks else state

    def as_dict(self) -> dict[str, Any]:
        """The object that ``--output json`` prints. Where no pair counts it has no medians and no ratio, but all trials."""
        best = self.best_placement()
        others = {pair.placement for pair in self.pairs if pair.placement} - {best}
        return {
            "suite": self.suite,
            "metric": self.metric,
            **(self.summary(best) if best else self._nothing()),
            "other_placements": [self.summary(str(where)) for where in sorted(map(str, others))],
            "trials": [pair.as_dict(best is not None and pair.placement == best) for pair in self.pairs],
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
    comparison.effort = f"trials of {seconds:g} s"
    tries, until = 0, time.monotonic() + within
    try:
        while tries < PATIENCE * pairs and _complete(comparison) < pairs:
            if time.monotonic() > until:
                tell(f"{within:.0f} s are over")
                break
            tries += 1
            pair = Pair(tries)
            comparison.pairs.append(pair)
            try:
                # Whoever goes second may find caches warm: they take turns.
                for side in ("a", "b") if tries % 2 else ("b", "a"):
                    _measure(comparison, pair, side, make_a if side == "a" else make_b, seconds, tell)
            except TrialVoid as void:
                comparison.voids.append(f"pair {tries}: {void}")
                if void.log.strip():
                    comparison.logs.append(f"pair {tries}: {void}\n{void.log.strip()}\n")
                tell(f"pair {tries} is void: {void}")
                if len(comparison.voids) >= PATIENCE and len(comparison.voids) == len(comparison.pairs):
                    break
                continue
            if pair.placement is None and pair.a and pair.b:
                tell(f"pair {tries} doesn't count: {pair.a.placement} and {pair.b.placement}")
    except KeyboardInterrupt:
        comparison.interrupted = True
        tell("stopped; what was measured is kept")
    return comparison


def _complete(comparison: Comparison) -> int:
    best = comparison.best_placement()
    return len(comparison.counted(best)) if best else 0


def _measure(comparison: Comparison, pair: Pair, side: str, make: StandMaker, seconds: float, tell: Told) -> None:
    """One side of a pair, kept before it's told: Ctrl-C may come in between, and what was told is kept."""
    name = getattr(comparison, side)
    with make() as stand:
        stand.warm_up(WARM_UP_S)
        trial = stand.trial(seconds)
        comparison.versions[side] = stand.version()
        known = comparison.remarks.get(side, [])
        comparison.remarks[side] = list(dict.fromkeys([*known, *stand.remarks()]))
    if not comparison.value(trial):
        raise TrialVoid(f"{name} has no {comparison.metric}, and nothing can be held against it")
    setattr(pair, side, trial)
    tell(f"pair {pair.number} {name}: {comparison.value(trial) / 1e6:.2f} M/s, {trial.placement}")
