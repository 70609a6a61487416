"""Exact mean-square theory: closed forms, enumeration of all outcomes, and refusals."""

import itertools

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.theory import steady_state


def test_broadcast_noise_on_a_complete_graph_has_its_textbook_steady_state():
    """All agents equal the average c; c' = (1 - mu)(c - x) + x + mean noise, so the error variance is s^2/K / (1 - (1 - mu)^2) per coordinate."""
    K, d, mu, std = 5, 3, 0.2, 0.7
    points = np.random.default_rng(0).uniform(-1, 1, size=(K, 1, d))
    problem = sv.problems.mean_estimation(points, radius=1.0)
    noise = sv.noise.independent(sv.noise.Laplace(std=std))
    algorithm, topology = sv.algorithms.atc(step_size=mu), sv.topologies.complete(K)
    expected = d * std**2 / K / (1 - (1 - mu) ** 2)
    limit = steady_state(problem, topology, algorithm, noise)
    assert limit["msd_centroid"] == pytest.approx(expected, rel=1e-9)
    assert limit["msd_average"] == pytest.approx(expected, rel=1e-9)
    curve = sv.expected_msd(problem, topology, algorithm, noise, rounds=200)
    assert curve["msd_centroid"][-1] == pytest.approx(expected, rel=1e-9)
    first = (1 - mu) ** 2 * (problem.optimum @ problem.optimum) + d * std**2 / K
    assert curve["msd_centroid"][0] == pytest.approx(first, rel=1e-12)


def enumerate_batches(problem, topology, kind, step, rounds, batch_size):
    """Expected MSD without noise by running every possible sequence of batches of two agents."""
    per_round = [
        choice
        for choice in itertools.product(*(list(itertools.combinations(range(n), batch_size)) for n in problem.sizes))
    ]
    A, q = topology.matrix, topology.perron
    totals = np.zeros((2, rounds))
    data = [{name: values[k] for name, values in problem.arrays.items()} for k in range(problem.num_agents)]
    for sequence in itertools.product(per_round, repeat=rounds):
        w = np.zeros((problem.num_agents, problem.dimension))
        for t, batch in enumerate(sequence):

            def slopes(points, batch=batch):
                return np.stack(
                    [
                        problem.batch_gradient(points[k], problem.records(data[k], np.array(batch[k])))
                        for k in range(len(points))
                    ]
                )

            if kind == "atc":
                w = A.T @ (w - step * slopes(w))
            elif kind == "cta":
                mixed = A.T @ w
                w = mixed - step * slopes(mixed)
            else:
                w = A.T @ w - step * slopes(w)
            error = w - problem.optimum
            totals[0, t] += ((q @ error) ** 2).sum()
            totals[1, t] += (error**2).sum() / len(w)
    return totals / len(per_round) ** rounds


@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("kind", ["atc", "cta", "consensus"])
def test_expected_curve_equals_the_average_over_all_batches(kind, batch_size):
    generator = np.random.default_rng(1)
    features = [generator.normal(size=(3, 2)), generator.normal(size=(2, 2))]
    targets = [x @ np.array([1.0, 2.0]) + 0.5 * generator.normal(size=len(x)) for x in features]
    problem = sv.problems.linear_regression(features, targets, ridge=0.1)
    topology = sv.topologies.from_matrix(np.array([[0.7, 0.6], [0.3, 0.4]]))
    expected = enumerate_batches(problem, topology, kind, 0.1, 3, batch_size)
    algorithm = sv.algorithms.ALGORITHMS[kind](step_size=0.1)
    found = sv.expected_msd(problem, topology, algorithm, sv.noise.none(), rounds=3, batch_size=batch_size)
    np.testing.assert_allclose(found["msd_centroid"], expected[0], rtol=1e-10)
    np.testing.assert_allclose(found["msd_average"], expected[1], rtol=1e-10)


def quick_problem():
    features, targets, _ = sv.problems.synthetic_regression(num_agents=6, samples=20, dimension=2, seed=3)
    return sv.problems.linear_regression(features, targets, ridge=0.01)


@pytest.mark.parametrize("batch_size", [None, 1])
@pytest.mark.parametrize("kind", ["atc", "cta", "consensus"])
def test_curve_converges_to_the_steady_state(kind, batch_size):
    problem, topology = quick_problem(), sv.topologies.ring(6)
    algorithm = sv.algorithms.ALGORITHMS[kind](step_size=0.2)
    noise = sv.noise.graph_homomorphic(sv.noise.Gaussian(std=0.1))
    curve = sv.expected_msd(problem, topology, algorithm, noise, rounds=600, batch_size=batch_size)
    limit = steady_state(problem, topology, algorithm, noise, batch_size=batch_size)
    for name in ("msd_centroid", "msd_average"):
        assert curve[name][-1] == pytest.approx(limit[name], rel=1e-6)


