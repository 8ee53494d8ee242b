"""Trends: what changed, what is too little to say so, and what is left out."""

import statistics
from datetime import timedelta
from math import comb

import pytest
from conftest import MRR, START, document, quiet
from scipy.stats import mannwhitneyu

from quiver_bench.commands.main import main
from quiver_bench.commands.measure import figure_in_words
from quiver_bench.methods import mrr
from quiver_bench.report import markdown, tables
from quiver_bench.report.figures import FIGURES
from quiver_bench.results.store import Store
from quiver_bench.simulated import Simulated
from quiver_bench.trend import ENOUGH, classify, needed, told_apart, trends


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
    assert main(["trend", "--results", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "perhaps a regression at c00000000002" in told
    assert "not decided: 1 and 1 samples are too few (after 1, 39 are needed; 4 and 4 are enough)" in told


def test_trials_enough_on_both_sides_are_a_regression(tmp_path):
    store = Store(tmp_path)
    keep(store, 1, trials=4, scatter=0.001), keep(store, 2, 10e6, trials=4, scatter=0.001)
    (trend,) = trends(store)
    assert ([change["change"] for change in trend.changes()], trend.undecided()) == (["regression"], [])


@pytest.mark.parametrize("before", [2, 3, 4, 8, 20])
def test_enough_is_what_the_rank_test_calls_enough(before):
    """The exact two-sided test of scipy, on samples that don't overlap."""
    after = needed(before)
    for count, enough in ((after, True), (after - 1, False)):
        if not count:
            continue
        found = mannwhitneyu(range(before), range(100, 100 + count), method="exact").pvalue
        assert found == pytest.approx(2 / comb(before + count, count))
        assert (found <= 0.05) == told_apart(before, count) == enough
    assert needed(ENOUGH) == ENOUGH


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
    store, told = Store(tmp_path), "in 3 of 3 trials the device waited for its core"
    keep(store, 1, trials=3)
    assert keep(store, 2, 10e6, trials=3, unpaced_waits=0.4)["irregular"]
    main(["trend", "--results", str(tmp_path)])
    said = capsys.readouterr().out
    assert "1 run(s), now 20.0" in said
    assert "1 irregular result(s) left out" in said
    assert "regression" not in said, "what the machine did isn't the device's"
    assert f"irregular, {told}" in markdown.tables(store), "the newest of its kind"
    (row,) = [row for row in tables.everything(store) if row["irregular"]]
    assert row["remarks"].startswith(told)


def test_a_series_of_nothing_but_irregular_results_says_so(tmp_path, capsys):
    keep(Store(tmp_path), 1, trials=3, unpaced_waits=0.4)
    main(["trend", "--results", str(tmp_path)])
    said = capsys.readouterr().out
    assert "no series  (1 irregular result(s) left out; in 3 of 3 trials the device waited for its core" in said
    assert not FIGURES["trending"](Store(tmp_path)).data
