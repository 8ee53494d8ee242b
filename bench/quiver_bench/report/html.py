"""Static pages: one HTML file that works from a disk, with Plotly beside it. What is chosen stands in the address after ``#``."""

from __future__ import annotations

import html
import json
from pathlib import Path
from string import Template
from typing import Any

import plotly
from plotly.offline import get_plotlyjs

from quiver_bench import __version__
from quiver_bench.report import tables
from quiver_bench.report.figures import FIGURES, TABS
from quiver_bench.results.store import Store

_HERE = Path(__file__).parent


def write(store: Store, directory: Path) -> Path:
    """Writes ``index.html``, ``plotly.min.js``, ``results.csv``; returns the first."""
    directory.mkdir(parents=True, exist_ok=True)
    figures: dict[str, dict[str, Any]] = {}
    for tab, make in FIGURES.items():
        figures[tab] = {kind: json.loads(make(store, kind == "2ghz").to_json()) for kind in ("measured", "2ghz")}
    rows = {kind: tables.coverage(store, kind == "2ghz") for kind in ("measured", "2ghz")}
    data = {
        "tabs": TABS,
        "figures": figures,
        "coverage": rows,
        "columns": list(tables.COLUMNS),
        "suites": sorted({row["suite"] for row in rows["measured"]}),
        "devices": sorted({row["device"] for row in rows["measured"]}),
    }
    page = Template((_HERE / "page.html").read_text()).substitute(
        title="quiver-bench",
        version=html.escape(f"quiver-bench {__version__}, Plotly {plotly.__version__}"),
        style=(_HERE / "page.css").read_text(),
        # "</" would end the script element.
        data=json.dumps(data).replace("</", "<\\/"),
        script=(_HERE / "page.js").read_text(),
    )
    (directory / "plotly.min.js").write_text(get_plotlyjs())
    (directory / "results.csv").write_text(tables.as_csv(tables.everything(store)))
    index = directory / "index.html"
    index.write_text(page)
    return index
