"""``quiver-bench list`` and what looks at results."""

from __future__ import annotations

import argparse
import fnmatch
import json
import socket
import sys
from pathlib import Path
from typing import Any

import duckdb

from quiver_bench import selftest
from quiver_bench.commands.common import add_results, port
from quiver_bench.devices import NAMES, Device
from quiver_bench.devices.registry import device
from quiver_bench.errors import BadInput, Unsupported
from quiver_bench.report import markdown
from quiver_bench.results.store import Store
from quiver_bench.stats import with_deviation
from quiver_bench.suites import METHODS, Suite, suites
from quiver_bench.trend import ENOUGH, SCALES, trends


def add_list(commands: Any) -> None:
    """``list``."""
    parser = commands.add_parser(
        "list",
        help="suites and devices there are",
        description="Suites, by name or tag, each with the devices that do it.",
    )
    parser.add_argument(
        "pattern", nargs="?", default="*", help="part of a name, names such as '64b-1c-*-mrr', or a tag such as FIB_2M"
    )
    parser.add_argument("--device", help="only suites that this device does")
    parser.add_argument("--devices", action="store_true", help="list devices instead")
    parser.add_argument("--tags", action="store_true", help="with tags")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="what to print")
    parser.set_defaults(run=list_suites)


def list_suites(options: argparse.Namespace) -> int:
    """Prints them."""
    if options.devices:
        found = [{"name": name, "about": _about(name)} for name in NAMES]
        if options.output == "json":
            print(json.dumps(found, indent=2))
        else:
            print("\n".join(f"{entry['name']:12} {entry['about']}" for entry in found))
        return 0
    wanted = device(options.device).text if options.device else None
    able = {name: device(name).device for name in NAMES}
    only = device(wanted).device if wanted else None
    chosen = []
    # A part of a name says enough.
    pattern = options.pattern if any(sign in options.pattern for sign in "*?[") else f"*{options.pattern}*"
    for suite in suites():
        if not fnmatch.fnmatch(suite.name, pattern) and options.pattern not in suite.tags:
            continue
        names = [name for name, kind in able.items() if _does(kind, suite)]
        if only is None or _does(only, suite):
            chosen.append((suite, names))
    if not chosen:
        raise BadInput(
            f"no suite or tag matches {options.pattern}; without a pattern all are listed, --tags shows their tags"
        )
    if options.output == "json":
        print(
            json.dumps(
                [
                    {
                        "name": s.name,
                        "area": s.case.area,
                        "method": METHODS[s.method],
                        "metric": s.metric,
                        "tags": s.tags,
                        "devices": names,
                    }
                    for s, names in chosen
                ],
                indent=2,
            )
        )
        return 0
    area = None
    width = max(len(suite.name) for suite, _ in chosen)
    for suite, names in sorted(chosen, key=lambda each: each[0].case.area):
        if suite.case.area != area:
            area = suite.case.area
            print(f"# {area}")
        print(f"{suite.name:{width}}  {', '.join(names)}" + (f"  {' '.join(suite.tags)}" if options.tags else ""))
    return 0


def _does(kind: type[Device], suite: Suite) -> bool:
    try:
        kind.require(suite)
    except Unsupported:
        return False
    return True


def _about(name: str) -> str:
    kind = device(name).device
    first = (kind.__doc__ or "").splitlines()[0]
    return f"{first} Note: {kind.note}." if kind.note else first


def add(commands: Any) -> None:
    """The others."""
    trend = commands.add_parser(
        "trend", help="progressions and regressions", description="Series of results, by jumpavg."
    )
    trend.add_argument("pattern", nargs="?", default="*", help="suites")
    trend.add_argument("-o", "--output", choices=("text", "json"), default="text", help="what to print")
    add_results(trend)
    trend.set_defaults(run=show_trend)

    report = commands.add_parser("report", help="static pages, or the tables of docs/performance.md")
    report.add_argument(
        "--html", type=Path, metavar="DIR", help="write index.html there (default: DIR of results/html)"
    )
    report.add_argument(
        "--markdown", type=Path, metavar="PAGE", help="put tables between the marks of this page instead"
    )
    add_results(report)
    report.set_defaults(run=write_report)

    dash = commands.add_parser("dash", help="the dashboard, as a web server")
    dash.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    dash.add_argument("--port", type=port, default=8050, help="(default: %(default)s)")
    add_results(dash)
    dash.set_defaults(run=serve)

    export = commands.add_parser("export", help="results as CSV, JSON or Parquet in one file, or what a query finds")
    export.add_argument(
        "--to", type=Path, required=True, metavar="FILE", help="…….csv, .json or .parquet; must not exist"
    )
    export.add_argument(
        "--sql", default="SELECT * FROM results ORDER BY start_time", help="query over the view results"
    )
    add_results(export)
    export.set_defaults(run=write_export)

    test = commands.add_parser(
        "self-test",
        help="every method against simulated systems, and one tiny real trial",
        description="Checks that methods find what is known of simulated systems, and that real packets pass. No timing.",
    )
    test.add_argument("--simulated", action="store_true", help="leave the real trial out")
    test.set_defaults(run=lambda options: selftest.run(real=not options.simulated))


