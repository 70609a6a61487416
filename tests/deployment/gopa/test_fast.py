"""The fast form: exact for any graph and any silence, and fast enough for a million parties."""

import resource
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.deployment.gopa import (
    GaussianMasks,
    RoundedGaussian,
    Sources,
    UniformMasks,
    k_out_edges,
    play_blocks,
    play_round,
    simulated_sources,
)
from sottovoce.errors import ConfigError

OWN = RoundedGaussian(std=100.0)
GAUSSIAN = GaussianMasks(law=RoundedGaussian(std=3000.0))


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 3), st.floats(0, 1), st.floats(0, 1))
def test_sum_is_exact_for_any_graph_and_any_silence_after_repair(seed, num_parties, dimension, density, presence):
    generator, sources, units = arbitrary(seed, num_parties, dimension, density)
    for _ in range(6):  # 3000 cases in all
        active, survivors = generator.random((2, num_parties)) < presence
        played = play_round(units, sources, active=active, survivors=survivors)
        counted = np.flatnonzero(active & survivors).tolist()
        expected = [
            sum(int(units[party, entry]) + int(sources.own_noise[party, entry]) for party in counted)
            for entry in range(dimension)
        ]
        assert played.total.view(np.int64).tolist() == expected
        assert played.residual_masks == 0
        assert not played.published[~(active & survivors)].any()


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 10), st.floats(0.2, 1))
def test_what_is_not_repaired_is_exactly_the_masks_that_are_missing(seed, num_parties, density):
    generator, sources, units = arbitrary(seed, num_parties, 1, density)
    survivors, repaired = generator.random((2, num_parties)) < 0.6
    played = play_round(units, sources, survivors=survivors, repaired=repaired)
    left, count = 0, 0
    for (plus, minus), mask in zip(sources.edges.tolist(), sources.masks[:, 0].tolist(), strict=True):
        for end, other, sign in ((plus, minus, 1), (minus, plus, -1)):
            if survivors[end] and not survivors[other] and not repaired[end]:
                left, count = left + sign * mask, count + 1
    exact = sum(int(v) for v in (units + sources.own_noise)[survivors, 0])
    assert int(played.total[0]) == (exact + left) % 2**64
    assert played.residual_masks == count


def arbitrary(seed, num_parties, dimension, density):
    """Any graph with any masks, each edge in either direction."""
    generator = np.random.default_rng(seed)
    low, high = np.nonzero(np.triu(generator.random((num_parties, num_parties)) < density, 1))
    turned = generator.random(len(low)) < 0.5
    edges = np.stack([np.where(turned, high, low), np.where(turned, low, high)], axis=1)
    masks = generator.integers(0, 2**64, size=(len(edges), dimension), dtype=np.uint64)
    noise = generator.integers(-(2**40), 2**40, size=(num_parties, dimension))
    units = generator.integers(-(2**40), 2**40, size=(num_parties, dimension))
    return generator, Sources(edges, masks, noise), units


def test_simulated_sources_have_the_stated_shapes_and_repeat_with_their_seed():
    settings_ = {"num_parties": 200, "dimension": 3, "out_degree": 4, "own_noise": OWN, "masks": UniformMasks()}
    first, again, other = (simulated_sources(seed, **settings_) for seed in (1, 1, 2))
    assert first.masks.shape == (len(first.edges), 3)
    assert first.own_noise.shape == (200, 3)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(first.own_noise, other.own_noise)
    generator = np.random.Generator(np.random.Philox(1))
    np.testing.assert_array_equal(first.edges, k_out_edges(generator.bytes(32), num_parties=200, out_degree=4))


def test_simulated_noise_and_gaussian_masks_have_their_scales():
    # 6000 own entries and at least 20000 masks: standard errors of the scales 0.9 % and 0.5 %.
    masks = GaussianMasks(law=RoundedGaussian(std=3000.0))
    sources = simulated_sources(4, num_parties=2000, dimension=3, out_degree=4, own_noise=OWN, masks=masks)
    assert abs(sources.own_noise.std() / 100 - 1) < 0.04
    assert abs(sources.masks.view(np.int64).std() / 3000 - 1) < 0.02


def test_wrong_shapes_and_types_are_refused():
    _, sources, units = arbitrary(0, 5, 2, 0.5)
    for bad in (units[:, :1], units.astype(float), units[:3], units.ravel()):
        with pytest.raises(ConfigError, match="vectors"):
            play_round(bad, sources)
    for choice in (np.ones(4, dtype=bool), np.arange(5), np.ones((5, 1), dtype=bool)):
        with pytest.raises(ConfigError, match="booleans"):
            play_round(units, sources, survivors=choice)
    with pytest.raises(ConfigError, match="masks"):
        play_round(units, sources._replace(masks=sources.masks[:, :1]))


