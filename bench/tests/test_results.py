"""Documents, Parquet, queries, trends, exports."""

import contextlib
import csv
import io
import itertools
import json
import re
import shutil
from datetime import timedelta

import duckdb
import jsonschema
import pytest
from conftest import MRR, NDRPDR, START, VERSIONS, chosen, comparison, document, quiet

from quiver_bench import latency
from quiver_bench.commands.main import main
from quiver_bench.commands.measure import in_words
from quiver_bench.compare import Comparison, compare
from quiver_bench.devices import copying
from quiver_bench.methods import mrr, ndrpdr, reconf
from quiver_bench.methods.base import Figure, rate
from quiver_bench.methods.soak import Search
from quiver_bench.report import markdown, tables
from quiver_bench.results.documents import comparison_document, figure_document
from quiver_bench.results.query import ask, latest
from quiver_bench.results.store import Store
from quiver_bench.results.text import text_of
from quiver_bench.simulated import Simulated
from quiver_bench.suites import find
from quiver_bench.trend import classify, trends

# What CSIT's schema 1.4 asks of a document: fields and types as its model documentation lists them.
_TEXT, _TIME = {"type": "string"}, {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"}
_RATE = {
    "type": "object",
    "required": ["rate"],
    "properties": {
        "rate": {
            "type": "object",
            "required": ["value", "unit"],
            "properties": {"value": {"type": "number"}, "unit": {"enum": ["pps", "cps", "rps"]}},
        }
    },
}
_VALUE = {
    "type": "object",
    "required": ["value", "unit"],
    "properties": {"value": {"type": "number"}, "unit": {"enum": ["packets", "s"]}},
}
_BOUNDS = {"type": "object", "required": ["lower", "upper"], "properties": {"lower": _RATE, "upper": _RATE}}
_SERIES = {
    "type": "object",
    "required": ["values", "avg", "stdev", "unit"],
    "properties": {
        "values": {"type": "array", "items": {"type": "number"}, "minItems": 1},
        "unit": {"enum": ["pps", "cps", "bps"]},
    },
}
UTI = {
    "type": "object",
    "required": [
        *("version", "dut_type", "dut_version", "tg_type", "tg_version", "hosts", "start_time", "end_time", "duration"),
        *(
            "test_id",
            "test_name_long",
            "test_name_short",
            "test_documentation",
            "tags",
            "test_type",
            "passed",
            "message",
        ),
        *("result", "telemetry"),
    ],
    "properties": {
        "version": {"const": "1.4.0"},
        "hosts": {"type": "array", "items": _TEXT},
        "start_time": _TIME,
        "end_time": _TIME,
        "duration": {"type": "number"},
        "test_id": {"type": "string", "pattern": "^[^A-Z]+$"},
        "tags": {"type": "array", "items": _TEXT},
        "test_type": {"enum": ["mrr", "ndrpdr", "soak", "reconf"]},
        "passed": {"type": "boolean"},
        "telemetry": {"type": "array", "items": _TEXT},
        "result": {
            "oneOf": [
                {
                    "properties": {
                        "type": {"const": "mrr"},
                        "receive_rate": {"required": ["rate"], "properties": {"rate": _SERIES, "bandwidth": _SERIES}},
                    },
                    "required": ["type", "receive_rate"],
                },
                {
                    "properties": {"type": {"const": "ndrpdr"}, "ndr": _BOUNDS, "pdr": _BOUNDS},
                    "required": ["type", "ndr", "pdr"],
                },
                {
                    "properties": {"type": {"const": "soak"}, "critical_rate": _BOUNDS},
                    "required": ["type", "critical_rate"],
                },
                {
                    "properties": {
                        "type": {"const": "reconf"},
                        "aggregate_rate": _RATE,
                        "loss": {"required": ["packet", "time"], "properties": {"packet": _VALUE, "time": _VALUE}},
                    },
                    "required": ["type", "aggregate_rate", "loss"],
                },
            ]
        },
    },
}


def test_documents_are_as_csits_schema_wants_them(store):
    measured = [each for each in store.documents() if each["test_type"] != "compare"]
    assert len(measured) == 13
    for each in measured:
        jsonschema.validate(each, UTI)
        assert (each["message"] == "") == each["passed"]


def test_a_figure_of_a_model_never_stands_as_speed(monkeypatch, tmp_path):
    name = "1518b-1c-memif-eth-l2xcbase-memif-dma-mrr"
    (figure,) = mrr.measure(Simulated(20e6, 1e4), quiet, trials=3)
    with_dma = figure_document(figure, chosen(name), VERSIONS, START)
    assert with_dma["remarks"] == [copying.MODEL] and "nothing about speed" in in_words(with_dma)
    assert figure_document(figure, chosen(MRR), VERSIONS, START)["remarks"] == []
    assert 'engine = "dsa-model"' in copying.settings()
    (tmp_path / "wq0.0").touch()
    monkeypatch.setattr(copying, "QUEUES", tmp_path)
    assert copying.engine() == "dsa" and copying.MODEL not in copying.remarks()


def test_every_kind_of_result_is_as_csits_schema_wants_it():
    system = Simulated(20e6, 1e4)
    connections = "64b-1c-memif-ethip4tcp-ip4base-h1024-p63-s64512-cps"
    (cps,) = mrr.measure(system, quiet, trials=2, unit=find(connections).unit)
    grown = reconf.measure(Simulated(20e6, 1e2, reconfiguration_loss=50), quiet, 480)
    search = Search(25e6)
    search.learn(25e6, 5.1, 10_000)
    low, high = search.learn(20e6, 5.2, 10).bounds
    soaked = Figure({"type": "soak", "critical_rate": {"lower": rate(low, 480), "upper": rate(high, 480)}}, [], "near")
    for suite, figure in (
        (connections, cps),
        (MRR.replace("mrr", "reconf"), grown),
        (MRR.replace("mrr", "soak"), soaked),
    ):
        made = document(figure, suite)
        jsonschema.validate(made, UTI)
        assert made["test_type"] == made["result"]["type"], "CSIT's cps and tput are of type mrr"
    assert document(cps, connections)["result"]["receive_rate"]["rate"]["unit"] == "cps"


def test_a_standstill_stands_beside_what_there_is_without(store):
    figure = reconf.measure(Simulated(20e6, 1e2, reconfiguration_standstill=0.05), quiet, 480, seconds=1.0)
    made = document(figure, MRR.replace("mrr", "reconf"))
    store.add(made)
    said = r"49\.\d\d\d ms of standstill, 0\.000 ms without"
    assert re.search(said, markdown.tables(store))
    assert re.search(said, in_words(made))


def test_what_is_usual_and_what_is_slow_at_half_of_pdr_is_told():
    told = []
    figure = ndrpdr.measure(Simulated(20e6, 1e4), told.append, 480, ndrpdr.Effort(duration_sum=3.0))
    assert "at 50 % of PDR p50 5.0 us, p99.9 10.0 us" in in_words(document(figure, NDRPDR))
    assert [line for line in told if line.startswith("latency forward at 50 % of PDR: p50 5.0 us, p99.9 10.0 us, loss")]
    del figure.result["latency_forward"]
    assert "at 50 %" not in in_words(document(figure, NDRPDR))


def test_one_way_and_both_ways_are_two_series(store):
    (figure,) = mrr.measure(Simulated(20e6, 1e4, ways=2), quiet, trials=2)
    store.add(document(figure, MRR, at=START + timedelta(days=20)) | {"direction": "both ways"})
    found = {trend.placement for trend in trends(store) if trend.suite == MRR}
    assert found == {"near", "near, both ways"}
    assert sum(row["test_type"] == "mrr" for row in latest(store)) == 2


def test_results_of_different_effort_are_different_series(store):
    quick, full = "trials of 0.3 s, 1.5 s decide", "trials of 1 s, 21 s decide"
    for day, effort in ((20, full), (21, quick)):
        search = ndrpdr.measure(Simulated(20e6, 1e4), quiet, 480, ndrpdr.Effort(duration_sum=3.0))
        store.add(document(search, NDRPDR, at=START + timedelta(days=day), effort=effort))
    places = {trend.placement for trend in trends(store) if (trend.suite, trend.figure) == (NDRPDR, "NDR")}
    assert places == {"near", f"near, {quick}", f"near, {full}"}
    # The newest of each effort; that of before efforts were kept has given way to them.
    shown = [(row["effort"], row["start_time"].day) for row in latest(store) if row["suite"] == NDRPDR]
    assert sorted(shown) == [(quick, 22), (full, 21)]
    assert f"| {quick} |" in markdown.tables(store)


def test_one_trial_has_no_deviation_and_few_are_told(store):
    told = "fewer than 3 trials"
    for trials, figure in ((1, r"20\.00\d* Mpps"), (2, r"(20\.00|19\.99)\d* ± 0\.\d+ Mpps")):
        (measured,) = mrr.measure(Simulated(20e6, 1e2), quiet, trials=trials)
        assert measured.remarks == [told]
        suite = MRR.replace("64b", f"{('imix', '9000b')[trials - 1]}")
        made = document(measured, suite, effort=f"{trials} × 1 s")
        store.add(made)
        assert re.search(
            rf"`{suite}` .* \| {figure} \| {trials} × 1 s, n = {trials} \| .*{told} \|", markdown.tables(store)
        )
        assert re.search(rf"{figure}  \(near, {trials} trials?", in_words(made))
    (measured,) = mrr.measure(Simulated(20e6, 1e2), quiet, trials=3)
    assert (measured.remarks, document(measured, MRR)["samples"]) == ([], 3)


def test_results_from_before_a_column_came_are_still_read(store):
    file = next((store.directory / "parquet").rglob("*.parquet"))
    old = file.with_suffix(".old")
    duckdb.sql(f"COPY (SELECT * EXCLUDE (result_receive_rate_rate_unit) FROM '{file}') TO '{old}' (FORMAT parquet)")
    for path in (store.directory / "parquet").rglob("*.parquet"):
        path.unlink()
    old.rename(file)
    shutil.rmtree(store.directory / "json")  # else rows are made of documents
    assert {row["unit"] for row in tables.everything(store)} <= {"pps", "ratio"}
    assert len(tables.everything(store)) == 1


@pytest.mark.parametrize("cut", [False, True])
def test_what_an_older_row_lacks_its_document_says(store, capsys, cut):
    (file,) = (store.directory / "parquet").rglob(f"*{NDRPDR}*.parquet")
    old = file.with_suffix(".old")
    lacking = ", ".join(f'"{column}"' for column in latency.COLUMNS)
    duckdb.sql(f"COPY (SELECT * EXCLUDE ({lacking}) FROM '{file}') TO '{old}' (FORMAT parquet)")
    old.rename(file)
    (path,) = (store.directory / "json").rglob(f"*{NDRPDR}*.json")
    if cut:
        path.write_text(path.read_text()[:-20])
    (row,) = [row for row in tables.everything(store) if row["suite"] == NDRPDR]
    assert (row["p50_us"], row["p99_9_us"]) == ((None, None) if cut else (6.0, 41.0))
    assert len(tables.everything(store)) == 14
    assert ("its row in Parquet is whole" in capsys.readouterr().err) == cut


def test_a_comparison_in_which_no_pair_counts_is_kept_and_not_shown(store):
    places = [itertools.cycle([where]) for where in ("near", "far")]
    makers = [
        lambda place=place: contextlib.nullcontext(Simulated(20e6, 1e4, placements=[next(place)])) for place in places
    ]
    done = compare(Comparison(MRR, "receive_rate_pps", "quiver", "floor"), *makers, pairs=2, seconds=1.0)
    at = START + timedelta(days=40)
    path = store.add(comparison_document(done, chosen(MRR), chosen(MRR, "floor"), VERSIONS, at))
    kept = json.loads(path.read_text())
    assert (kept["passed"], len(kept["trials"]), kept["result"]["ratio"]) == (False, 6, None)
    assert "no pair of trials had the same placement" in kept["message"]
    assert all(trial["a"]["received"] > 0 for trial in kept["trials"])
    assert not [row for row in latest(store) if row["other_device"] == "floor"]
    assert tables.everything(store)[-1]["figure"] is None


def in_the_middle(file):
    """Damages a file inside: its beginning and its end are as they were."""
    whole = file.read_bytes()
    third = len(whole) // 3
    file.write_bytes(whole[:third] + b"\xff" * third + whole[2 * third :])


@pytest.mark.parametrize(
    ("damage", "said"),
    [(lambda file: file.write_bytes(file.read_bytes()[:50]), 1), (in_the_middle, 1), (lambda file: file.unlink(), 0)],
)
def test_a_row_is_made_of_its_document_where_its_file_is_damaged_or_missing(store, capsys, damage, said):
    """As a full disk leaves it, or Ctrl-C between the two."""
    before = tables.everything(store)
    parquet = next((store.directory / "parquet").rglob("*.parquet"))
    damage(parquet)
    assert tables.everything(store) == before
    assert [trend.changes() for trend in trends(store)]
    assert capsys.readouterr().err.count(f"{parquet} is left out") == said


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[:50].encode(), "it is no document of a result: Unterminated string"),
        (lambda text: b"\xff\xfe" + text.encode(), "it is no document of a result: 'utf-8' codec can't decode"),
        (lambda text: text.replace('"start_time"', '"start"').encode(), "it has no start_time"),
        (lambda text: text.replace("2026-", "last year ").encode(), "Invalid isoformat string"),
        (lambda text: b"[]", "it is no document"),
        (lambda text: text.replace('"result": {', '"result": null, "was": {').encode(), "its result is no object"),
        (lambda text: text.replace('"machine": {', '"machine": [], "was": {').encode(), "its machine is no object"),
        (
            lambda text: text.replace('"result": {', '"result": {"latency_forward": {"pdr_10": 5},').encode(),
            "its result.latency_forward.pdr_10 has no percentiles",
        ),
        (lambda text: text.replace('"duration": ', '"duration": "long", "was": ').encode(), "Could not convert string"),
    ],
)
def test_a_damaged_document_is_named_and_keeps_nobody_from_the_others(store, capsys, damage, said):
    document = next((store.directory / "json").rglob("*.json"))
    document.write_bytes(damage(document.read_text()))
    shutil.rmtree(store.directory / "parquet")
    assert len(tables.everything(store)) == 13
    assert len(store.documents()) == 13 + (said == "Could not convert string")
    assert main(["report", "--html", str(store.directory / "pages"), "--results", str(store.directory)]) == 0
    assert main(["trend", "--results", str(store.directory)]) == 0
    told = capsys.readouterr().err
    assert f"{document} is left out: " in told
    assert said in told