def show_trend(options: argparse.Namespace) -> int:
    """Prints every series, and what changed in it."""
    found = [each for each in trends(Store(options.results)) if fnmatch.fnmatch(each.suite, options.pattern)]
    if not found:
        raise BadInput(
            f"there are no results of {options.pattern} in {options.results} (comparisons make no series): quiver-bench run …"
        )
    if options.output == "json":
        print(
            json.dumps(
                [
                    {
                        "name": each.name,
                        "figure": each.figure,
                        "runs": len(each.runs) if each.groups else 0,
                        "irregular": each.left_out,
                        "remarks": each.remarks,
                        "changes": each.changes(),
                        "undecided": each.undecided(),
                    }
                    for each in found
                ],
                indent=2,
            )
        )
        return 0
    for each in found:
        left_out = f"{each.left_out} irregular result(s) left out" if each.left_out else ""
        marks = "; ".join(filter(None, [left_out, *each.remarks]))
        marks = f"  ({marks})" if marks else ""
        if not each.groups:
            print(f"{each.name}: no series{marks}")
            continue
        scale, unit = SCALES[each.unit]
        last = each.groups[-1]
        now = with_deviation(last.average, last.deviation, last.samples, scale, 3)
        print(f"{each.name}: {len(each.runs)} run(s), now {now} {unit}{marks}")
        for change in [*each.changes(), *each.undecided()]:
            before, after = change["runs"]
            few = f"; not decided: {before} and {after} runs are too few" if change["needs"] else ""
            needs = f" (after {before}, {change['needs']} are needed; {ENOUGH} and {ENOUGH} are enough)" if few else ""
            print(
                f"  {'perhaps a ' if few else ''}{change['change']} at {change['commit'] or change['at']} ({change['at']}): "
                f"{change['from'] / scale:.3f} to {change['to'] / scale:.3f} {unit}{few}{needs}"
            )
    return 0


def _filled(options: argparse.Namespace) -> Store:
    """The store that is asked for. Raises :class:`BadInput` where it has no results."""
    store = Store(options.results)
    if store.empty():
        raise BadInput(f"there are no results in {options.results}: quiver-bench run …")
    return store


def write_report(options: argparse.Namespace) -> int:
    """Writes pages or tables."""
    store = _filled(options)
    if options.markdown:
        try:
            markdown.update(store, options.markdown)
        except OSError as error:
            raise BadInput(f"--markdown {options.markdown}: {error.strerror}") from error
        print(f"{options.markdown}: tables brought up to date")
        return 0
    from quiver_bench.report import html  # Plotly takes its time

    pages = options.html or options.results / "html"
    try:
        print(html.write(store, pages))
    except OSError as error:
        raise BadInput(f"--html {pages}: {error.strerror}") from error
    return 0


def serve(options: argparse.Namespace) -> int:
    """Serves the dashboard until it is stopped."""
    from quiver_bench.report import dashboard

    store = _filled(options)
    with socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((options.host, options.port))
        except OSError as error:
            raise BadInput(f"can't listen on {options.host}:{options.port}: {error.strerror}") from error
    print(f"http://{options.host}:{options.port}/  (Ctrl-C ends it)", file=sys.stderr, flush=True)
    dashboard.app(store).run(host=options.host, port=options.port, debug=False)
    return 0


def write_export(options: argparse.Namespace) -> int:
    """Writes what a query finds."""
    formats = {".csv": "(FORMAT csv, HEADER)", ".json": "(FORMAT json, ARRAY true)", ".parquet": "(FORMAT parquet)"}
    form = formats.get(options.to.suffix)
    if form is None:
        raise BadInput(f"{options.to}: the name must end in {', '.join(formats)}")
    if not options.to.parent.is_dir():
        raise BadInput(f"{options.to}: there is no directory {options.to.parent}")
    if options.to.exists():
        raise BadInput(f"{options.to} exists already, and nothing is overwritten")
    store = _filled(options)
    database = store.rows()
    query = f"({options.sql.rstrip().removesuffix(';')}\n)"  # a comment at its end ends with its line
    try:
        count = database.execute(f"SELECT count(*) FROM {query}").fetchone()
    except duckdb.Error as error:
        raise BadInput(f"--sql: {error}") from error
    try:
        database.execute(f"COPY {query} TO '{str(options.to).replace(chr(39), chr(39) * 2)}' {form}")
    except duckdb.Error as error:
        raise BadInput(f"--to {options.to}: {error}") from error
    print(f"{options.to}: {count[0] if count else 0} row(s)")
    return 0
