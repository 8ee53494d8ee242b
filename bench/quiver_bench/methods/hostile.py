"""A canary beside an attack: what it loses, and how late its packets are, against the same without the attack.

The canary is traffic of pods that have nothing to do with the attack, at a rate far below what the device can. Whatever it loses is
the attack's, and so is what it is later.
"""

from __future__ import annotations

from typing import Any

from quiver_bench import latency
from quiver_bench.generators import Load
from quiver_bench.machine import common
from quiver_bench.methods.base import Figure, Told
from quiver_bench.trial import Stand, Trial, clocks_of

#: Seconds of each of the two trials.
SECONDS = 60.0

#: Seconds that a canary may be late without a word: what it sends and takes late counts from then on, but it sent nothing meanwhile.
LATE_S = 0.01


def measure(stand: Stand, tell: Told, seconds: float = SECONDS, kept: list[Trial] | None = None) -> Figure:
    """A trial without the attack, and one beside it. Where the cores stand says little about either: both count."""
    kept = kept if kept is not None else []
    found: dict[str, dict[str, Any]] = {}
    for how in ("calm", "attacked"):
        kept.append(stand.offer(Load(seconds, latency=True, attacked=how == "attacked")))
        found[how] = shown_by(kept[-1])
        tell(f"{how}: {in_words(found[how])}")
    late = max(trial.output.longest_stall_s for trial in kept)
    remarks = [f"the canary itself was kept from running for up to {late * 1e3:.1f} ms"] if late > LATE_S else []
    result = {"type": "hostile", **found["attacked"], "calm": found["calm"]}
    return Figure(result, kept, common({trial.placement for trial in kept}), clocks=clocks_of(kept), remarks=remarks)


def shown_by(trial: Trial) -> dict[str, Any]:
    """Loss, latency and the device's longest round of a trial, for a result."""
    output, round_us = trial.output, trial.vitals.longest_round_us
    return {
        "loss": {
            "packet": {"value": output.lost, "unit": "packets"},
            "sent": {"value": output.sent, "unit": "packets"},
        },
        **({"latency": output.latency.as_dict()} if output.latency else {}),
        **({"longest_round": {"value": round_us, "unit": "us"}} if round_us is not None else {}),
    }


def in_words(result: dict[str, Any]) -> str:
    """``p50 60.0 us, p99.9 400.0 us, 0 of 6000 lost``."""
    times = latency.in_words(result["latency"]["percentiles"]) if "latency" in result else "nothing came"
    return f"{times}, {result['loss']['packet']['value']} of {result['loss']['sent']['value']} lost"
