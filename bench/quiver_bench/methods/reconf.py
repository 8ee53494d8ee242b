"""Reconfiguration: how long the device stands still while the configuration grows, at the highest load that is lost nothing of otherwise.

The figure is a time: packets that did not come through, divided by the rate. Those are the lost ones and, since packets wait where
rings are full and would come later, those never sent because the device had no room for them within :data:`MAX_LATE`. What the
generator itself slept through is taken off.
"""

from __future__ import annotations

from dataclasses import replace

from quiver_bench.generators import Load
from quiver_bench.methods import ndrpdr
from quiver_bench.methods.base import Figure, Told, rate
from quiver_bench.methods.steady import Elsewhere, Unsteady, of, steady
from quiver_bench.trial import Stand, Trial

SECONDS = 5.0

#: Seconds that a packet may wait for room. A standstill shorter than that, and what the ring holds, isn't seen.
MAX_LATE = 1e-4

#: Share of NDR that is offered, so that the loss is the reconfiguration's.
SHARE = 0.9

#: Share of what is missing that may be missing without a reconfiguration, too: the figure isn't the reconfiguration's beyond.
SMALL = 0.1

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
    stand.trial(effort.trial_seconds)  # warm-up
    search = ndrpdr.Search(stand, tell, frame_bits, effort, kept, (("ndr", ndrpdr.NDR),))
    while True:
        found = search.find()
        if found.message:
            return replace(found, result={"type": "unknown"})
        try:
            return _reconfigure(stand, tell, frame_bits, seconds, found, kept)
        except Unsteady as unsteady:
            if isinstance(unsteady, Elsewhere) and not search.over:
                tell(f"anew: {unsteady}")
                continue
            trials = of(kept, found.placement)
            return replace(found, result={"type": "unknown"}, irregular=True, message=str(unsteady), trials=trials)


def _reconfigure(
    stand: Stand, tell: Told, frame_bits: float, seconds: float, found: Figure, kept: list[Trial]
) -> Figure:
    """In the placement of the search. Raises :class:`Unsteady`."""
    load = SHARE * found.result["ndr"]["lower"]["rate"]["value"]  # of all directions together
    done: list[str] = []
    where = found.placement
    each = load / found.trials[-1].output.ways
    before = steady(stand, Load(seconds, each, max_late=MAX_LATE), where, kept, tell)
    grow = Load(seconds, each, lambda: done.append(stand.reconfigure()), max_late=MAX_LATE)
    during = steady(stand, grow, where, kept, tell)
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
    remarks = []
    if output.overslept > missing:  # while it slept it saw nothing of the device
        remarks.append(f"the generator itself was kept from running for {output.overslept / load * 1e3:.0f} ms")
    if without > SMALL * missing:
        remarks.append(f"{without} packets are missing without a reconfiguration: it was no load without loss")
    if output.untaken > SMALL * missing:
        remarks.append(f"the generator itself didn't take {output.untaken} packets")
    return Figure(result, of(kept, where), where, bool(remarks), clocks=stand.clocks(), remarks=remarks)


def _missing(trial: Trial) -> int:
    """Packets that the device kept from coming through."""
    return max(0, trial.output.lost + trial.output.unsent - trial.output.overslept)
