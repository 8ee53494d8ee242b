"""NDR and PDR: the highest rates without loss, and with 0.5 % loss, by MLRsearch (RFC 9971) with CSIT's goals.

The search is the library's; this is its measurer. Trials in which the cores were moved, or stood elsewhere for a moment, are made
again, so that one search speaks of one placement; where the cores have come to stand elsewhere it begins anew. Loads are those of
one direction, figures those of all together.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from MLRsearch import AbstractMeasurer, Config, GoalResult, MeasurementResult, MultipleLossRatioSearch, SearchGoal

from quiver_bench import latency
from quiver_bench.generators import Load
from quiver_bench.methods.base import QUIET, Figure, Told, rate
from quiver_bench.methods.steady import Elsewhere, Unsteady, first_settled, of, steady
from quiver_bench.trial import Stand, Trial, clocks_near

NDR = SearchGoal(loss_ratio=0.0)
PDR = SearchGoal(loss_ratio=0.005)

MIN_LOAD = 9001.0
SEARCH_SECONDS = 1200.0

#: How many times a search begins at most, where the host moves the cores about.
MOVES = 8

#: The load offered at most, as a multiple of what came out when as much went in as could.
HEADROOM = 1.25

#: For how many lengths of a trial latency is measured at each share of PDR: 5 s with CSIT's.
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


@dataclass
class Stay:
    """What was found out while the cores stood in one placement. They may come back to it: then it needn't be measured again."""

    #: The trial at the greatest load.
    unpaced: Trial
    answers: list[MeasurementResult] = field(default_factory=list)


class Measurer(AbstractMeasurer):
    """Answers MLRsearch's questions with trials; first with those of an earlier stay, in which it asked the same."""

    def __init__(self, stand: Stand, tell: Told, kept: list[Trial], stay: Stay, targets: tuple[float, ...]) -> None:
        self.stand = stand
        self.tell = tell
        self.kept = kept
        self.targets = targets
        self.where = stay.unpaced.placement
        self.answers = stay.answers
        self.asked = 0

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """One trial, made again while the cores are moved."""
        self.asked += 1
        if self.asked <= len(self.answers):
            known = self.answers[self.asked - 1]
            if (known.intended_duration, known.intended_load) == (intended_duration, intended_load):
                return known
            del self.answers[self.asked - 1 :]
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
        self.answers.append(result)
        unsent = f" ({result.unsent_count} not sent)" if result.unsent_count else ""
        load = intended_load * output.ways / 1e6
        self.tell(f"{load:.3f} Mpps: loss {result.loss_ratio:.3e}{unsent}, {trial.placement}")
        return result


class Search:
    """A search in the placement in which the cores stand; begun anew where they come to stand in another one meanwhile."""

    def __init__(
        self,
        stand: Stand,
        tell: Told,
        frame_bits: float,
        effort: Effort,
        kept: list[Trial],
        goals: tuple[tuple[str, SearchGoal], ...] = (("ndr", NDR), ("pdr", PDR)),
    ) -> None:
        self.stand = stand
        self.tell = tell
        self.frame_bits = frame_bits
        self.effort = effort
        self.kept = kept
        self.goals = {name: effort.goal(goal) for name, goal in goals}
        self.stays: dict[str, Stay] = {}
        self.begun = time.monotonic()
        self.attempts = 0

    @property
    def left(self) -> float:
        """Seconds that it may still take."""
        return self.effort.search_seconds - (time.monotonic() - self.begun)

    @property
    def over(self) -> bool:
        """Whether it may not begin anew any more."""
        return self.left <= 0 or self.attempts >= MOVES

    def find(self) -> Figure:
        """Searches. An irregular figure is one with a bound missing: the device outran the generator, or loses at any load."""
        while True:
            self.attempts += 1
            unpaced = first_settled(self.stand, self.effort.trial_seconds, self.tell)
            self.kept.append(unpaced)
            stay = self.stays.setdefault(unpaced.placement, Stay(unpaced))
            try:
                return self._search(stay)
            except Elsewhere as elsewhere:
                if self.over:
                    stood = ", ".join(self.stays)
                    why = f"{elsewhere}; no placement held long enough ({stood}): {QUIET}"
                    return self._failed(unpaced.placement, why)
                self.tell(f"anew: {elsewhere}")

    def _search(self, stay: Stay) -> Figure:
        """In one placement. Raises :class:`Elsewhere`."""
        ways, where = stay.unpaced.output.ways, stay.unpaced.placement
        config = Config()
        config.goals = list(self.goals.values())
        config.max_load = max(2 * MIN_LOAD, HEADROOM * (stay.unpaced.output.rate_pps or 0.0) / ways)
        config.min_load = MIN_LOAD
        config.search_duration_max = max(0.0, self.left)
        config.warmup_duration = None
        targets = tuple(goal.loss_ratio for goal in self.goals.values())
        measurer = Measurer(self.stand, self.tell, self.kept, stay, targets)
        try:
            found = MultipleLossRatioSearch(config).search(measurer)
        except Elsewhere:
            raise
        except (RuntimeError, Unsteady) as error:  # the library's: time is up, or loss even at the least load
            return self._failed(where, self._why(error, config.min_load * ways))
        result: dict[str, Any] = {"type": "ndrpdr"}
        message = ""
        for name, goal in self.goals.items():
            answer = found[goal]
            result[name], regular = bounds(answer, self.frame_bits, ways)
            if not regular:
                message = f"{name.upper()} has no {'upper' if answer.relevant_upper_bound is None else 'lower'} bound"
        trials = of(self.kept, where)
        lower = result[list(self.goals)[-1]]["lower"]["rate"]["value"]
        return Figure(result, trials, where, bool(message), message, clocks_near(trials, lower))

    def _failed(self, where: str, why: str) -> Figure:
        trials, message = of(self.kept, where), f"the search failed: {why}"
        return Figure({"type": "unknown"}, trials, where, True, message)

    def _why(self, error: Exception, least: float) -> str:
        """Why a search failed. The library shows its own objects."""
        if isinstance(error, Unsteady):
            return str(error)
        if self.left <= 0:
            return f"its {self.effort.search_seconds:g} s were over"
        if "lower bound" in str(error):
            return f"more is lost than is looked for even at the least load, {least / 1e6:.3f} Mpps"
        return str(error).split(":")[0]


