"""Masks: the two ends add opposite words, of the law that was asked for."""

import numpy as np
import pytest
from scipy import stats

from sottovoce.deployment.integers import (
    GaussianMasks,
    RoundedGaussian,
    UniformMasks,
    pair_mask,
    signed,
    signed_mask,
    stream_words,
)

GAUSSIAN = GaussianMasks(law=RoundedGaussian(std=50.0))


@pytest.mark.parametrize("masks", [UniformMasks(), GAUSSIAN])
def test_the_two_ends_add_opposite_masks(masks):
    mask = pair_mask(masks, b"k" * 32, 50)
    here, there = signed_mask(mask, own=b"ann", peer=b"bob"), signed_mask(mask, own=b"bob", peer=b"ann")
    assert not (here + there).any()
    assert here.any()
    assert here.dtype == np.uint64


def test_the_lower_key_adds_the_mask_itself():
    # Part of the protocol: two versions that disagree here would both add, or both subtract.
    mask = pair_mask(UniformMasks(), b"k" * 32, 5)
    np.testing.assert_array_equal(signed_mask(mask, own=b"\x00" * 32, peer=b"\x01" + b"\x00" * 31), mask)
    np.testing.assert_array_equal(mask, stream_words(b"k" * 32, 5))


def test_gaussian_masks_have_their_scale_and_no_other():
    sample = signed(pair_mask(GAUSSIAN, b"k" * 32, 20_000)) / 50.0
    uniform = np.random.default_rng(0).uniform(-0.5, 0.5, len(sample)) / 50.0  # undoes the steps of whole numbers
    assert stats.kstest(sample + uniform, "norm").pvalue > 1e-4
    assert stats.kstest((sample + uniform) * 3 / 2, "norm").pvalue < 1e-4
    assert stats.kstest((sample + uniform) * 2 / 3, "norm").pvalue < 1e-4


def test_uniform_masks_fill_the_ring_evenly():
    words = pair_mask(UniformMasks(), b"k" * 32, 40_000)
    for shift in (56, 28, 0):
        counts = np.bincount(((words >> np.uint64(shift)) & np.uint64(255)).astype(int), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-4
    # Power: words of 63 bits would be noticed in the highest byte.
    assert stats.chisquare(np.bincount((words >> np.uint64(57)).astype(int), minlength=256)).pvalue < 1e-4
