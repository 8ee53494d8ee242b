"""What is told of latency, wherever it is told: the median and the slowest of a thousand, in µs, at shares of PDR.

Not the mean: a few packets that waited for milliseconds, while the host had a core, double it, and neither these nor the others have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Percentiles that are told; all are kept.
TOLD = ("50", "99.9")

#: Shares of PDR, in percent, at which latency is measured.
SHARES = (0, 10, 50, 90)

#: The one at which it is told where there is no room for all.
HALF = 50


def column(share: int, percentile: str) -> str:
    """The column of results that has a percentile at a share of PDR, from left to right."""
    return f"result_latency_forward_pdr_{share}_percentiles_{percentile.replace('.', '_')}"


#: All of them.
COLUMNS = tuple(column(share, percentile) for share in SHARES for percentile in TOLD)


def in_words(percentiles: Mapping[str, float]) -> str:
    """``p50 4.2 us, p99.9 57.8 us``: as far as they are known."""
    return ", ".join(
        f"p{percentile} {percentiles[percentile]:.1f} us" for percentile in TOLD if percentile in percentiles
    )


def of_row(row: Mapping[str, Any]) -> str:
    """Both at each share of PDR, for a table; empty where none is known."""
    values = [[row[column(share, percentile)] for percentile in TOLD] for share in SHARES]
    if all(value is None for each in values for value in each):
        return ""
    told = ", ".join(" / ".join("–" if value is None else f"{value:.1f}" for value in each) for each in values)
    return f"p50 / p99.9 at {', '.join(map(str, SHARES))} % of PDR: {told} µs"
