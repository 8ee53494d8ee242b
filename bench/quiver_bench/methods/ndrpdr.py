"""NDR and PDR: the highest rates without loss, and with 0.5 % loss, by MLRsearch (RFC 9971) with CSIT's goals.

The search is the library's; this is its measurer. Trials in which the cores were moved, or stood differently from the first
trial, are made again, so that one search speaks of one placement. Loads are those of one direction, figures those of all together.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from MLRsearch import AbstractMeasurer, Config, GoalResult, MeasurementResult, MultipleLossRatioSearch, SearchGoal

from quiver_bench.generators import Load
from quiver_bench.methods.base import Figure, Told, rate
from quiver_bench.methods.steady import Unsteady, first_settled, steady
from quiver_bench.trial import Stand, Trial

NDR = SearchGoal(loss_ratio=0.0)
PDR = SearchGoal(loss_ratio=0.005)

MIN_LOAD = 9001.0
SEARCH_SECONDS = 1200.0

#: The load offered at most, as a multiple of what came out when as much went in as could.
HEADROOM = 1.25

#: Shares of PDR at which latency is measured, and for how many lengths of a trial: 5 s with CSIT's.
LATENCY_SHARES = (0, 10, 50, 90)
LATENCY_TRIALS = 5
LATENCY_LOAD = 9000.0


@dataclass
class Effort:
    """How much a search may cost. The default is CSIT's."""

    duration_sum: float = 21.0
    trial_seconds: float = 1.0
    search_seconds: float = SEARCH_SECONDS

    def goal(self, like: SearchGoal) -> SearchGoal:
        """A goal with this effort."""
        return SearchGoal(
            loss_ratio=like.loss_ratio,
            exceed_ratio=like.exceed_ratio,
            relative_width=like.relative_width,
            initial_trial_duration=self.trial_seconds,
            final_trial_duration=self.trial_seconds,
            duration_sum=self.duration_sum,
            preceding_targets=like.preceding_targets,
            expansion_coefficient=like.expansion_coefficient,
        )


class Measurer(AbstractMeasurer):
    """Answers MLRsearch's questions with trials."""

    def __init__(self, stand: Stand, tell: Told, kept: list[Trial], targets: tuple[float, ...]) -> None:
        self.stand = stand
        self.tell = tell
        self.kept = kept
        self.targets = targets
        self.where = kept[0].placement

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """One trial, made again while the cores are moved."""
        begun = time.monotonic()
        trial = steady(
            self.stand, Load(intended_duration, intended_load), self.where, self.kept, self.tell, self.targets
        )
        output = trial.output
        result = MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            # The library would take what was sent for what was wanted.
            intended_count=max(output.intended or 0, output.sent),
            offered_count=output.sent,
            loss_count=output.lost,
            duration_with_overheads=max(intended_duration, time.monotonic() - begun),
        )
        unsent = f" ({result.unsent_count} not sent)" if result.unsent_count else ""
        load = intended_load * output.ways / 1e6
        self.tell(f"{load:.3f} Mpps: loss {result.loss_ratio:.3e}{unsent}, {trial.placement}")
        return result


