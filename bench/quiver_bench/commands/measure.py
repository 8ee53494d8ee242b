"""``quiver-bench run``, ``search`` and ``soak``: one device, one or several suites."""

from __future__ import annotations

import argparse
import fnmatch
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from quiver_bench import latency
from quiver_bench.commands.common import (
    Chosen,
    add_measuring,
    add_results,
    choose,
    positive,
    progress,
    put,
    some,
    warn_of_noise,
)
from quiver_bench.devices.base import Vitals
from quiver_bench.devices.revision import binaries
from quiver_bench.errors import BadInput, BenchError, NotKept, TrialVoid, Unsupported
from quiver_bench.machine import UNSETTLED
from quiver_bench.methods import change, flood, hostile, idle, mrr, ndrpdr, reconf, soak
from quiver_bench.methods.base import Figure
from quiver_bench.results.documents import Versions, figure_document, trials_of
from quiver_bench.results.store import Store
from quiver_bench.stats import series_in_words
from quiver_bench.suites import Suite, find, nearest, suites
from quiver_bench.suites.model import MAXIMUM
from quiver_bench.trial import DeviceStand, Trial, generator_limit, limited_in_words, standing


def add(commands: Any) -> None:
    """The three commands."""
    for name, method, what, more in (
        ("run", None, "measure suites by the method in their names", "Each suite by the method that its name ends in."),
        (
            "search",
            "ndrpdr",
            "NDR and PDR by MLRsearch",
            "The highest rates without loss (NDR) and with 0.5 % of it (PDR), by MLRsearch, then latency below PDR: what run does "
            "with suites of method ndrpdr, whose names may lack that here.",
        ),
        (
            "soak",
            "soak",
            "critical load by PLRsearch",
            "The load at which one packet in ten million is lost, by PLRsearch: what run does with suites of method soak, whose names "
            "may lack that here.",
        ),
    ):
        parser = commands.add_parser(name, help=what, description=f"{more} Results are kept.")
        parser.add_argument(
            "suite",
            nargs="+",
            help=f"names, or patterns such as '64b-1c-memif-*-{method or 'mrr'}': quiver-bench list",
        )
        parser.add_argument("--device", default="quiver", help="device under test (default: %(default)s)")
        _add_effort(parser, method)
        add_measuring(parser)
        add_results(parser)
        parser.set_defaults(run=run, method=method)


def _add_effort(parser: argparse.ArgumentParser, method: str | None) -> None:
    """How much may be spent: what a method doesn't know isn't offered, and has its default."""
    offered: dict[str, tuple[Callable[[str], float], float, tuple[str | None, ...], str]] = {
        "--trials": (some, mrr.TRIALS, (None,), "trials of mrr, cps, tput, replay, create, change and flood"),
        "--seconds": (positive, 1.0, (None, "ndrpdr"), "length of a trial"),
        "--duration-sum": (positive, 21.0, (None, "ndrpdr"), "seconds of trials that decide a load of a search"),
        "--search-seconds": (
            positive,
            ndrpdr.SEARCH_SECONDS,
            (None, "ndrpdr"),
            "a search that isn't done after so long has failed",
        ),
        "--soak-seconds": (positive, soak.SOAK_SECONDS, (None, "soak"), "length of a soak"),
    }
    for flag, (kind, default, methods, what) in offered.items():
        if method in methods:
            parser.add_argument(flag, type=kind, default=default, help=f"{what} (default: %(default)g)")
        else:
            parser.set_defaults(**{flag[2:].replace("-", "_"): default})


def run(options: argparse.Namespace) -> int:
    """Measures suite by suite; what one can't do doesn't keep the others from being measured."""
    wanted = [suite for pattern in options.suite for suite in _matching(pattern, options.method)]
    if options.duration_sum < options.seconds:
        raise BadInput(f"--duration-sum {options.duration_sum:g} is less than a trial: --seconds {options.seconds:g}")
    store = None if options.no_store else Store(options.results).ready()
    documents: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    failures: list[BenchError] = []
    interrupted = False
    with progress(f"{options.device}: {len(wanted)} suite(s)") as tell:
        warn_of_noise(tell)
        for number, suite in enumerate(wanted, 1):
            tell(suite.name)
            try:
                chosen = choose(options.device, suite, options)
                measured = _measure(chosen, options, store, tell)
                documents += measured
                shown += measured
                failed = [document["message"] for document in measured if not document["passed"]]
                if failed and not failed[-1].startswith("stopped"):
                    failures.append(BenchError(failed[-1]))
                    if len(wanted) > 1:
                        tell(f"failed: {failed[-1]}")
            except KeyboardInterrupt:
                interrupted = True
                shown.append(_not_measured(suite, options.device, "stopped before anything was measured"))
            except Unsupported as error:
                failures.append(error)
                shown.append(_not_measured(suite, options.device, str(error)))
                if len(wanted) > 1:  # else it is said at the end
                    tell(f"left out: {error}")
            except BenchError as error:
                failures.append(error)
                shown.append(_not_measured(suite, options.device, str(error)))
                if len(wanted) > 1:
                    tell(f"failed: {error}")
            interrupted = interrupted or any(d["message"].startswith("stopped") for d in documents)
            if interrupted:
                tell("stopped; what was measured is kept" if documents else "stopped before anything was measured")
                shown += [_not_measured(left, options.device, "stopped before its turn") for left in wanted[number:]]
                break
    if options.output == "json":
        put(json.dumps(shown[0] if len(wanted) == 1 and len(shown) == 1 else shown, indent=2))
    elif documents:
        put("\n".join(in_words(document) for document in documents))
    if interrupted:
        return 130
    if failures and len(wanted) == 1:
        raise failures[-1]
    if failures and not documents:
        raise BenchError(f"none of {len(wanted)} suites could be measured: see above")
    broken = [failure for failure in failures if not isinstance(failure, Unsupported)]
    if broken:
        raise BenchError(f"{len(broken)} of {len(wanted)} suites could not be measured: see above")
    return 0


