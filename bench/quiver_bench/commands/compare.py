"""``quiver-bench compare``: A against B, alternately in one run."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from quiver_bench.commands.common import (
    Chosen,
    add_measuring,
    add_results,
    choose,
    known,
    positive,
    progress,
    put,
    ratio,
    some,
    warn_of_noise,
)
from quiver_bench.compare import Comparison, StandMaker, compare
from quiver_bench.devices import copying
from quiver_bench.devices.revision import binaries
from quiver_bench.errors import BadInput, BenchError, NotKept
from quiver_bench.generators.iperf3 import whole
from quiver_bench.machine import PLACEMENTS
from quiver_bench.results.documents import Versions, comparison_document
from quiver_bench.results.store import Store
from quiver_bench.stats import FEWEST_PAIRS, LIMITED
from quiver_bench.suites import Suite, find
from quiver_bench.suites.model import MAXIMUM
from quiver_bench.trial import Limit, generator_for, generator_limit, limited_in_words, standing

#: Exit status where ``--at-least`` isn't reached.
BELOW = 1


def add(commands: Any) -> None:
    """The command's options."""
    parser = commands.add_parser(
        "compare",
        help="hold two devices, or two commits, against each other",
        description="Measures A and B alternately and prints the median of the ratios of neighbours with its bootstrap "
        "interval. Exit status 0 if it could measure, 1 if --at-least isn't reached, 2 and 3 if it could not, 130 if it was stopped. "
        "Trials are kept in any case.",
    )
    parser.add_argument("--suite", required=True, help="what to measure: a suite of method mrr, cps, tput or replay")
    parser.add_argument(
        "--a", required=True, metavar="DEVICE", help="quiver, testpmd, …, quiver@REV: see list --devices"
    )
    parser.add_argument("--b", required=True, metavar="DEVICE")
    for side in ("a", "b"):
        parser.add_argument(
            f"--{side}-cores",
            type=some,
            metavar="N",
            help=f"workers of {side.upper()}, instead of the suite's: speed-up",
        )
    parser.add_argument(
        "--b-suite",
        metavar="SUITE",
        help="what B is measured with, instead of the other suite: what more routes, stations or sessions cost",
    )
    parser.add_argument(
        "--pairs",
        type=some,
        default=7,
        help=f"pairs of one placement to measure (default: %(default)s; a verdict needs {FEWEST_PAIRS})",
    )
    parser.add_argument("--seconds", type=positive, default=1.0, help="length of a trial (default: %(default)s)")
    parser.add_argument(
        "--within", type=positive, default=math.inf, metavar="SECONDS", help="begin no more pairs after so long"
    )
    parser.add_argument("--placement", choices=PLACEMENTS, help="count only pairs of this placement")
    parser.add_argument(
        "--at-least",
        type=ratio,
        metavar="RATIO",
        help=f"exit 1 if the median ratio is lower, 3 if there are fewer than {FEWEST_PAIRS} pairs or the figures are irregular",
    )
    add_measuring(parser)
    add_results(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measures, prints, keeps."""
    suite = _comparable(options.suite)
    suite_b = _comparable(options.b_suite) if options.b_suite else suite
    if suite_b.metric != suite.metric:
        raise BadInput(f"{suite_b.name} measures {suite_b.metric}, {suite.name} {suite.metric}: they have no ratio")
    started = datetime.now(UTC)
    store = None if options.no_store else Store(options.results).ready()
    sides = [_side(suite, options.a_cores), _side(suite_b, options.b_cores)]
    with progress(
        f"{options.a} against {options.b}: {' and '.join(dict.fromkeys((suite.name, suite_b.name)))}"
    ) as tell:
        for text, side in zip((options.a, options.b), sides, strict=True):
            known(text, side)  # not after minutes in which the other one is built
        a, b = choose(options.a, sides[0], options), choose(options.b, sides[1], options)
        warn_of_noise(tell)
        limits = _limits(a, b)
        comparison = Comparison(suite.name, suite.metric, _name(a, suite), _name(b, suite), wanted=options.placement)
        comparison.notes = list(dict.fromkeys(f"{side.text}: {side.kind.note}" for side in (a, b) if side.kind.note))
        if any(side.setup.cores.shared for side in (a, b)):
            comparison.notes.append("containers share cores: this is the machine's figure, not the device's")
        if suite.case.dma or suite_b.case.dma:
            comparison.notes += copying.remarks()
        if (
            "iperf3" in (suite.case.generator, suite_b.case.generator)
            and (length := whole(options.seconds)) != options.seconds
        ):
            comparison.notes.append(f"iperf3 knows whole seconds only: trials of {length} s")
        generator = generator_for(replace(a.setup, binaries=binaries())).version()
        versions = Versions(generator, a.version(), b.version())
        make_a, make_b = maker(a, limits[0]), maker(b, limits[1])
        try:
            compare(comparison, make_a, make_b, options.pairs, options.seconds, tell, options.within)
        except Exception as error:
            # What was measured until then is kept, whatever it was.
            comparison.broken = f"{type(error).__name__}: {error}"
            if store is not None and comparison.pairs:
                broken = comparison_document(comparison, a, b, versions, started, limits)
                try:
                    tell(f"kept: {store.add(broken, chr(10).join(comparison.logs))}")
                except NotKept as full:
                    tell(str(full))
            raise
    document = comparison_document(comparison, a, b, versions, started, limits)
    result = document["result"] | {"trials": document["trials"]}
    not_kept = None
    if store is not None:
        try:
            result["kept"] = str(store.add(document, "\n".join(comparison.logs)))
        except NotKept as error:  # what was measured is told all the same
            not_kept = error
            print(f"quiver-bench: {error}", file=sys.stderr)
    if options.output == "json":
        put(json.dumps(result, indent=2))
    elif not comparison.failure:
        put(in_words(result))
    if comparison.interrupted:
        return 130
    if comparison.failure:
        raise BenchError(comparison.failure + (f" (kept: {result['kept']})" if "kept" in result else ""))
    status = gate(result, options.at_least)
    return not_kept.exit_status if not_kept else status


def gate(result: dict[str, Any], wanted: float | None) -> int:
    """Exit status of a comparison against the ratio that must be reached. Raises :class:`BenchError` on too little to judge by."""
    if wanted is None:
        return 0
    if result["pairs"] < FEWEST_PAIRS:
        raise BenchError(f"gate: {result['pairs']} pairs are too few to judge by ({FEWEST_PAIRS} are needed)")
    if result["a"]["irregular"] or result["b"]["irregular"]:
        raise BenchError("gate: the figures are irregular, and nothing can be judged by them")
    if result["verdict"].endswith(LIMITED):
        raise BenchError(f"gate: {result['verdict']}: what it could do isn't known, and nothing can be judged by it")
    median = result["ratio"]["median"]
    reached = median >= wanted
    print(f"gate: {median:.3f} {'≥' if reached else '<'} {wanted:g}", file=sys.stderr)
    return 0 if reached else BELOW


def _limits(a: Chosen, b: Chosen) -> tuple[Limit | None, Limit | None]:
    """What the generator does at most for A and for B: measured once where they are set up alike."""
    first = generator_limit(a.setup)
    alike = (a.setup.suite, a.setup.cores) == (b.setup.suite, b.setup.cores)
    return first, first if alike else generator_limit(b.setup)


def _side(suite: Suite, cores: int | None) -> Suite:
    """The suite with another number of workers."""
    return find(suite.name.replace(f"-{suite.cores}c-", f"-{cores}c-", 1)) if cores else suite


def _comparable(name: str) -> Suite:
    """The suite of that name, if a single trial of it has a figure."""
    suite = find(name)
    if suite.method not in MAXIMUM:
        raise BadInput(
            f"compare works with suites of methods {', '.join(sorted(MAXIMUM))}: {suite.name.removesuffix(suite.method)}mrr"
        )
    return suite


def _name(chosen: Chosen, suite: Suite) -> str:
    """The device, with its workers and its suite where they aren't the comparison's."""
    own = chosen.setup.suite
    workers = "" if own.cores == suite.cores else f" {own.cores}c"
    other = "" if _side(own, suite.cores).name == suite.name else f" with {own.name}"
    return f"{chosen.text}{workers}{other}"


def maker(chosen: Chosen, limit: Limit | None) -> StandMaker:
    """Brings the device up anew, with the generator of this checkout."""

    def make() -> contextlib.AbstractContextManager[Any]:
        return standing(chosen.kind, chosen.setup, limit, binaries())

    return make


def in_words(result: dict[str, Any]) -> str:
    """For people."""
    unit = {"bandwidth_bps": "Gbit/s", "connections_per_second": "Mcps"}.get(result["metric"], "Mpps")
    scale = 1e9 if unit == "Gbit/s" else 1e6
    lines = [f"{result['suite']}, {result['placement']}, {result['pairs']} pairs"]
    for side in ("a", "b"):
        marks = limited_in_words(result[side]["generator_limited"])
        marks += ["irregular"] if result[side]["irregular"] else []
        marks += result[side]["remarks"]
        said = f"  ({', '.join(marks)})" if marks else ""
        lines.append(f"  {side}  {result[side]['name']:16} {result[side]['median'] / scale:8.2f} {unit}{said}")
    ratio = result["ratio"]
    share = math.floor(1000 * ratio["confidence"]) / 10
    interval = f"{share:g} % interval {ratio['low']:.3f} to {ratio['high']:.3f}" if share else "no interval"
    lines.append(f"  a/b {ratio['median']:.3f}  ({interval}): {result['verdict']}")
    for side in ("a", "b"):
        if clocks := result[side].get("clocks"):
            each = ", ".join(f"{node} {clock:.1f}" for node, clock in clocks.items())
            lines.append(f"  clocks per packet of {result[side]['name']}: {each}")
    lines += [f"  note: {note}" for note in result["notes"]]
    for other in result["other_placements"]:
        lines.append(f"  besides, {other['placement']}: ratio {other['ratio']['median']:.3f}, {other['pairs']} pairs")
    if result["void"]:
        lines.append(f"  void: {len(result['void'])}")
    if "kept" in result:
        lines.append(f"  kept: {result['kept']}")
    return "\n".join(lines)
