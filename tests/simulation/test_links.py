"""Random links: how often they fail, which pair is drawn, and who shares a failure."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import sottovoce as sv
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.links import link_arrays, plan_links, weights_of_round


def drawn_weights(topology, repeats, round_=1, seed=0):
    plan = plan_links(topology)
    arrays = jax.tree.map(jnp.asarray, link_arrays(plan))
    keys = random.repeat_keys(random.seed_words(seed), jnp.arange(repeats), random.LINKS)
    link, own = weights_of_round(plan, arrays, jnp.int32(round_), keys)
    return np.asarray(link), np.asarray(own)


def test_links_fail_with_the_probability_asked_for_and_both_directions_together():
    """8000 rounds of 10 pairs: a binomial test at 1e-4 accepts 0.2 and rejects 0.15 and 0.25 for the pooled count."""
    topology = sv.topologies.complete(5).with_dropout(0.2)
    link, own = drawn_weights(topology, 8000)
    failed = link == 0
    per_pair = np.stack([failed[topology.link_pairs == pair] for pair in range(topology.num_pairs)])  # [P, 2, R]
    np.testing.assert_array_equal(per_pair[:, 0], per_pair[:, 1])
    count, total = int(per_pair[:, 0].sum()), per_pair[:, 0].size
    assert stats.binomtest(count, total, 0.2).pvalue > 1e-4
    for wrong in (0.15, 0.25):
        assert stats.binomtest(count, total, wrong).pvalue < 1e-4
    for pair in per_pair[:, 0]:
        assert stats.binomtest(int(pair.sum()), len(pair), 0.2).pvalue > 1e-5
    np.testing.assert_allclose(own + 0.2 * (~failed).reshape(5, 4, -1).sum(axis=1), 1.0, atol=1e-6)
    correlation = np.corrcoef(per_pair[:, 0])
    assert np.abs(correlation - np.eye(topology.num_pairs)).max() < 0.06  # five standard errors


def test_every_pair_is_drawn_equally_often_and_a_missing_pair_would_be_noticed():
    topology = sv.topologies.complete(5).with_random_pair()
    link, _ = drawn_weights(topology, 6000)
    active = np.stack([link[topology.link_pairs == pair][0] == 0.5 for pair in range(topology.num_pairs)])
    np.testing.assert_array_equal(active.sum(axis=0), 1)
    counts = active.sum(axis=1)
    assert stats.chisquare(counts).pvalue > 1e-4
    without_last = np.concatenate([counts[:-1] + counts[-1] / 9, [0]])
    assert stats.chisquare(without_last).pvalue < 1e-4


def test_a_pair_of_agents_fails_together_in_two_topologies_and_different_pairs_independently():
    ring, path = sv.topologies.ring(6).with_dropout(0.5), sv.topologies.path(6).with_dropout(0.5)
    (left, _), (right, _) = drawn_weights(ring, 3000), drawn_weights(path, 3000)

    def failures(topology, link):
        return {tuple(map(int, p)): link[topology.link_pairs == i][0] == 0 for i, p in enumerate(topology.pairs)}

    first, second = failures(ring, left), failures(path, right)
    for pair, series in second.items():
        np.testing.assert_array_equal(first[pair], series)
    assert abs(np.corrcoef(first[0, 1], second[2, 3])[0, 1]) < 0.1


def test_rounds_and_seeds_have_their_own_failures():
    topology = sv.topologies.complete(5).with_dropout(0.5)
    base = drawn_weights(topology, 50)[0]
    assert not np.array_equal(base, drawn_weights(topology, 50, round_=2)[0])
    assert not np.array_equal(base, drawn_weights(topology, 50, seed=1)[0])
