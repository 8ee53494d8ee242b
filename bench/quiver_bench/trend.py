"""Trends: which results of a series belong together, and where it went up or down, by jumpavg (minimum description length).

jumpavg sees a change between any two numbers that differ. It is called one only where there are samples enough on both sides that
chance would hardly part them so: else it is undecided, and says how many are needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jumpavg

from quiver_bench.results.query import series
from quiver_bench.results.store import Store
from quiver_bench.stats import mean_and_deviation

#: Suites of these methods get better as their figure falls.
LOWER_IS_BETTER = frozenset({"reconf"})

#: How often samples of which nothing tells them apart may fall into two groups without overlapping, in whichever order.
CHANCE = 0.05

#: Samples on either side that are enough.
ENOUGH = 4


def told_apart(before: int, after: int) -> bool:
    """Whether so many samples before and after are enough to call a change one: by the exact rank test (Mann and Whitney, 1947) for
    samples that don't overlap."""
    return 2 / math.comb(before + after, after) <= CHANCE


def needed(before: int) -> int:
    """Samples that are needed after so many."""
    after = 1
    while not told_apart(before, after):
        after += 1
    return after


@dataclass(frozen=True)
class Group:
    """Neighbouring results between which nothing changed."""

    #: ``normal``, ``progression`` or ``regression`` against the group before.
    change: str
    average: float
    deviation: float
    first: int
    last: int
    #: Samples of all its results.
    samples: int = 1
    #: Samples that would be needed to call the change one; 0 where there are enough.
    needs: int = 0


@dataclass(frozen=True)
class Trend:
    """A series with its groups."""

    device: str
    suite: str
    placement: str
    unit: str
    runs: list[dict[str, Any]]
    groups: list[Group]
    #: Results that are irregular, or failed, and stand in no group.
    left_out: int = 0

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.device} {self.suite} {self.placement}"

    @property
    def remarks(self) -> list[str]:
        """What must be said of its last result."""
        return list(self.runs[-1]["remarks"] or [])

    def changes(self) -> list[dict[str, Any]]:
        """Every progression and regression: when, at which commit, from what to what."""
        return self._changes(decided=True)

    def undecided(self) -> list[dict[str, Any]]:
        """What may be one, and too few samples say so."""
        return self._changes(decided=False)

    def _changes(self, decided: bool) -> list[dict[str, Any]]:
        found = []
        for before, after in zip(self.groups, self.groups[1:], strict=False):
            if after.change == "normal" or decided == bool(after.needs):
                continue
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
                    "samples": [before.samples, after.samples],
                    "needs": after.needs,
                }
            )
        return found


def classify(runs: list[list[float]], lower_is_better: bool = False) -> list[Group]:
    """Groups of a series in which each run has its samples."""
    swap = {"progression": "regression", "regression": "progression"} if lower_is_better else {}
    groups: list[Group] = []
    first = 0
    for group in jumpavg.classify(runs):
        size = len(group.run_list)
        samples = [sample for run in runs[first : first + size] for sample in run]
        change = swap.get(group.comment, group.comment)
        before = groups[-1].samples if groups else 0
        undecided = change != "normal" and not told_apart(before, len(samples))
        groups.append(
            Group(
                change,
                *mean_and_deviation(samples),
                first,
                first + size - 1,
                len(samples),
                needed(before) if undecided else 0,
            )
        )
        first += size
    return groups


def trends(store: Store) -> list[Trend]:
    """All series of a store."""
    found = []
    for (device, suite, placement), all_runs in series(store).items():
        runs = [run for run in all_runs if not run["irregular"]]
        if not runs:
            found.append(Trend(device, suite, placement, all_runs[0]["unit"], all_runs, [], len(all_runs)))
            continue
        samples = [list(run["values"]) if run["values"] else [run["figure"]] for run in runs]
        lower = runs[0]["test_type"] in LOWER_IS_BETTER
        found.append(
            Trend(device, suite, placement, runs[0]["unit"], runs, classify(samples, lower), len(all_runs) - len(runs))
        )
    return found
