"""One round by hand, limit cases, the longer recursion and the two-stage method."""

import numpy as np
import pytest

import sottovoce as sv


def one(problem, topology, algorithm, noise=None, rounds=1, **options):
    noise = sv.noise.none() if noise is None else noise
    return sv.simulate(problem, topology, algorithm, noise, rounds=rounds, dtype="float64", progress=False, **options)


@pytest.fixture
def means():
    """Three agents with one number each, at 1, 2 and 6; gradient w - x."""
    return sv.problems.mean_estimation(np.array([[[1.0]], [[2.0]], [[6.0]]]), radius=10.0)


def test_two_rounds_by_hand_on_a_path(means):
    # Metropolis weights of 0-1-2: A = [[2/3, 1/3, 0], [1/3, 1/3, 1/3], [0, 1/3, 2/3]]; step 1/2; start 0; x = (1, 2, 6).
    topology = sv.topologies.path(3)
    x = np.array([1.0, 2.0, 6.0])
    A = np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3
    atc = A.T @ (0.5 * x)  # after round 1: psi = x / 2
    np.testing.assert_allclose(one(means, topology, sv.algorithms.atc(step_size=0.5)).models[0, :, 0], atc)
    cta = 0.5 * x  # phi = 0, so w = x / 2 after round 1
    np.testing.assert_allclose(one(means, topology, sv.algorithms.cta(step_size=0.5)).models[0, :, 0], cta)
    mixed = A.T @ cta
    second = {"cta": mixed - 0.5 * (mixed - x), "consensus": mixed - 0.5 * (cta - x)}
    for name, expected in second.items():
        algorithm = sv.algorithms.ALGORITHMS[name](step_size=0.5)
        np.testing.assert_allclose(one(means, topology, algorithm, rounds=2).models[0, :, 0], expected)


def test_complete_graph_and_one_round_of_atc_is_centralised_gradient_descent(regression):
    run = one(regression, sv.topologies.complete(6), sv.algorithms.atc(step_size=0.1), rounds=25)
    w = np.zeros(3)
    for _ in range(25):
        gradients = [regression.gradient(w, {n: v[k] for n, v in regression.arrays.items()}) for k in range(6)]
        w = w - 0.1 * np.mean(gradients, axis=0)
    np.testing.assert_allclose(run.models[0], np.tile(w, (6, 1)), atol=1e-12)


def test_three_matrix_recursion_has_consensus_cta_and_atc_as_corners(regression, directed):
    corners = {"consensus": "middle", "cta": "first", "atc": "last"}
    law = sv.noise.Laplace(std=0.1)
    for noise in (sv.noise.none(), sv.noise.graph_homomorphic(law), sv.noise.independent(law, per_edge=True)):
        for name, place in corners.items():
            general = sv.algorithms.three_matrix(step_size=0.1, **{place: directed})
            special = sv.algorithms.ALGORITHMS[name](step_size=0.1)
            left = one(regression, directed, general, noise, rounds=4, batch_size=1)
            right = one(regression, directed, special, noise, rounds=4, batch_size=1)
            np.testing.assert_allclose(left.models, right.models, atol=1e-13)


def test_three_matrix_recursion_by_hand_with_three_different_matrices(means):
    path, ring, whole = sv.topologies.path(3), sv.topologies.ring(3), sv.topologies.complete(3)
    algorithm = sv.algorithms.three_matrix(step_size=0.5, first=path, middle=ring, last=whole)
    x, w = np.array([1.0, 2.0, 6.0]), np.zeros(3)
    for _ in range(3):
        phi = path.matrix.T @ w
        psi = ring.matrix.T @ phi - 0.5 * (phi - x)
        w = whole.matrix.T @ psi
    np.testing.assert_allclose(one(means, path, algorithm, rounds=3).models[0, :, 0], w, atol=1e-14)


