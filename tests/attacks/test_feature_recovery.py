"""Feature vectors from one-record gradients: exact without noise, with the stated law of the similarity under noise."""

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from sottovoce.attacks.feature_recovery import (
    directions_from_gradients,
    labels_of,
    recover_directions,
    recover_records,
    similarity_distribution,
    similarity_to_records,
)
from sottovoce.attacks.gradient_recovery import gradients_from_views
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.simulation.views import observe

N, D, RIDGE = 12, 6, 0.3
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, D))
X[:, 2] = 1.0  # the intercept
TARGETS = RNG.standard_normal(N)
LABELS = np.where(np.arange(N) % 3, 1.0, -1.0)
MODELS = RNG.standard_normal((N, D))
PROBLEMS = {
    "linear_regression": sv.problems.linear_regression([X], [TARGETS], ridge=RIDGE),
    "logistic_regression": sv.problems.logistic_regression([X], [LABELS], ridge=RIDGE),
}


def one_record_gradients(kind):
    problem = PROBLEMS[kind]
    data = {name: array[0] for name, array in problem.arrays.items()}
    return np.stack([problem.batch_gradient(w, problem.records(data, [i])) for i, w in enumerate(MODELS)])


@pytest.mark.parametrize("kind", PROBLEMS)
def test_one_gradient_gives_the_direction_of_its_record(kind):
    found = recover_directions(one_record_gradients(kind), MODELS, loss=kind, ridge=RIDGE)
    similarity = similarity_to_records(found, X)
    assert (similarity.best > 1 - 1e-12).all()
    np.testing.assert_array_equal(similarity.record, np.arange(N))


@pytest.mark.parametrize("kind", PROBLEMS)
def test_without_taking_off_the_ridge_the_direction_is_wrong(kind):
    found = recover_directions(one_record_gradients(kind), MODELS, loss=kind, ridge=0.0)
    assert similarity_to_records(found, X).all.diagonal().min() < 0.99


def test_logistic_gradients_show_the_sign_of_the_label():
    found = recover_directions(
        one_record_gradients("logistic_regression"), MODELS, loss="logistic_regression", ridge=RIDGE
    )
    np.testing.assert_array_equal(labels_of(found, X), LABELS)
    # The document's 11.7 has no label factor: every direction would be that of +x, and every label +1.
    assert (LABELS < 0).any()
    assert (np.einsum("nd,nd->n", found.directions, X)[LABELS < 0] < 0).all()


def test_linear_gradients_show_no_sign():
    found = recover_directions(one_record_gradients("linear_regression"), MODELS, loss="linear_regression", ridge=RIDGE)
    with pytest.raises(IncompatibleChoice, match="up to sign"):
        labels_of(found, X)


@pytest.mark.parametrize(("kind", "truth"), [("linear_regression", TARGETS), ("logistic_regression", LABELS)])
def test_an_intercept_gives_the_whole_record(kind, truth):
    found = recover_records(one_record_gradients(kind), MODELS, loss=kind, ridge=RIDGE, intercept=2)
    np.testing.assert_allclose(found.features, X, atol=1e-9)
    np.testing.assert_allclose(found.targets, truth, atol=1e-9)


def test_a_batch_gives_a_combination_and_no_record():
    problem = PROBLEMS["linear_regression"]
    data = {name: array[0] for name, array in problem.arrays.items()}
    full = problem.gradient(MODELS[0], data)
    found = recover_directions(full[None], MODELS[:1], loss=problem.kind, ridge=RIDGE)
    similarity = similarity_to_records(found, X)
    assert similarity.best[0] < 0.98
    errors = -2 * (TARGETS - X @ MODELS[0]) / N
    expected = np.abs(X @ (errors @ X)) / np.linalg.norm(errors @ X) / np.linalg.norm(X, axis=1)
    np.testing.assert_allclose(similarity.all[0], expected, atol=1e-10)


