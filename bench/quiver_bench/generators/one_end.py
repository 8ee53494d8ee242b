"""quiver-tgen as the other side of an application, which sends to it or takes from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from quiver_bench.errors import Unsupported
from quiver_bench.generators.base import Endpoint, TrialOutput
from quiver_bench.generators.tgen import Tgen, interface, output
from quiver_bench.machine import Cores
from quiver_bench.suites.traffic import Traffic

#: Packets a second while the application sends: its own memif must be named as the one to send to.
IDLE_PPS = 10.0


class OneEnd(Tgen):
    """One memif: nothing that is sent comes back."""

    def __init__(self, binaries: Path, application: str) -> None:
        super().__init__(binaries)
        #: Whether the application's part is to ``receive`` or to ``send``.
        self.application = application

    def command(
        self,
        traffic: Traffic,
        endpoints: tuple[Endpoint, Endpoint] | None,
        cores: Cores,
        seconds: float,
        rate_pps: float | None = None,
        latency: bool = False,
    ) -> list[str]:
        """Its command line for a trial."""
        where = ["--loop"] if endpoints is None else ["--tx", interface(endpoints[0])]
        rate = IDLE_PPS if self.application == "send" else rate_pps
        words: list[object] = [self.program, *where, "--size", traffic.pattern[0], "--seconds", f"{seconds:g}"]
        words += ["--core", cores.generator, "--peer-core", cores.worker]
        words += ["--rate", f"{rate:.3f}"] if rate else []
        words += ["--full"] if traffic.full else []
        return [str(word) for word in [*words, "--output", "json"]]

    def trial(
        self,
        traffic: Traffic,
        endpoints: tuple[Endpoint, Endpoint],
        cores: Cores,
        seconds: float,
        rate_pps: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        latency: bool = False,
    ) -> TrialOutput:
        """Sends or takes for so long; see :meth:`~quiver_bench.generators.base.Generator.trial`."""
        if latency:
            raise Unsupported("nothing comes back from an application: latency can't be measured")
        self.require(traffic, endpoints)
        report = self.run(self.command(traffic, endpoints, cores, seconds, rate_pps), seconds, meanwhile)
        return one_way(report, self.application)


def one_way(report: dict[str, Any], application: str) -> TrialOutput:
    """What the application did, from the generator's JSON: it has received what found room in its ring, but for the last ringful."""
    seen = output(report)
    if application == "send":
        return replace(seen, sent=seen.received, lost=0)
    pps, bps = report["sent"] / seen.seconds, report["sent_bytes"] * 8 / seen.seconds
    return replace(seen, received=seen.sent, lost=0, rate_pps=pps, rate_bps=bps)
