"""Gains of noise: the error they predict is that of the recursion run forwards."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.theory import noise_gains, steady_state

RANDOM = np.random.default_rng(5)
K, D = 5, 3
FEATURES = RANDOM.normal(size=(K, 8, D)) * np.array([0.4, 0.7, 1.0, 1.3, 1.6])[:, None, None]  # unequal Hessians
PROBLEM = sv.problems.linear_regression(FEATURES, FEATURES @ np.ones(D) + RANDOM.normal(size=(K, 8)), ridge=0.1)
TOPOLOGY = sv.topologies.erdos_renyi(K, 0.6, seed=1)
LISTED = TOPOLOGY.with_schedule([TOPOLOGY.matrix, sv.topologies.ring(K).matrix])
ONE_WAY = sv.topologies.from_matrix(
    np.array(
        [
            [0.6, 0.2, 0, 0, 0.1],
            [0.4, 0.5, 0.3, 0, 0],
            [0, 0.3, 0.4, 0.2, 0],
            [0, 0, 0.3, 0.7, 0.5],
            [0, 0, 0, 0.1, 0.4],
        ]
    )
)
NOISE = sv.noise.designed(
    sv.noise.Gaussian(std=0.7),
    own=[0.3, 1.0, 0.2, 0.6, 1.4],
    pairs=[(0, 1), (1, 3), (2, 4)],
    factors=[(1.0, -0.8), (0.5, 0.4), (-2, 1)],
)
COVARIANCE = 0.49 * (
    np.diag(np.square([0.3, 1.0, 0.2, 0.6, 1.4]))
    + sum(np.outer(v, v) for v in ([1.0, -0.8, 0, 0, 0], [0, 0.5, 0, 0.4, 0], [0, 0, -2.0, 0, 1.0]))
)
ALGORITHMS = {
    "atc": sv.algorithms.atc(step_size=0.1),
    "cta": sv.algorithms.cta(step_size=0.1),
    "consensus": sv.algorithms.consensus(step_size=0.1),
    "shrinking": sv.algorithms.atc(step_size=lambda t: 0.2 / t),
}


def noise_part(topology, algorithm, rounds):
    """Of the average and of the centroid, after every round, by running the theory forwards with and without noise."""
    made = [sv.expected_msd(PROBLEM, topology, algorithm, each, rounds=rounds) for each in (NOISE, sv.noise.none())]
    return {name: made[0][f"msd_{name}"] - made[1][f"msd_{name}"] for name in ("average", "centroid")}


@pytest.mark.parametrize("topology", [TOPOLOGY, ONE_WAY, LISTED])
@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("objective", [{"average": 1.0}, {"centroid": 1.0}, {"average": 0.3, "centroid": 2.0}])
def test_gains_predict_the_noise_part_of_the_error(topology, name, objective):
    algorithm, rounds = ALGORITHMS[name], 7
    part = noise_part(topology, algorithm, rounds)
    curve = sum(weight * part[each] for each, weight in objective.items())
    for when, expected in (("final", curve[-1]), ("mean", curve.mean())):
        found = noise_gains(
            topology, algorithm, objective=objective, when=when, rounds=rounds, problem=PROBLEM, each_round=True
        )
        assert np.trace(found.total @ COVARIANCE) == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(found.by_round.sum(axis=0), found.total, rtol=1e-13, atol=1e-16)
        assert found.exact


@pytest.mark.parametrize("name", ["atc", "cta", "consensus"])
def test_steady_gains_are_the_limit(name):
    algorithm = ALGORITHMS[name]
    found = noise_gains(TOPOLOGY, algorithm, objective={"average": 1.0}, when="steady", rounds=1, problem=PROBLEM)
    made = [steady_state(PROBLEM, TOPOLOGY, algorithm, each)["msd_average"] for each in (NOISE, sv.noise.none())]
    assert np.trace(found.total @ COVARIANCE) == pytest.approx(made[0] - made[1], rel=1e-9)


def test_one_curvature_has_the_closed_form():
    c, A = 0.9, TOPOLOGY.matrix
    found = noise_gains(
        TOPOLOGY, sv.algorithms.atc(step_size=0.05), objective={"average": 1.0}, when="steady", rounds=1, curvature=2.0
    )
    powers = [np.linalg.matrix_power(A, j) for j in range(400)]
    closed = A @ sum(c ** (2 * j) * power @ power.T / K for j, power in enumerate(powers)) @ A.T
    np.testing.assert_allclose(found.total, closed, rtol=1e-12)
    assert not found.exact


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"problem": PROBLEM, "curvature": 1.0}, "exactly one"),
        ({"curvature": None}, "exactly one"),
        ({"curvature": -1.0}, "above 0"),
        ({"objective": {}}, "weighs"),
        ({"objective": {"average": 0.0}}, "weighs"),
        ({"objective": {"worst": 1.0}}, "weighs"),
        ({"objective": {"average": -1.0}}, "weighs"),
    ],
)
def test_what_has_no_gains_is_refused(changed, complaint):
    given = {"objective": {"average": 1.0}, "when": "steady", "rounds": 3, "curvature": 1.0, **changed}
    with pytest.raises(sv.ConfigError, match=complaint):
        noise_gains(TOPOLOGY, ALGORITHMS["atc"], **given)


@pytest.mark.parametrize(
    ("topology", "algorithm", "when"),
    [
        (TOPOLOGY, sv.algorithms.atc(step_size=3.0), "steady"),
        (TOPOLOGY, ALGORITHMS["shrinking"], "steady"),
        (LISTED, ALGORITHMS["atc"], "steady"),
        (TOPOLOGY.with_dropout(0.2), ALGORITHMS["atc"], "final"),
    ],
)
def test_what_has_no_limit_or_no_one_matrix_is_refused(topology, algorithm, when):
    with pytest.raises(sv.SottovoceError):
        noise_gains(topology, algorithm, objective={"average": 1.0}, when=when, rounds=3, curvature=1.0)
