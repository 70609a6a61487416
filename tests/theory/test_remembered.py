"""Exact mean-square theory of noise that enters again: against Monte Carlo, closed forms and its own limit."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.theory import steady_state

K, T = 5, 6
RING = sv.topologies.ring(K)
DRAW = np.random.default_rng(0)
PROBLEM = sv.problems.linear_regression(DRAW.normal(size=(K, 8, 2)), DRAW.normal(size=(K, 8)), ridge=0.1)
NOISE = sv.noise.gopa(sv.noise.Gaussian(std=0.5), pairwise_std=0.4)._replace(memory=DRAW.uniform(-0.7, 0.7, (T, 2, K)))


@pytest.mark.parametrize("batch_size", [None, 2])
@pytest.mark.parametrize("name", ["atc", "cta", "consensus"])
def test_the_curve_is_that_of_simulated_runs(name, batch_size):
    """8,000 runs; the curve of the scheme without its memory is rejected by more than ten standard errors."""
    algorithm = getattr(sv.algorithms, name)(step_size=0.2)
    run = sv.simulate(
        PROBLEM, RING, algorithm, NOISE, rounds=T, repeats=8000, seed=1, dtype="float64", batch_size=batch_size, record=["msd_average", "msd_centroid"]
    )  # fmt: skip
    expected = sv.expected_msd(PROBLEM, RING, algorithm, NOISE, rounds=T, batch_size=batch_size)
    forgotten = sv.expected_msd(PROBLEM, RING, algorithm, NOISE._replace(memory=None), rounds=T, batch_size=batch_size)
    for metric, curve in expected.items():
        found = run.metrics[metric]
        error = found.std(axis=0) / np.sqrt(len(found))
        assert (np.abs(found.mean(axis=0) - curve) <= 4.5 * error).all()
        assert (np.abs(found.mean(axis=0) - forgotten[metric]) / error).max() > 10


def test_the_curve_is_the_sum_over_all_sources():
    """Noise part of the average by impulses: every unit source followed through the recursion, squares added up; to 1e-12."""
    points = np.zeros((K, 1, 1))
    problem, step = sv.problems.mean_estimation(points, radius=1.0), 0.3
    bound = NOISE.spread(RING.active_links())
    own = np.zeros((K, bound.num_sources))
    np.add.at(own, (bound.self_index, bound.self_source), bound.self_value)
    S = bound.num_sources
    w, added, curve = np.zeros((K, T * S)), [], []
    for t in range(T):
        now = np.zeros((K, T * S))
        now[:, t * S : (t + 1) * S] = NOISE.law.std * own
        for j in range(1, 1 + min(t, 2)):
            now -= NOISE.memory[t, j - 1][:, None] * added[t - j]
        added.append(now)
        w = RING.matrix.T @ ((1 - step) * w + now)
        curve.append((w**2).sum() / K)
    found = sv.expected_msd(problem, RING, sv.algorithms.atc(step_size=step), NOISE, rounds=T)
    assert found["msd_average"] == pytest.approx(curve, rel=1e-12)


def test_the_steady_state_is_the_end_of_the_curve():
    noise = NOISE._replace(memory=np.array([[[0.5], [-0.3]]]))
    algorithm = sv.algorithms.atc(step_size=0.2)
    limit = steady_state(PROBLEM, RING, algorithm, noise)
    curve = sv.expected_msd(PROBLEM, RING, algorithm, noise, rounds=800)
    for name, value in limit.items():
        assert curve[name][-1] == pytest.approx(value, rel=1e-9)
    with pytest.raises(UnsupportedClaim, match="do not change with the round"):
        steady_state(PROBLEM, RING, algorithm, NOISE._replace(memory=NOISE.memory[:2]))
    with pytest.raises(UnsupportedClaim, match="without dying out"):
        steady_state(PROBLEM, RING, algorithm, NOISE._replace(memory=np.array([[[-1.0]]])))


def test_a_state_that_is_too_large_is_refused():
    ring = sv.topologies.ring(40)
    problem = sv.problems.mean_estimation(np.zeros((40, 1, 2)), radius=1.0)
    noise = sv.noise.independent(sv.noise.Gaussian(std=1.0))._replace(memory=np.zeros((1, 40, 1)))
    with pytest.raises(ConfigError, match="earlier rounds"):
        sv.expected_msd(problem, ring, sv.algorithms.atc(step_size=0.1), noise, rounds=2)
