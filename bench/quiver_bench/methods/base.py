"""What a method brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from quiver_bench.stats import mean_and_deviation
from quiver_bench.trial import STARVED, Trial, limited_in, multiplied

Told = Callable[[str], None]

MULTIPLIED = "packets came twice, or more came than was sent"

#: What a user can do where others disturb.
QUIET = "try again when it is quieter, with nice -n -20, or on cores that nobody else may use"

#: Share of the packets sent that may come in where they were not to.
FEW = 1e-3

#: Share of the connections that may fail, and of their packets that may be sent again.
TROUBLED = 1e-2


@dataclass
class Figure:
    """One result: the ``result`` of a document, the trials it rests on, and what must be said of it."""

    result: dict[str, Any]
    trials: list[Trial]
    placement: str
    #: A bound is missing, the search ended before it was sure, or packets came that nobody sent.
    irregular: bool = False
    message: str = ""
    clocks: dict[str, float] = field(default_factory=dict)

    #: What a reader must know of it besides.
    remarks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        irregular, remarks = judged(self.counting)
        if again := sum(trial.decided_by_noise and not trial.counts for trial in self.trials):
            remarks.append(
                f"{again} trials that lost no more than noise may have taken were made again, and such without a loss were not: rather too "
                "high than too low"
            )
        self.irregular = self.irregular or irregular
        self.remarks = list(dict.fromkeys([*self.remarks, *remarks]))

    @property
    def generator_limited(self) -> bool | None:
        """Whether it is the generator's figure rather than the device's; None where its limit isn't known."""
        return limited_in(self.counting)

    @property
    def counting(self) -> list[Trial]:
        """The trials that it rests on."""
        return [trial for trial in self.trials if trial.counts]


def lost_in(trials: list[Trial]) -> tuple[dict[str, Any], list[str]]:
    """What was lost of all that was sent, for a result, and what must be said of it where the generator stood still meanwhile."""
    outputs = [trial.output for trial in trials]
    lost, sent = sum(output.lost for output in outputs), sum(output.sent for output in outputs)
    loss = {"packet": {"value": lost, "unit": "packets"}, "sent": {"value": sent, "unit": "packets"}}
    stalled = max((output.longest_stall_s for output in outputs if output.lost), default=0.0)
    if not stalled:
        return loss, []
    return loss, [
        f"the generator itself stood still for up to {stalled * 1e3:.1f} ms in trials that lost something: {QUIET}"
    ]


def judged(trials: list[Trial]) -> tuple[bool, list[str]]:
    """Whether a figure that rests on these trials is irregular, and what must be said of it."""
    irregular, remarks = False, []
    if multiplied(trials):
        irregular = True
        remarks.append(MULTIPLIED)
    outputs = [trial.output for trial in trials]
    sent = sum(output.sent for output in outputs)
    if stray := sum(output.misdirected for output in outputs):
        irregular = irregular or stray > FEW * sent
        remarks.append(f"{stray} packets came in where they were not to: look at the device's configuration")
    connections = [output.connections for output in outputs if output.connections]
    attempted, failed, again = (
        sum(each[of] or 0 for each in connections) for of in ("attempted", "failed", "retransmitted")
    )
    if failed or again:
        # A packet that is sent again came to nothing the first time: the device's loss, whatever the rate is.
        shares = failed / max(1, attempted), again / max(1, sent)
        irregular = irregular or max(shares) > TROUBLED
        remarks.append(f"{shares[0]:.2%} of the connections failed, {shares[1]:.2%} of the packets were sent again")
    if noisy := [trial for trial in trials if trial.decided_by_noise]:
        longest = max(trial.output.longest_stall_s for trial in noisy)
        waited = max(trial.noise.wait_s or 0.0 for trial in noisy)
        remarks.append(
            f"{len(noisy)} of {len(trials)} trials are lossy by no more than was missed while the generator (at the longest for "
            f"{longest * 1e3:.1f} ms) or the device's thread ({waited * 1e3:.1f} ms in all) was kept from running: {QUIET}"
        )
    if starved := [trial for trial in trials if trial.kept_waiting > STARVED]:
        waited_for = [trial.kept_waiting for trial in trials]
        irregular = irregular or fmean(waited_for) > STARVED
        remarks.append(
            f"in {len(starved)} of {len(trials)} trials the device waited for its core or the host took cores away, for up to "
            f"{max(waited_for):.0%} of the time: {QUIET}"
        )
    return irregular, remarks


def rate(value: float, frame_bits: float) -> dict[str, Any]:
    """A rate with its bandwidth, as in CSIT's documents."""
    return {"rate": {"value": value, "unit": "pps"}, "bandwidth": {"value": value * frame_bits, "unit": "bps"}}


def series(values: list[float], unit: str) -> dict[str, Any]:
    """Values with mean and standard deviation, as in CSIT's documents."""
    mean, deviation = mean_and_deviation(values)
    return {"values": values, "avg": mean, "stdev": deviation, "unit": unit}
