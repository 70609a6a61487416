"""Rounded Gaussian draws: against mpmath at the edges, goodness of fit with power, and their stated error."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from sottovoce.deployment.integers import RoundedGaussian, stream_words
from sottovoce.deployment.integers.rounded_gaussian import _FARTHEST, upper_tail
from sottovoce.deployment.integers.tail_comparison import DOUBT as _DOUBT
from sottovoce.errors import ConfigError

KEY = b"a fixed key for the tests, 32 by"
LEVEL = 1e-4


def tail(point):
    """Q(point) to 60 digits, for a fraction."""
    with mpmath.workdps(60):
        return mpmath.erfc(mpmath.mpf(point.numerator) / point.denominator / mpmath.sqrt(2)) / 2


def edge(size, std):
    """Number of V for which |X| >= size: V + 1/2 < 2^128 Q."""
    with mpmath.workdps(60):
        return int(mpmath.ceil(tail(Fraction(2 * size - 1, 2) / Fraction(std)) * 2**128 - mpmath.mpf("0.5")))


def draw(law, tails, negative=False):
    words = [[(v >> 64) | (negative << 63), v & (2**64 - 1)] for v in tails]
    return law.from_words(np.array(words, dtype=np.uint64)).tolist()


def draws(std, count):
    return RoundedGaussian(std=std).from_words(stream_words(KEY, 2 * count).reshape(count, 2))


@pytest.mark.parametrize("text", ["0", "1/7", "1", "5/2", "8", "13", "14"])
def test_upper_tail_equals_mpmath(text):
    point = Fraction(text)
    with mpmath.workdps(60):
        assert abs(mpmath.mpf(str(upper_tail(point))) - tail(point)) < mpmath.mpf("1e-58")


@settings(max_examples=150)
@given(st.sampled_from([0.3, 0.7, 3.0, 1000.0, 65536.0, 0.57 * 2**20, 2.0**33]), st.floats(0.0, 13.0))
def test_the_last_number_of_128_bits_before_an_edge_falls_on_its_own_side(std, place):
    size = max(1, round(place * std))
    if (size - 0.5) / std > 13.0:
        return
    law, first_below = RoundedGaussian(std=std), edge(size, std)
    reached, missed = draw(law, [first_below - 1, first_below])
    assert missed < size <= reached
    # Far out the 2^128 equally likely numbers are so few that one step of them passes several integers.
    assert place > 8 or (missed, reached) == (size - 1, size)
    assert draw(law, [first_below - 1, first_below], negative=True) == [-reached, -missed]


def test_random_draws_equal_the_quantile_found_by_mpmath():
    law = RoundedGaussian(std=12.5)
    words = np.random.default_rng(1).integers(0, 2**64, size=(300, 2), dtype=np.uint64)
    for value, (high, low) in zip(law.from_words(words), words.tolist(), strict=True):
        v = ((high & (2**63 - 1)) << 64) | low
        size = abs(int(value))
        assert v >= edge(size + 1, law.std)
        assert size == 0 or v < edge(size, law.std)
        assert value == 0 or (value < 0) == (high >> 63 == 1)


def test_floating_point_quantile_is_a_thousand_times_better_than_assumed():
    generator = np.random.default_rng(2)
    points = np.concatenate([generator.uniform(0, 13.1, 200), generator.uniform(0, 1e-3, 50)])
    for point in points:
        chance = tail(Fraction(float(point)))
        assert abs(-ndtri(float(chance)) - point) < _DOUBT / 1000 * max(1.0, point)


def test_stated_total_variation_covers_the_exact_one():
    std = 0.8
    law = RoundedGaussian(std=std)
    with mpmath.workdps(60):
        sizes = range(1, law.bound + 3)
        true = [tail(Fraction(2 * size - 1, 2) / Fraction(std)) for size in sizes]
        ours = [mpmath.mpf(max(0, edge(size, std))) / 2**128 for size in sizes]
        # Per sign, P(|X| = j) is the difference of neighbouring tails.
        error = [
            abs((t0 - t1) - (o0 - o1))
            for t0, t1, o0, o1 in zip(true, [*true[1:], 0], ours, [*ours[1:], 0], strict=True)
        ]
        middle = abs((1 - 2 * true[0]) - (1 - 2 * ours[0]))
        variation = (2 * mpmath.fsum(error) + middle) / 2
    assert 0 < variation <= law.total_variation
    assert law.total_variation == (math.floor(13.2 * std + 1) + 1) * 2.0**-128


def test_nothing_lies_beyond_the_bound():
    assert tail(Fraction(_FARTHEST)) < mpmath.mpf(2) ** -129
    for std in (0.6, 1000.0, 2.0**36):
        law = RoundedGaussian(std=std)
        assert 13.1 * std - 1 < draw(law, [0])[0] <= law.bound
        assert draw(law, [2**127 - 1]) == [0]


@pytest.mark.parametrize("std", [0.7, 3.0, 40.0])
def test_goodness_of_fit_accepts_the_scale_and_rejects_two_thirds_and_three_halves(std):
    # 20000 draws: at 3/2 of the scale the spread differs by 50 %, a hundred times its standard error.
    sample = draws(std, 20_000)

    def p_value(scale):
        width = math.ceil(2.5 * std)
        inner = np.arange(-width, width)
        law = stats.norm(scale=scale)
        bounds = np.concatenate([[-np.inf], inner + 0.5, [np.inf]])
        observed = np.histogram(np.clip(sample, -width, width), bins=np.arange(-width - 0.5, width + 1))[0]
        return stats.chisquare(observed, len(sample) * np.diff(law.cdf(bounds))).pvalue

    assert p_value(std) > LEVEL
    assert p_value(std * 2 / 3) < LEVEL
    assert p_value(std * 3 / 2) < LEVEL


def test_large_scales_pass_kolmogorov_smirnov_and_wrong_ones_do_not():
    std = 0.57 * 2**20
    sample = draws(std, 20_000) / std
    assert stats.kstest(sample, "norm").pvalue > LEVEL
    assert stats.kstest(sample * 3 / 2, "norm").pvalue < LEVEL
    assert stats.kstest(sample * 2 / 3, "norm").pvalue < LEVEL


def test_neighbouring_draws_are_uncorrelated():
    sample = draws(1000.0, 40_000).astype(float)
    assert abs(np.corrcoef(sample[:-1], sample[1:])[0, 1]) < 4 / math.sqrt(40_000)


def test_a_draw_takes_two_words_whatever_its_value():
    law = RoundedGaussian(std=5.0)
    words = stream_words(KEY, 200).reshape(100, 2)
    assert law.from_words(words[17:18])[0] == law.from_words(words)[17]
    np.testing.assert_array_equal(law.from_words(words.reshape(4, 25, 2)), law.from_words(words).reshape(4, 25))


@pytest.mark.parametrize("std", [0.0, -1.0, np.nan, np.inf, 2.0**-11, 2.0**37, True, "3"])
def test_scales_out_of_range_are_refused(std):
    with pytest.raises(ConfigError, match="rounded Gaussian"):
        RoundedGaussian(std=std)


@pytest.mark.parametrize(
    "words", [np.zeros((3, 2), dtype=np.int64), np.zeros((3, 3), np.uint64), np.zeros(2, np.uint64)]
)
def test_words_of_another_shape_or_type_are_refused(words):
    with pytest.raises(ConfigError, match="words"):
        RoundedGaussian(std=3.0).from_words(words)


def test_the_series_is_not_used_outside_its_range():
    with pytest.raises(ConfigError, match="tail"):
        upper_tail(Fraction(15))
    with pytest.raises(ConfigError, match="tail"):
        upper_tail(Fraction(-1))