def test_graph_homomorphic_noise_cancels_in_the_centroid_of_a_three_matrix_run(regression):
    """Full gradients and equal Hessians are not given here, so compare one round, in which noise cannot reach a gradient of ATC."""
    generator = np.random.default_rng(8)

    def weights():
        matrix = generator.random((6, 6)) + 0.1
        return sv.topologies.from_matrix(matrix / matrix.sum(axis=0))

    algorithm = sv.algorithms.three_matrix(step_size=0.1, middle=weights(), last=weights())
    law = sv.noise.Laplace(std=5.0)
    from sottovoce.linear import centroid

    q = centroid(algorithm, weights()).weights
    clean = one(regression, weights(), algorithm, batch_size=1)
    noisy = one(regression, weights(), algorithm, sv.noise.graph_homomorphic(law), batch_size=1)
    loud = one(regression, weights(), algorithm, sv.noise.independent(law), batch_size=1)
    assert np.abs(noisy.models - clean.models).max() > 0.1
    np.testing.assert_allclose(q @ noisy.models[0], q @ clean.models[0], atol=1e-12)
    assert np.abs(q @ loud.models[0] - q @ clean.models[0]).max() > 0.1


def test_scale_to_zero_is_the_run_without_noise(regression, directed):
    atc = sv.algorithms.atc(step_size=0.1)
    clean = one(regression, directed, atc, rounds=10)
    tiny = one(regression, directed, atc, sv.noise.independent(sv.noise.Gaussian(std=1e-14)), rounds=10)
    np.testing.assert_allclose(tiny.models, clean.models, atol=1e-12)


def test_a_scheme_gives_the_same_run_alone_and_in_a_comparison(regression, directed):
    law = sv.noise.Laplace(std=0.1)
    algorithms = {"atc": sv.algorithms.atc(step_size=0.1), "cta": sv.algorithms.cta(step_size=0.1)}
    noises = {"edge": sv.noise.independent(law, per_edge=True), "gh": sv.noise.graph_homomorphic(law)}
    both = sv.simulate(
        regression, directed, algorithms, noises, rounds=20, batch_size=2, dtype="float64", progress=False
    )
    for a, algorithm in algorithms.items():
        for n, noise in noises.items():
            alone = one(regression, directed, algorithm, noise, rounds=20, batch_size=2)
            np.testing.assert_allclose(alone.models, both[a, n].models, atol=1e-13)


class TestTwoStage:
    """Showkatbakhsh et al., Algorithm 1, with the hand-over perturbed."""

    def test_steps_projection_and_stages_by_hand(self, means):
        A, x = sv.topologies.path(3).matrix, np.array([1.0, 2.0, 6.0])
        w = np.zeros(3)
        for t in range(1, 7):
            z = A.T @ w
            w = np.clip(np.clip(z, -3, 3) - (2.0 / t) * (np.clip(z, -3, 3) - x), -3, 3) if t <= 4 else z
        algorithm = sv.algorithms.dgd(step_size=2.0, gradient_rounds=4, box=3.0)
        np.testing.assert_allclose(
            one(means, sv.topologies.path(3), algorithm, rounds=6).models[0, :, 0], w, atol=1e-14
        )

    def test_noise_enters_from_the_second_round_to_the_hand_over_and_nowhere_else(self):
        algorithm = sv.algorithms.dgd(step_size=1.0, gradient_rounds=3)
        np.testing.assert_array_equal(algorithm.noisy_rounds(7), [False, True, True, True, False, False, False])

    def test_the_second_stage_averages_what_was_sent_so_no_gradient_stays_in_clear(self, means):
        """From round T + 1 on the sum of all models is constant: nobody holds back an unperturbed copy."""
        algorithm = sv.algorithms.dgd(step_size=1.0, gradient_rounds=3)
        noise = sv.noise.independent(sv.noise.Gaussian(std=1.0))
        sums = [
            one(means, sv.topologies.path(3), algorithm, noise, rounds=t, seed=3).models[0].sum() for t in (3, 4, 5, 9)
        ]
        assert abs(sums[1] - sums[0]) > 1e-3  # the hand-over message is perturbed
        np.testing.assert_allclose(sums[2:], sums[1], atol=1e-12)

    @pytest.mark.parametrize(
        "noise",
        [
            sv.noise.independent(sv.noise.Gaussian(std=1.0), self_noise=False),
            sv.noise.independent(sv.noise.Gaussian(std=1.0), per_edge=True),
            sv.noise.graph_homomorphic(sv.noise.Gaussian(std=1.0)),
        ],
    )
    def test_schemes_whose_own_copy_differs_from_the_message_are_refused(self, means, noise):
        algorithm = sv.algorithms.dgd(step_size=1.0, gradient_rounds=3)
        with pytest.raises(sv.IncompatibleChoice, match="sent in clear"):
            one(means, sv.topologies.ring(3), algorithm, noise, rounds=6)

    def test_a_schedule_that_is_silent_at_the_hand_over_is_refused(self, means):
        """This is line 8 of Algorithm 1 as printed: round T + 1 without noise."""
        algorithm = sv.algorithms.dgd(step_size=1.0, gradient_rounds=3)
        noise = sv.noise.independent(sv.noise.Gaussian(std=1.0))
        printed = noise.scaled([0.0, 1.0, 1.0, 0.0, 0.0, 0.0])
        with pytest.raises(sv.IncompatibleChoice, match="round 4"):
            one(means, sv.topologies.ring(3), algorithm, printed, rounds=6)
        one(means, sv.topologies.ring(3), algorithm, noise.scaled([0.0, 1.0, 1.0, 1.0, 0.0, 0.0]), rounds=6)


