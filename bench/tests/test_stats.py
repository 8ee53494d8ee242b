"""Intervals and verdicts."""

import numpy
import pytest

from quiver_bench.stats import Ratio, bootstrap_median, paired_ratio, verdict


def test_the_interval_of_a_median_holds_it_about_as_often_as_it_says():
    random = numpy.random.default_rng(7)
    held = 0
    for _ in range(200):
        ratio = bootstrap_median(random.normal(10.0, 1.0, size=25).tolist(), rounds=500)
        held += ratio.low <= 10.0 <= ratio.high
    assert 0.88 <= held / 200 <= 1.0


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
        (1.5, 1.6, 4, "no verdict: 4 pairs are too few (5)"),
    ],
)
def test_a_verdict_needs_the_whole_interval_and_pairs_enough(low, high, pairs, expected):
    assert verdict(Ratio((low + high) / 2, low, high, 0.95), pairs) == expected
