"""Sums on a ring: what the token computes, and how little noise that takes."""

import math

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from sottovoce.algorithms.ring_sum import noisy_hops, ring_sum


def values(K, n, d=2):
    return np.random.default_rng(1).normal(size=(K, n, d))


def test_a_pass_by_hand():
    x = np.array([[[1.0], [2.0], [4.0], [8.0]], [[16.0], [32.0], [64.0], [128.0]]])
    found = ring_sum(x, std=3.0, seed=2)
    z = 3.0 * np.random.default_rng(2).standard_normal(3)  # hops 0, 3 and 6 of 8
    np.testing.assert_allclose(found.noises[:, 0], [z[0], 0, 0, z[1], 0, 0, z[2], 0])
    np.testing.assert_allclose(found.tokens[3, 0], 15 + z[0] + z[1])
    np.testing.assert_allclose(found.result, [255 + z.sum()])


@pytest.mark.parametrize(("n", "K"), [(3, 1), (5, 4), (5, 7), (20, 3), (20, 38)])
def test_every_agent_finds_one_new_noise_in_all_it_receives(n, K):
    noisy = noisy_hops(n, K)
    assert noisy.sum() == math.ceil(K * n / (n - 1))
    for v in range(n):
        turns = [k * n + v for k in range(K)]
        for start, end in zip([-1, *turns], turns, strict=False):
            assert noisy[start + 1 : end].sum() == (1 if end > 0 else 0)  # agent 0 begins with nothing received


def test_without_noise_the_result_is_the_sum():
    x = values(3, 6)
    np.testing.assert_allclose(ring_sum(x, std=0.0, seed=0).result, x.sum(axis=(0, 1)), atol=1e-12)


def test_the_error_is_that_of_the_few_noises_and_one_noise_for_every_hop_would_be_noticed():
    x, std, n, K = values(4, 11, 1), 0.7, 11, 4
    errors = np.array([ring_sum(x, std=std, seed=seed).result[0] for seed in range(2000)]) - x.sum()
    assert stats.kstest(errors / (std * math.sqrt(5)), "norm").pvalue > 1e-3

    def agrees(noises):
        low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], 2000)
        return low < (errors**2).sum() / (noises * std**2) < high

    assert agrees(math.ceil(K * n / (n - 1)))
    assert not agrees(math.floor(K * n / (n - 1)))  # the printed number
    assert not agrees(K * n)


def test_the_same_seed_gives_the_same_token_and_another_one_does_not():
    x = values(2, 5)
    first = ring_sum(x, std=1.0, seed=3)
    np.testing.assert_array_equal(first.tokens, ring_sum(x, std=1.0, seed=3).tokens)
    assert not np.array_equal(first.tokens, ring_sum(x, std=1.0, seed=4).tokens)


@pytest.mark.parametrize(
    "given", [np.zeros((2, 5)), np.zeros((2, 5, 0)), np.full((1, 4, 1), np.nan), np.full((1, 4, 1), np.inf)]
)
def test_values_are_finite_and_have_three_axes(given):
    with pytest.raises(sv.ConfigError, match="values of shape"):
        ring_sum(given, std=1.0, seed=0)


@pytest.mark.parametrize("std", [-1.0, math.nan, math.inf, True, "1"])
def test_a_std_is_a_finite_number(std):
    with pytest.raises(sv.ConfigError, match="std = "):
        ring_sum(values(1, 4), std=std, seed=0)


@pytest.mark.parametrize(
    ("n", "K", "name"), [(2, 1, "num_agents"), (True, 1, "num_agents"), (4, 0, "passes"), (4, 1.5, "passes")]
)
def test_rings_have_three_agents_and_one_pass_at_least(n, K, name):
    with pytest.raises(sv.ConfigError, match=f"{name} = "):
        noisy_hops(n, K)