def measure(
    stand: Stand,
    tell: Told,
    frame_bits: float,
    effort: Effort | None = None,
    kept: list[Trial] | None = None,
    goals: tuple[tuple[str, SearchGoal], ...] = (("ndr", NDR), ("pdr", PDR)),
    latency: bool = True,
) -> Figure:
    """Searches. An irregular figure is one with a bound missing: the device outran the generator, or loses at any load."""
    effort = effort or Effort()
    kept = kept if kept is not None else []
    stand.trial(effort.trial_seconds)  # warm-up
    unpaced = first_settled(stand, effort.trial_seconds, tell)
    kept.append(unpaced)
    ways = unpaced.output.ways
    config = Config()
    wanted = {name: effort.goal(goal) for name, goal in goals}
    config.goals = list(wanted.values())
    config.max_load = max(2 * MIN_LOAD, HEADROOM * unpaced.output.rate_pps / ways)
    config.min_load = MIN_LOAD
    config.search_duration_max = effort.search_seconds
    config.warmup_duration = None
    stand.clear()
    result: dict[str, Any] = {"type": "ndrpdr"}
    irregular, message = False, ""
    remarks: list[str] = []
    begun = time.monotonic()
    measurer = Measurer(stand, tell, kept, tuple(goal.loss_ratio for _, goal in goals))
    try:
        found = MultipleLossRatioSearch(config).search(measurer)
    except (RuntimeError, Unsteady) as error:  # the library's: time is up, or loss even at the least load
        return Figure(
            {"type": "unknown"},
            kept,
            measurer.where,
            True,
            f"the search failed: {_why(error, config, ways, time.monotonic() - begun)}",
            stand.clocks(),
        )
    for name, goal in wanted.items():
        answer = found[goal]
        payload, regular = bounds(answer, frame_bits, ways)
        result[name] = payload
        if not regular:
            irregular = True
            message = f"{name.upper()} has no {'upper' if answer.relevant_upper_bound is None else 'lower'} bound"
    clocks = stand.clocks()
    if latency and "pdr" in result and not irregular:
        pdr = result["pdr"]["lower"]["rate"]["value"] / ways
        found_latencies, remarks = latencies(stand, pdr, measurer.where, kept, tell, effort.trial_seconds)
        result |= found_latencies
    return Figure(result, kept, measurer.where, irregular, message, clocks, remarks)


def _why(error: Exception, config: Config, ways: int, seconds: float) -> str:
    """Why a search failed. The library shows its own objects."""
    if isinstance(error, Unsteady):
        return str(error)
    if seconds >= config.search_duration_max:
        return f"its {config.search_duration_max:g} s were over"
    if "lower bound" in str(error):
        return f"more is lost than is looked for even at the least load, {config.min_load * ways / 1e6:.3f} Mpps"
    return str(error).split(":")[0]


def bounds(answer: GoalResult, frame_bits: float, ways: int = 1) -> tuple[dict[str, Any], bool]:
    """Lower (the conditional throughput, as in CSIT's documents) and upper bound, and whether both are there."""
    lower = float(answer.conditional_throughput) if answer.conditional_throughput is not None else 0.0
    upper = float(answer.relevant_upper_bound) if answer.relevant_upper_bound is not None else 0.0
    regular = answer.relevant_lower_bound is not None and answer.relevant_upper_bound is not None
    return {"lower": rate(lower * ways, frame_bits), "upper": rate(upper * ways, frame_bits)}, regular


def latencies(
    stand: Stand, pdr: float, where: str, kept: list[Trial], tell: Told, trial_seconds: float = 1.0
) -> tuple[dict[str, Any], list[str]]:
    """Latency at shares of PDR, of one direction, and what must be said of it; at 0 % of it only the packets that measure are sent."""
    found: dict[str, dict[str, Any]] = {}
    remarks: list[str] = []
    for share in LATENCY_SHARES:
        # What measures is part of the load. A rate of nothing would be as much as can be.
        load = Load(LATENCY_TRIALS * trial_seconds, max(1.0, pdr * share / 100 - LATENCY_LOAD), latency=True)
        at = f"at {share} % of PDR"
        try:
            output = steady(stand, load, where, kept, tell, (PDR.loss_ratio,)).output
        except Unsteady as unsteady:
            remarks.append(f"no latency {at}: {unsteady}")
            continue
        if (ratio := output.loss_ratio) > PDR.loss_ratio:
            remarks.append(f"latency {at} was measured while {ratio:.1%} was lost")
        for name, latency in (("latency_forward", output.latency), ("latency_reverse", output.latency_reverse)):
            if latency is not None:
                found.setdefault(name, {})[f"pdr_{share}"] = latency.as_dict()
                tell(f"{name.replace('_', ' ')} {at}: {latency.avg:.1f} us, loss {ratio:.1e}")
        if output.latency is None:
            tell(f"latency {at}: not one of the packets that measure it came back")
    return found, remarks
