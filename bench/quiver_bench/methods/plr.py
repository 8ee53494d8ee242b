"""Probabilistic loss ratio: how a device loses packets, as two models, and what trials say about their parameters.

After draft-vpolak-bmwg-plrsearch-03. Both models have two parameters: ``mrr``, the rate that a growing load approaches,
and ``spread``, how wide the knee is. Loss per second is the integral, from no load to the load, of a function that climbs
from 0 to 1 around ``mrr``, divided by its value ``mrr`` above the knee: the logistic one ("stretch") or the Gaussian one ("erf"). Lost
packets of a trial are Poisson distributed. All arithmetic is on logarithms: the loss ratios in question are about 1e-7, and far less a
little below.

What differs from the draft is how the posterior is integrated. The draft leaves the method open and CSIT draws random samples. With two
parameters that isn't needed, and after a first trial the posterior is a thin, bent ridge that random samples miss. Here the ridge is
followed: for each spread on a grid the best ``mrr`` is searched, its width comes from the Fisher information, and the grid closes in on
where the probability lies. ``bench/tests/test_plr.py`` holds mean and deviation against a quadrature of both parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray
from scipy.special import erfc, erfcx, gammaln

Array = NDArray[numpy.float64]
LossModel = Callable[[float | Array, Array, Array], Array]

#: Points of the grid over the spread's prior.
GRID = 65

#: Logarithm of the probability, relative to the greatest, below which a point of the grid counts for nothing.
NEGLIGIBLE = -20.0

#: Points that must count before the grid is fine enough, and how often it is made finer at most.
FINE_ENOUGH, ZOOMS = 25, 12

#: Steps of a golden section, enough for the last digit of a double.
GOLDEN_STEPS = 70


def stretch(load: float | Array, mrr: Array, spread: Array) -> Array:
    """Logarithm of the loss per second by the logistic model.

    (1 + e^(-mrr/spread)) · spread · (softplus((load-mrr)/spread) - softplus(-mrr/spread))
    """
    x, x0 = (load - mrr) / spread, -mrr / spread
    # softplus(x) - softplus(x0) = log1p(d), with log d as follows; for tiny d that is d.
    log_d = x + _log1m_exp(x0 - x) - numpy.logaddexp(0.0, x0)
    log_of_log1p = numpy.where(
        log_d < -30, log_d, numpy.log(numpy.maximum(numpy.logaddexp(0.0, numpy.maximum(log_d, -30)), 1e-300))
    )
    return numpy.log(spread) + log_of_log1p + numpy.log1p(numpy.exp(x0))


def erf(load: float | Array, mrr: Array, spread: Array) -> Array:
    """Logarithm of the loss per second by the Gaussian model.

    spread · (ierfc((mrr-load)/spread) - ierfc(mrr/spread)) / (1 + erf(mrr/spread))
    """
    near, far = _log_ierfc((mrr - load) / spread), _log_ierfc(mrr / spread)
    scale = numpy.log(spread) - numpy.log(erfc(-mrr / spread))  # erfc(-z) is 1 + erf(z)
    return scale + near + _log1m_exp(numpy.minimum(far - near, -1e-300))


MODELS: dict[str, LossModel] = {"stretch": stretch, "erf": erf}


def _log1m_exp(x: Array) -> Array:
    """log(1 - e^x) for x < 0, without loss of digits near 0."""
    x = numpy.minimum(x, -1e-300)
    return numpy.where(x > -0.693, numpy.log(-numpy.expm1(x)), numpy.log1p(-numpy.exp(x)))


def _log_ierfc(z: Array) -> Array:
    """Logarithm of the integral of erfc from z up: e^(-z²)/√π - z·erfc(z)."""
    z = numpy.asarray(z, dtype=float)
    root = 1 / math.sqrt(math.pi)
    low = numpy.minimum(z, 0.0)
    mid = numpy.clip(z, 0.0, 50.0)
    high = numpy.maximum(z, 50.0)
    below = numpy.log(numpy.exp(-numpy.minimum(low**2, 700)) * root - low * erfc(low))
    middle = -(mid**2) + numpy.log(numpy.maximum(root - mid * erfcx(mid), 1e-300))
    # Asymptotic series where the difference above would cancel.
    above = -(high**2) + numpy.log(root / (2 * high**2)) + numpy.log1p(-1.5 / high**2 + 3.75 / high**4)
    return numpy.where(z < 0, below, numpy.where(z < 50, middle, above))


@dataclass(frozen=True)
class Observed:
    """One trial."""

    load_pps: float
    seconds: float
    lost: int


@dataclass(frozen=True)
class Estimate:
    """Logarithm of the critical load, mean and deviation, and the most probable parameters."""

    log_load: float
    deviation: float
    mrr: float
    spread: float


def log_likelihood(model: LossModel, mrr: Array, spread: Array, trials: list[Observed]) -> Array:
    """Poisson: lost · log(expected) - expected - log(lost!)."""
    total = numpy.zeros_like(mrr)
    for trial in trials:
        log_expected = model(trial.load_pps, mrr, spread) + math.log(trial.seconds)
        total += trial.lost * log_expected - numpy.exp(numpy.minimum(log_expected, 600)) - gammaln(trial.lost + 1)
    return numpy.where(numpy.isnan(total), -numpy.inf, total)


def critical_load(model: LossModel, mrr: Array, spread: Array, ratio: float) -> Array:
    """The load at which the model's loss ratio is ``ratio``, by bisection of its logarithm."""
    low, high = numpy.zeros_like(mrr), numpy.log(mrr) + math.log(10)
    for _ in range(60):
        middle = (low + high) / 2
        too_much = model(numpy.exp(middle), mrr, spread) - middle > math.log(ratio)
        low, high = numpy.where(too_much, low, middle), numpy.where(too_much, middle, high)
    return numpy.exp((low + high) / 2)


