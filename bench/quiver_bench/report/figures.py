"""Plotly figures from results. Each trace says in ``meta`` which suite and device it is of, so that pages can choose."""

from __future__ import annotations

import re
import statistics
from datetime import datetime
from typing import Any

from plotly import graph_objects
from plotly.colors import qualitative

from quiver_bench.report.tables import normal
from quiver_bench.results.query import latest
from quiver_bench.results.store import Store
from quiver_bench.stats import FEWEST_PAIRS
from quiver_bench.trend import SCALES, trends

#: Tabs, with what stands above their figure.
TABS = {
    "trending": "Trending",
    "comparisons": "Comparisons",
    "coverage": "Coverage",
    "latency": "Latency",
    "clocks": "Node clocks",
}

_COLOURS = qualitative.D3
#: Of nodes, which are many.
_MANY_COLOURS = qualitative.Dark24
_MARKS = {"progression": ("triangle-up", "#2ca02c"), "regression": ("triangle-down", "#d62728")}


def _figure(title: str, x: str, y: str, height: int = 560) -> graph_objects.Figure:
    figure = graph_objects.Figure()
    figure.update_layout(
        title=title,
        xaxis_title=x,
        yaxis_title=y,
        template="plotly_white",
        height=height,
        legend={"orientation": "h", "y": -0.25},
        margin={"l": 70, "r": 30, "t": 60, "b": 60},
    )
    return figure


def _chosen(suite: str, device: str, suites: list[str] | None, devices: list[str] | None) -> bool:
    return (not suites or suite in suites) and (not devices or device in devices)


def trending(
    store: Store, normalise: bool = False, suites: list[str] | None = None, devices: list[str] | None = None
) -> graph_objects.Figure:
    """Samples over time, the groups that belong together, and where it went up or down."""
    figure = _figure("Results over time" + _at(normalise), "", "Mpps (Gbit/s, ms, µs)")
    for number, trend in enumerate(
        t for t in trends(store) if t.groups and _chosen(t.suite, t.device, suites, devices)
    ):
        colour = _COLOURS[number % len(_COLOURS)]
        scale, unit = SCALES[trend.unit]
        meta = {"suite": trend.suite, "device": trend.device}
        mhz = [run["machine_mhz"] if normalise else None for run in trend.runs]

        def shown(value: float, at: int, trend: Any = trend, mhz: list[Any] = mhz, scale: float = scale) -> float:
            return normal(value, trend.unit, mhz[at]) / scale

        times = [run["start_time"] for run in trend.runs]
        figure.add_scatter(
            x=times,
            y=[shown(run["figure"], at) for at, run in enumerate(trend.runs)],
            mode="markers",
            name=trend.name,
            legendgroup=trend.name,
            meta=meta,
            marker={"color": colour, "size": 7},
            customdata=[[run["commit"], run["dut_version"], "<br>".join(run["remarks"] or [])] for run in trend.runs],
            hovertemplate=f"%{{y:.3f}} {unit}<br>commit %{{customdata[0]}}<br>version %{{customdata[1]}}<br>%{{x}}<br>%{{customdata[2]}}",
        )
        lines = [(at, group.average) for group in trend.groups for at in (group.first, group.last)]
        figure.add_scatter(
            x=[times[at] for at, _ in lines],
            y=[shown(average, at) for at, average in lines],
            mode="lines",
            line={"color": colour, "width": 1, "shape": "hv"},
            name=f"{trend.name} (group average)",
            legendgroup=trend.name,
            showlegend=False,
            hoverinfo="skip",
            meta=meta,
        )
        for change, (symbol, mark) in _MARKS.items():
            groups = [group for group in trend.groups if group.change == change and not group.needs]
            if groups:
                figure.add_scatter(
                    x=[times[group.first] for group in groups],
                    y=[shown(group.average, group.first) for group in groups],
                    mode="markers",
                    marker={"symbol": symbol, "color": mark, "size": 15, "line": {"width": 1, "color": "white"}},
                    name=change,
                    legendgroup=trend.name,
                    showlegend=False,
                    hovertemplate=f"{change}: %{{y:.3f}} {unit}",
                    meta=meta,
                )
    return figure


def comparisons(
    store: Store, normalise: bool = False, suites: list[str] | None = None, devices: list[str] | None = None
) -> graph_objects.Figure:
    """Ratios with their intervals: to the right of 1, the first is faster. A clock cancels out, so nothing is normalised."""
    rows = [
        row
        for row in latest(store)
        if row["test_type"] == "compare" and _chosen(row["suite"], row["device"], suites, devices)
    ]
    figure = _figure("Ratio of two devices, measured alternately", "ratio (95 % interval)", "", 180 + 55 * len(rows))
    for row in rows:
        median, low, high = (row[f"result_ratio_{part}"] for part in ("median", "low", "high"))
        colour = (
            "#7f7f7f" if row["result_pairs"] < FEWEST_PAIRS or low <= 1 <= high else "#2ca02c" if low > 1 else "#d62728"
        )
        figure.add_scatter(
            x=[median],
            y=[f"{row['device']} / {row['other_device']}<br>{row['suite']}<br>{_which(row)}"],
            error_x={"type": "data", "symmetric": False, "array": [high - median], "arrayminus": [median - low]},
            mode="markers",
            marker={"size": 11, "color": colour},
            showlegend=False,
            name=row["suite"],
            meta={"suite": row["suite"], "device": row["device"]},
            hovertemplate=f"%{{x:.3f}}: {row['result_verdict']}, {row['result_pairs']} pairs<extra></extra>",
        )
    figure.add_vline(x=1, line_dash="dot", line_color="#444")
    figure.update_layout(margin={"l": 330})
    return figure


