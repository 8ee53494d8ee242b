"""Reconfiguration: how long the device stands still while the configuration grows, at the highest load that is lost nothing of otherwise.

The figure is a time: packets that did not come through, divided by the rate. Those are the lost ones and, since packets wait where
rings are full and would come later, those never sent because the device had no room for them within :data:`MAX_LATE`. What the
generator itself slept through is taken off.
"""

from __future__ import annotations

from dataclasses import replace

from quiver_bench.machine import UNSETTLED
from quiver_bench.methods import ndrpdr
from quiver_bench.methods.base import Figure, Told, common_placement, rate
from quiver_bench.trial import Stand, Trial

SECONDS = 5.0

#: Seconds that a packet may wait for room. A standstill shorter than that, and what the ring holds, isn't seen.
MAX_LATE = 1e-4

#: Share of NDR that is offered, so that the loss is the reconfiguration's.
SHARE = 0.9

#: The short search before it.
EFFORT = ndrpdr.Effort(duration_sum=5.0, search_seconds=300.0)


def measure(
    stand: Stand,
    tell: Told,
    frame_bits: float,
    seconds: float = SECONDS,
    effort: ndrpdr.Effort = EFFORT,
    kept: list[Trial] | None = None,
) -> Figure:
    """Searches NDR, then reconfigures in the middle of a trial at 0.9 of it."""
    kept = kept if kept is not None else []
    search = ndrpdr.measure(stand, tell, frame_bits, effort, kept, (("ndr", ndrpdr.NDR),), latency=False)
    if search.message:
        return replace(search, result={"type": "unknown"})
    load = SHARE * search.result["ndr"]["lower"]["rate"]["value"]  # of all directions together
    done: list[str] = []
    each = load / kept[0].output.ways
    for _ in range(1 + ndrpdr.PATIENCE):
        before = stand.trial(seconds, each, max_late=MAX_LATE)
        during = stand.trial(seconds, each, lambda: done.append(stand.reconfigure()), max_late=MAX_LATE)
        trials = [before, during]
        kept += trials
        if common_placement(trials) not in UNSETTLED:
            break
        tell(f"again: cores {common_placement(trials)}")
    output = during.output
    missing, without = (_missing(trial) for trial in (during, before))
    what = done[0] if done else "nothing was done"
    tell(f"{what}: {missing} of {output.intended} packets did not come through, {without} without")
    result = {
        "type": "reconf",
        "aggregate_rate": rate(load, frame_bits),
        "loss": {
            "packet": {"value": missing, "unit": "packets"},
            "time": {"value": missing / load, "unit": "s"},
            "lost": {"value": output.lost, "unit": "packets"},
            "unsent": {"value": output.unsent, "unit": "packets"},
            "overslept": {"value": output.overslept, "unit": "packets"},
            "without": {"value": without, "unit": "packets"},
        },
        "reconfiguration": done[0] if done else "",
    }
    # While it slept it saw nothing of the device.
    asleep = output.overslept > missing
    remarks = (
        [f"the generator itself was kept from running for {output.overslept / load * 1e3:.0f} ms"] if asleep else []
    )
    return Figure(result, kept, common_placement(trials), asleep, clocks=stand.clocks(), remarks=remarks)


def _missing(trial: Trial) -> int:
    """Packets that the device kept from coming through."""
    return max(0, trial.output.lost + trial.output.unsent - trial.output.overslept)
