"""Tables for ``docs/performance.md``: each row with command, commit and machine, straight from results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from quiver_bench import latency
from quiver_bench.devices.revision import is_known
from quiver_bench.errors import BadInput
from quiver_bench.results.query import MACHINE, latest, machines
from quiver_bench.results.store import Store
from quiver_bench.stats import FEWEST_PAIRS, series_in_words
from quiver_bench.trial import limited_in_words

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def update(store: Store, page: Path) -> None:
    """Puts the tables between the two marks of a page, and leaves the rest as it is; a page that isn't there is made."""
    text = page.read_text() if page.exists() else f"# Measurements\n\n{BEGIN}\n{END}\n"
    if BEGIN not in text or END not in text:
        raise BadInput(f"{page} has no lines {BEGIN} and {END}, between which the tables go")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    page.write_text(f"{before}{BEGIN}\n{tables(store)}{END}{after}")


def tables(store: Store) -> str:
    """All tables, with the machines they were measured on."""
    rows = latest(store)
    if not rows:
        raise BadInput(f"there are no results in {store.directory}")
    # By the day they were first measured on, of all there are: prose names machines by these letters, which a later result mustn't change.
    named = list(zip(machines(store), _letters(), strict=False))
    letters = {_same(machine): letter for machine, letter in named}
    parts = [f"Machine **{letter}**: {_machine(machine)}\n" for machine, letter in named]
    comparisons = [row for row in rows if row["test_type"] == "compare"]
    alone = [row for row in rows if row["test_type"] != "compare"]
    if comparisons:
        parts.append(_comparisons(comparisons, letters))
    if alone:
        parts.append(_alone(alone, letters))
    measured = [row for row in rows if row["telemetry"]]
    if measured:
        parts.append(_clocks(measured, letters))
    return "\n".join(parts)