def test_a_document_that_is_cut_short_is_named_though_its_row_is_whole(store, capsys):
    before = tables.everything(store)
    cut, gone, *_ = sorted((store.directory / "json").rglob("*.json"))
    cut.write_bytes(cut.read_bytes()[:-20])
    gone.write_bytes(b"")
    assert main(["trend", "--results", str(store.directory)]) == 0
    told = capsys.readouterr().err
    for path in (cut, gone):
        assert f"{path} is cut short: its row in Parquet is whole, and is shown" in told
    assert told.count("is cut short") == 2
    assert "is left out" not in told
    assert tables.everything(store) == before


def test_a_result_whose_row_cannot_be_written_is_kept(store, capsys):
    shutil.rmtree(store.directory / "parquet")
    (store.directory / "parquet").write_text("in the way")
    kept = store.add(comparison(START))
    assert kept.exists()
    assert f"{kept}: no Parquet file could be written of it" in capsys.readouterr().err
    (store.directory / "parquet").unlink()
    assert len(tables.everything(store)) == 15


def test_nothing_is_left_of_writing(store):
    store.add(comparison(START))
    assert not list(store.directory.rglob("*.partial"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", "--markdown", "/none/page.md"], "--markdown /none/page.md: No such file"),
        (["report", "--html", "/proc/none"], "--html /proc/none: No such file"),
        (["export", "--to", "/proc/none.csv"], "--to /proc/none.csv"),
    ],
)
def test_what_cannot_be_written_is_said(store, words, said, capsys):
    assert main([*words, "--results", str(store.directory)]) == 2
    assert said in capsys.readouterr().err