def test_metrics_asked_for_are_the_only_ones_measured(regression, directed):
    run = one(regression, directed, sv.algorithms.atc(step_size=0.1), rounds=3, record=("loss",))
    assert set(run.metrics) == {"loss"}
    with pytest.raises(sv.ConfigError, match="accuracy"):
        one(regression, directed, sv.algorithms.atc(step_size=0.1), rounds=3, record=("accuracy",))


def test_loss_is_the_uniform_risk_of_the_centroid_and_accuracy_counts_hits():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(4, 30, 2))
    labels = np.sign(features @ np.array([1.0, -1.0]) + 0.3 * generator.normal(size=(4, 30)))
    problem = sv.problems.logistic_regression(features, labels, ridge=0.1)
    topology = sv.topologies.ring(4, weights="uniform")
    test_features, test_labels = generator.normal(size=(50, 2)), np.ones(50)
    run = one(problem, topology, sv.algorithms.atc(step_size=0.5), rounds=20, test=(test_features, test_labels))
    center = topology.perron @ run.models[0]
    risks = [np.mean(np.log1p(np.exp(-labels[k] * (features[k] @ center)))) + 0.05 * center @ center for k in range(4)]
    assert run.metrics["loss"][0, -1] == pytest.approx(np.mean(risks), rel=1e-9)
    assert run.metrics["accuracy"][0, -1] == pytest.approx(np.mean(test_features @ center > 0))
    on_training = one(problem, topology, sv.algorithms.atc(step_size=0.5), rounds=20)
    assert on_training.metrics["accuracy"][0, -1] == pytest.approx(np.mean(np.sign(features @ center) == labels))


def test_accuracy_of_average_and_worst_agent_is_measured_when_asked_for():
    generator = np.random.default_rng(1)
    features = generator.normal(size=(4, 30, 2)) + np.arange(4)[:, None, None] * 0.3
    labels = np.sign(features @ np.array([1.0, -1.0]) + 0.5 * generator.normal(size=(4, 30)))
    problem = sv.problems.logistic_regression(features, labels, ridge=0.1)
    names = ("accuracy", "accuracy_average", "accuracy_worst")
    test = (generator.normal(size=(200, 2)), np.sign(generator.normal(size=200)))
    noise = sv.noise.graph_homomorphic(sv.noise.Gaussian(std=2.0))
    run = one(
        problem, sv.topologies.ring(4), sv.algorithms.atc(step_size=0.5), noise, rounds=5, test=test, record=names
    )
    of_agents = [np.mean(np.where(test[0] @ w > 0, 1, -1) == test[1]) for w in run.models[0]]
    assert run.metrics["accuracy_average"][0, -1] == pytest.approx(np.mean(of_agents))
    assert run.metrics["accuracy_worst"][0, -1] == pytest.approx(np.min(of_agents))
    assert np.ptp(of_agents) > 0.01