def latency(
    store: Store, normalise: bool = False, suites: list[str] | None = None, devices: list[str] | None = None
) -> graph_objects.Figure:
    """Latency by percentile, at shares of PDR; the axis stretches towards 100 % as usual for such curves."""
    figure = _figure("Latency by percentile" + _at(normalise), "percentile", "µs")
    ticks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999]
    newest = {(row["test_id"], row["start_time"]): _which(row) for row in latest(store) if row["test_type"] == "ndrpdr"}
    for document in store.documents():
        which = newest.get((document["test_id"], datetime.fromisoformat(document["start_time"])))
        if which is None or not _chosen(document["suite"], document["device"], suites, devices):
            continue
        mhz = document.get("machine", {}).get("mhz") if normalise else None
        for way, of in (("latency_forward", ""), ("latency_reverse", ", right to left")):
            for share, values in document.get("result", {}).get(way, {}).items():
                points = sorted(
                    (float(at), value) for at, value in values.get("percentiles", {}).items() if float(at) < 100
                )
                figure.add_scatter(
                    x=[100 / (100 - at) for at, _ in points],
                    y=[normal(value, "us", mhz) for _, value in points],
                    mode="lines+markers",
                    name=f"{document['device']} {document['suite']} {share.replace('pdr_', '')} % of PDR{of}, {which}",
                    meta={"suite": document["suite"], "device": document["device"]},
                    customdata=[at for at, _ in points],
                    hovertemplate="%{customdata} %: %{y:.1f} µs",
                )
    figure.update_yaxes(type="log")
    figure.update_xaxes(type="log", tickvals=[100 / (100 - at) for at in ticks], ticktext=[f"{at:g} %" for at in ticks])
    return figure


def clocks(
    store: Store, normalise: bool = False, suites: list[str] | None = None, devices: list[str] | None = None
) -> graph_objects.Figure:
    """Clocks per packet by node, one bar per result. Clocks are clocks: nothing is normalised."""
    rows = [row for row in latest(store) if row["telemetry"] and _chosen(row["suite"], row["device"], suites, devices)]
    figure = _figure("Clocks per packet by node", "clocks per packet that comes to the node", "", 240 + 50 * len(rows))
    by_node: dict[str, list[tuple[str, float, str, str]]] = {}
    for row in rows:
        beside = f" beside {row['other_device']}" if row["other_device"] else ""
        bar = f"{row['device']}{beside}<br>{row['suite']}<br>{_which(row)}"
        for line in row["telemetry"]:
            match = re.match(r'node_clocks_per_packet\{node="([^"]+)"\} ([\d.]+)', line)
            if match:
                by_node.setdefault(match[1], []).append((bar, float(match[2]), row["suite"], row["device"]))
    for number, (node, bars) in enumerate(by_node.items()):
        for at, (bar, value, suite, device) in enumerate(bars):
            figure.add_bar(
                x=[value],
                y=[bar],
                orientation="h",
                name=node,
                legendgroup=node,
                showlegend=at == 0,
                marker_color=_MANY_COLOURS[number % len(_MANY_COLOURS)],
                meta={"suite": suite, "device": device},
                hovertemplate=f"{node}: %{{x:.1f}}<extra></extra>",
            )
    figure.update_layout(barmode="stack", margin={"l": 420}, legend={"y": 1, "yanchor": "bottom"})
    # Super-frames cost a hundred times as much: who wants to see all of that zooms out.
    sums: dict[str, float] = {}
    for bars in by_node.values():
        for bar, value, suite, _ in bars:
            if not suite.startswith("128kb"):
                sums[bar] = sums.get(bar, 0.0) + value
    if sums:
        figure.update_xaxes(range=[0, 1.05 * _usual(list(sums.values()))])
    return figure


def _usual(values: list[float]) -> float:
    """The greatest, but for those that are far beyond most."""
    bound = 5 * statistics.median(values)
    return max(value for value in values if value <= bound)


FIGURES = {"trending": trending, "comparisons": comparisons, "latency": latency, "clocks": clocks}


def _which(row: dict[str, Any]) -> str:
    """What tells a result from others of its device and suite."""
    ways = [row["direction"]] if row["direction"] == "both ways" else []
    parts = [
        row["placement"],
        *ways,
        row["test_type"],
        row["effort"],
        row["commit"],
        f"{row['machine_cpu']} {row['machine_mhz']:.0f} MHz",
    ]
    return ", ".join(filter(None, parts))


def _at(normalise: bool) -> str:
    return ", normalised to 2 GHz" if normalise else ""
