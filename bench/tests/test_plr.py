"""The models of PLRsearch against the draft and a quadrature."""

import math

import numpy
import pytest
from scipy.integrate import quad
from scipy.special import erfc, expit

from quiver_bench.methods import plr
from quiver_bench.simulated import Simulated

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
    # The draft's scale: at great loads what is transferred stays the same.
    assert found == pytest.approx(whole / CURVES[name](1.0 / spread), rel=1e-6, abs=1e-300)


# The formulas of draft-vpolak-bmwg-plrsearch-03, as they stand there.
DRAFT = {
    "stretch": lambda b, m, a: (
        a
        * (1 + math.exp(m / a))
        * math.log((math.exp(b / a) + math.exp(m / a)) / (1 + math.exp(m / a)))
        / math.exp(m / a)
    ),
    "erf": lambda b, m, a: (
        (
            a * (math.exp(-((b - m) ** 2) / a**2) - math.exp(-(m**2) / a**2)) / math.sqrt(math.pi)
            + m * math.erfc(m / a)
            + (b - m) * math.erfc((m - b) / a)
        )
        / (1 + math.erf(m / a))
    ),
}


@pytest.mark.parametrize("name", plr.MODELS)
@pytest.mark.parametrize("point", [(0.5, 1.0, 0.1), (0.9, 1.0, 0.3), (1.2, 1.0, 0.9), (3.0, 2.0, 1.5), (8.0, 2.0, 0.4)])
def test_loss_is_what_the_draft_says(name, point):
    load, mrr_pps, spread = point
    found = math.exp(plr.MODELS[name](load, numpy.array([mrr_pps]), numpy.array([spread]))[0])
    assert found == pytest.approx(DRAFT[name](*point), rel=1e-9)


def by_quadrature(name, trials, max_rate, ratio, points=(241, 321)):
    """Mean and deviation of the critical load's logarithm, by summing over both parameters: slow, and with no ridge to follow."""
    model = plr.MODELS[name]
    log_spread, log_mrr = numpy.linspace(0.01, math.log(max_rate), 61), numpy.linspace(0, math.log(max_rate) + 4, 4001)
    for _ in range(12):
        spreads, mrrs = numpy.meshgrid(numpy.exp(log_spread), numpy.exp(log_mrr), indexing="ij")
        score = plr.log_likelihood(model, mrrs, spreads, trials) + plr.log_prior(numpy.log(mrrs), spreads, max_rate)
        score -= score.max()
        rows, columns = numpy.nonzero(score > -25)
        if numpy.unique(rows).size > points[0] // 3 and numpy.unique(columns).size > points[1] // 3:
            break
        log_spread = numpy.linspace(
            log_spread[max(0, rows.min() - 1)], log_spread[min(log_spread.size - 1, rows.max() + 1)], points[0]
        )
        log_mrr = numpy.linspace(
            log_mrr[max(0, columns.min() - 1)], log_mrr[min(log_mrr.size - 1, columns.max() + 1)], points[1]
        )
    weights = numpy.exp(score)
    weights /= weights.sum()
    counts = weights > 1e-12
    loads = numpy.log(plr.critical_load(model, mrrs[counts], spreads[counts], ratio))
    mean = float(weights[counts] @ loads)
    return mean, math.sqrt(float(weights[counts] @ (loads - mean) ** 2))


@pytest.mark.parametrize("name", plr.MODELS)
@pytest.mark.parametrize("mrr_pps, spread", [(1e6, 3e4), (1e6, 1.5e5), (2e5, 2e3)])
def test_the_ridge_is_the_posterior(name, mrr_pps, spread):
    """Following the ridge gives the mean within a fifth of its deviation, and that within a quarter."""
    system = Simulated(mrr_pps, spread, model=name, seed=3)
    trials = []
    for share, seconds in ((0.7, 1.0), (1.2, 1.0), (0.97, 2.0), (0.9, 5.0)):
        load = share * mrr_pps
        trials.append(plr.Observed(load, seconds, system.trial(seconds, load).output.lost))
    mean, deviation = by_quadrature(name, trials, 1.25 * mrr_pps, 1e-5)
    found = plr.estimate(name, trials, 1.25 * mrr_pps, 1e-5)
    assert found.log_load == pytest.approx(mean, abs=0.2 * deviation)
    assert found.deviation == pytest.approx(deviation, rel=0.25)


@pytest.mark.parametrize("name", plr.MODELS)
def test_logarithms_reach_where_numbers_do_not(name):
    log_loss = plr.MODELS[name](1e6, numpy.array([2e6]), numpy.array([1e2]))[0]
    assert -1e9 < log_loss < -700, "exp of it is zero, and still it is a number"