def test_laplace_and_gaussian_of_equal_variance_have_the_same_curve():
    problem, topology, algorithm = quick_problem(), sv.topologies.ring(6), sv.algorithms.atc(step_size=0.2)
    curves = [
        sv.expected_msd(problem, topology, algorithm, sv.noise.independent(law, per_edge=True), rounds=5, batch_size=2)[
            "msd_average"
        ]
        for law in (sv.noise.Laplace(std=0.2), sv.noise.Gaussian(std=0.2), sv.noise.L2Laplace(scale=0.2 / 3**0.5))
    ]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-12)
    np.testing.assert_allclose(curves[0], curves[2], rtol=1e-12)


def test_steady_state_slopes_in_the_step_size():
    """Independent noise grows like 1/mu; graph-homomorphic noise stays O(1) at the agents and falls like mu in the centroid (full gradients)."""
    problem, topology = quick_problem(), sv.topologies.ring(6)
    law = sv.noise.Gaussian(std=1.0)
    steps = (0.01, 0.005)

    def ratio(noise, metric):
        large, small = (steady_state(problem, topology, sv.algorithms.atc(step_size=mu), noise)[metric] for mu in steps)
        return small / large

    assert ratio(sv.noise.independent(law), "msd_centroid") == pytest.approx(2.0, rel=0.02)
    assert ratio(sv.noise.graph_homomorphic(law), "msd_average") == pytest.approx(1.0, rel=0.02)
    assert ratio(sv.noise.graph_homomorphic(law), "msd_centroid") == pytest.approx(0.5, rel=0.05)


def test_equal_hessians_and_full_gradients_leave_the_centroid_untouched_by_graph_homomorphic_noise():
    points = np.random.default_rng(0).uniform(-1, 1, size=(6, 4, 2))
    problem = sv.problems.mean_estimation(points, radius=1.0)
    topology, algorithm = sv.topologies.ring(6), sv.algorithms.atc(step_size=0.3)
    clean = sv.expected_msd(problem, topology, algorithm, sv.noise.none(), rounds=30)
    noisy = sv.expected_msd(
        problem, topology, algorithm, sv.noise.graph_homomorphic(sv.noise.Gaussian(std=3.0)), rounds=30
    )
    np.testing.assert_allclose(noisy["msd_centroid"], clean["msd_centroid"], atol=1e-14)
    assert noisy["msd_average"][-1] > 1.0


def test_local_graph_homomorphic_noise_changes_nothing_and_schedules_scale_the_noise():
    problem, topology, algorithm = quick_problem(), sv.topologies.ring(6), sv.algorithms.cta(step_size=0.2)
    clean = sv.expected_msd(problem, topology, algorithm, sv.noise.none(), rounds=5, batch_size=1)
    local = sv.noise.local_graph_homomorphic(sv.noise.Gaussian(std=3.0))
    np.testing.assert_array_equal(
        sv.expected_msd(problem, topology, algorithm, local, rounds=5, batch_size=1)["msd_average"],
        clean["msd_average"],
    )
    noise = sv.noise.independent(sv.noise.Gaussian(std=0.5))
    scaled = sv.expected_msd(problem, topology, algorithm, noise.scaled([0.0, 2.0, 0.0]), rounds=3)
    plain = sv.expected_msd(problem, topology, algorithm, sv.noise.none(), rounds=1)
    assert scaled["msd_average"][0] == pytest.approx(plain["msd_average"][0])
    doubled = sv.expected_msd(problem, topology, algorithm, noise.scaled([0.0, 4.0, 0.0]), rounds=3)
    base = sv.expected_msd(problem, topology, algorithm, sv.noise.none(), rounds=3)
    extra = [c["msd_average"][1] - base["msd_average"][1] for c in (scaled, doubled)]
    assert extra[1] == pytest.approx(4 * extra[0], rel=1e-9)


def test_weighted_and_uniform_optimum_differ_for_left_stochastic_weights():
    """Rizk et al. 2023, eq. 83 needs uniform A2 q: with other weights the centroid goes to the weighted optimum (small steps)."""
    problem = quick_problem()
    topology = sv.topologies.star(6, weights="uniform")
    assert not topology.is_doubly_stochastic
    run = sv.simulate(
        problem,
        topology,
        sv.algorithms.atc(step_size=0.01),
        sv.noise.none(),
        rounds=6000,
        dtype="float64",
        record=(),
        progress=False,
    )
    center = topology.perron @ run.models[0]
    weighted = problem.weighted_optimum(topology.weights @ topology.perron)
    assert np.linalg.norm(center - weighted) < 0.2 * np.linalg.norm(center - problem.optimum)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p, t, a, n: (p.with_clipping(1.0, "l2"), t, a, n), "clipped"),
        (lambda p, t, a, n: (p, t.with_dropout(0.1), a, n), "drawn at random"),
        (lambda p, t, a, n: (p, t, sv.algorithms.dgd(step_size=1.0, gradient_rounds=5, box=1.0), n), "not linear"),
    ],
)
def test_what_is_not_covered_is_refused(make, words):
    parts = make(quick_problem(), sv.topologies.ring(6), sv.algorithms.atc(step_size=0.1), sv.noise.none())
    with pytest.raises(sv.UnsupportedClaim, match=words):
        sv.expected_msd(*parts, rounds=3)


