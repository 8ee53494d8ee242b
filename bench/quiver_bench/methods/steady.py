"""Trials that may be held against each other: made again while the cores stand elsewhere.

A search, a soak, a reconfiguration and latencies each speak of one placement. A trial of another one, or one in which the cores
were moved, is kept with the others and counts for nothing. Where several in a row agree on another placement the cores have
come to stand there, and what is looked for is looked for anew.
"""

from __future__ import annotations

import math
from dataclasses import replace

from quiver_bench.errors import TrialVoid
from quiver_bench.generators import Load, TrialOutput
from quiver_bench.machine import UNSETTLED
from quiver_bench.methods.base import QUIET, Told
from quiver_bench.trial import Stand, Trial

#: How many times in all a trial is made while what the generator itself missed decides it.
OWN_PATIENCE = 4

#: How many times in all a trial is made while the cores don't stand as they should.
PATIENCE = 20


#: How many trials in a row must agree on another placement for the cores to have come to stand there.
AGREED = 3


class Unsteady(TrialVoid):
    """The cores never stood as they should: nothing can be said that belongs to one placement."""


class Elsewhere(Unsteady):
    """The cores have come to stand in another placement."""


class Run:
    """How many trials in a row stood in one and the same placement, which isn't the one that is wanted."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.seen = ""
        self.length = 0

    def moved(self, placement: str) -> bool:
        """Takes the placement of the next trial; tells whether the cores have come to stand there."""
        self.length = self.length + 1 if placement == self.seen else 1
        self.seen = placement
        return self.length >= AGREED and placement != self.where and placement not in UNSETTLED


def first_settled(stand: Stand, seconds: float, tell: Told) -> Trial:
    """A trial at the greatest load, made again while the cores are moved: all others are held against its placement."""
    for _ in range(PATIENCE):
        trial = stand.trial(seconds)
        if trial.placement not in UNSETTLED:
            return trial
        tell(f"again: cores {trial.placement}")
    raise Unsteady(f"the cores were {trial.placement} in {PATIENCE} trials running: {QUIET}")


def steady(
    stand: Stand, load: Load, where: str, kept: list[Trial], tell: Told, targets: tuple[float, ...] = (0.0,)
) -> Trial:
    """A trial of that placement; those of others go to ``kept`` as well. Raises :class:`Elsewhere` where several in a row agree on
    another placement, and :class:`Unsteady` where patience ends.

    One that keeps within a loss ratio of ``targets`` or not only by what was missed at the generator's own end, or while somebody else
    had a core, is made again as well; where it is always so, the trial is marked.
    """
    own, run = 0, Run(where)
    for _ in range(PATIENCE):
        trial = stand.offer(load)
        if trial.placement == where and decided_by_noise(trial, targets):
            own += 1
            if own == OWN_PATIENCE:
                kept.append(marked(trial, targets))
                return kept[-1]
            kept.append(replace(trial, counts=False, decided_by_noise=True))
            tell(f"again: {noise_of(trial)}")
            continue
        kept.append(replace(trial, counts=trial.placement == where))
        if trial.placement == where:
            return trial
        if run.moved(trial.placement):
            raise Elsewhere(f"the cores were {where} at first, and then {trial.placement} in {AGREED} trials running")
        tell(f"again: cores {trial.placement}, at first {where}")
    raise Unsteady(f"the cores were {where} at first, and never again in {PATIENCE} trials running: {QUIET}")


def of(trials: list[Trial], where: str) -> list[Trial]:
    """The trials, those of another placement marked: they decide nothing."""
    return [trial if trial.placement == where else replace(trial, counts=False) for trial in trials]


def decided_by_noise(trial: Trial, targets: tuple[float, ...]) -> bool:
    """Whether the trial would keep within one of these loss ratios, had the generator taken all that came, and had neither it nor
    the device's thread been kept from running.

    What it didn't take may be its own packets or strangers', and a thread may wait while it has nothing to do: this is the most
    that can be noise.
    """
    waited = (trial.load_pps or 0.0) * trial.output.ways * (trial.noise.wait_s or 0.0)
    return _decided(trial.output, targets, trial.output.untaken + trial.output.stalled_packets + math.ceil(waited))


def marked(trial: Trial, targets: tuple[float, ...]) -> Trial:
    """A trial that noise decides, with why: the generator was too slow, or it or the device was kept from running."""
    if _decided(trial.output, targets, trial.output.untaken):
        return replace(trial, generator_limited=True)
    return replace(trial, decided_by_noise=True)


def noise_of(trial: Trial) -> str:
    """In words."""
    output, found = trial.output, []
    if output.untaken:
        found.append(f"the generator itself didn't take {output.untaken} packets")
    if output.stalled_packets:
        found.append(f"the generator itself stood still, at the longest for {output.longest_stall_s * 1e3:.1f} ms")
    if trial.noise.wait_s:
        found.append(f"the device waited {trial.noise.wait_s * 1e3:.1f} ms for its core")
    return "; ".join(found)


def _decided(output: TrialOutput, targets: tuple[float, ...], own: int) -> bool:
    wanted = max(output.intended or 0, output.sent)
    missing = output.lost + output.unsent
    return any(missing - own <= target * wanted < missing for target in targets)
