"""Means that were released with noise, and features around them."""

import numpy as np
import pytest

from sottovoce.errors import ConfigError
from sottovoce.problems import centred_features, shrunk_mean


def test_a_mean_without_noise_stays_as_it_is():
    mean = [0.3, -0.1, 0.5, 0.2, -0.7]
    np.testing.assert_allclose(shrunk_mean(mean, std=0.0), mean, rtol=1e-15)


def test_a_mean_that_is_all_noise_becomes_its_average():
    mean = np.array([0.3, -0.1, 0.5, 0.2, -0.7])
    np.testing.assert_array_equal(shrunk_mean(mean, std=10.0), np.full(5, mean.mean()))


def test_shrinking_by_hand():
    # Average 1, rest (2, -2, 1, -1, 0) of energy 10; two directions of noise variance 1 to spare: 1 - 2/10 is kept.
    np.testing.assert_allclose(shrunk_mean([3.0, -1.0, 2.0, 0.0, 1.0], std=1.0), [2.6, -0.6, 1.8, 0.2, 1.0], rtol=1e-15)


def test_a_shrunk_mean_is_closer_to_the_truth_and_not_by_chance():
    """400 draws; the squared error falls by 60 per cent, 58 of its standard errors."""
    generator = np.random.default_rng(0)
    truth, std = -0.5 + 0.2 * np.sin(np.arange(30)), 0.2
    noisy = truth + std * generator.standard_normal((400, 30))
    gains = ((noisy - truth) ** 2).sum(1) - ((np.array([shrunk_mean(row, std=std) for row in noisy]) - truth) ** 2).sum(
        1
    )
    assert gains.mean() > 4 * gains.std() / 20


def test_centred_records_have_length_one_and_forget_the_mean():
    generator = np.random.default_rng(1)
    records, mean = generator.uniform(-1, 1, (7, 4)), np.array([0.5, -0.5, 0.1, 0.0])
    centred = centred_features(records, mean)
    np.testing.assert_allclose(np.linalg.norm(centred, axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(centred[:, :4] / centred[:, 4:], 2 * (records - mean), rtol=1e-12)


@pytest.mark.parametrize("mean", [[0.1], [[0.1, 0.2, 0.3, 0.4]], [0.1, np.nan, 0.0, 0.0], []])
def test_a_mean_that_does_not_fit_is_refused(mean):
    with pytest.raises(ConfigError, match="mean"):
        centred_features(np.zeros((2, 4)), mean)