def test_logistic_regression_is_refused_and_unstable_steps_have_no_steady_state():
    generator = np.random.default_rng(0)
    logistic = sv.problems.logistic_regression(
        generator.normal(size=(3, 5, 2)), np.sign(generator.normal(size=(3, 5))), ridge=0.1
    )
    with pytest.raises(sv.UnsupportedClaim, match="not quadratic"):
        sv.expected_msd(logistic, sv.topologies.ring(3), sv.algorithms.atc(step_size=0.1), sv.noise.none(), rounds=3)
    with pytest.raises(sv.UnsupportedClaim, match="stability limit"):
        steady_state(quick_problem(), sv.topologies.ring(6), sv.algorithms.atc(step_size=50.0), sv.noise.none())


class TestWhatMustNotSlipThrough:
    """Cases in which a number came out that was not the truth."""

    def test_the_start_of_the_algorithm_counts(self):
        atc = sv.algorithms.atc(step_size=0.1)._replace(init=lambda w: w + 1.0)
        problem, topology = quick_problem(), sv.topologies.ring(6)
        exact = sv.expected_msd(problem, topology, atc, sv.noise.none(), rounds=3)
        run = sv.simulate(problem, topology, atc, sv.noise.none(), rounds=3, dtype="float64", progress=False)
        np.testing.assert_allclose(exact["msd_average"], run.metrics["msd_average"][0], rtol=1e-10)

    @pytest.mark.parametrize("model", [lambda w: w + 5.0, lambda w: w.clip(-0.2, 0.2)])
    def test_a_model_that_is_not_linear_in_the_state_is_refused(self, model):
        atc = sv.algorithms.atc(step_size=0.1)._replace(model=model)
        with pytest.raises(sv.UnsupportedClaim, match="not linear"):
            sv.expected_msd(quick_problem(), sv.topologies.ring(6), atc, sv.noise.none(), rounds=3)

    @pytest.mark.parametrize("box", [1e-3, 1.0, 1e4, 1e12])
    def test_a_projection_is_noticed_whatever_its_size(self, box):
        dgd = sv.algorithms.dgd(step_size=1.0, gradient_rounds=5, box=box)
        with pytest.raises(sv.UnsupportedClaim, match="not linear"):
            sv.expected_msd(quick_problem(), sv.topologies.ring(6), dgd, sv.noise.none(), rounds=3)

    @pytest.mark.parametrize("batch_size", [0, 100, 1.5])
    def test_batches_that_cannot_be_drawn_are_refused(self, batch_size):
        arguments = (quick_problem(), sv.topologies.ring(6), sv.algorithms.atc(step_size=0.1))
        with pytest.raises(sv.ConfigError, match="batch_size"):
            sv.expected_msd(*arguments, sv.noise.none(), rounds=3, batch_size=batch_size)
        with pytest.raises(sv.ConfigError, match="batch_size"):
            steady_state(*arguments, sv.noise.none(), batch_size=batch_size)

    @pytest.mark.parametrize(
        "algorithm",
        [
            sv.algorithms.atc(step_size=lambda t: 0.1 * (1 + 5 * (t % 3 == 2))),
            sv.algorithms.atc(step_size=0.1)._replace(sends_fresh=lambda t: t < 100),
            sv.algorithms.dgd(step_size=1.0, gradient_rounds=5),
        ],
    )
    def test_what_changes_with_the_round_has_no_steady_state(self, algorithm):
        with pytest.raises(sv.UnsupportedClaim, match="change with the round"):
            steady_state(quick_problem(), sv.topologies.ring(6), algorithm, sv.noise.none())

    def test_flat_directions_are_refused_and_large_data_are_not(self):
        generator = np.random.default_rng(0)
        flat = sv.problems.linear_regression(
            np.repeat(generator.normal(size=(4, 5, 1)), 3, axis=2), generator.normal(size=(4, 5)), ridge=0.0
        )
        arguments = (sv.topologies.ring(4), sv.algorithms.atc(step_size=0.05))
        with pytest.raises(sv.UnsupportedClaim, match="flat"):
            steady_state(flat, *arguments, sv.noise.none())
        features, targets = generator.normal(size=(4, 9, 2)), generator.normal(size=(4, 9))
        limits = [
            steady_state(
                sv.problems.linear_regression(features, targets * scale, ridge=0.1),
                *arguments,
                sv.noise.none(),
                batch_size=1,
            )
            for scale in (1.0, 1e8)
        ]
        assert limits[1]["msd_average"] == pytest.approx(1e16 * limits[0]["msd_average"], rel=1e-6)