class TestHandOverOnChangingLinks:
    """An agent that is silent in the hand-over round would send its last gradient in clear later: refused, whatever the schedule."""

    @pytest.mark.parametrize(
        "schedule",
        [
            lambda t: t.with_random_pair(),
            lambda t: t.with_dropout(0.3),
            lambda t: t.with_schedule([t, sv.topologies.complete(4)]),
        ],
    )
    def test_two_stage_method_needs_a_topology_without_a_schedule(self, schedule):
        problem = sv.problems.mean_estimation(np.zeros((4, 1, 1)), radius=1.0)
        algorithm = sv.algorithms.dgd(step_size=1.0, gradient_rounds=1)
        noise = sv.noise.independent(sv.noise.Gaussian(std=1.0))
        with pytest.raises(sv.IncompatibleChoice, match="links come and go"):
            one(problem, schedule(sv.topologies.ring(4)), algorithm, noise, rounds=4)
        one(problem, schedule(sv.topologies.ring(4)), algorithm, rounds=4)  # without noise nothing is promised


def test_exchanges_that_move_the_centroid_differently_need_fixed_weights(means):
    generator = np.random.default_rng(5)

    def weights():
        matrix = generator.random((3, 3)) + 0.1
        return sv.topologies.from_matrix(matrix / matrix.sum(axis=0))

    first = weights()
    listed = first.with_schedule([first, sv.topologies.from_matrix((first.matrix + np.eye(3)) / 2)])
    algorithm = sv.algorithms.three_matrix(step_size=0.1, first=listed, last=weights())
    with pytest.raises(sv.IncompatibleChoice, match="no centroid is kept"):
        one(means, first, algorithm, sv.noise.graph_homomorphic(sv.noise.Gaussian(std=1.0)), rounds=2)


@pytest.mark.parametrize(
    "noise",
    [
        sv.noise.independent(sv.noise.Gaussian(std=1.0), per_edge=True),
        sv.noise.independent(sv.noise.Gaussian(std=1.0), self_noise=False),
        sv.noise.graph_homomorphic(sv.noise.Gaussian(std=1.0)),
        sv.noise.local_graph_homomorphic(sv.noise.Gaussian(std=1.0)),
    ],
)
def test_a_relay_carries_only_noise_that_everybody_gets_alike(means, noise):
    federation = sv.topologies.federation(3)
    with pytest.raises(sv.IncompatibleChoice, match="federation"):
        one(means, federation, sv.algorithms.atc(step_size=0.1), noise)
    same = one(
        means, federation, sv.algorithms.atc(step_size=0.1), sv.noise.independent(sv.noise.Gaussian(std=1.0)), rounds=3
    )
    np.testing.assert_allclose(same.models[0], same.models[0, :1].repeat(3, axis=0), atol=1e-12)


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ((np.full((3, 2), np.nan), np.ones(3)), "finite"),
        ((np.zeros((3, 2)), np.ones(1)), "needed are"),
        ((np.zeros((3, 5)), np.ones(3)), "needed are"),
        ((np.zeros((3, 2)), np.full(3, 7.0)), "labels -1/1"),
    ],
)
def test_test_records_that_do_not_fit_are_refused(test, words):
    generator = np.random.default_rng(0)
    problem = sv.problems.logistic_regression(
        generator.normal(size=(3, 5, 2)), np.sign(generator.normal(size=(3, 5))), ridge=0.1
    )
    with pytest.raises(sv.ConfigError, match=words):
        one(problem, sv.topologies.ring(3), sv.algorithms.atc(step_size=0.1), test=test)


def test_test_records_without_an_accuracy_are_refused(regression, directed):
    with pytest.raises(sv.ConfigError, match="no accuracy"):
        one(regression, directed, sv.algorithms.atc(step_size=0.1), test=(np.zeros((2, 3)), np.ones(2)))


def test_a_description_tells_schedules_and_matrices_apart(means):
    noise = sv.noise.independent(sv.noise.Gaussian(std=1.0))
    topology = sv.topologies.path(3)
    runs = [
        one(means, topology, sv.algorithms.atc(step_size=0.1), noise.scaled(f), rounds=2)
        for f in ([1.0, 1.0], [1.0, 0.5])
    ]
    assert runs[0].description["noise"] != runs[1].description["noise"]
    described = sv.algorithms.three_matrix(step_size=0.1, last=sv.topologies.ring(3)).describe()
    assert described["exchanges"][0]["name"] == "ring"


def test_a_string_is_not_a_list_of_metrics(means):
    with pytest.raises(sv.ConfigError, match="give a list"):
        one(means, sv.topologies.path(3), sv.algorithms.atc(step_size=0.1), record="loss")
