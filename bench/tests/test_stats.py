"""Intervals and verdicts."""

import numpy
import pytest
from scipy.stats import binom

from quiver_bench.stats import Ratio, median_interval, order_statistics, paired_ratio, verdict


def test_the_interval_of_a_median_holds_it_about_as_often_as_it_says():
    random = numpy.random.default_rng(7)
    held = 0
    for _ in range(200):
        ratio = median_interval(random.normal(10.0, 1.0, size=25).tolist(), rounds=500)
        held += ratio.low <= 10.0 <= ratio.high
    assert 0.88 <= held / 200 <= 1.0


@pytest.mark.parametrize("count", [6, 7, 9, 12])
def test_the_interval_of_few_values_holds_the_median_as_often_as_it_says(count):
    """A bootstrap alone holds it in 87 of 100 series of seven."""
    random = numpy.random.default_rng(count)
    intervals = [median_interval(random.exponential(size=count).tolist(), rounds=300) for _ in range(1000)]
    held = sum(interval.low <= numpy.log(2) <= interval.high for interval in intervals)
    assert held / 1000 >= 0.94
    assert {interval.confidence for interval in intervals} == {0.95}


@pytest.mark.parametrize(
    ("count", "outside", "confidence"),
    [(2, 0, 0.5), (5, 0, 0.9375), (6, 0, 0.9688), (8, 0, 0.9922), (9, 1, 0.9609), (12, 2, 0.9614), (20, 5, 0.9586)],
)
def test_order_statistics_are_those_of_the_binomial_distribution(count, outside, confidence):
    found = order_statistics(count, 0.95)
    assert found == (outside, pytest.approx(confidence, abs=1e-4))
    # What lies one further in is no such interval any more: the ranks are exactly those of scipy's distribution.
    assert 1 - 2 * binom.cdf(outside, count, 0.5) == pytest.approx(found[1])
    assert 1 - 2 * binom.cdf(outside + 1, count, 0.5) < 0.95


def test_five_values_have_no_interval_of_95_percent():
    ratio = median_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (ratio.low, ratio.high, ratio.confidence) == (1.0, 5.0, 0.9375)
    assert median_interval([7.0]).confidence == 0.0


def test_pairs_cancel_what_both_share():
    drift = [1.0, 2.0, 4.0, 8.0, 16.0]
    ratio = paired_ratio([3 * value for value in drift], drift)
    assert (ratio.median, ratio.low, ratio.high) == (3.0, 3.0, 3.0)


def test_pairs_must_be_pairs():
    with pytest.raises(ValueError, match="2 and 1 values"):
        paired_ratio([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("low", "high", "pairs", "expected"),
    [
        (1.01, 1.2, 7, "A is faster"),
        (0.8, 0.99, 7, "B is faster"),
        (0.99, 1.2, 7, "no difference shown"),
        (1.5, 1.6, 5, "no verdict: 5 pairs are too few (6 are needed)"),
        (1.5, 1.6, 6, "A is faster"),
    ],
)
def test_a_verdict_needs_the_whole_interval_and_pairs_enough(low, high, pairs, expected):
    assert verdict(Ratio((low + high) / 2, low, high, 0.95), pairs) == expected


@pytest.mark.parametrize(
    ("low", "high", "a_limited", "b_limited", "expected"),
    [
        (1.1, 1.2, True, False, "A is faster"),
        (1.1, 1.2, False, True, "no verdict: B is at the generator's limit"),
        (0.8, 0.9, True, False, "no verdict: A is at the generator's limit"),
        (0.8, 0.9, None, True, "B is faster"),
        (0.9, 1.1, True, True, "no difference shown"),
    ],
)
def test_whose_figure_is_the_generators_is_slower_than_nobody(low, high, a_limited, b_limited, expected):
    assert verdict(Ratio((low + high) / 2, low, high, 0.95), 7, a_limited, b_limited) == expected