def _not_measured(suite: Suite, device: str, why: str) -> dict[str, Any]:
    """What stands among the documents for a suite that has none."""
    return {
        "suite": suite.name,
        "test_type": suite.test_type,
        "device": device,
        "passed": False,
        "message": why,
        "result": {"type": "unknown"},
    }


def _matching(pattern: str, method: str | None) -> list[Suite]:
    if not any(sign in pattern for sign in "*?["):
        return [find(pattern, method)]
    found = [suite for suite in suites() if fnmatch.fnmatch(suite.name, pattern) and method in (None, suite.method)]
    if not found:
        raise BadInput(f"no suite matches {pattern}{nearest(pattern, method)}. All of them: quiver-bench list")
    return found


def _measure(
    chosen: Chosen, options: argparse.Namespace, store: Store | None, tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """One suite: a document per figure. A trial that is void makes a failed document, with the device's log beside it."""
    suite = chosen.setup.suite
    started = datetime.now(UTC)
    kept: list[Trial] = []
    maximum = suite.method in MAXIMUM
    limit = generator_limit(chosen.setup)
    versions = Versions()
    stopped = log = ""
    broken: Exception | None = None
    try:
        with standing(chosen.kind, chosen.setup, limit, binaries()) as stand:
            versions = Versions(stand.generator.version(), stand.version())
            figures = _by_method(stand, suite, options, kept, tell)
            for figure in figures:
                figure.remarks = [*stand.remarks(), *figure.remarks]
    except KeyboardInterrupt:
        if not kept:
            raise  # there is nothing to keep
        stopped = f"stopped after {len(kept)} trial(s)"
        figures = mrr.figures(kept, suite.unit) if maximum else [_unfinished(kept, stopped)]
    except TrialVoid as void:
        figures, log = [_unfinished(kept, f"trial void: {void}")], void.log
        if store is None:
            raise
    except Exception as error:
        # What was measured until then is kept, whatever it was.
        if store is None or not kept:
            raise
        broken, figures = error, [_unfinished(kept, f"{type(error).__name__}: {error}")]
    if not figures:
        figures = [_unfinished(kept, "the host moved the cores in every trial: try again")]
    documents: list[dict] = []
    moved = [replace(trial, counts=False) for trial in kept if trial.placement in UNSETTLED] if maximum else []
    for figure in figures:
        document = figure_document(figure, chosen, versions, started, limit, effort(suite, options))
        if stopped:
            document |= {"passed": False, "message": stopped}
        if (
            not documents and figure.trials != kept
        ):  # every sample is kept: those that belong to no placement stand with the first
            document["trials"] += trials_of(moved)
        if store is not None:
            try:
                tell(f"kept: {store.add(document, log)}")
            except NotKept as error:  # what was measured is told all the same
                document |= {"passed": False, "message": "; ".join(filter(None, [document["message"], str(error)]))}
        documents.append(document)
    if broken:
        raise broken
    if log:
        where = f" (log: {store.directory / documents[0]['log']})" if store and "log" in documents[0] else ""
        raise TrialVoid(f"{documents[0]['message']}{where}", log)
    return documents


def _by_method(
    stand: DeviceStand, suite: Suite, options: argparse.Namespace, kept: list[Trial], tell: Callable[[str], None]
) -> list[Figure]:
    bits = suite.traffic.mean_size * 8
    if suite.method in MAXIMUM:
        return mrr.measure(stand, tell, options.trials, options.seconds, kept, suite.unit)
    if suite.method == "ndrpdr":
        return [ndrpdr.measure(stand, tell, bits, _search(suite, options), kept)]
    if suite.method == "soak":
        return [soak.measure(stand, tell, bits, options.soak_seconds, kept)]
    if suite.method == "change":
        return [change.measure(stand, tell, options.trials, options.seconds, kept)]
    if suite.method == "flood":
        return [flood.measure(stand, tell, options.trials, options.seconds, kept)]
    if suite.method == "hostile":
        return [hostile.measure(stand, tell, hostile.SECONDS * options.seconds, kept)]
    if suite.method == "idle":
        return [idle.measure(stand, tell, idle.SECONDS * options.seconds, kept)]
    return [reconf.measure(stand, tell, bits, reconf.SECONDS * options.seconds, _search(suite, options), kept)]


def _search(suite: Suite, options: argparse.Namespace) -> ndrpdr.Effort:
    """What a search may cost; that before a reconfiguration is a short one."""
    if suite.method != "reconf":
        return ndrpdr.Effort(options.duration_sum, options.seconds, options.search_seconds)
    return ndrpdr.Effort(
        min(options.duration_sum, reconf.EFFORT.duration_sum),
        options.seconds,
        min(options.search_seconds, reconf.EFFORT.search_seconds),
    )


def effort(suite: Suite, options: argparse.Namespace) -> str:
    """How much is asked for, in words: figures of different effort make no series."""
    if suite.method == "create":
        return f"{options.trials} × {suite.traffic.members} sessions"
    if suite.method in (*MAXIMUM, "change", "flood"):
        return f"{options.trials} × {options.seconds:g} s"
    if suite.method == "soak":
        return f"{options.soak_seconds:g} s"
    if suite.method == "hostile":
        return f"{hostile.SECONDS * options.seconds:g} s"
    if suite.method == "idle":
        return f"{idle.SECONDS * options.seconds:g} s"
    search = _search(suite, options)
    return f"trials of {search.trial_seconds:g} s, {search.duration_sum:g} s decide"


def _unfinished(kept: list[Trial], message: str) -> Figure:
    return Figure({"type": "unknown"}, kept, kept[-1].placement if kept else "unknown", True, message)


def in_words(document: dict[str, Any]) -> str:
    """One line for people."""
    result = document["result"]
    marks = [document["placement"], *(["both ways"] if document["direction"] == "both ways" else [])]
    count = document["samples"]
    marks += [f"{count} trial{'s' if count != 1 else ''}"] if document["result"]["type"] == "mrr" else []
    marks += Vitals(**document.get("vitals", {})).in_words()
    marks += limited_in_words(document["generator_limited"])
    marks += ["irregular"] if document["irregular"] else []
    marks += document["remarks"]
    marks += ["containers share cores"] if document["containers"].get("shared") else []
    if document["message"]:
        marks.append(document["message"])
    return f"{document['device']:12} {document['suite']:48} {figure_in_words(result)}  ({', '.join(marks)})"


def _latency_in_words(result: dict[str, Any]) -> str:
    """Latency at half of PDR, where it was measured."""
    half = result.get("latency_forward", {}).get(f"pdr_{latency.HALF}", {})
    told = latency.in_words(half.get("percentiles", {}))
    return f"; at {latency.HALF} % of PDR {told}" if told else ""


def figure_in_words(result: dict[str, Any]) -> str:
    """A result's figure with its unit."""
    match result["type"]:
        case "mrr" if "rate" in result["receive_rate"]:
            rates = result["receive_rate"]["rate"]
            return f"{series_in_words(rates, 1e6, 3)} M{rates['unit']}"
        case "mrr":
            bits = result["receive_rate"]["bandwidth"]
            return f"{series_in_words(bits, 1e9, 2)} Gbit/s"
        case "ndrpdr":
            ndr, pdr = (result[goal]["lower"]["rate"]["value"] / 1e6 for goal in ("ndr", "pdr"))
            return f"NDR {ndr:.3f}, PDR {pdr:.3f} Mpps{_latency_in_words(result)}"
        case "soak":
            ends = {end: found["rate"]["value"] / 1e6 for end, found in result["critical_rate"].items()}
            if len(ends) == 1:
                return " ".join(
                    f"critical load at {'least' if end == 'lower' else 'most'} {load:.3f} Mpps"
                    for end, load in ends.items()
                )
            return f"critical load {ends['lower']:.3f} to {ends['upper']:.3f} Mpps"
        case "reconf":
            loss = result["loss"]
            without = loss["without"]["value"] / result["aggregate_rate"]["rate"]["value"]
            return f"{loss['time']['value'] * 1e3:.3f} ms of standstill, {without * 1e3:.3f} ms without"
        case "change":
            lost, sent = (result["loss"][of]["value"] for of in ("packet", "sent"))
            return f"all sessions looked through in {series_in_words(result['revisit'], 1e-3, 1)} ms, {lost} of {sent} packets lost"
        case "flood":
            lost, sent = (result["loss"][of]["value"] for of in ("packet", "sent"))
            return f"{lost} of {sent} packets lost beside {series_in_words(result['flood_rate'], 1e6, 3)} Mpps"
        case "hostile":
            return f"{hostile.in_words(result)}; without the attack {hostile.in_words(result['calm'])}"
        case "idle":
            share, woken = (result["idle"][of]["value"] for of in ("share", "woken"))
            return f"{share:.2%} of a core; first packet {woken:+.1f} us against polling"
    return "no figure"