def _comparisons(rows: list[dict[str, Any]], letters: dict[tuple[Any, ...], str]) -> str:
    lines = [
        "### Side by side\n",
        "Medians of pairs, each of two trials one right after the other. The interval holds the median of their ratios with 95 %:\n"
        "a bootstrap, no narrower than the order statistics. "
        f"Fewer than {FEWEST_PAIRS} pairs have no such interval, and get no verdict. *Commit* is that of A's programs;\n"
        "*command* is the line of that number below the table.\n",
    ]
    commands = _numbered(rows)
    lines.append(
        "| suite | A | B | placement | median of A | median of B | A/B | interval | pairs | verdict | commit | machine, day | command |"
    )
    lines.append("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        scale, unit = (1e9, "Gbit/s") if row["suite"].startswith("128kb") else (1e6, _mega(row))
        a, b = (_limit(row, side) for side in "ab")
        few = row["result_pairs"] < FEWEST_PAIRS
        interval = "–" if few else f"{row['result_ratio_low']:.2f} to {row['result_ratio_high']:.2f}"
        lines.append(
            f"| `{row['suite']}` | {row['device']} | {_other(row)} | {_placement(row)} "
            f"| {row['result_a_median'] / scale:.2f} {unit}{a} | {row['result_b_median'] / scale:.2f} {unit}{b} "
            f"| **{row['result_ratio_median']:.2f}** | {interval} | {row['result_pairs']} "
            f"| {'no verdict: too few pairs' if few else row['result_verdict']}{_marks(row)} "
            f"| {_commit(row)} | {_where(row, letters)} | {commands[row['command']]} |"
        )
    lines += _listed(commands)
    marks = [_limit(row, side) for row in rows for side in "ab"]
    if " ¹" in marks:
        lines.append(
            "¹ Within a tenth of what the generator does with the floor (on taps: a wire): it may be faster.\n"
        )
    if " ²" in marks:
        lines.append("² What the generator itself can do there isn't known.\n")
    lines += _unknown(rows)
    return "\n".join(lines)


def _limit(row: dict[str, Any], side: str) -> str:
    """What must be said of one side's figure."""
    limited = row[f"result_{side}_generator_limited"]
    return " ²" if limited is None else " ¹" if limited else ""


def _other(row: dict[str, Any]) -> str:
    """B, with its version where that isn't a commit of ours."""
    version = row["other_dut_version"]
    foreign = version and version != "unknown" and not row["other_commit"]
    return f"{row['other_device']} {version}" if foreign else str(row["other_device"])


def _marks(row: dict[str, Any]) -> str:
    """What must be said of a comparison besides its verdict."""
    return "".join(f", {mark}" for mark in [*(["irregular"] if row["irregular"] else []), *_words(row["remarks"])])


def _alone(rows: list[dict[str, Any]], letters: dict[tuple[Any, ...], str]) -> str:
    lines = [
        "### One by one\n",
        "One device by itself. Rates are the mean of n trials ± their standard deviation; NDR and PDR the highest rates without loss\n"
        "and with 0.5 % of it; latency the median (p50) and the slowest of a thousand packets (p99.9), at shares of PDR. Such figures\n"
        "say more of the hour than of the device: compare none of different rows.\n",
        "| suite | device | placement | figure | effort | remarks | commit | machine, day | command |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    commands = _numbered(rows)
    for row in rows:
        remarks = [
            *limited_in_words(row["generator_limited"]),
            *(["irregular"] if row["irregular"] else []),
            *_words(row["remarks"]),
        ]
        lines.append(
            f"| `{row['suite']}` | {row['device']} | {_placement(row)} | {_figure(row)} | {_effort(row)} | {', '.join(remarks)} "
            f"| {_commit(row)} | {_where(row, letters)} | {commands[row['command']]} |"
        )
    return "\n".join([*lines, *_listed(commands), *_unknown(rows)])


def _commit(row: dict[str, Any]) -> str:
    """The commit, and that nobody can check it out where that is so."""
    commit = row["commit"]
    return f"{commit} ³" if commit and not is_known(commit.rstrip("+")) else commit or "–"


def _unknown(rows: list[dict[str, Any]]) -> list[str]:
    """What the mark at commits means, where it stands."""
    marked = any(_commit(row).endswith("³") for row in rows)
    return ["³ Not in this history: what was measured has become another commit before it landed.\n"] if marked else []


def _words(remarks: list[str] | None) -> list[str]:
    """Remarks without what to do about them."""
    return [remark.split(": try again")[0] for remark in remarks or []]


def _numbered(rows: list[dict[str, Any]]) -> dict[str, int]:
    """The number by which a row names its command: one for all rows that came of one run."""
    return {command: n for n, command in enumerate(dict.fromkeys(row["command"] for row in rows), start=1)}


def _listed(commands: dict[str, int]) -> list[str]:
    """The commands by their numbers, to be run as they stand."""
    return ["", "```", *(f"{command}  # {n}" for command, n in commands.items()), "```\n"]


def _figure(row: dict[str, Any]) -> str:
    def mega(column: str) -> str:
        return f"{row[column] / 1e6:.2f}"

    match row["test_type"]:
        case "mrr":
            kind = "rate" if row["result_receive_rate_rate_avg"] is not None else "bandwidth"
            scale, unit = (1e6, _mega(row)) if kind == "rate" else (1e9, "Gbit/s")
            found = {part: row[f"result_receive_rate_{kind}_{part}"] for part in ("avg", "stdev", "values")}
            return f"{series_in_words(found, scale, 2)} {unit}"
        case "ndrpdr":
            figure = f"NDR {mega('result_ndr_lower_rate_value')}, PDR {mega('result_pdr_lower_rate_value')} Mpps"
            return "; ".join(filter(None, [figure, latency.of_row(row)]))
        case "soak":
            ends = [mega(f"result_critical_rate_{end}_rate_value") for end in ("lower", "upper")]
            return f"critical load {ends[0]} to {ends[1]} Mpps"
        case "reconf":
            standstill = f"{row['result_loss_time_value'] * 1e3:.3f} ms of standstill"
            if row["result_loss_without_value"] is None:
                return standstill
            without = row["result_loss_without_value"] / row["result_aggregate_rate_rate_value"]
            return f"{standstill}, {without * 1e3:.3f} ms without"
        case "change":
            lost, sent = (round(row[f"result_loss_{of}_value"]) for of in ("packet", "sent"))
            return f"{row['result_revisit_avg'] * 1e3:.1f} ms, {lost} of {sent} packets lost"
        case "flood":
            lost, sent = (round(row[f"result_loss_{of}_value"]) for of in ("packet", "sent"))
            return f"{lost} of {sent} packets lost beside {mega('result_flood_rate_avg')} Mpps"
        case "hostile":
            return f"{_canary(row, 'result')}; without the attack {_canary(row, 'result_calm')}"
        case "idle":
            woken = row["result_idle_woken_value"]
            return f"{row['result_idle_share_value']:.2%} of a core; first packet {woken:+.1f} µs against polling"
    return "–"


def _canary(row: dict[str, Any], of: str) -> str:
    """Latency and loss of a canary."""
    times = {percentile: row[f"{of}_latency_percentiles_{percentile.replace('.', '_')}"] for percentile in latency.TOLD}
    told = latency.in_words({percentile: time for percentile, time in times.items() if time is not None})
    lost, sent = (round(row[f"{of}_loss_{what}_value"]) for what in ("packet", "sent"))
    return f"{told or 'nothing came'}, {lost} of {sent} lost"


def _effort(row: dict[str, Any]) -> str:
    """How much was asked for, and how many samples came of it where that is the number of trials."""
    values = row["result_receive_rate_rate_values"] or row["result_receive_rate_bandwidth_values"]
    made = f"n = {len(values)}" if row["test_type"] == "mrr" and values else ""
    return ", ".join(filter(None, [row["effort"], made])) or "–"


def _mega(row: dict[str, Any]) -> str:
    """Millions of what a second: packets, or connections."""
    return "Mcps" if row["suite"].endswith(("-cps", "-create")) else "Mpps"


def _placement(row: dict[str, Any]) -> str:
    return f"{row['placement']}, both ways" if row["direction"] == "both ways" else str(row["placement"])


def _clocks(rows: list[dict[str, Any]], letters: dict[tuple[Any, ...], str]) -> str:
    """Clocks per packet by node; columns are results."""
    columns: dict[str, dict[str, float]] = {}
    for row in rows:
        beside = f" beside {row['other_device']}" if row["other_device"] else ""
        title = f"{row['device']} {row['suite']}{beside}, {row['placement']}, {row['commit'] or '–'}, {_where(row, letters)}"
        found = (re.match(r'node_clocks_per_packet\{node="([^"]+)"\} ([\d.]+)', line) for line in row["telemetry"])
        columns[title] = {match[1]: float(match[2]) for match in found if match}
    lines = [
        "### Clocks per packet by node\n",
        "TSC clocks per packet that comes to the node, as the device counts them: some nodes see few. What a packet costs in all is\n"
        "the machine's clock divided by the rate, where the device is the slowest.\n",
        "| result | nodes |",
        "|---|---|",
    ]
    for title, clocks in columns.items():
        each = ", ".join(f"`{node}` {value:.1f}" for node, value in clocks.items())
        lines.append(f"| {title} | {each} |")
    return "\n".join([*lines, ""])


def _same(row: dict[str, Any]) -> tuple[Any, ...]:
    """What is the same of rows of one machine."""
    return tuple(row[name] for name in MACHINE)


def _machine(row: dict[str, Any]) -> str:
    return (
        f"{row['machine_cores']} × {row['machine_cpu']}, {row['machine_mhz']:.0f} MHz, {row['machine_memory_gib']} GiB, "
        f"Linux {row['machine_kernel']}"
    )


def _where(row: dict[str, Any], letters: dict[tuple[Any, ...], str]) -> str:
    return f"{letters[_same(row)]}, {row['start_time'].date()}"


def _letters() -> list[str]:
    return [chr(ord("A") + n) for n in range(26)]
