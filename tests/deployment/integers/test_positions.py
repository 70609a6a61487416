"""Batches: distinct positions, every set equally likely, tested with power."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sottovoce.deployment.integers import distinct_positions
from sottovoce.deployment.integers.positions import _uniform
from sottovoce.errors import ConfigError

LEVEL = 1e-4


def key(number):
    return number.to_bytes(32, "little")


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))), st.integers(0, 2**64))
def test_positions_are_distinct_in_order_and_within_the_records(sizes, number):
    records, size = sizes
    chosen = distinct_positions(key(number), records, size)
    assert chosen.dtype == np.int64
    assert chosen.shape == (size,)
    assert (np.diff(chosen) > 0).all()
    assert chosen[0] >= 0
    assert chosen[-1] < records


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
def test_every_set_is_equally_likely(size):
    # 7 records: 7 to 35 sets, 6000 draws, at least 170 of each set.
    counts = Counter(tuple(distinct_positions(key(number), 7, size).tolist()) for number in range(6000))
    sets = list(combinations(range(7), size))
    observed = np.array([counts[each] for each in sets])
    assert observed.sum() == 6000
    assert stats.chisquare(observed).pvalue > LEVEL
    # Power: one set twice as often as it should be.
    tilted = observed.copy()
    tilted[0] *= 2
    assert stats.chisquare(tilted).pvalue < LEVEL


def test_every_record_is_as_likely_as_every_other_in_larger_sets():
    counts = np.zeros(1000)
    for number in range(2000):
        counts[distinct_positions(key(number), 1000, 300)] += 1
    # Inclusion counts are binomial(2000, 0.3) with correlation -1/999: their scatter is chi-square with 999 degrees.
    scatter = ((counts - 600) ** 2).sum() / (2000 * 0.3 * 0.7) * 999 / 1000
    assert stats.chi2(999).sf(scatter) > LEVEL
    assert stats.chi2(999).cdf(scatter) > LEVEL


def test_words_that_would_favour_low_positions_are_passed_over():
    # 2^64 = 3 * 6148914691236517205 + 1: the last word alone would give position 0 once too often.
    words = np.array([0, 1, 2**64 - 2, 2**64 - 1], dtype=np.uint64)
    assert _uniform(words, 3).tolist() == [0, 1, 2]
    assert _uniform(words, 2**32).tolist() == [0, 1, 2**32 - 2, 2**32 - 1]
    # With 3 * 2^62 records a quarter of all words is passed over.
    many = np.random.default_rng(0).integers(0, 2**64, 4000, dtype=np.uint64)
    assert abs(len(_uniform(many, 3 * 2**62)) - 3000) < 150


def test_large_batches_of_many_records_are_drawn_at_once():
    chosen = distinct_positions(key(5), 400_000, 150_000)
    assert len(np.unique(chosen)) == 150_000
    assert len(distinct_positions(key(5), 400_000, 399_999)) == 399_999


def test_the_same_key_gives_the_same_batch_and_another_key_another():
    np.testing.assert_array_equal(distinct_positions(key(1), 100, 10), distinct_positions(key(1), 100, 10))
    assert (distinct_positions(key(1), 100, 10) != distinct_positions(key(2), 100, 10)).any()


@pytest.mark.parametrize(("records", "size"), [(5, 6), (5, 0), (0, 0), (5, -1), (5, 2.0), (True, 1)])
def test_batches_that_do_not_fit_are_refused(records, size):
    with pytest.raises(ConfigError, match="batch"):
        distinct_positions(key(0), records, size)
