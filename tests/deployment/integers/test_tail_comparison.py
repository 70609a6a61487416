"""Draws by comparison with a tail, of both laws: every cell against mpmath, fit with power, stated error."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import stats

from deployment.integers.tails import draw, edge, exact_tail
from sottovoce.deployment.integers import RoundedGaussian, RoundedLaplace, stream_words
from sottovoce.deployment.integers.tail_comparison import DOUBT, LONG, SHORT, from_words

KEY = b"a fixed key for the tests, 32 by"
LEVEL = 1e-4
LAWS = [RoundedGaussian, RoundedLaplace]


@pytest.mark.parametrize("law", [RoundedLaplace(std=0.7), RoundedLaplace(std=1e6 / 3), RoundedGaussian(std=1e6 / 3)])
def test_decimal_tails_have_the_digits_that_the_comparison_counts_on(law):
    for size in (1, 2, round(law.std), round(8 * law.std) + 1):
        exact = exact_tail(law, size)
        with mpmath.workdps(60):
            assert abs(mpmath.mpf(str(law.tail_beyond(size, SHORT))) - exact) < mpmath.mpf("1e-32")
            assert abs(mpmath.mpf(str(law.tail_beyond(size, LONG))) - exact) < mpmath.mpf("1e-57")


@pytest.mark.parametrize("law", [kind(std=std) for kind in LAWS for std in (0.4, 0.8, 2.5)], ids=str)
def test_every_cell_has_the_probability_of_its_thresholds_and_the_stated_error_covers_the_exact_one(law):
    edges = [2**127, *(edge(law, size) for size in range(1, law.bound + 3))]
    assert edges[law.bound + 1] == 0  # nothing lies beyond the bound
    variation = mpmath.mpf(0)
    with mpmath.workdps(60):
        for size, (upper, lower) in enumerate(pairwise(edges)):
            # The sampler's own cell ends exactly at these numbers.
            ends = [v for v in (upper - 1, lower) if lower <= v < upper]
            assert not ends or draw(law, ends) == [size] * len(ends)
            ours = mpmath.mpf(upper - lower) / 2**127
            before = exact_tail(law, size) if size else mpmath.mpf("0.5")
            true = 2 * (before - exact_tail(law, size + 1))
            # Zero is one cell of X; any other size is two cells with half of it each.
            variation += abs(ours - true) / 2
    assert 0 < variation <= law.total_variation
    assert law.total_variation == (law.bound + 1) * 2.0**-128


@pytest.mark.parametrize("std", [0.7, 3.0, 40.0])
@pytest.mark.parametrize("kind", LAWS)
def test_goodness_of_fit_accepts_the_scale_and_rejects_two_thirds_and_three_halves(kind, std):
    # 20000 draws: at 3/2 of the scale the spread differs by 50 %, a hundred times its standard error.
    sample = kind(std=std).from_key(KEY, 20_000)
    shape = stats.norm if kind is RoundedGaussian else stats.laplace

    def p_value(scale):
        width = math.ceil(2.5 * std)
        inner = np.arange(-width, width)
        law = shape(scale=scale if kind is RoundedGaussian else scale / math.sqrt(2))
        bounds = np.concatenate([[-np.inf], inner + 0.5, [np.inf]])
        observed = np.histogram(np.clip(sample, -width, width), bins=np.arange(-width - 0.5, width + 1))[0]
        return stats.chisquare(observed, len(sample) * np.diff(law.cdf(bounds))).pvalue

    assert p_value(std) > LEVEL
    assert p_value(std * 2 / 3) < LEVEL
    assert p_value(std * 3 / 2) < LEVEL


@pytest.mark.parametrize("kind", LAWS)
def test_neither_law_passes_for_the_other(kind):
    sample = kind(std=1e6).from_key(KEY, 20_000) / 1e6
    shapes = {RoundedGaussian: stats.norm(), RoundedLaplace: stats.laplace(scale=math.sqrt(0.5))}
    for other, shape in shapes.items():
        assert (stats.kstest(sample, shape.cdf).pvalue > LEVEL) == (other is kind)


@pytest.mark.parametrize(
    "law", [RoundedGaussian(std=1e6), RoundedLaplace(std=1e6), RoundedLaplace(std=2.0**33)], ids=str
)
def test_draws_of_a_key_are_those_of_its_words_however_many_are_taken_at_a_time(law):
    words = stream_words(KEY, 2 * 40_000).reshape(-1, 2)[: 40_000 if law.std < 2**30 else 300]
    drawn = law.from_words(words)
    np.testing.assert_array_equal(law.from_key(KEY, len(words)), drawn)
    np.testing.assert_array_equal(law.from_key(KEY, 37), drawn[:37])
    np.testing.assert_array_equal(law.from_words(words[17:18]), drawn[17:18])
    np.testing.assert_array_equal(law.from_words(words[:300].reshape(3, 100, 2)), drawn[:300].reshape(3, 100))
    assert law.from_key(KEY, 0).shape == (0,)


# Both ends of a pair must draw these, whichever version they run. The stream is ChaCha20 of KEY.
GOLDEN = {
    RoundedGaussian(std=1e6): [848919, 354665, 729878, 1024365, 603934, -1904335, -333882, -393512],
    RoundedGaussian(std=2.0**33): [7292160829, 3046552733, 6269607076, 8799227635],
    RoundedGaussian(std=0.7): [1, 0, 1, 1, 0, -1, 0, 0, 1, 0, -1, -1],
    RoundedLaplace(std=1e6): [655154, 229504, 540738, 838114, 428041, -2027309, -214378, -258354],
    RoundedLaplace(std=2.0**33): [5627728241, 1971420397, 4644905878, 7199344935],
    RoundedLaplace(std=0.7): [0, 0, 0, 1, 0, -1, 0, 0, 0, 0, 0, -1],
}


@pytest.mark.parametrize("law", GOLDEN, ids=str)
def test_draws_of_a_key_are_the_quantiles_that_mpmath_inverts_and_stay_so(law):
    words = stream_words(KEY, 2 * len(GOLDEN[law])).reshape(-1, 2).tolist()
    found = []
    with mpmath.workdps(60):
        for high, low in words:
            chance = (mpmath.mpf(((high & (2**63 - 1)) << 64) | low) + mpmath.mpf("0.5")) / 2**128
            if isinstance(law, RoundedGaussian):
                place = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * chance)
            else:
                place = -mpmath.log(2 * chance) / mpmath.sqrt(2)
            found.append(int(mpmath.nint(place * mpmath.mpf(law.std))) * (-1 if high >> 63 else 1))
    assert law.from_key(KEY, len(found)).tolist() == found == GOLDEN[law]


@pytest.mark.parametrize("law", [RoundedGaussian(std=2.0**33), RoundedLaplace(std=2.0**33)], ids=str)
def test_where_floating_point_is_in_doubt_draws_equal_those_of_exact_arithmetic(law):
    # At 2^33 one draw in 64 or so is in doubt; with all of them decided exactly the numbers are the same.
    words = stream_words(KEY, 600).reshape(-1, 2)
    for value, (high, low) in zip(law.from_words(words).tolist(), words.tolist(), strict=True):
        v = ((high & (2**63 - 1)) << 64) | low
        assert edge(law, abs(value) + 1) <= v
        assert value == 0 or v < edge(law, abs(value))


class AnotherMachine:
    """A law whose quantile in floating point is off by a given share of its scale, up and down by turns."""

    def __init__(self, law, error):
        self.doubt, self.tail_beyond = law.doubt, law.tail_beyond
        self.law, self.error = law, error * law.std

    def quantile(self, tail):
        self.law.quantile(tail)
        tail[::2] += self.error
        tail[1::2] -= self.error


@pytest.mark.parametrize("law", [RoundedGaussian(std=2.0**32), RoundedLaplace(std=2.0**32)], ids=str)
def test_machines_whose_quantiles_differ_by_what_is_assumed_draw_the_same_integers(law):
    # 2^-41 is 2^-9 units here: about one draw in 256 would be another one, were it not in doubt.
    words = stream_words(KEY, 2 * 3000).reshape(-1, 2)
    drawn = law.from_words(words)
    np.testing.assert_array_equal(from_words(AnotherMachine(law, 2.0**-41), words), drawn)
    np.testing.assert_array_equal(from_words(AnotherMachine(law, -(2.0**-41)), words), drawn)
    # Power: a machine that is worse than the margin would be noticed.
    assert (from_words(AnotherMachine(law, 2.0**-38), words) != drawn).any()


def cells(law, reach):
    """P(X = j) for |j| <= reach, exactly as in the definition, and as the sampler has them."""
    with mpmath.workdps(50):
        true = [2 * (mpmath.mpf("0.5") - exact_tail(law, 1))]
        true += [exact_tail(law, size) - exact_tail(law, size + 1) for size in range(1, reach + 1)]
        ours = [2 * mpmath.mpf(2**127 - edge(law, 1)) / 2**128]
        ours += [mpmath.mpf(edge(law, size) - edge(law, size + 1)) / 2**128 for size in range(1, reach + 1)]
    numbers = range(-reach, reach + 1)
    return {number: true[abs(number)] for number in numbers}, {number: ours[abs(number)] for number in numbers}


def gained(probabilities, change, factor):
    """The largest P(S) - factor P(S + change) over all sets S of whole numbers: the hockey-stick divergence."""
    with mpmath.workdps(50):
        return mpmath.fsum(
            max(0, here - factor * probabilities.get(number - change, 0)) for number, here in probabilities.items()
        )


@pytest.mark.parametrize("change", [1, 2, 5])
@pytest.mark.parametrize("std", [0.6, 2.0, 4.5])
def test_a_whole_change_costs_in_laplace_noise_what_it_costs_in_real_numbers(std, change):
    law = RoundedLaplace(std=std)
    true, ours = cells(law, law.bound + 1)
    with mpmath.workdps(50):
        factor = mpmath.exp(change * mpmath.sqrt(2) / mpmath.mpf(std))
        ratios = [true[number] / true[number - change] for number in range(-12, 13)]
        # Away from zero the ratio is that of the density, so that epsilon is not smaller either.
        assert abs(max(ratios) / factor - 1) < mpmath.mpf("1e-40")
        # The sampler itself: up to its total variation, in each of the two worlds.
        assert gained(ours, change, factor) <= (1 + factor) * law.total_variation
        # Power: at two thirds of the scale more is gained than rounding and sampler explain.
        assert gained(cells(RoundedLaplace(std=std * 2 / 3), law.bound)[1], change, factor) > 1e-3


@pytest.mark.parametrize("change", [1, 2])
@pytest.mark.parametrize("std", [0.6, 2.0, 4.5])
def test_a_whole_change_costs_in_gaussian_noise_at_most_what_it_costs_in_real_numbers(std, change):
    law = RoundedGaussian(std=std)
    true, ours = cells(law, law.bound + 1)
    with mpmath.workdps(50):
        mu = mpmath.mpf(change) / mpmath.mpf(std)
        for epsilon in (mpmath.mpf(0), mu / 2, mu, mu + mu**2):
            factor = mpmath.exp(epsilon)
            delta = mpmath.ncdf(mu / 2 - epsilon / mu) - factor * mpmath.ncdf(-mu / 2 - epsilon / mu)
            assert gained(true, change, factor) <= delta + mpmath.mpf("1e-38")
            assert gained(ours, change, factor) <= delta + (1 + factor) * law.total_variation
        # Power: at two thirds of the scale the last, largest epsilon is exceeded.
        assert gained(cells(RoundedGaussian(std=std * 2 / 3), law.bound)[1], change, factor) > delta


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAWS)
def test_quantiles_in_floating_point_keep_to_what_is_assumed_of_them_everywhere(kind):
    # From the middle to the last probability, in every piece of the approximations.
    generator = np.random.default_rng(3)
    tails = np.concatenate([2.0 ** -generator.uniform(1, 128, 15_000), generator.uniform(0, 0.5, 15_000)])
    tails = np.concatenate([tails, 0.5 - 2.0 ** -generator.uniform(1, 53, 2_000), [2.0**-129, 0.5]])
    places = tails.copy()
    kind(std=1.0).quantile(places)
    with mpmath.workdps(40):
        for place, tail in zip(places, tails, strict=True):
            point, chance = mpmath.mpf(place), mpmath.mpf(tail)
            if kind is RoundedLaplace:
                error = point + mpmath.log(2 * chance) / mpmath.sqrt(2)
            else:  # One step of Newton's method: what is left of the quantile's error is its square.
                error = (chance - mpmath.erfc(point / mpmath.sqrt(2)) / 2) / mpmath.npdf(point)
            assert abs(error) < DOUBT / 16
