"""Idleness: what share of a core a device takes that has nothing to do, and how much later its first packet is than a polling one's.

First packets come so far apart that every worker has fallen asleep between two of them.
"""

from __future__ import annotations

from dataclasses import replace

from quiver_bench.errors import TrialVoid
from quiver_bench.generators import Latency, Load
from quiver_bench.methods.base import QUIET, Figure, Told
from quiver_bench.trial import Stand, Trial

SECONDS = 10.0

#: Seconds in which new interfaces say who they are, and peers are looked for.
SETTLE_S = 3.0

#: Packets per second: 10 ms apart, a hundred times as long as workers poll on.
FIRST_PPS = 100.0


def measure(stand: Stand, tell: Told, seconds: float = SECONDS, kept: list[Trial] | None = None) -> Figure:
    """Watches it for so long with nothing to do, then sends single packets, at first as it is and then with all its queues polled."""
    kept = kept if kept is not None else []
    share = stand.busy(SETTLE_S, seconds)
    tell(f"idle: {share:.3%} of a core")
    # Beside those that are measured none are sent; a rate of nothing would be as many as can be.
    load = Load(seconds, 1.0, latency=True, latency_pps=FIRST_PPS)
    found: dict[str, Latency] = {}
    for how in ("adaptive", "polling"):
        if how == "polling":
            stand.poll()
        trial = stand.offer(load)
        kept.append(trial)
        if trial.output.latency is None:
            raise TrialVoid(f"not one first packet came back ({how})")
        found[how] = trial.output.latency
        tell(f"first packets, {how}: p50 {_median(trial.output.latency):.1f} us, {trial.placement}")
    remarks = []
    if kept[-2].placement != kept[-1].placement:
        remarks.append(f"the cores were {kept[-2].placement} and then {kept[-1].placement}: {QUIET}")
    result = {
        "type": "idle",
        "idle": {
            "share": {"value": share, "unit": "core"},
            "woken": {"value": _median(found["adaptive"]) - _median(found["polling"]), "unit": "us"},
        },
        "first_packet": {how: latency.as_dict() for how, latency in found.items()},
    }
    trials = [replace(trial, generator_limited=False) for trial in kept]
    return Figure(result, trials, kept[-1].placement, bool(remarks), remarks=remarks)


def _median(latency: Latency) -> float:
    return latency.percentiles.get("50", latency.avg)