def estimate(name: str, trials: list[Observed], max_rate: float, ratio: float) -> Estimate:
    """What the trials say about the critical load, by one model. At least one of them must have lost something.

    Priors as in the draft: ``mrr`` - 1 is Lomax distributed (shape 1, scale ``max_rate``), ``spread`` is ``mrr`` to a power
    that is uniform in (0, 1).
    """
    model = MODELS[name]
    low, high = 0.0, 1.0
    for _ in range(ZOOMS):
        power = numpy.linspace(low, high, GRID + 2)[1:-1]
        spread = numpy.exp(power * math.log(max_rate))
        log_mrr = _best_log_mrr(model, spread, trials, max_rate)
        mrr = numpy.exp(log_mrr)
        width = _width(model, log_mrr, spread, trials)
        score = log_likelihood(model, mrr, spread, trials) + log_prior(log_mrr, spread, max_rate) + numpy.log(width)
        score -= score.max()
        counts = numpy.flatnonzero(score > NEGLIGIBLE)
        if counts.size >= FINE_ENOUGH:
            break
        low, high = power[max(0, counts[0] - 1)], power[min(GRID - 1, counts[-1] + 1)]
    weights = numpy.exp(score)
    weights /= weights.sum()
    log_loads = numpy.log(critical_load(model, mrr, spread, ratio))
    slope = numpy.log(critical_load(model, mrr * numpy.exp(width), spread, ratio)) - log_loads
    average = float(weights @ log_loads)
    variance = float(weights @ ((log_loads - average) ** 2 + slope**2))
    best = int(numpy.argmax(weights))
    return Estimate(average, math.sqrt(variance), float(mrr[best]), float(spread[best]))


def log_prior(log_mrr: Array, spread: Array, max_rate: float) -> Array:
    """Logarithm of the prior's density over log(mrr) and log(spread), but for a constant."""
    inside = numpy.log(spread) <= log_mrr
    return numpy.where(
        inside,
        log_mrr - 2 * numpy.log(numpy.exp(log_mrr) + max_rate) - numpy.log(numpy.maximum(log_mrr, 1e-12)),
        -numpy.inf,
    )


def _best_log_mrr(model: LossModel, spread: Array, trials: list[Observed], max_rate: float) -> Array:
    """For each spread the logarithm of the likeliest ``mrr``, by golden section: the likelihood has one summit."""
    golden = (math.sqrt(5) - 1) / 2
    low = numpy.full_like(spread, math.log(max_rate) - 12)
    high = numpy.full_like(spread, math.log(max_rate) + 12)
    for _ in range(GOLDEN_STEPS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        rising = log_likelihood(model, numpy.exp(left), spread, trials) < log_likelihood(
            model, numpy.exp(right), spread, trials
        )
        low, high = numpy.where(rising, left, low), numpy.where(rising, high, right)
    return (low + high) / 2


def _width(model: LossModel, log_mrr: Array, spread: Array, trials: list[Observed]) -> Array:
    """Standard deviation of ``log(mrr)`` at its summit: Fisher's information of Poisson counts is the sum of λ · (d log λ / dθ)²."""
    step = 1e-6
    information = numpy.full_like(log_mrr, 1e-6)
    for trial in trials:
        above = model(trial.load_pps, numpy.exp(log_mrr + step), spread)
        below = model(trial.load_pps, numpy.exp(log_mrr - step), spread)
        slope = (above - below) / (2 * step)
        expected = numpy.exp(numpy.minimum((above + below) / 2 + math.log(trial.seconds), 600))
        information += expected * slope**2
    return 1 / numpy.sqrt(information)