def test_files_have_names_without_spaces(store):
    kept = comparison(START) | {"device": "quiver 2c"}
    assert "-quiver_2c-" in store.add(kept).name


def test_nothing_is_overwritten(store):
    document = comparison(START)
    first, second = store.add(document), store.add(document)
    assert first != second
    assert json.loads(first.read_text())["suite"] == MRR


def test_parquet_says_what_the_documents_say(store):
    (row,) = ask(
        store,
        "SELECT count(*) AS n, sum(len(trials)) AS t FROM (SELECT result_receive_rate_rate_values AS trials FROM results)",
    )
    assert (row["n"], row["t"]) == (14, 12 * 5)
    documents = {document["start_time"]: document for document in store.documents() if document["test_type"] == "mrr"}
    rows = ask(
        store, "SELECT start_time, result_receive_rate_rate_avg AS mean, commit FROM results WHERE test_type = 'mrr'"
    )
    for row in rows:
        document = documents[row["start_time"].strftime("%Y-%m-%dT%H:%M:%S.000Z")]
        assert row["mean"] == document["result"]["receive_rate"]["rate"]["avg"]
        assert row["commit"] == document["commit"]


def test_the_newest_of_each_is_shown_once(store):
    shown = [(row["test_type"], row["suite"]) for row in latest(store)]
    assert sorted(shown) == [("compare", MRR), ("mrr", MRR), ("ndrpdr", NDRPDR)]


