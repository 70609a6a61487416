"""The generator: known answers, laws with power, integers, batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.batches import draw_batch
from sottovoce.simulation.rounds.draws import draw_unit


def test_threefry_known_answers():
    """Threefry-2x32-20 vectors of the Random123 distribution (kat_vectors): counter and key all zeros, all ones, digits of pi."""
    vectors = [
        ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]
    for key, counter, expected in vectors:
        words = random.threefry(tuple(map(jnp.uint32, key)), tuple(map(jnp.uint32, counter)))
        assert tuple(int(word) for word in words) == expected


def test_threefry_agrees_with_the_generator_of_jax():
    key = jax.random.key_data(jax.random.key(1234, impl="threefry2x32"))
    folded = jax.random.key_data(jax.random.fold_in(jax.random.key(1234, impl="threefry2x32"), 77))
    ours = random.threefry((key[0], key[1]), (jnp.uint32(0), jnp.uint32(77)))
    np.testing.assert_array_equal(np.asarray(jnp.stack(ours)), np.asarray(folded))


LAWS = {
    "laplace": (sv.noise.Laplace(std=1.0), stats.laplace(scale=0.5**0.5).cdf),
    "gaussian": (sv.noise.Gaussian(std=1.0), stats.norm().cdf),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", LAWS)
def test_unit_draws_follow_their_law_and_a_wrong_scale_is_rejected(kind, dtype):
    """200,000 draws; Kolmogorov-Smirnov at 1e-4 accepts the truth and rejects 2/3 and 3/2 of the scale."""
    law, cdf = LAWS[kind]
    with jax.enable_x64(dtype == "float64"):
        keys = random.repeat_keys(random.seed_words(7), jnp.arange(10), random.NOISE)
        draws = np.asarray(draw_unit(law, keys, jnp.arange(2000), 10, jnp.dtype(dtype)), dtype=float).ravel()
    assert stats.kstest(draws, cdf).pvalue > 1e-4
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(draws * wrong, cdf).pvalue < 1e-4


def test_l2_laplace_has_gamma_radius_and_uncorrelated_coordinates():
    """Radius ~ Gamma(d, 1); coordinate variance d + 1; 20,000 draws in three dimensions, power against 3/2 of the scale."""
    keys = random.repeat_keys(random.seed_words(3), jnp.arange(20), random.NOISE)
    draws = np.moveaxis(
        np.asarray(draw_unit(sv.noise.L2Laplace(scale=1.0), keys, jnp.arange(1000), 3, jnp.float32)), 1, 2
    )
    draws = draws.reshape(-1, 3).astype(float)
    radius = np.linalg.norm(draws, axis=1)
    assert stats.kstest(radius, stats.gamma(3).cdf).pvalue > 1e-4
    assert stats.kstest(1.5 * radius, stats.gamma(3).cdf).pvalue < 1e-4
    covariance = np.cov(draws.T)
    np.testing.assert_allclose(np.diag(covariance), 4.0, rtol=0.06)
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 0.15
    # Direction uniform: the first coordinate of a uniform direction in three dimensions is uniform on [-1, 1].
    assert stats.kstest(draws[:, 0] / radius, stats.uniform(-1, 2).cdf).pvalue > 1e-4


def test_the_length_of_an_l2_laplace_draw_says_nothing_of_its_direction():
    """20,000 draws: a correlation of 0.007 is one standard deviation; one number for both would give -0.47."""
    keys = random.repeat_keys(random.seed_words(3), jnp.arange(20), random.NOISE)
    drawn = draw_unit(sv.noise.L2Laplace(scale=1.0), keys, jnp.arange(1000), 3, jnp.float32)
    draws = np.moveaxis(np.asarray(drawn), 1, 2).reshape(-1, 3).astype(float)
    radius = np.linalg.norm(draws, axis=1)
    for direction in draws.T / radius:
        assert abs(np.corrcoef(radius, direction)[0, 1]) < 0.03
        assert abs(np.corrcoef(radius, direction**2)[0, 1]) < 0.03


def test_draws_of_different_ids_rounds_repeats_and_streams_are_uncorrelated():
    def draws(stream=random.NOISE, repeat=0, t=1, first=0):
        keys = random.round_keys(random.repeat_keys(random.seed_words(1), jnp.array([repeat]), stream), t, 0)
        return np.asarray(draw_unit(sv.noise.Gaussian(std=1.0), keys, first + jnp.arange(500), 20, jnp.float32)).ravel()

    base = draws()
    for other in (draws(stream=random.BATCH), draws(repeat=1), draws(t=2), draws(first=500)):
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.05  # 10,000 pairs: five standard errors
    np.testing.assert_array_equal(base, draws())


@pytest.mark.parametrize("bound", [1, 2, 7, 1000, 65536, 100_003])
def test_below_is_the_high_word_of_the_product(bound):
    words = random.threefry((jnp.uint32(5), jnp.uint32(6)), (jnp.arange(5000, dtype=jnp.uint32), jnp.uint32(0)))
    exact = (np.asarray(words[0]).astype(np.uint64) * np.uint64(bound)) >> np.uint64(32)
    np.testing.assert_array_equal(np.asarray(random.below(words, bound)), exact.astype(np.int32))


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_batches_hold_distinct_records_and_every_subset_is_equally_likely(batch_size):
    sizes = jnp.array([5, 7])
    keys = random.repeat_keys(random.seed_words(0), jnp.arange(20_000), random.BATCH)
    positions = np.asarray(draw_batch(keys, sizes, batch_size))  # [2, B, R]
    for agent, n in enumerate((5, 7)):
        drawn = np.sort(positions[agent], axis=0)
        assert drawn.min() >= 0
        assert drawn.max() < n
        assert (np.diff(drawn, axis=0) > 0).all()
        _, counts = np.unique(drawn, axis=1, return_counts=True)
        if len(counts) > 1:
            assert stats.chisquare(counts).pvalue > 1e-4
            biased = counts.astype(float)
            biased[0] *= 1.5
            assert stats.chisquare(biased * counts.sum() / biased.sum()).pvalue < 1e-4
