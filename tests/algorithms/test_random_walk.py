"""A walking token: the law of its path, what it computes, and what is refused."""

import itertools

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv

STEP = 0.1
NONE = sv.noise.none()


def regression(K, n=5, d=3):
    generator = np.random.default_rng(0)
    return sv.problems.linear_regression(generator.normal(size=(K, n, d)), generator.normal(size=(K, n)), ridge=0.1)


def run(topology, algorithm, noise=NONE, *, given=None, rounds=50, **more):
    options = {"dtype": "float64", "progress": False, "seed": 4, **more}
    return sv.simulate(given or regression(topology.num_agents), topology, algorithm, noise, rounds=rounds, **options)


def by_hand(given, path, *, contributions):
    models, seen = np.zeros((given.num_agents, given.dimension)), np.zeros(given.num_agents, dtype=int)
    for u, v in itertools.pairwise(path):
        gradient = given.gradient(models[u], {name: values[u] for name, values in given.arrays.items()})
        models[u] = models[u] - STEP * gradient * (seen[u] < contributions)
        seen[u] += 1
        models[v] = models[u]
    return models


@pytest.mark.parametrize("contributions", [None, 2])
def test_the_token_takes_the_steps_of_whoever_holds_it(contributions):
    topology = sv.topologies.grid(3, 4).with_walk()
    found = run(topology, sv.algorithms.random_walk(step_size=STEP, contributions=contributions), rounds=70, repeats=3)
    given, paths = regression(12), sv.topologies.walk_paths(topology, 70, seed=4, repeats=3)
    for path, models, loss in zip(paths, found.models, found.metrics["loss"], strict=True):
        expected = by_hand(given, path, contributions=71 if contributions is None else contributions)
        np.testing.assert_allclose(models, expected, atol=1e-14)
        assert loss[-1] == pytest.approx(float(given.risk(expected[path[-1]], given.arrays)), rel=1e-12)  # of the token


def test_a_path_uses_links_only_and_is_the_same_whatever_else_is_drawn():
    topology = sv.topologies.erdos_renyi(15, 0.25, seed=2).with_walk()
    paths = sv.topologies.walk_paths(topology, 400, seed=1, repeats=3)
    allowed = (topology.matrix > 0) | np.eye(15, dtype=bool)
    assert allowed[paths[:, :-1], paths[:, 1:]].all()
    np.testing.assert_array_equal(sv.topologies.walk_paths(topology, 200, seed=1)[0], paths[0, :201])
    assert not np.array_equal(paths[0], paths[1])
    assert not np.array_equal(paths[0], sv.topologies.walk_paths(topology, 400, seed=2)[0])


def thinned_visits(path, topology):
    """Visits at times that are several relaxation times apart, so that they are nearly independent."""
    apart = int(np.ceil(6 / topology.spectral_gap))
    return np.bincount(path[apart::apart], minlength=topology.num_agents)


@pytest.mark.parametrize("topology", [sv.topologies.grid(3, 4), sv.topologies.star(8), sv.topologies.complete(10)])
def test_in_the_long_run_all_agents_are_visited_equally_often_and_a_biased_walk_would_be_noticed(topology):
    path = sv.topologies.walk_paths(topology.with_walk(), 60_000, seed=3)[0]
    assert stats.chisquare(thinned_visits(path, topology)).pvalue > 1e-3
    # A walk that hands the token to a uniformly chosen neighbour visits agents by their degree.
    degrees = np.array([len(topology.neighbours(k)) for k in range(topology.num_agents)])
    if len(set(degrees)) > 1:
        generator, biased = np.random.default_rng(0), np.empty(60_000, dtype=int)
        biased[0] = 0
        moves = generator.random(60_000)
        for t in range(1, len(biased)):
            places = np.append(topology.neighbours(biased[t - 1]), biased[t - 1])
            biased[t] = places[int(moves[t] * len(places))]
        assert stats.chisquare(thinned_visits(biased, topology)).pvalue < 1e-6


def test_transitions_follow_the_weights():
    topology = sv.topologies.path(4).with_walk()
    path = sv.topologies.walk_paths(topology, 40_000, seed=9)[0]
    W = topology.matrix
    for u in range(4):
        moves = np.bincount(path[1:][path[:-1] == u], minlength=4)
        kept = W[u] > 0
        assert moves[~kept].sum() == 0
        assert stats.chisquare(moves[kept], W[u][kept] * moves.sum()).pvalue > 1e-3


def test_every_hop_adds_noise_also_of_agents_who_have_made_their_contributions():
    topology = sv.topologies.complete(5).with_walk()
    flat = sv.problems.linear_regression(np.zeros((5, 2, 3)), np.zeros((5, 2)), ridge=0.0)
    law = sv.noise.Gaussian(std=0.5)
    paths = sv.topologies.walk_paths(topology, 30, seed=4, repeats=800)
    for noise, each in ((sv.noise.independent(law), 0.5), (sv.noise.gradient(law), STEP * 0.5)):
        algorithm = sv.algorithms.random_walk(step_size=STEP, contributions=1)
        models = run(topology, algorithm, noise, given=flat, rounds=30, repeats=800).models
        token = models[np.arange(800), paths[:, -1]]
        assert token.std() == pytest.approx(each * np.sqrt(30), rel=0.06)


def test_the_token_learns():
    topology = sv.topologies.complete(30).with_walk()
    given = regression(30)
    found = run(topology, sv.algorithms.random_walk(step_size=lambda t: 1 / (10 + 0.2 * t)), given=given, rounds=6000)
    start = float(given.optimum @ given.optimum)
    assert found.metrics["msd_centroid"][0, -500:].mean() < 0.02 * start


# What is refused


def test_walks_and_rounds_of_all_agents_are_not_mixed():
    ring, law = sv.topologies.ring(5), sv.noise.Gaussian(std=1.0)
    walk = sv.algorithms.random_walk(step_size=STEP)
    with pytest.raises(sv.IncompatibleChoice, match=r"topology\.with_walk\(\)"):
        run(ring, walk)
    with pytest.raises(sv.IncompatibleChoice, match="all agents work in every round"):
        run(ring.with_walk(), sv.algorithms.atc(step_size=STEP))
    for noise in (
        sv.noise.independent(law, self_noise=False),
        sv.noise.independent(law, per_edge=True),
        sv.noise.graph_homomorphic(law),
        sv.noise.gopa(law, pairwise_std=1.0),
    ):
        with pytest.raises(sv.IncompatibleChoice, match=r"one noise|shared by pairs"):
            run(ring.with_walk(), walk, noise)
    with pytest.raises(sv.IncompatibleChoice, match="symmetric"):
        sv.topologies.star(5, weights="uniform").with_walk()
    with pytest.raises(sv.IncompatibleChoice, match="nothing walks"):
        sv.topologies.walk_paths(ring, 5, seed=0)


@pytest.mark.parametrize("value", [0, -2, 1.5, True])
def test_contributions_are_whole_and_positive(value):
    with pytest.raises(sv.ConfigError, match="contributions = "):
        sv.algorithms.random_walk(step_size=STEP, contributions=value)
