"""Rows for tables and CSV files."""

from __future__ import annotations

import csv
import io
from typing import Any

from quiver_bench import latency
from quiver_bench.results.query import FIGURE, UNIT, ask, latest
from quiver_bench.results.store import Store

#: Frequency in MHz to which figures are normalised, as CSIT does to compare machines.
NORMAL_MHZ = 2000.0

#: What is shown of each, latency at half of PDR.
COLUMNS = (
    "test_type",
    "suite",
    "device",
    "other_device",
    "placement",
    "effort",
    "samples",
    "figure",
    "unit",
    "low",
    "high",
    "p50_us",
    "p99_9_us",
    "generator_limited",
    "irregular",
    "remarks",
    "commit",
    "start_time",
    "machine",
    "command",
)


def normal(value: float, unit: str, mhz: float | None) -> float:
    """A figure as it would be at 2 GHz, were it only for the clock: rates by 2 GHz / f, times the other way, ratios not at all."""
    if not mhz or unit == "ratio":
        return value
    return value * mhz / NORMAL_MHZ if unit in ("s", "us") else value * NORMAL_MHZ / mhz


def coverage(store: Store, normalise: bool = False) -> list[dict[str, Any]]:
    """The newest result of each suite, device and placement."""
    return [_row(row, normalise) for row in latest(store)]


def everything(store: Store, normalise: bool = False) -> list[dict[str, Any]]:
    """All results, oldest first."""
    rows = ask(store, f"SELECT *, {FIGURE} AS figure, {UNIT} AS unit FROM results ORDER BY start_time")
    return [_row(row, normalise) for row in rows]


def _row(row: dict[str, Any], normalise: bool) -> dict[str, Any]:
    low, high = _range(row)
    unit = row["unit"]

    def shown(value: float | None, unit: str = unit) -> float | None:
        return normal(value, unit, row["machine_mhz"]) if normalise and value is not None else value

    return {
        **{name: row.get(name) for name in COLUMNS},
        "generator_limited": "unknown" if row["generator_limited"] is None else row["generator_limited"],
        "figure": shown(row["figure"]),
        "low": shown(low),
        "high": shown(high),
        **{
            f"p{percentile.replace('.', '_')}_us": shown(row[latency.column(latency.HALF, percentile)], "us")
            for percentile in latency.TOLD
        },
        "other_device": row["other_device"] or "",
        "remarks": "; ".join(row["remarks"] or []),
        "start_time": row["start_time"].isoformat(timespec="seconds"),
        "machine": f"{row['machine_cores']} × {row['machine_cpu']}, {row['machine_mhz']:.0f} MHz, {row['machine_kernel']}",
    }


def _range(row: dict[str, Any]) -> tuple[float | None, float | None]:
    """The least and greatest that the figure may be: samples, bounds or interval."""
    match row["test_type"]:
        case "mrr":
            values = row["result_receive_rate_rate_values"] or row["result_receive_rate_bandwidth_values"] or []
            return (min(values), max(values)) if values else (None, None)
        case "ndrpdr":
            return row["result_ndr_lower_rate_value"], row["result_pdr_upper_rate_value"]
        case "soak":
            return row["result_critical_rate_lower_rate_value"], row["result_critical_rate_upper_rate_value"]
        case "compare":
            return row["result_ratio_low"], row["result_ratio_high"]
    return None, None


def as_csv(rows: list[dict[str, Any]]) -> str:
    """A CSV file with a head."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
