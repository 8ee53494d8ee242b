"""Probabilistic loss ratio: how a device loses packets, as two models, and what trials say about their parameters.

After draft-vpolak-bmwg-plrsearch. Both models have two parameters: ``mrr``, the rate that a growing load approaches, and ``spread``, how wide the knee
is. Loss per second is the integral, from no load to the load, of a function that climbs from 0 to 1 around ``mrr``: the logistic one
("stretch") or the Gaussian one ("erf"). Lost packets of a trial are Poisson distributed. All arithmetic is on logarithms,
because the loss ratios in question are of the order of 1e-7 and much less a little below.

Deviation from the draft: the posterior is integrated by importance sampling as there, but its focus is found by tempering
(the likelihood's weight grows from 0 to 1), which does not depend on a lucky first sample.
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

#: Samples per round of the integration.
SAMPLES = 4000

#: How much wider than the posterior samples are drawn (variance), so that its tails are seen.
SCALE = 8.0

#: Share of effective samples below which a round is no good.
EFFECTIVE = 0.05

ROUNDS = 80


def stretch(load: float | Array, mrr: Array, spread: Array) -> Array:
    """Logarithm of the loss per second by the logistic model: spread · (softplus((load-mrr)/spread) - softplus(-mrr/spread))."""
    x, x0 = (load - mrr) / spread, -mrr / spread
    # softplus(x) - softplus(x0) = log1p(d), with log d as follows; for tiny d that is d.
    log_d = x + _log1m_exp(x0 - x) - numpy.logaddexp(0.0, x0)
    log_of_log1p = numpy.where(
        log_d < -30, log_d, numpy.log(numpy.maximum(numpy.logaddexp(0.0, numpy.maximum(log_d, -30)), 1e-300))
    )
    return numpy.log(spread) + log_of_log1p


def erf(load: float | Array, mrr: Array, spread: Array) -> Array:
    """Logarithm of the loss per second by the Gaussian model: spread/2 · (ierfc((mrr-load)/spread) - ierfc(mrr/spread))."""
    near, far = _log_ierfc((mrr - load) / spread), _log_ierfc(mrr / spread)
    return numpy.log(spread / 2) + near + _log1m_exp(numpy.minimum(far - near, -1e-300))


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
class Focus:
    """Where in the parameters' square (-1, 1)² the posterior lies."""

    mean: Array
    covariance: Array


@dataclass(frozen=True)
class Estimate:
    """Logarithm of the critical load: mean and deviation; where the posterior lies, for the next time."""

    log_load: float
    deviation: float
    focus: Focus
    effective_samples: float


def parameters(square: Array, max_rate: float) -> tuple[Array, Array]:
    """``mrr`` and ``spread`` for points of (-1, 1)².

    Their priors: ``mrr`` - 1 is Lomax distributed (shape 1, scale ``max_rate``), ``spread`` is ``mrr`` to a power that is uniform in (0, 1).
    """
    unit = numpy.clip((square + 1) / 2, 1e-12, 1 - 1e-12)
    mrr = 1 + max_rate * (1 / unit[:, 0] - 1)
    return mrr, numpy.exp(unit[:, 1] * numpy.log(mrr))


def log_likelihood(model: LossModel, mrr: Array, spread: Array, trials: list[Observed]) -> Array:
    """Poisson: lost · log(expected) - expected - log(lost!)."""
    total = numpy.zeros_like(mrr)
    for trial in trials:
        log_expected = model(trial.load_pps, mrr, spread) + math.log(trial.seconds)
        total += trial.lost * log_expected - numpy.exp(numpy.minimum(log_expected, 600)) - gammaln(trial.lost + 1)
    return numpy.where(numpy.isfinite(total), total, -numpy.inf)


def critical_load(model: LossModel, mrr: Array, spread: Array, ratio: float) -> Array:
    """The load at which the model's loss ratio is ``ratio``, by bisection of its logarithm."""
    low, high = numpy.zeros_like(mrr), numpy.log(mrr) + math.log(10)
    for _ in range(60):
        middle = (low + high) / 2
        too_much = model(numpy.exp(middle), mrr, spread) - middle > math.log(ratio)
        low, high = numpy.where(too_much, low, middle), numpy.where(too_much, middle, high)
    return numpy.exp((low + high) / 2)


def estimate(
    name: str, trials: list[Observed], max_rate: float, ratio: float, focus: Focus | None = None, seed: int = 0
) -> Estimate:
    """What the trials say about the critical load, by one model."""
    model = MODELS[name]
    random = numpy.random.default_rng(seed)
    weight_of_evidence = 0.0
    for _ in range(ROUNDS):
        square, log_density = _draw(random, focus)
        mrr, spread = parameters(square, max_rate)
        log_like = log_likelihood(model, mrr, spread, trials)
        weight_of_evidence = _temper(log_like, log_density)
        weights = _weights(weight_of_evidence * log_like - log_density)
        mean = weights @ square
        centred = square - mean
        covariance = (centred * weights[:, None]).T @ centred + numpy.eye(2) * 1e-24
        focus = Focus(mean, covariance)
        if weight_of_evidence == 1.0:
            break
    assert focus is not None
    log_loads = numpy.log(critical_load(model, mrr, spread, ratio))
    average = float(weights @ log_loads)
    deviation = math.sqrt(max(0.0, float(weights @ (log_loads - average) ** 2)))
    return Estimate(average, deviation, focus, 1 / float(weights @ weights))


def _draw(random: numpy.random.Generator, focus: Focus | None) -> tuple[Array, Array]:
    """Samples in (-1, 1)² and the logarithm of their density: uniform at first, then Gaussian around the focus."""
    if focus is None:
        return random.uniform(-1, 1, size=(SAMPLES, 2)), numpy.zeros(SAMPLES)
    wide = focus.covariance * SCALE
    root = numpy.linalg.cholesky(wide + numpy.eye(2) * 1e-26)
    standard = random.standard_normal((SAMPLES, 2))
    square = focus.mean + standard @ root.T
    inside = numpy.all(numpy.abs(square) < 1, axis=1)
    # What falls outside has no prior probability: its weight is nothing.
    return square, numpy.where(inside, -0.5 * numpy.sum(standard**2, axis=1), numpy.inf)


def _weights(log_weights: Array) -> Array:
    finite = numpy.where(numpy.isnan(log_weights), -numpy.inf, log_weights)
    top = finite.max()
    if not numpy.isfinite(top):
        return numpy.full(finite.size, 1 / finite.size)
    weights = numpy.exp(finite - top)
    return weights / weights.sum()


def _temper(log_like: Array, log_density: Array) -> float:
    """The greatest weight of the likelihood, up to 1, that leaves samples enough in force."""

    def enough(power: float) -> bool:
        weights = _weights(power * log_like - log_density)
        return 1 / float(weights @ weights) >= EFFECTIVE * log_like.size

    if enough(1.0):
        return 1.0
    low, high = -60.0, 0.0  # powers of two
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(2.0**middle) else (low, middle)
    return 2.0**low
