"""What is asked of results, in SQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from quiver_bench import latency
from quiver_bench.machine import UNSETTLED
from quiver_bench.results.store import Store

#: One figure per result, whatever its method: what tables show. Lower is better for ``reconf``, ``idle``, ``change``, ``flood``
#: and ``hostile`` only.
FIGURE = """
CASE test_type
    WHEN 'mrr' THEN coalesce(result_receive_rate_rate_avg, result_receive_rate_bandwidth_avg)
    WHEN 'ndrpdr' THEN result_pdr_lower_rate_value
    WHEN 'soak' THEN result_critical_rate_lower_rate_value
    WHEN 'reconf' THEN result_loss_time_value
    WHEN 'idle' THEN result_idle_share_value
    WHEN 'change' THEN result_revisit_avg
    WHEN 'flood' THEN result_loss_packet_value
    WHEN 'hostile' THEN result_latency_percentiles_99_9
    WHEN 'compare' THEN result_ratio_median
END
"""

UNIT = """
CASE
    WHEN test_type = 'compare' THEN 'ratio'
    WHEN test_type IN ('reconf', 'change') THEN 's'
    WHEN test_type = 'idle' THEN 'core'
    WHEN test_type = 'flood' THEN 'packets'
    WHEN test_type = 'hostile' THEN 'us'
    WHEN test_type = 'mrr' AND result_receive_rate_rate_avg IS NULL THEN 'bps'
    ELSE coalesce(result_receive_rate_rate_unit, 'pps')
END
"""

#: Cores that were moved, or taken, are no placement: such results stand in no series and no table.
SETTLED = f"placement NOT IN ({', '.join(repr(where) for where in sorted(UNSETTLED))})"


#: What tells machines apart: not their rate, which differs a little from one start to the next.
MACHINE = ("machine_cores", "machine_cpu", "machine_memory_gib", "machine_kernel")
SAME_MACHINE = ", ".join(MACHINE)


def machines(store: Store) -> list[dict[str, Any]]:
    """Every machine that anything was measured on, by the first time."""
    return ask(
        store,
        f"""
        SELECT machine_cores, machine_cpu, any_value(machine_mhz) AS machine_mhz, machine_memory_gib, machine_kernel FROM results
        GROUP BY {SAME_MACHINE} ORDER BY min(start_time)
        """,
    )


def ask(store: Store, sql: str, *parameters: object) -> list[dict[str, Any]]:
    """Rows of a query over the view ``results``."""
    database = store.rows()
    try:
        found = database.execute(sql, list(parameters))
        names = [column[0] for column in found.description]
        return [dict(zip(names, map(_in_utc, row), strict=True)) for row in found.fetchall()]
    finally:
        database.close()


def _in_utc(value: object) -> object:
    """Times are kept in UTC without a zone."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def series(store: Store) -> dict[tuple[str, str, str, str], list[dict[str, Any]]]:
    """Results over time, irregular ones marked, by (device, suite, place, figure): what a trend is made of. One way and both ways are
    two places, so are two processors, and two efforts: a search that is decided in a shorter time finds a higher rate. A search has
    ``NDR``, ``PDR`` and, at half of PDR, what :mod:`~quiver_bench.latency` tells in µs; others have one figure, without a name."""
    times = {f"p{percentile}": latency.column(latency.HALF, percentile) for percentile in latency.TOLD}
    percentiles = ", ".join(f'{column} AS "{name}"' for name, column in times.items())
    rows = ask(
        store,
        f"""
        SELECT device, suite, placement || CASE direction WHEN 'both ways' THEN ', both ways' ELSE '' END AS placement,
               coalesce(effort, '') AS effort, start_time, commit,
               dut_version, irregular, remarks, machine_cpu, machine_mhz, {FIGURE} AS figure, {UNIT} AS unit,
               result_ndr_lower_rate_value AS "NDR", result_pdr_lower_rate_value AS "PDR", {percentiles},
               coalesce(result_receive_rate_rate_values, result_receive_rate_bandwidth_values) AS values, test_type
        FROM results WHERE test_type <> 'compare' AND passed AND figure IS NOT NULL AND {SETTLED}
        ORDER BY start_time
        """,
    )
    several = len({row["machine_cpu"] for row in rows}) > 1
    found: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        place = f"{row['placement']}, {row['machine_cpu']}" if several else row["placement"]
        place += f", {row['effort']}" if row["effort"] else ""
        if row["test_type"] != "ndrpdr":
            found.setdefault((row["device"], row["suite"], place, ""), []).append(row)
            continue
        for name in ("NDR", "PDR", *times):
            if row[name] is not None:
                unit = "us" if name in times else row["unit"]
                found.setdefault((row["device"], row["suite"], place, name), []).append(
                    row | {"figure": row[name], "unit": unit}
                )
    return found


def latest(store: Store) -> list[dict[str, Any]]:
    """The newest passed result of every (machine, device, suite, placement, direction, other device, effort), an irregular one only
    where there is no regular one.

    Results from before efforts were kept stand for any effort, until there is one of a known effort.
    """
    alike = f"test_type, {SAME_MACHINE}, device, suite, placement, direction, coalesce(other_device, '')"
    effort = "nullif(effort, '')"
    return ask(
        store,
        f"""
        SELECT *, {FIGURE} AS figure, {UNIT} AS unit FROM results WHERE passed AND {SETTLED}
        QUALIFY row_number() OVER (PARTITION BY {alike}, {effort} ORDER BY coalesce(irregular, false), start_time DESC) = 1
            AND ({effort} IS NOT NULL OR NOT bool_or({effort} IS NOT NULL) OVER (PARTITION BY {alike}))
        ORDER BY area, suite, device, placement, direction, other_device, {SAME_MACHINE}, effort
        """,
    )
