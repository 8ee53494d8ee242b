"""quiver-tgen as the other side of an application, which sends to it or takes from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from quiver_bench.errors import Unsupported
from quiver_bench.generators.base import Endpoint, Load, TrialOutput
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
        self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint] | None, cores: Cores, load: Load
    ) -> list[str]:
        """See :meth:`~quiver_bench.generators.tgen.Program.command`."""
        where = ["--loop"] if endpoints is None else ["--tx", interface(endpoints[0])]
        rate = IDLE_PPS if self.application == "send" else load.rate_pps
        words: list[object] = [self.program, *where, "--size", traffic.pattern[0], "--seconds", f"{load.seconds:g}"]
        words += ["--core", cores.generator]
        words += ["--rate", f"{rate:.3f}"] if rate else []
        words += ["--full"] if traffic.full else []
        return [str(word) for word in [*words, "--output", "json"]]

    def measure(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint], cores: Cores, load: Load) -> TrialOutput:
        """See :meth:`~quiver_bench.generators.base.Generator.measure`."""
        if load.latency:
            raise Unsupported("nothing comes back from an application: latency can't be measured")
        return super().measure(traffic, endpoints, cores, load)

    def read(self, report: dict[str, Any], traffic: Traffic) -> TrialOutput:
        """See :meth:`~quiver_bench.generators.tgen.Program.read`."""
        return one_way(report, self.application)


def one_way(report: dict[str, Any], application: str) -> TrialOutput:
    """What the application did, from the generator's JSON: it has received what found room in its ring, but for the last ringful."""
    seen = output(report)
    if application == "send":
        return replace(seen, sent=seen.received, lost=0)
    pps, bps = report["sent"] / seen.seconds, report["sent_bytes"] * 8 / seen.seconds
    return replace(seen, received=seen.sent, lost=0, rate_pps=pps, rate_bps=bps)