def test_a_trend_names_the_commit_of_a_regression(store):
    trend = next(trend for trend in trends(store) if trend.suite == MRR)
    (change,) = trend.changes()
    assert change["change"] == "regression"
    assert change["commit"] == f"c{8:011}"
    assert change["ratio"] == pytest.approx(0.9, abs=0.01)


def test_where_less_is_better_falling_is_progress():
    runs = [[2.0 + 0.001 * n] for n in range(8)] + [[1.0 + 0.001 * n] for n in range(8)]
    assert [group.change for group in classify(runs, lower_is_better=True)] == ["normal", "progression"]


def test_normalisation_to_2_ghz():
    assert tables.normal(26.0, "pps", 2600) == pytest.approx(20.0)
    assert tables.normal(10.0, "us", 2600) == pytest.approx(13.0)
    assert tables.normal(1.5, "ratio", 2600) == 1.5


def test_csv_has_a_row_per_result(store):
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(tables.everything(store)))))
    assert len(rows) == 14
    assert {row["unit"] for row in rows} == {"pps", "ratio"}


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_export_writes_what_a_query_finds_and_overwrites_nothing(store, tmp_path, ending, capsys):
    target = tmp_path / f"out.{ending}"
    words = ["export", "--results", str(store.directory), "--to", str(target), "--sql", "SELECT suite FROM results"]
    assert main(words) == 0
    assert "14 row(s)" in capsys.readouterr().out
    assert duckdb.sql(f"SELECT count(*) FROM '{target}'").fetchall() == [(14,)]
    assert main(words) == 2
    assert "nothing is overwritten" in capsys.readouterr().err