@given(st.integers(0, 2**32), st.integers(1, 7), st.sampled_from([UniformMasks(), GAUSSIAN]))
def test_blocks_are_one_round_entry_by_entry_with_the_same_pairs(seed, block, masks):
    generator = np.random.default_rng(seed)
    units, survivors = generator.integers(-(2**40), 2**40, size=(9, 5)), generator.random(9) < 0.7
    blocks = list(play_blocks(units, seed, out_degree=3, own_noise=OWN, masks=masks, survivors=survivors, block=block))
    assert [one.columns.start for one in blocks] == list(range(0, 5, block))
    for one in blocks:
        again = play_round(units[:, one.columns], one.sources, survivors=survivors)
        for part, expected in zip(one.played, again, strict=True):
            np.testing.assert_array_equal(part, expected)
        np.testing.assert_array_equal(one.sources.edges, blocks[0].sources.edges)
    noise = np.concatenate([one.sources.own_noise for one in blocks], axis=1)
    total = np.concatenate([one.played.total for one in blocks]).view(np.int64)
    assert total.tolist() == (units + noise)[survivors].sum(axis=0).tolist()


def test_one_block_of_all_entries_has_the_simulated_sources():
    units = np.zeros((50, 4), dtype=np.int64)
    (one,) = play_blocks(units, 3, out_degree=5, own_noise=OWN, masks=UniformMasks())
    expected = simulated_sources(3, num_parties=50, dimension=4, out_degree=5, own_noise=OWN, masks=UniformMasks())
    for part, same in zip(one.sources, expected, strict=True):
        np.testing.assert_array_equal(part, same)


def test_masks_of_different_blocks_are_fresh():
    units = np.zeros((20, 6), dtype=np.int64)
    first, second = play_blocks(units, 3, out_degree=5, own_noise=OWN, masks=UniformMasks(), block=3)
    assert not np.isin(first.sources.masks, second.sources.masks).any()


@pytest.mark.parametrize(("scale", "accepted"), [(1.0, True), (2 / 3, False), (3 / 2, False)])
def test_average_over_many_entries_has_the_variance_of_own_noise_and_no_other(scale, accepted):
    # 4000 entries: the relative standard error of the variance is 2.2 %; the bounds are five of them away.
    own = RoundedGaussian(std=scale * 1000.0)
    units = np.random.default_rng(0).integers(-(2**20), 2**20, size=(60, 4000))
    errors = [
        one.played.total.view(np.int64) - units[:, one.columns].sum(axis=0)
        for one in play_blocks(units, 1, out_degree=10, own_noise=own, masks=UniformMasks(), block=512)
    ]
    variance = (np.concatenate(errors) / 60).var()
    assert (abs(variance / (1000.0**2 / 60) - 1) < 0.11) == accepted


@pytest.mark.parametrize("units", [np.zeros((5, 2)), np.zeros(5, dtype=np.int64), np.zeros((5, 2), dtype=np.uint64)])
def test_blocks_refuse_wrong_shapes_and_types(units):
    with pytest.raises(ConfigError, match="vectors"):
        next(play_blocks(units, 0, out_degree=2, own_noise=OWN, masks=UniformMasks()))


@pytest.mark.parametrize("block", [0, -1, 2.0, True])
def test_block_sizes_out_of_range_are_refused(block):
    with pytest.raises(ConfigError, match="block"):
        next(
            play_blocks(
                np.zeros((5, 2), dtype=np.int64), 0, out_degree=2, own_noise=OWN, masks=UniformMasks(), block=block
            )
        )


def test_blocks_refuse_choices_that_are_not_one_truth_value_per_party():
    units = np.zeros((5, 2), dtype=np.int64)
    with pytest.raises(ConfigError, match="booleans"):
        next(play_blocks(units, 0, out_degree=2, own_noise=OWN, masks=UniformMasks(), survivors=np.arange(5)))


@pytest.mark.slow
def test_a_million_parties_take_less_than_a_minute_and_eight_gigabytes():
    begin = time.perf_counter()
    sources = simulated_sources(
        0, num_parties=10**6, dimension=1, out_degree=20, own_noise=RoundedGaussian(std=2500.0), masks=UniformMasks()
    )
    generator = np.random.default_rng(1)
    units = generator.integers(-(2**24), 2**24, size=(10**6, 1))
    survivors = generator.random(10**6) > 0.01
    played = play_round(units, sources, survivors=survivors)
    assert time.perf_counter() - begin < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 8e6  # kB
    assert played.total.view(np.int64)[0] == (units + sources.own_noise)[survivors].sum()
