"""Reconfiguration: packets lost while the configuration grows, at the highest load that is lost nothing of otherwise.

The figure is a time: lost packets divided by the rate, as if the device had stood still so long.
"""

from __future__ import annotations

from quiver_bench.methods import ndrpdr
from quiver_bench.methods.base import Figure, Told, common_placement, rate
from quiver_bench.trial import Stand, Trial

SECONDS = 5.0

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
    if search.irregular:
        return search
    load = SHARE * search.result["ndr"]["lower"]["rate"]["value"]  # of all directions together
    done: list[str] = []
    each = load / kept[0].output.ways
    before = stand.trial(seconds, each)
    during = stand.trial(seconds, each, meanwhile=lambda: done.append(stand.reconfigure()))
    trials = [before, during]
    kept += trials
    lost = max(0, during.output.lost)
    tell(
        f"{done[0] if done else 'nothing was done'}: {lost} lost of {during.output.sent}, {before.output.lost} without"
    )
    result = {
        "type": "reconf",
        "aggregate_rate": rate(load, frame_bits),
        "loss": {
            "packet": {"value": lost, "unit": "packets"},
            "time": {"value": lost / load, "unit": "s"},
            "without": {"value": before.output.lost, "unit": "packets"},
        },
        "reconfiguration": done[0] if done else "",
    }
    return Figure(result, kept, common_placement(trials), clocks=stand.clocks())
