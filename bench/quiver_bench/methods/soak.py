"""Soak: the critical load, at which the mean loss ratio is 1e-7, by PLRsearch (draft-vpolak-bmwg-plrsearch).

Trials grow longer (5.1 s, 5.2 s, …). After each, two models of the device are fitted to all trials, and the next is made at the
mean of their critical loads, or above it when several in a row lost nothing, as such trials teach little.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from quiver_bench.methods import plr
from quiver_bench.methods.base import QUIET, Figure, Told, rate
from quiver_bench.methods.steady import (
    OWN_PATIENCE,
    Run,
    decided_by_noise,
    first_settled,
    marked,
    noise_of,
    of,
)
from quiver_bench.trial import Stand, Trial, clocks_near

TARGET = 1e-7
SOAK_SECONDS = 1800.0
FIRST_TRIAL_SECONDS = 5.1
LONGER_SECONDS = 0.1
MIN_LOAD = 9001.0

#: Trials that find the region, before the models are asked.
OPENING = 4


@dataclass
class Searched:
    """Where a search stands."""

    log_load: float
    deviation: float
    trials: int

    @property
    def bounds(self) -> tuple[float, float]:
        """Critical load less and plus its deviation."""
        return math.exp(self.log_load - self.deviation), math.exp(self.log_load + self.deviation)


class Search:
    """PLRsearch, one trial at a time: ask :meth:`next_load`, measure, :meth:`learn`."""

    def __init__(
        self, max_rate: float, min_rate: float = MIN_LOAD, target: float = TARGET, where: str = "unknown", ways: int = 1
    ) -> None:
        #: Of all directions together, as all loads here.
        self.max_rate = max_rate
        self.ways = ways
        #: The placement that it speaks of.
        self.where = where
        self.run = Run(where)
        self.min_rate = min_rate
        self.target = target
        self.trials: list[plr.Observed] = []
        self.state: Searched | None = None

    def next_load(self) -> float:
        """The load of the next trial."""
        made = len(self.trials)
        if made == 0:
            load = (self.min_rate + self.max_rate) / 2
        elif made == 1:
            load = self.max_rate
        elif made < OPENING or self.state is None:
            last = self.trials[-1]
            load = (last.load_pps - last.lost / last.seconds) / (1 - self.target)
        else:
            load = self._under_pressure(math.exp(self.state.log_load))
        return min(self.max_rate, max(self.min_rate, load))

    def _under_pressure(self, load: float) -> float:
        """Moves half the way to the least load above that lost too much, then half of the rest, with every trial that lost nothing.

        The draft's weight of such a load doubles, too; its list of them, of which some are left out in turn, isn't kept.
        """
        lossless = 0
        for trial in reversed(self.trials):
            if trial.lost:
                break
            lossless += 1
        lossy = [
            trial.load_pps
            for trial in self.trials
            if trial.load_pps > load and trial.lost >= self.target * trial.load_pps * trial.seconds
        ]
        return load + (min(lossy) - load) * (1 - 0.5**lossless) if lossy else load

    def seconds(self) -> float:
        """The length of the next trial."""
        return FIRST_TRIAL_SECONDS + LONGER_SECONDS * len(self.trials)

    def learn(self, load_pps: float, seconds: float, lost: int) -> Searched:
        """Fits both models to all trials. While nothing was ever lost, all that is known is the highest load so far."""
        self.trials.append(plr.Observed(load_pps, seconds, lost))
        if not any(trial.lost for trial in self.trials):
            self.state = Searched(math.log(max(trial.load_pps for trial in self.trials)), 1.0, len(self.trials))
            return self.state
        found = [plr.estimate(name, self.trials, self.max_rate, self.target) for name in plr.MODELS]
        middle = sum(each.log_load for each in found) / len(found)
        # The models' own doubts, and how far they are apart.
        variance = sum(each.deviation**2 + (each.log_load - middle) ** 2 for each in found) / len(found)
        self.state = Searched(middle, math.sqrt(variance), len(self.trials))
        return self.state


def measure(
    stand: Stand,
    tell: Told,
    frame_bits: float,
    soak_seconds: float = SOAK_SECONDS,
    kept: list[Trial] | None = None,
    target: float = TARGET,
) -> Figure:
    """Searches for so long. Raises nothing on few trials: the deviation tells."""
    kept = kept if kept is not None else []
    stand.warm_up(1.0)
    until = time.monotonic() + soak_seconds
    searches: dict[str, Search] = {}
    search = _begin(stand, tell, kept, searches, target)
    own = 0
    while time.monotonic() + search.seconds() <= until:
        load, seconds = search.next_load(), search.seconds()
        trial = stand.trial(seconds, load / search.ways)
        if trial.placement != search.where:
            kept.append(replace(trial, counts=False))
            if search.run.moved(trial.placement):
                tell(f"anew: cores {trial.placement}, at first {search.where}")
                search = _begin(stand, tell, kept, searches, target)
            else:
                tell(f"again: cores {trial.placement}, at first {search.where}")
            continue
        search.run.moved(trial.placement)
        own = own + 1 if decided_by_noise(trial, (target,)) else 0
        if 0 < own < OWN_PATIENCE:
            kept.append(replace(trial, counts=False))
            tell(f"again: {noise_of(trial)}")
            continue
        kept.append(marked(trial, (target,)) if own else trial)
        own = 0
        # What could not be sent would have been lost.
        missing = trial.output.unsent + trial.output.lost
        learnt = search.learn(load, trial.output.seconds, missing)
        low, high = learnt.bounds
        tell(
            f"trial {len(search.trials)} at {load / 1e6:.3f} Mpps: {missing} lost; critical {low / 1e6:.3f} to {high / 1e6:.3f}"
        )
    # The placement that it learnt most of; the others' trials are kept.
    search = max(searches.values(), key=lambda each: len(each.trials))
    trials, state = of(kept, search.where), search.state
    if state is None:
        why = f"too short for a trial that stands as the first did: give it more --soak-seconds, and {QUIET}"
        return Figure({"type": "unknown"}, trials, search.where, True, why)
    critical, message = _bounds(search, state)
    if not message and len(search.trials) <= OPENING:
        message = f"ended after {len(search.trials)} trials, before the models were asked"
    ends = {end: rate(value, frame_bits) for end, value in critical.items()}
    return Figure(
        {"type": "soak", "critical_rate": ends},
        trials,
        search.where,
        irregular=bool(message),
        message=message,
        clocks=clocks_near(trials, min(critical.values())),
    )


def _begin(stand: Stand, tell: Told, kept: list[Trial], searches: dict[str, Search], target: float) -> Search:
    """The search of the placement in which the cores stand now: begun, or gone on with where they have come back to it."""
    unpaced = first_settled(stand, 1.0, tell)
    kept.append(unpaced)
    where, output = unpaced.placement, unpaced.output
    search = searches.setdefault(
        where, Search(1.25 * (output.rate_pps or 0.0), target=target, where=where, ways=output.ways)
    )
    search.run = Run(where)
    return search


def _bounds(search: Search, state: Searched) -> tuple[dict[str, float], str]:
    """The critical load's bounds, and what must be said where there is one of them only: it lies beyond all that was offered."""
    loads = [trial.load_pps for trial in search.trials]
    if not any(trial.lost for trial in search.trials):
        return {"lower": max(loads)}, f"nothing was lost up to {max(loads) / 1e6:.3f} Mpps: there is no upper bound"
    too_much = [trial.lost > search.target * trial.load_pps * trial.seconds for trial in search.trials]
    if all(too_much) and min(loads) <= search.min_rate:
        return {"upper": min(loads)}, f"more was lost even at {min(loads) / 1e6:.3f} Mpps: there is no lower bound"
    low, high = state.bounds
    return {"lower": low, "upper": high}, ""
