"""A change of what is done with sessions while packets flow: how long until it holds for all of them, and what is lost meanwhile.

The load is steady and far below what the device can: what is lost, or not sent in time, is the change's. Each trial changes once.
"""

from __future__ import annotations

from quiver_bench.generators import Load
from quiver_bench.machine import common
from quiver_bench.methods.base import Figure, Told, lost_in, series
from quiver_bench.trial import Stand, Trial, clocks_of

#: Packets per second: with the largest rings both ends may be kept from running for 16 ms without a loss.
RATE_PPS = 1e6


def measure(stand: Stand, tell: Told, trials: int, seconds: float, kept: list[Trial] | None = None) -> Figure:
    """So many trials. Where the cores stand says little about either figure: all of them count."""
    kept = kept if kept is not None else []
    stand.warm_up(seconds)
    done: list[str] = []
    load = Load(seconds, RATE_PPS, lambda: done.append(stand.reconfigure()))
    for number in range(1, trials + 1):
        kept.append(stand.offer(load))
        output = kept[-1].output
        tell(f"trial {number}: {done[-1]}, {output.lost} of {output.sent} lost")
    loss, remarks = lost_in(kept)
    result = {
        "type": "change",
        "revisit": series([(trial.vitals.revisit_us or 0.0) / 1e6 for trial in kept], "s"),
        "loss": loss,
    }
    where = common({trial.placement for trial in kept})
    return Figure(result, kept, where, clocks=clocks_of(kept), remarks=remarks)
