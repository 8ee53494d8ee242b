"""``quiver-bench list`` and what looks at results."""

from __future__ import annotations

import argparse
import fnmatch
import json
from typing import Any

from quiver_bench.devices import NAMES
from quiver_bench.devices.registry import device
from quiver_bench.errors import BadInput, Unsupported
from quiver_bench.suites import METHODS, suites


def add_list(commands: Any) -> None:
    """``list``."""
    parser = commands.add_parser("list", help="suites and devices there are", description="Suites, by name or tag.")
    parser.add_argument("pattern", nargs="?", default="*", help="names such as '64b-1c-*-mrr', or a tag such as FIB_2M")
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
    kind = device(options.device).device if options.device else None
    chosen = []
    for suite in suites():
        if not fnmatch.fnmatch(suite.name, options.pattern) and options.pattern not in suite.tags:
            continue
        try:
            if kind:
                kind.require(suite)
        except Unsupported:
            continue
        chosen.append(suite)
    if not chosen:
        raise BadInput(f"no suite matches {options.pattern}")
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
                    }
                    for s in chosen
                ],
                indent=2,
            )
        )
        return 0
    area = None
    for suite in sorted(chosen, key=lambda each: each.case.area):
        if suite.case.area != area:
            area = suite.case.area
            print(f"# {area}")
        print(suite.name + (f"  {' '.join(suite.tags)}" if options.tags else ""))
    return 0


def _about(name: str) -> str:
    kind = device(name).device
    first = (kind.__doc__ or "").splitlines()[0]
    return f"{first} Note: {kind.note}." if kind.note else first


def add(commands: Any) -> None:
    """The others."""
