"""Trends: which results of a series belong together, and where it went up or down, by jumpavg (minimum description length)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jumpavg

from quiver_bench.results.query import series
from quiver_bench.results.store import Store

#: Suites of these methods get better as their figure falls.
LOWER_IS_BETTER = frozenset({"reconf"})


@dataclass(frozen=True)
class Group:
    """Neighbouring results between which nothing changed."""

    #: ``normal``, ``progression`` or ``regression`` against the group before.
    change: str
    average: float
    deviation: float
    first: int
    last: int


@dataclass(frozen=True)
class Trend:
    """A series with its groups."""

    device: str
    suite: str
    placement: str
    unit: str
    runs: list[dict[str, Any]]
    groups: list[Group]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.device} {self.suite} {self.placement}"

    def changes(self) -> list[dict[str, Any]]:
        """Every progression and regression: when, at which commit, from what to what."""
        found = []
        for before, after in zip(self.groups, self.groups[1:], strict=False):
            if after.change == "normal":
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
                }
            )
        return found


def classify(runs: list[list[float]], lower_is_better: bool = False) -> list[Group]:
    """Groups of a series in which each run has its samples."""
    swap = {"progression": "regression", "regression": "progression"} if lower_is_better else {}
    groups, first = [], 0
    for group in jumpavg.classify(runs):
        size = len(group.run_list)
        groups.append(
            Group(swap.get(group.comment, group.comment), group.stats.avg, group.stats.stdev, first, first + size - 1)
        )
        first += size
    return groups


def trends(store: Store) -> list[Trend]:
    """All series of a store."""
    found = []
    for (device, suite, placement), runs in series(store).items():
        samples = [list(run["values"]) if run["values"] else [run["figure"]] for run in runs]
        lower = runs[0]["test_type"] in LOWER_IS_BETTER
        found.append(Trend(device, suite, placement, runs[0]["unit"], runs, classify(samples, lower)))
    return found