def measure(
    stand: Stand,
    tell: Told,
    frame_bits: float,
    effort: Effort | None = None,
    kept: list[Trial] | None = None,
) -> Figure:
    """Searches, then measures latency."""
    effort = effort or Effort()
    kept = kept if kept is not None else []
    stand.warm_up(effort.trial_seconds)
    search = Search(stand, tell, frame_bits, effort, kept)
    figure = search.find()
    while not figure.message:
        where, pdr = figure.placement, figure.result["pdr"]["lower"]["rate"]["value"]
        found, remarks, elsewhere = latencies(
            stand, pdr / search.stays[where].unpaced.output.ways, where, kept, tell, effort.trial_seconds
        )
        figure = replace(figure, result=figure.result | found, remarks=remarks, trials=of(kept, where))
        if not elsewhere or search.over:
            break
        tell(f"anew: {elsewhere}")
        another = search.find()
        if another.message:  # what was found before is a figure, though not one with all latencies
            figure = replace(figure, trials=of(kept, where))
            break
        figure = another
    return figure


def bounds(answer: GoalResult, frame_bits: float, ways: int = 1) -> tuple[dict[str, Any], bool]:
    """Lower (the conditional throughput, as in CSIT's documents) and upper bound, and whether both are there."""
    lower = float(answer.conditional_throughput) if answer.conditional_throughput is not None else 0.0
    upper = float(answer.relevant_upper_bound) if answer.relevant_upper_bound is not None else 0.0
    regular = answer.relevant_lower_bound is not None and answer.relevant_upper_bound is not None
    return {"lower": rate(lower * ways, frame_bits), "upper": rate(upper * ways, frame_bits)}, regular


def latencies(
    stand: Stand, pdr: float, where: str, kept: list[Trial], tell: Told, trial_seconds: float = 1.0
) -> tuple[dict[str, Any], list[str], Elsewhere | None]:
    """Latency at shares of PDR, of one direction, what must be said of it, and where the cores went meanwhile, if they did.

    At 0 % of it only the packets that measure are sent.
    """
    found: dict[str, dict[str, Any]] = {}
    remarks: list[str] = []
    for share in latency.SHARES:
        # What measures is part of the load. A rate of nothing would be as much as can be.
        load = Load(LATENCY_TRIALS * trial_seconds, max(1.0, pdr * share / 100 - LATENCY_LOAD), latency=True)
        at = f"at {share} % of PDR"
        try:
            output = steady(stand, load, where, kept, tell, (PDR.loss_ratio,)).output
        except Unsteady as unsteady:
            if isinstance(unsteady, Elsewhere):
                left = ", ".join(str(share) for share in latency.SHARES[latency.SHARES.index(share) :])
                return found, [*remarks, f"no latency at {left} % of PDR: {unsteady}"], unsteady
            remarks.append(f"no latency {at}: {unsteady}")
            continue
        if (ratio := output.loss_ratio) > PDR.loss_ratio:
            remarks.append(f"latency {at} was measured while {ratio:.1%} was lost")
        for name, times in (("latency_forward", output.latency), ("latency_reverse", output.latency_reverse)):
            if times is not None:
                found.setdefault(name, {})[f"pdr_{share}"] = times.as_dict()
                tell(f"{name.replace('_', ' ')} {at}: {latency.in_words(times.percentiles)}, loss {ratio:.1e}")
        if output.latency is None:
            tell(f"latency {at}: not one of the packets that measure it came back")
    return found, remarks, None
