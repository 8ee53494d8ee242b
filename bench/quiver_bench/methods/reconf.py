"""Reconfiguration: how long the device stands still while the configuration grows, at the highest load that is lost nothing of otherwise.

The figure is a time: packets that did not come through, divided by the rate. Those are the lost ones and, since packets wait where
rings are full and would come later, those never sent because the device had no room for them within :data:`MAX_LATE`. What the
generator itself slept through is taken off.
"""

from __future__ import annotations

from dataclasses import replace

from quiver_bench.generators import Load
from quiver_bench.methods import ndrpdr
from quiver_bench.methods.base import QUIET, Figure, Told, rate
from quiver_bench.methods.steady import OWN_PATIENCE, Elsewhere, Unsteady, of, steady
from quiver_bench.trial import Stand, Trial

SECONDS = 5.0

#: Seconds that a packet may wait for room. A standstill shorter than that, and what the ring holds, isn't seen.
MAX_LATE = 1e-4

#: Shares of NDR that are offered, the first at which nothing is missing without a reconfiguration: then the loss is the reconfiguration's.
SHARES = (0.9, 0.75, 0.6, 0.45, 0.3)

#: Seconds that the generator may sleep through besides.
UNSEEN = 1e-3

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
    """Searches NDR, then a load below it that loses nothing, and reconfigures in the middle of a trial at that."""
    kept = kept if kept is not None else []
    stand.warm_up(effort.trial_seconds)
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
    ndr, ways, where = found.result["ndr"]["lower"]["rate"]["value"], found.trials[-1].output.ways, found.placement
    # Of all directions together, as the figure.
    least: tuple[float, float, int] | None = None
    for share in SHARES:
        load = share * ndr
        trial = steady(stand, Load(seconds, load / ways, max_late=MAX_LATE), where, kept, tell)
        without = _missing(trial)
        if least is None or without / load < least[2] / least[1]:
            least = (share, load, without)
        if not without or trial.decided_by_noise:  # that isn't less at a lower load
            break
        tell(f"{without} packets are missing at {share:g} of NDR without a reconfiguration: at less")
    share, load, without = least or (SHARES[0], SHARES[0] * ndr, 0)
    done: list[str] = []
    grow = Load(seconds, load / ways, lambda: done.append(stand.reconfigure()), max_late=MAX_LATE)
    during = _awake(stand, grow, where, kept, tell, load)
    output = during.output
    missing = _missing(during)
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
        "share_of_ndr": share,
        "reconfiguration": done[0] if done else "",
    }
    remarks = []
    if _slept(during, load):  # while it slept it saw nothing of the device
        remarks.append(
            f"the generator itself was kept from running for {output.overslept / load * 1e3:.0f} ms: give what configures the device "
            f"a core besides the generator's and the workers', and {QUIET}"
        )
    if without > SMALL * missing:
        remarks.append(
            f"{without / load * 1e3:.3f} ms ({without} packets) are missing without a reconfiguration: {QUIET}"
        )
    if output.untaken > SMALL * missing:
        remarks.append(f"the generator itself didn't take {output.untaken} packets")
    return Figure(result, of(kept, where), where, bool(remarks), clocks=during.clocks, remarks=remarks)


def _awake(stand: Stand, grow: Load, where: str, kept: list[Trial], tell: Told, load: float) -> Trial:
    """The trial in which it reconfigures, made again while the generator slept through most of it; of all, the one with the least."""
    tried: list[int] = []
    for _ in range(OWN_PATIENCE):
        # Loss is what is looked for here: none of it is a reason to try again.
        trial = steady(stand, grow, where, kept, tell, ())
        tried.append(len(kept) - 1)
        if not _slept(trial, load):
            break
        tell(f"again: the generator itself was kept from running for {trial.output.overslept / load * 1e3:.0f} ms")
    best = min(tried, key=lambda at: kept[at].output.overslept)
    for at in tried:
        kept[at] = replace(kept[at], counts=at == best)
    return kept[best]


def _slept(trial: Trial, load: float) -> bool:
    """Whether the generator slept through more than it saw of the device."""
    return trial.output.overslept > max(_missing(trial), UNSEEN * load)


def _missing(trial: Trial) -> int:
    """Packets that the device kept from coming through."""
    return max(0, trial.output.lost + trial.output.unsent - trial.output.overslept)
