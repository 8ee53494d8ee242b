"""Soaks of simulated systems, whose critical load is known."""

import itertools
import math

import pytest
from conftest import quiet

from quiver_bench.commands.measure import figure_in_words
from quiver_bench.methods import soak, steady
from quiver_bench.simulated import Simulated


def test_a_soak_begins_anew_where_the_cores_have_come_to_stand(monkeypatch):
    monkeypatch.setattr(soak.time, "monotonic", itertools.count(0, 5.0).__next__)
    system = Simulated(10e6, 1e4, placements=["far", "far", "near"])
    figure = soak.measure(system, quiet, 480, soak_seconds=80.0)
    assert (figure.placement, figure.irregular) == ("near", False)
    assert {trial.placement for trial in figure.counting} == {"near"}
    assert [trial.placement for trial in figure.trials if not trial.counts] == ["far", *["near"] * steady.AGREED]


def test_a_soak_that_the_generator_spoils_is_marked(monkeypatch):
    monkeypatch.setattr(soak.time, "monotonic", itertools.count(0, 5.0).__next__)
    figure = soak.measure(Simulated(10e6, 1e4, limit_known=False, untaken=1e-5), quiet, 480, soak_seconds=40.0)
    assert figure.generator_limited
    monkeypatch.setattr(soak.time, "monotonic", itertools.count(0, 5.0).__next__)
    assert (
        soak.measure(Simulated(10e6, 1e4, limit_known=False), quiet, 480, soak_seconds=40.0).generator_limited is None
    )


@pytest.mark.parametrize(
    ("model", "mrr_pps", "spread"), [("stretch", 30e6, 1e5), ("erf", 30e6, 1e5), ("erf", 2e6, 5e4)]
)
def test_a_soak_finds_a_known_critical_load(model, mrr_pps, spread):
    system = Simulated(mrr_pps, spread, model=model, seed=5)
    search = soak.Search(1.25 * mrr_pps)
    for _ in range(14):
        load, seconds = search.next_load(), search.seconds()
        state = search.learn(load, seconds, system.trial(seconds, load).output.lost)
    true = system.critical_load(soak.TARGET)
    low, high = state.bounds
    assert math.exp(state.log_load) == pytest.approx(true, rel=0.05)
    assert low * 0.99 <= true <= high * 1.01


@pytest.mark.parametrize("soak_seconds", [15.0, 40.0])
def test_a_soak_that_lost_nothing_has_a_lower_bound_only(monkeypatch, soak_seconds):
    monkeypatch.setattr(soak.time, "monotonic", itertools.count(0, 5.0).__next__)
    figure = soak.measure(Simulated(30e6, 1e3, better_from=2), quiet, 480, soak_seconds=soak_seconds)
    offered = max(trial.load_pps for trial in figure.trials if trial.load_pps)
    assert list(figure.result["critical_rate"]) == ["lower"]
    assert figure.result["critical_rate"]["lower"]["rate"]["value"] == pytest.approx(offered)
    assert (figure.irregular, figure.message[:20]) == (True, "nothing was lost up ")
    assert figure_in_words(figure.result) == f"critical load at least {offered / 1e6:.3f} Mpps"


def test_a_soak_that_always_lost_has_an_upper_bound_only(monkeypatch):
    monkeypatch.setattr(soak.time, "monotonic", itertools.count(0, 5.0).__next__)
    system = Simulated(30e6, 1e3)
    system.loss_per_second = lambda load: 0.9 * load
    figure = soak.measure(system, quiet, 480, soak_seconds=60.0)
    assert list(figure.result["critical_rate"]) == ["upper"]
    assert (figure.irregular, "no lower bound" in figure.message) == (True, True)


def test_a_soak_without_any_loss_claims_no_more_than_was_offered():
    search = soak.Search(10e6)
    state = search.learn(5e6, 5.1, 0)
    assert math.exp(state.log_load) == pytest.approx(5e6)
    assert state.deviation >= 1.0
