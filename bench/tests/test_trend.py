"""Trends: what changed, what is too little to say so, and what is left out."""

import json
import statistics
from dataclasses import replace
from datetime import timedelta

import numpy
import pytest
from conftest import MRR, NDRPDR, START, document, quiet

from quiver_bench.commands.main import main
from quiver_bench.commands.measure import figure_in_words
from quiver_bench.methods import mrr, ndrpdr
from quiver_bench.report import markdown, tables
from quiver_bench.report.figures import FIGURES
from quiver_bench.results.store import Store
from quiver_bench.simulated import Simulated
from quiver_bench.trend import ENOUGH, classify, needed, told_apart, trends

STARVED = "in 3 of 3 trials the device waited for its core"


def keep(store, day, mrr_pps=20e6, trials=1, **more):
    """Keeps a result of so many trials; returns its document."""
    (figure,) = mrr.measure(Simulated(mrr_pps, 1e2, seed=day, **more), quiet, trials=trials)
    made = document(figure, MRR, commit=f"c{day:011}", at=START + timedelta(days=day))
    store.add(made)
    return made


def test_two_single_trials_are_no_regression(tmp_path, capsys):
    store = Store(tmp_path)
    keep(store, 1), keep(store, 2, 10e6)
    (trend,) = trends(store)
    assert trend.changes() == []
    (perhaps,) = trend.undecided()
    assert (perhaps["change"], perhaps["samples"], perhaps["needs"]) == ("regression", [1, 1], 39)
    assert perhaps["runs"] == [1, 1]
    assert main(["trend", "--results", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "perhaps a regression at c00000000002" in told
    assert "not decided: 1 and 1 runs are too few (after 1, 39 are needed; 4 and 4 are enough)" in told


def test_runs_enough_on_both_sides_are_a_regression(tmp_path):
    store = Store(tmp_path)
    for day in range(8):
        keep(store, day, 20e6 if day < 4 else 10e6, scatter=0.001)
    (trend,) = trends(store)
    assert ([change["change"] for change in trend.changes()], trend.undecided()) == (["regression"], [])


def test_trials_of_one_run_are_no_runs(tmp_path):
    store = Store(tmp_path)
    keep(store, 1, trials=10, scatter=0.001), keep(store, 2, 10e6, trials=10, scatter=0.001)
    (trend,) = trends(store)
    assert trend.changes() == []
    (perhaps,) = trend.undecided()
    assert (perhaps["samples"], perhaps["runs"], perhaps["needs"]) == ([10, 10], [1, 1], 39)


@pytest.mark.parametrize("runs", [6, 12, 20])
def test_of_series_without_a_change_fewer_than_one_of_twenty_has_one(runs):
    """Ten trials a run, which are nearer to each other (1 %) than runs are (2 %)."""
    random = numpy.random.default_rng(runs)
    called = 0
    for _ in range(100):
        means = 20 * (1 + 0.02 * random.standard_normal(runs))
        series = [list(mean * (1 + 0.01 * random.standard_normal(10))) for mean in means]
        called += any(group.change != "normal" and not group.needs for group in classify(series))
    assert called < 5


def few(level, count):
    """Runs of one trial each."""
    return [[level + 0.01 * (number % 3)] for number in range(count)]


def test_one_odd_result_hides_no_regression():
    groups = classify([*few(20.0, 12), [25.0], *few(16.0, 2)])
    assert [(group.change, group.needs, group.against) for group in groups] == [
        ("normal", 0, 0),
        ("progression", 2, 0),
        ("regression", 0, 0),
    ]
    back = classify([*few(20.0, 12), [25.0], *few(20.0, 5)])
    assert [group.change for group in back] == ["normal", "progression", "normal"], "as before"


def test_a_change_after_an_odd_result_is_told_from_what_it_is_held_against(tmp_path):
    store = Store(tmp_path)
    for day in range(15):
        keep(store, day, 20e6 if day < 12 else 25e6 if day == 12 else 16e6, scatter=0.001)
    (trend,) = trends(store)
    (change,) = trend.changes()
    assert change["ratio"] == pytest.approx(0.8, abs=0.01)
    assert change["runs"] == [12, 2]


def test_a_search_has_a_trend_of_both_its_figures(tmp_path):
    store = Store(tmp_path)
    for day in range(8):
        figure = ndrpdr.measure(Simulated(20e6, 1e4, seed=day), quiet, 480, ndrpdr.Effort(duration_sum=1.0))
        result = json.loads(json.dumps(figure.result))
        if day >= 4:  # it loses a packet at rates at which it lost none
            result["ndr"]["lower"]["rate"]["value"] /= 2
        store.add(document(replace(figure, result=result), NDRPDR, at=START + timedelta(days=day)))
    found = {trend.figure: trend for trend in trends(store)}
    assert [change["change"] for change in found["NDR"].changes()] == ["regression"]
    assert found["PDR"].changes() == []
    assert found["NDR"].name.endswith(" NDR")


def test_a_search_has_a_trend_of_its_latency_which_gets_better_as_it_falls(tmp_path, capsys):
    store = Store(tmp_path)
    for day in range(8):
        figure = ndrpdr.measure(Simulated(20e6, 1e4, seed=day), quiet, 480, ndrpdr.Effort(duration_sum=1.0))
        result = json.loads(json.dumps(figure.result))
        result["latency_forward"]["pdr_50"]["percentiles"] = {
            "50": 5.0 if day < 4 else 4.0,
            "99.9": 40.0 if day < 4 else 90.0,
        }
        store.add(document(replace(figure, result=result), NDRPDR, at=START + timedelta(days=day)))
    found = {trend.figure: trend for trend in trends(store)}
    assert [change["change"] for change in found["p50"].changes()] == ["progression"]
    assert [change["change"] for change in found["p99.9"].changes()] == ["regression"]
    assert main(["trend", "--results", str(tmp_path)]) == 0
    assert "40.000 to 90.000 µs" in capsys.readouterr().out


@pytest.mark.parametrize("before", [2, 3, 4, 8, 20])
def test_as_many_runs_are_needed_as_the_rank_test_calls_enough(before):
    """Where they don't overlap."""
    after = needed(before)
    for count, enough in ((after, True), (after - 1, False)):
        if count:
            assert told_apart([*range(before)], [*range(100, 100 + count)]) == enough
    assert needed(ENOUGH) == ENOUGH
    assert not told_apart([1.0, 2.0, 3.0, 9.0], [4.0, 5.0, 6.0, 7.0]), "these overlap"


def test_a_deviation_is_the_same_in_run_and_in_trend(tmp_path, capsys):
    store = Store(tmp_path)
    made = keep(store, 1, trials=3, scatter=0.01)
    values = made["result"]["receive_rate"]["rate"]["values"]
    said = figure_in_words(made["result"])
    assert said == f"{statistics.mean(values) / 1e6:.3f} ± {statistics.stdev(values) / 1e6:.3f} Mpps"
    main(["trend", "--results", str(tmp_path)])
    assert f"now {said}" in capsys.readouterr().out
    assert f"{statistics.stdev(values) / 1e6:.2f} Mpps" in markdown.tables(store)
    (group,) = classify([[7.0]])
    assert (group.average, group.deviation) == (7.0, 0.0)


def test_a_device_that_was_kept_from_running_is_marked_wherever_it_is_shown(tmp_path, capsys):
    store, told = Store(tmp_path), STARVED
    keep(store, 1, trials=3)
    assert keep(store, 2, 10e6, trials=3, unpaced_waits=0.4)["irregular"]
    main(["trend", "--results", str(tmp_path)])
    said = capsys.readouterr().out
    assert "1 run(s), now 20.0" in said
    assert "1 irregular result(s) left out" in said
    assert "regression" not in said, "what the machine did isn't the device's"
    assert told not in markdown.tables(store), "there is a regular one"
    (row,) = [row for row in tables.everything(store) if row["irregular"]]
    assert row["remarks"].startswith(told)


def test_a_series_of_nothing_but_irregular_results_says_so(tmp_path, capsys):
    keep(Store(tmp_path), 1, trials=3, unpaced_waits=0.4)
    main(["trend", "--results", str(tmp_path)])
    said = capsys.readouterr().out
    assert f"irregular, {STARVED}" in markdown.tables(Store(tmp_path)), "there is none that is regular"
    assert "no series  (1 irregular result(s) left out; in 3 of 3 trials the device waited for its core" in said
    assert not FIGURES["trending"](Store(tmp_path)).data
