"""Documents in the fields of CSIT's Unified Test Interface, schema 1.4, and what Quiver adds to it.

Added: ``commit``, ``machine``, ``placement``, ``generator_limited``, ``irregular``, ``direction``, ``containers``, ``command``, ``trials``,
``effort`` (how much was asked for), ``samples`` (how many trials the figure rests on), ``vitals`` (longest round of a worker, memory
and sessions after trials, the greatest of all).
Comparisons, which CSIT doesn't have, are documents of test type ``compare`` with the same head.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from quiver_bench import __version__
from quiver_bench.devices import copying
from quiver_bench.devices.base import Vitals
from quiver_bench.machine import this_machine
from quiver_bench.suites import Suite, find
from quiver_bench.trial import Limit, Trial

if TYPE_CHECKING:
    from quiver_bench.commands.common import Chosen
    from quiver_bench.compare import Comparison
    from quiver_bench.methods.base import Figure

#: Version of CSIT's schema.
UTI = "1.4.0"


def stamp(moment: datetime) -> str:
    """RFC 3339 in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def command_line() -> str:
    """The command that measures it again, without where its result went and how long there was."""
    words, kept = iter(sys.argv[1:]), ["bin/quiver-bench"]
    for word in words:
        flag = word.split("=", 1)[0]
        # As the parser, which takes the beginning of a flag for it.
        if len(flag) > 2 and any(aside.startswith(flag) for aside in ("--results", "--stop-after")):
            if flag == word:
                next(words, None)
        elif len(flag) <= 2 or not "--no-store".startswith(flag):
            kept.append(word)
    return shlex.join(kept)


def head(suite: Suite, chosen: Chosen, version: str, generator: str, started: datetime) -> dict[str, Any]:
    """The fields that every document has."""
    ended = datetime.now(UTC)
    machine = this_machine()
    area = suite.case.area
    return {
        "version": UTI,
        "dut_type": chosen.kind.dut_type,
        "dut_version": version,
        "device": chosen.text,
        "device_note": chosen.kind.note,
        "tg_type": "iperf3" if suite.case.generator == "iperf3" else "quiver-tgen",
        "tg_version": generator,
        "hosts": [machine.host],
        "start_time": stamp(started),
        "end_time": stamp(ended),
        "duration": round((ended - started).total_seconds(), 3),
        "test_id": f"tests.{chosen.kind.dut_type}.perf.{area}.{suite.port}-{suite.case.name}-{suite.method}.{suite.name}".lower(),
        "test_name_long": f"{suite.port}-{suite.name}",
        "test_name_short": f"{suite.case.name}-{suite.method}",
        "test_documentation": f"{suite.case.name} over {suite.port}, {suite.frame}, {suite.cores} worker core(s).",
        "suite": suite.name,
        "area": area,
        "frame_size": suite.frame,
        "core": f"{suite.cores}c",
        "tags": suite.tags,
        "test_type": suite.test_type,
        "passed": True,
        "message": "",
        "telemetry": [],
        "commit": chosen.commit,
        "machine": machine.as_dict(),
        "direction": suite.direction,
        "containers": _containers(chosen),
        "command": command_line(),
        "bench_version": __version__,
    }


def _containers(chosen: Chosen) -> dict[str, Any]:
    """Containers that packets pass through besides, and whether they had cores of their own."""
    cores = chosen.setup.cores
    return {"cores": list(cores.containers), "shared": cores.shared} if cores.containers else {}


def telemetry(clocks: dict[str, float], moment: datetime) -> list[str]:
    """Clocks per packet as OpenMetrics lines."""
    at = int(moment.timestamp() * 1000)
    return [f'node_clocks_per_packet{{node="{node}"}} {value} {at}' for node, value in clocks.items()]


def trials_of(trials: list[Trial]) -> list[dict[str, Any]]:
    """All samples."""
    return [trial.as_dict() for trial in trials]


@dataclass(frozen=True)
class Versions:
    """What measured, and what was measured."""

    generator: str = "unknown"
    device: str = "unknown"
    other: str = ""


def figure_document(
    figure: Figure, chosen: Chosen, versions: Versions, started: datetime, limit: Limit | None = None, effort: str = ""
) -> dict[str, Any]:
    """A figure of one device."""
    suite = chosen.setup.suite
    return head(suite, chosen, versions.device, versions.generator, started) | {
        "passed": not figure.message,
        "message": figure.message,
        "placement": figure.placement,
        "generator_limited": figure.generator_limited,
        "irregular": figure.irregular or chosen.setup.cores.shared,
        "remarks": figure.remarks + (copying.remarks() if suite.case.dma else []),
        "effort": effort,
        "samples": len(figure.counting),
        "vitals": asdict(Vitals.worst([trial.vitals for trial in figure.counting])),
        "result": figure.result,
        "telemetry": telemetry(figure.clocks, started),
        "trials": trials_of(figure.trials),
        "limit": asdict(limit) if limit else None,
    }


def comparison_document(
    comparison: Comparison,
    a: Chosen,
    b: Chosen,
    versions: Versions,
    started: datetime,
    limits: tuple[Limit | None, Limit | None] = (None, None),
) -> dict[str, Any]:
    """A comparison, with both devices."""
    stopped = "stopped before all pairs were measured" if comparison.interrupted else ""
    message = comparison.broken or comparison.failure or stopped
    suite = find(comparison.suite)
    suite = replace(suite, both_ways=a.setup.suite.both_ways)
    of_a, of_b = (asdict(limit) if limit else None for limit in limits)
    result = comparison.as_dict() | {"generator": of_a}
    if of_b != of_a:
        result["generator_b"] = of_b
    # Some tell their version only while they are up.
    of_device, of_other = (
        comparison.versions.get(side, told) for side, told in (("a", versions.device), ("b", versions.other))
    )
    document = head(suite, a, of_device, versions.generator, started)
    document |= {
        "test_type": "compare",
        "test_id": f"{document['test_id']}.{a.text}-against-{b.text}",
        "placement": result["placement"] or "unknown",
        "generator_limited": _either(result["a"]["generator_limited"], result["b"]["generator_limited"]),
        "irregular": a.setup.cores.shared or any(result[side]["irregular"] for side in ("a", "b")),
        "passed": not message,
        "message": message,
        "effort": comparison.effort,
        "samples": result["pairs"],
        "remarks": [f"{result[side]['name']}: {remark}" for side in ("a", "b") for remark in result[side]["remarks"]],
        "device": comparison.a,
        "other": {
            "device": comparison.b,
            "suite": b.setup.suite.name,
            "dut_type": b.kind.dut_type,
            "dut_version": of_other,
            "commit": b.commit,
        },
        "result": {"type": "compare", **result},
        "telemetry": telemetry(result["a"].get("clocks", {}), started),
        "trials": result["trials"],
    }
    del document["result"]["trials"]
    return document


def _either(a: bool | None, b: bool | None) -> bool | None:
    """Whether one of the two is so; None where neither is, and one isn't known."""
    return True if a or b else None if None in (a, b) else False
