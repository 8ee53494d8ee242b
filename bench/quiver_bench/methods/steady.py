"""Trials that may be held against each other: made again while the cores stand elsewhere.

A search, a soak, a reconfiguration and latencies each speak of one placement. A trial of another one, or one in which the cores
were moved, is kept with the others and counts for nothing.
"""

from __future__ import annotations

from quiver_bench.errors import TrialVoid
from quiver_bench.generators import Load
from quiver_bench.machine import UNSETTLED
from quiver_bench.methods.base import Told
from quiver_bench.trial import Stand, Trial

#: How many times in all a trial is made while the cores don't stand as they should.
PATIENCE = 20


class Unsteady(TrialVoid):
    """The cores never stood as they should: nothing can be said that belongs to one placement."""


def first_settled(stand: Stand, seconds: float, tell: Told) -> Trial:
    """A trial at the greatest load, made again while the cores are moved: all others are held against its placement."""
    for _ in range(PATIENCE):
        trial = stand.trial(seconds)
        if trial.placement not in UNSETTLED:
            return trial
        tell(f"again: cores {trial.placement}")
    raise Unsteady(f"the cores were {trial.placement} in {PATIENCE} trials running: try again when it is quieter")


def steady(stand: Stand, load: Load, where: str, kept: list[Trial], tell: Told) -> Trial:
    """A trial of that placement; those of others go to ``kept`` as well. Raises :class:`Unsteady` where patience ends."""
    for _ in range(PATIENCE):
        trial = stand.offer(load)
        kept.append(trial)
        if trial.placement == where:
            return trial
        tell(f"again: cores {trial.placement}, at first {where}")
    raise Unsteady(f"the cores were {trial.placement}, and at first {where}, at the end of {PATIENCE} trials running")
