"""A flood beside established connections: what they lose, packet by packet, while SYNs come as fast as the generator can.

The connections are there before, and send at a steady rate, far below what the device can. The figure is a number of packets,
which ought to be none, whatever the flood's rate is.
"""

from __future__ import annotations

from quiver_bench.machine import common
from quiver_bench.methods.base import Figure, Told, lost_in, series
from quiver_bench.trial import Stand, Trial, clocks_of


def measure(stand: Stand, tell: Told, trials: int, seconds: float, kept: list[Trial] | None = None) -> Figure:
    """So many trials. Where the cores stand says nothing about loss: all of them count."""
    kept = kept if kept is not None else []
    stand.warm_up(seconds)
    for number in range(1, trials + 1):
        kept.append(stand.trial(seconds))
        output = kept[-1].output
        tell(f"trial {number}: {output.lost} of {output.sent} lost beside {(output.flood_pps or 0.0) / 1e6:.3f} Mpps")
    loss, remarks = lost_in(kept)
    result = {
        "type": "flood",
        "loss": loss,
        "flood_rate": series([trial.output.flood_pps or 0.0 for trial in kept], "pps"),
    }
    where = common({trial.placement for trial in kept})
    return Figure(result, kept, where, clocks=clocks_of(kept), remarks=remarks)