def test_the_chain_from_messages_to_records_works_on_a_recorded_view():
    ring, algorithm, noise = sv.topologies.ring(4), sv.algorithms.atc(step_size=0.1), sv.noise.none()
    problem = sv.problems.logistic_regression(X[:4, None], LABELS[:4, None], ridge=RIDGE)
    views = observe(problem, ring, algorithm, noise, sv.observers.eavesdropper(), rounds=3)
    for agent in range(4):
        seen = gradients_from_views(
            views, agent=agent, topology=ring, algorithm=algorithm, noise=noise, start=np.zeros(D)
        )
        found = directions_from_gradients(seen.gradients, seen.points, problem)
        assert (similarity_to_records(found, X[:4]).all[:, agent] > 0.999999).all()
        assert (labels_of(found, np.repeat(X[agent : agent + 1], 3, axis=0)) == LABELS[agent]).all()


def test_the_similarity_under_gaussian_noise_has_the_stated_law():
    # 4000 draws: the Kolmogorov-Smirnov test sees a scale wrong by 2/3 or 3/2.
    gradient = one_record_gradients("logistic_regression")[0]
    strength = recover_directions(gradient[None], MODELS[:1], loss="logistic_regression", ridge=RIDGE).strengths[0]
    std = 0.4 * strength
    noisy = gradient + std * np.random.default_rng(1).standard_normal((4000, D))
    found = recover_directions(noisy, np.repeat(MODELS[:1], 4000, axis=0), loss="logistic_regression", ridge=RIDGE)
    similarity = similarity_to_records(found, X[:1]).best

    def p_value(ratio):
        law = np.vectorize(lambda q: similarity_distribution(q, signal_to_noise=ratio, dimension=D))
        return stats.kstest(similarity, law).pvalue

    assert p_value(strength / std) > 1e-4
    assert p_value(1.5 * strength / std) < 1e-6
    assert p_value(strength / std / 1.5) < 1e-6


def test_pure_noise_has_the_similarity_of_a_random_direction():
    # |cos| of a random direction and a fixed one: cos^2 ~ Beta(1/2, (d-1)/2).
    for q in (0.1, 0.5, 0.9):
        expected = stats.beta.cdf(q**2, 0.5, (D - 1) / 2)
        assert similarity_distribution(q, signal_to_noise=0.0, dimension=D) == pytest.approx(expected, rel=1e-9)


def test_what_shows_nothing_is_refused():
    ridge_only = RIDGE * MODELS[:1]
    with pytest.raises(IncompatibleChoice, match="exactly its ridge term"):
        recover_directions(ridge_only, MODELS[:1], loss="logistic_regression", ridge=RIDGE)
    with pytest.raises(IncompatibleChoice, match="no part in the intercept"):
        recover_records(ridge_only, MODELS[:1], loss="logistic_regression", ridge=RIDGE, intercept=0)
    means = sv.problems.mean_estimation(X[:4, None], radius=9.0)
    with pytest.raises(IncompatibleChoice, match="mean_estimation"):
        directions_from_gradients(X, X, means)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ridge": -1.0}, "ridge"),
        ({"ridge": True}, "ridge"),
        ({"ridge": np.nan}, "ridge"),
        ({"loss": "hinge"}, "loss"),
        ({"models": MODELS[:3]}, "shape"),
        ({"gradients": MODELS > 0}, "bool"),
    ],
)
def test_malformed_input_is_named(change, words):
    given = {"gradients": MODELS, "models": MODELS, "loss": "linear_regression", "ridge": RIDGE} | change
    with pytest.raises(ConfigError, match=words):
        recover_directions(**given)


def test_other_malformed_input_is_named():
    found = recover_directions(MODELS, MODELS, loss="linear_regression", ridge=RIDGE)
    with pytest.raises(ConfigError, match="row of zeros"):
        similarity_to_records(found, np.zeros((2, D)))
    with pytest.raises(ConfigError, match="intercept = 6"):
        recover_records(MODELS, MODELS, loss="linear_regression", ridge=RIDGE, intercept=D)
    with pytest.raises(ConfigError, match="dimension"):
        similarity_distribution(0.5, signal_to_noise=1.0, dimension=1)
