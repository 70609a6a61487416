"""Rounded Laplace draws: against mpmath at the edges, at zero and at the bound, and what they assume of a machine."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from deployment.integers.tails import draw, edge
from sottovoce.deployment.integers import RoundedLaplace
from sottovoce.deployment.integers.rounded_laplace import _FARTHEST
from sottovoce.deployment.integers.tail_comparison import DOUBT
from sottovoce.errors import ConfigError

KEY = b"a fixed key for the tests, 32 by"
LEVEL = 1e-4


def laplace_tail(point):
    """P(Y > point) by integrating the density of standard deviation 1, in place of the closed form of the sampler."""
    scale = 1 / mpmath.sqrt(2)
    return mpmath.quad(lambda x: mpmath.exp(-x / scale) / (2 * scale), [point, point + 2, point + 10, point + 120])


@pytest.mark.parametrize("point", [0.0, 0.3, 1.0, 7.0, 60.0])
def test_the_tail_that_the_tests_use_is_the_integral_of_the_density(point):
    with mpmath.workdps(60):
        closed = mpmath.exp(-mpmath.mpf(point) * mpmath.sqrt(2)) / 2
        assert abs(laplace_tail(mpmath.mpf(point)) / closed - 1) < mpmath.mpf("1e-40")


@settings(max_examples=150)
@given(st.sampled_from([0.01, 0.3, 0.7, 3.0, 1000.0, 65536.0, 0.57 * 2**20, 2.0**28, 2.0**33]), st.floats(0.0, 62.0))
def test_the_last_number_of_128_bits_before_an_edge_falls_on_its_own_side(std, place):
    law, size = RoundedLaplace(std=std), max(1, round(place * std))
    if (size - 0.5) / std > 62.0:
        return
    first_below = edge(law, size)
    reached, missed = draw(law, [first_below - 1, first_below])
    assert missed < size <= reached
    # Far out the 2^128 equally likely numbers are so few that one step of them passes several integers.
    assert place > 30 or (missed, reached) == (size - 1, size)
    assert draw(law, [first_below - 1, first_below], negative=True) == [-reached, -missed]


def test_zero_has_twice_the_probability_of_one_sign():
    law = RoundedLaplace(std=0.8)
    with mpmath.workdps(60):
        scale = mpmath.mpf(Fraction(0.8).numerator) / Fraction(0.8).denominator / mpmath.sqrt(2)
        expected = 1 - mpmath.exp(-1 / (2 * scale))
        zeros = 2 * (2**127 - edge(law, 1))
        assert abs(mpmath.mpf(zeros) / 2**128 - expected) < mpmath.mpf(2) ** -127
    first = edge(law, 1)
    assert draw(law, [first, 2**127 - 1]) == draw(law, [first, 2**127 - 1], negative=True) == [0, 0]
    assert draw(law, [first - 1]) == [1]
    assert draw(law, [first - 1], negative=True) == [-1]


def test_nothing_lies_beyond_the_bound():
    with mpmath.workdps(60):
        assert mpmath.exp(-mpmath.sqrt(2) * mpmath.mpf(_FARTHEST)) < mpmath.mpf(2) ** -128
    for std in (0.6, 1000.0, 2.0**36):
        law = RoundedLaplace(std=std)
        assert 62.7 * std - 1 < draw(law, [0])[0] <= law.bound
        assert draw(law, [2**127 - 1]) == [0]


def test_the_floating_point_logarithm_is_far_better_than_assumed():
    generator = np.random.default_rng(2)
    tails = np.concatenate([2.0 ** -generator.uniform(1, 127, 300), 0.5 - 2.0 ** -generator.uniform(2, 52, 100), [0.5]])
    places = tails.copy()
    RoundedLaplace(std=1.0).quantile(places)
    with mpmath.workdps(40):
        for place, tail in zip(places, tails, strict=True):
            assert abs(mpmath.mpf(place) + mpmath.log(2 * mpmath.mpf(tail)) / mpmath.sqrt(2)) < DOUBT / 30
    near = tails > 1e-3
    assert near.sum() > 100
    with mpmath.workdps(40):
        for place, tail in zip(places[near], tails[near], strict=True):
            assert abs(mpmath.mpf(place) + mpmath.log(2 * mpmath.mpf(tail)) / mpmath.sqrt(2)) < DOUBT / 1000


def test_random_draws_equal_the_quantile_found_by_mpmath():
    law = RoundedLaplace(std=12.5)
    words = np.random.default_rng(1).integers(0, 2**64, size=(300, 2), dtype=np.uint64)
    for value, (high, low) in zip(law.from_words(words), words.tolist(), strict=True):
        v = ((high & (2**63 - 1)) << 64) | low
        size = abs(int(value))
        assert v >= edge(law, size + 1)
        assert size == 0 or v < edge(law, size)
        assert value == 0 or (value < 0) == (high >> 63 == 1)


def test_large_scales_pass_kolmogorov_smirnov_and_wrong_ones_do_not():
    std = 0.57 * 2**20
    sample = RoundedLaplace(std=std).from_key(KEY, 20_000) / std * math.sqrt(2)
    assert stats.kstest(sample, "laplace").pvalue > LEVEL
    assert stats.kstest(sample * 3 / 2, "laplace").pvalue < LEVEL
    assert stats.kstest(sample * 2 / 3, "laplace").pvalue < LEVEL


@pytest.mark.parametrize("std", [0.0, -1.0, np.nan, np.inf, 2.0**-11, 2.0**37, True, "3"])
def test_scales_out_of_range_are_refused(std):
    with pytest.raises(ConfigError, match="rounded Laplace"):
        RoundedLaplace(std=std)


@pytest.mark.parametrize(
    "words", [np.zeros((3, 2), dtype=np.int64), np.zeros((3, 3), np.uint64), np.zeros(2, np.uint64)]
)
def test_words_of_another_shape_or_type_are_refused(words):
    with pytest.raises(ConfigError, match="words"):
        RoundedLaplace(std=3.0).from_words(words)
