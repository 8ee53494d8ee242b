"""Methods against simulated systems, whose capacity is known."""

import math

import numpy
import pytest
from conftest import quiet
from scipy.integrate import quad
from scipy.special import erfc, expit

from quiver_bench import selftest
from quiver_bench.methods import mrr, ndrpdr, plr, reconf, soak
from quiver_bench.simulated import Simulated


@pytest.mark.parametrize("check", selftest.CHECKS, ids=lambda check: check.__name__)
def test_self_test(check):
    assert check()


def test_mrr_keeps_placements_apart_and_leaves_moved_trials_out():
    system = Simulated(10e6, 1e3, placements=["near", "near", "moved", "far", "near", "near"])
    figures = mrr.measure(system, quiet, trials=4)
    assert [(figure.placement, len(figure.trials)) for figure in figures] == [("near", 4), ("far", 1)]


def test_what_the_generator_limits_is_marked():
    (figure,) = mrr.measure(Simulated(100e6, 1e3, generator_pps=50e6), quiet, trials=3)
    assert figure.generator_limited
    (figure,) = mrr.measure(Simulated(10e6, 1e3, generator_pps=50e6), quiet, trials=3)
    assert not figure.generator_limited


def test_a_search_that_never_loses_is_irregular():
    figure = ndrpdr.measure(Simulated(500e6, 1e3), quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    assert figure.irregular
    assert "upper bound" in figure.message or "failed" in figure.message


def test_trials_of_another_placement_are_made_again():
    system = Simulated(10e6, 1e3, placements=["near", "near", "far", "moved", "near"])
    figure = ndrpdr.measure(system, quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    # Warm-up and the first trial were near; the far and the moved one were made again.
    loads = [trial.load_pps for trial in figure.trials]
    assert [trial.placement for trial in figure.trials[:4]] == ["near", "far", "moved", "near"]
    assert loads[1] == loads[2] == loads[3]


def test_reconfiguration_is_lost_packets_by_rate():
    system = Simulated(10e6, 1e2, reconfiguration_loss=5_000)
    figure = reconf.measure(system, quiet, 480, seconds=1.0)
    rate = figure.result["aggregate_rate"]["rate"]["value"]
    assert figure.result["loss"]["packet"]["value"] == 5_000
    assert figure.result["loss"]["time"]["value"] == pytest.approx(5_000 / rate)
    assert figure.result["reconfiguration"] == "the simulation grew"


# The integral of each model's curve, by a quadrature that knows nothing of our formulas.
CURVES = {"stretch": expit, "erf": lambda x: erfc(-x) / 2}


@pytest.mark.parametrize("name", plr.MODELS)
@pytest.mark.parametrize("load", [0.2, 0.8, 0.95, 1.0, 1.1, 3.0])
@pytest.mark.parametrize("spread", [0.01, 0.1, 0.7])
def test_loss_is_the_integral_of_the_curve(name, load, spread):
    whole, _ = quad(
        lambda x: CURVES[name]((x - 1.0) / spread), 0, load, epsabs=0, epsrel=1e-10, points=[min(load, 1.0)], limit=500
    )
    found = math.exp(plr.MODELS[name](load, numpy.array([1.0]), numpy.array([spread]))[0])
    assert found == pytest.approx(whole, rel=1e-6, abs=1e-300)


@pytest.mark.parametrize("name", plr.MODELS)
def test_logarithms_reach_where_numbers_do_not(name):
    log_loss = plr.MODELS[name](1e6, numpy.array([2e6]), numpy.array([1e2]))[0]
    assert -1e9 < log_loss < -700, "exp of it is zero, and still it is a number"


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


def test_a_soak_without_any_loss_claims_no_more_than_was_offered():
    search = soak.Search(10e6)
    state = search.learn(5e6, 5.1, 0)
    assert math.exp(state.log_load) == pytest.approx(5e6)
    assert state.deviation >= 1.0
