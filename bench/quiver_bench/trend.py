"""Trends: which results of a series belong together, and where it went up or down, by jumpavg (minimum description length).

What one run measures, it measures in one state of the machine: its trials are alike, and ten of them say no more of the next run than
one does. So runs are held against each other, each by its median.

jumpavg sees a change between any two numbers that differ. It is called one only where there are runs enough on both sides that
chance would hardly part them so: else it is undecided, and says how many are needed. It is held against the last results before it
that are enough to be held against, so that a single odd one hides nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import jumpavg

from quiver_bench.results.query import series
from quiver_bench.results.store import Store
from quiver_bench.stats import mean_and_deviation

#: Suites of these methods get better as their figure falls; latency does, too.
LOWER_IS_BETTER = frozenset({"reconf", "idle", "change", "flood", "hostile"})

#: By how much figures are divided, by their units, and what they are then.
SCALES = {
    "pps": (1e6, "Mpps"),
    "cps": (1e6, "Mcps"),
    "bps": (1e9, "Gbit/s"),
    "s": (1e-3, "ms"),
    "us": (1.0, "µs"),
    "packets": (1.0, "packets lost"),
    "core": (1e-2, "% of a core"),
    "ratio": (1.0, "ratio"),
}

#: How often runs of which nothing tells them apart may fall into two groups so, in whichever order.
CHANCE = 0.05

#: Runs on either side that are enough, where none of one side lies among those of the other.
ENOUGH = 4


def told_apart(before: list[float], after: list[float]) -> bool:
    """Whether runs before and after are enough, and differ enough, to call a change one: by the exact rank test of Mann and Whitney
    (1947)."""
    from scipy.stats import mannwhitneyu  # here: it takes half the time in which any command starts

    return bool(mannwhitneyu(before, after, method="exact").pvalue <= CHANCE)


def needed(before: int) -> int:
    """Runs that are needed after so many, where none of one side lies among those of the other."""
    after = 1
    while 2 / math.comb(before + after, after) > CHANCE:
        after += 1
    return after


@dataclass(frozen=True)
class Group:
    """Neighbouring results between which nothing changed."""

    #: ``normal``, ``progression`` or ``regression`` against the group that it is held against.
    change: str
    average: float
    deviation: float
    first: int
    last: int
    #: Samples of all its results.
    samples: int = 1
    #: Runs that would be needed to call the change one; 0 where there are enough.
    needs: int = 0
    #: The group that it is held against, by number.
    against: int = 0

    @property
    def runs(self) -> int:
        """Results in it."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class Trend:
    """A series with its groups."""

    device: str
    suite: str
    placement: str
    unit: str
    runs: list[dict[str, Any]]
    groups: list[Group]
    #: Results that are irregular, and stand in no group.
    left_out: int = 0
    #: Which of its results' figures, where they have several: ``NDR``, ``PDR``, ``p50`` or ``p99.9``.
    figure: str = ""

    @property
    def name(self) -> str:
        """For people."""
        return " ".join(filter(None, [self.device, self.suite, self.placement, self.figure]))

    @property
    def remarks(self) -> list[str]:
        """What must be said of its last result."""
        return list(self.runs[-1]["remarks"] or [])

    def changes(self) -> list[dict[str, Any]]:
        """Every progression and regression: when, at which commit, from what to what."""
        return self._changes(decided=True)

    def undecided(self) -> list[dict[str, Any]]:
        """What may be one, and too few runs say so."""
        return self._changes(decided=False)

    def _changes(self, decided: bool) -> list[dict[str, Any]]:
        found = []
        for after in self.groups[1:]:
            if after.change == "normal" or decided == bool(after.needs):
                continue
            before = self.groups[after.against]
            run = self.runs[after.first]
            found.append(
                {
                    "device": self.device,
                    "suite": self.suite,
                    "placement": self.placement,
                    "change": after.change,
                    "at": run["start_time"].isoformat(),
                    "commit": run["commit"],
                    "from": before.average,
                    "to": after.average,
                    "ratio": after.average / before.average if before.average else None,
                    "unit": self.unit,
                    "figure": self.figure,
                    "samples": [before.samples, after.samples],
                    "runs": [before.runs, after.runs],
                    "needs": after.needs,
                }
            )
        return found


def classify(runs: list[list[float]], lower_is_better: bool = False) -> list[Group]:
    """Groups of a series in which each run has its samples."""
    medians = [median(run) for run in runs]
    groups: list[Group] = []
    first = 0
    for found in jumpavg.classify([[each] for each in medians]):
        last = first + len(found.run_list) - 1
        samples = [sample for run in runs[first : last + 1] for sample in run]
        change, needs, against = "normal", 0, 0
        if groups:
            # The last that is enough, or what comes nearest to it.
            against = max(range(len(groups)), key=lambda number: (min(groups[number].runs, ENOUGH), number))
            held = groups[against]
            before, after = medians[held.first : held.last + 1], medians[first : last + 1]
            change = _change(before, after, adjacent=against == len(groups) - 1, lower_is_better=lower_is_better)
            if change != "normal" and not told_apart(before, after):
                needs = max(needed(len(before)), len(after) + 1)
        groups.append(Group(change, *mean_and_deviation(samples), first, last, len(samples), needs, against))
        first = last + 1
    return groups


def _change(before: list[float], after: list[float], adjacent: bool, lower_is_better: bool) -> str:
    """What became of runs, by jumpavg. That it parts neighbours is known."""
    if not adjacent and len(jumpavg.classify([[each] for each in [*before, *after]])) == 1:
        return "normal"
    return "progression" if (fmean(after) > fmean(before)) != lower_is_better else "regression"


def trends(store: Store) -> list[Trend]:
    """All series of a store."""
    found = []
    for (device, suite, placement, figure), all_runs in series(store).items():
        runs = [run for run in all_runs if not run["irregular"]]
        if not runs:
            found.append(Trend(device, suite, placement, all_runs[0]["unit"], all_runs, [], len(all_runs), figure))
            continue
        samples = [list(run["values"]) if run["values"] else [run["figure"]] for run in runs]
        unit = runs[0]["unit"]
        groups = classify(samples, unit == "us" or runs[0]["test_type"] in LOWER_IS_BETTER)
        found.append(Trend(device, suite, placement, unit, runs, groups, len(all_runs) - len(runs), figure))
    return found
