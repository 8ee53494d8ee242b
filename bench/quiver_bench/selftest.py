"""The ruler, held against things of known length: every method against simulated systems, and one tiny real trial.

Nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

from quiver_bench.compare import Comparison, compare
from quiver_bench.devices.base import Setup
from quiver_bench.devices.floor import Floor
from quiver_bench.devices.quiver import Quiver
from quiver_bench.devices.revision import binaries
from quiver_bench.errors import BenchError
from quiver_bench.machine import allot
from quiver_bench.methods import idle, mrr, ndrpdr, reconf
from quiver_bench.methods.soak import Search
from quiver_bench.simulated import Simulated
from quiver_bench.suites import find
from quiver_bench.trend import classify
from quiver_bench.trial import standing


class Wrong(BenchError):
    """A method found something else than is there."""


def _quiet(_: str) -> None:
    """Says nothing."""


def _expect(what: str, found: float, low: float, high: float) -> str:
    if not low <= found <= high:
        raise Wrong(f"{what}: found {found:g}, and it lies between {low:g} and {high:g}")
    return f"{found:g} lies between {low:g} and {high:g}"


def check_mrr() -> str:
    """MRR of a system that loses all above its capacity is that capacity; trials of other placement are kept apart."""
    figures = mrr.measure(Simulated(12e6, 1e4, placements=["near"] * 4 + ["far"] * 3 + ["near"]), _quiet)
    if [figure.placement for figure in figures] != ["near", "far"]:
        raise Wrong(f"MRR: placements {[figure.placement for figure in figures]}")
    return _expect("MRR", figures[0].result["receive_rate"]["rate"]["avg"], 11.9e6, 12.1e6)


def check_ndrpdr() -> str:
    """MLRsearch finds the load at which half a percent is lost, within its width."""
    system = Simulated(12e6, 1e5)
    figure = ndrpdr.measure(system, _quiet, 480)
    pdr = system.critical_load(0.005)
    found = figure.result["pdr"]["upper"]["rate"]["value"]
    ndr = figure.result["ndr"]["lower"]["rate"]["value"]
    _expect("NDR", ndr, 0.8 * pdr, pdr)
    return _expect("PDR", found, 0.985 * pdr, 1.015 * pdr)


def check_soak() -> str:
    """PLRsearch's bounds hold the critical load of a system that neither needs to be asked about nor is known to it."""
    system = Simulated(12e6, 1e5, model="erf")
    search = Search(15e6)
    for _ in range(12):
        load, seconds = search.next_load(), search.seconds()
        state = search.learn(load, seconds, system.trial(seconds, load).output.lost)
    true = system.critical_load(1e-7)
    return _expect("critical load", math.exp(state.log_load), 0.97 * true, 1.03 * true)


def check_reconf() -> str:
    """Lost packets, divided by the rate, are the time of standstill."""
    system = Simulated(12e6, 1e3, reconfiguration_loss=10_000)
    loss = reconf.measure(system, _quiet, 480, seconds=1.0).result["loss"]
    return _expect("standstill", loss["time"]["value"], 0.7e-3, 1.1e-3)


def check_idle() -> str:
    """What first packets wait longer than with polling is what it takes to wake up."""
    found = idle.measure(Simulated(12e6, 1e3, idle_share=0.01, sleeps_us=40.0), _quiet, seconds=1.0).result["idle"]
    return _expect("waking up", found["woken"]["value"], 39.9, 40.1)


def check_compare() -> str:
    """A system that is a tenth faster is called faster, one that isn't isn't, in spite of scatter."""
    found = []
    for faster in (1.1, 1.0):
        seeds = iter(range(1000, 1100))

        def maker(
            capacity: float, seeds: Iterator[int] = seeds
        ) -> Callable[[], contextlib.AbstractContextManager[Simulated]]:
            return lambda: contextlib.nullcontext(Simulated(capacity, 1e4, scatter=0.01, seed=next(seeds)))

        comparison = Comparison("simulated", "receive_rate_pps", "a", "b")
        compare(comparison, maker(faster * 10e6), maker(10e6), pairs=9, seconds=1.0)
        found.append(comparison.as_dict()["verdict"])
    if found != ["A is faster", "no difference shown"]:
        raise Wrong(f"compare: {found}")
    return ", then ".join(found)


def check_trend() -> str:
    """A series that falls by a twentieth has one regression, there."""
    groups = classify([[10.0 + 0.01 * (n % 3)] for n in range(10)] + [[9.5 + 0.01 * (n % 3)] for n in range(10)])
    changes = [(group.change, group.first) for group in groups]
    if changes != [("normal", 0), ("regression", 10)]:
        raise Wrong(f"trend: {changes}")
    return "the regression is where it is"


def check_real() -> str:
    """Real packets pass the floor and Quiver."""
    suite = find("64b-1c-memif-ethip4-ip4base-mrr")
    setup = Setup(suite, allot(1), binaries())
    for kind in (Floor, Quiver):
        with standing(kind, setup) as stand:
            trial = stand.trial(0.1)
            if trial.output.received <= 0:
                raise Wrong(f"{kind.name}: no packet came through: {trial.output}")
            if kind is Quiver and not trial.clocks:
                raise Wrong("quiver tells no clocks of its nodes")
    return "packets passed the floor and Quiver"


CHECKS = (check_mrr, check_ndrpdr, check_soak, check_reconf, check_idle, check_compare, check_trend)


def run(real: bool = True) -> int:
    """Runs all checks; the first that fails ends it."""
    for check in (*CHECKS, *((check_real,) if real else ())):
        print(f"{check.__name__.removeprefix('check_'):8} {check()}", flush=True)
    return 0