@pytest.mark.parametrize("end", [";", " ;\n", " -- all of them"])
def test_a_query_may_end_as_at_a_prompt(store, tmp_path, end):
    target = tmp_path / "o.csv"
    query = f"SELECT suite FROM results{end}"
    assert main(["export", "--results", str(store.directory), "--to", str(target), "--sql", query]) == 0
    assert len(target.read_text().splitlines()) == 15


def test_ctrl_c_within_a_query_is_no_fault(store, monkeypatch, capsys):
    def interrupted(self):
        raise RuntimeError("Query interrupted")  # as DuckDB does

    monkeypatch.setattr(Store, "rows", interrupted)
    assert main(["report", "--results", str(store.directory)]) == 130
    assert capsys.readouterr().err == "quiver-bench: stopped\n"


def test_a_query_that_is_wrong_is_explained(store, tmp_path, capsys):
    words = [
        "export",
        "--results",
        str(store.directory),
        "--to",
        str(tmp_path / "o.csv"),
        "--sql",
        "SELECT wombat FROM results",
    ]
    assert main(words) == 2
    assert re.search("wombat", capsys.readouterr().err)


def test_a_document_has_a_line_for_each_trial():
    made = {
        "suite": "x",
        "machine": {"cores": 2, "of": {}},
        "trials": [{"sent": n, "noise": {"a": 0.5}} for n in range(3)],
        "note": None,
    }
    text = text_of(made)
    assert json.loads(text) == made
    assert sum('"sent":' in line for line in text.splitlines()) == 3
