"""Maximum receive rate: what comes out when as much goes in as the generator can (RFC 2285, 3.6.2), 10 trials of 1 s.

Trials of different placement are kept apart: each placement is a figure of its own. When the host moved the cores,
trials are repeated until one placement has all of them, or patience is at its end.
"""

from __future__ import annotations

from collections import Counter

from quiver_bench.machine import UNSETTLED
from quiver_bench.methods.base import Figure, Told, series
from quiver_bench.trial import Stand, Trial, clocks_of

TRIALS = 10
SECONDS = 1.0

#: Trials below which a figure and its deviation say little.
FEW = 3

#: How many times the trials asked for are made at most.
PATIENCE = 2


def measure(
    stand: Stand,
    tell: Told,
    trials: int = TRIALS,
    seconds: float = SECONDS,
    kept: list[Trial] | None = None,
    unit: str = "pps",
) -> list[Figure]:
    """One figure per placement that was seen, the one with the most trials first. ``kept`` receives trials as they come."""
    kept = kept if kept is not None else []
    stand.warm_up(seconds / 2)
    while len(kept) < PATIENCE * trials and _most(kept) < trials:
        kept.append(stand.trial(seconds))
        last = kept[-1]
        shown = (
            f"{last.output.rate_pps / 1e6:.3f} M{unit}"
            if last.output.rate_pps
            else f"{(last.output.rate_bps or 0.0) / 1e9:.2f} Gbit/s"
        )
        tell(f"trial {len(kept)}: {shown}, {last.placement}")
    return figures(kept, unit)


def figures(trials: list[Trial], unit: str = "pps") -> list[Figure]:
    """Trials by placement, each with the clocks of its own. Those whose cores were moved or taken meanwhile make no figure."""
    found = []
    for where, _ in Counter(trial.placement for trial in trials if trial.placement not in UNSETTLED).most_common():
        same = [trial for trial in trials if trial.placement == where]
        receive = {}
        if any(trial.output.rate_pps for trial in same):
            receive["rate"] = series([trial.output.rate_pps or 0.0 for trial in same], unit)
        if any(trial.output.rate_bps for trial in same) or not receive:
            receive["bandwidth"] = series([trial.output.rate_bps or 0.0 for trial in same], "bps")
        remarks = [f"fewer than {FEW} trials"] if len(same) < FEW else []
        found.append(
            Figure({"type": "mrr", "receive_rate": receive}, same, where, clocks=clocks_of(same), remarks=remarks)
        )
    return found


def _most(trials: list[Trial]) -> int:
    seen = Counter(trial.placement for trial in trials if trial.placement not in UNSETTLED)
    return max(seen.values(), default=0)
