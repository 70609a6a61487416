"""Images from gradients: recognisable without noise, worse with more of it, and the scores against brute force."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.gradient_matching import dense_input, image_quality, infer_label, match_gradient
from sottovoce.attacks.gradient_recovery import gradients_from_views
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.simulation.views import observe

FEATURES, DIGITS = sv.problems.load("digits_classes")
IMAGES, DIGITS = FEATURES.reshape(-1, 8, 8) / 16.0, DIGITS.astype(int)
# Records that none of the settings were chosen on: those were chosen on records 0 to 7.
CHOSEN = range(200, 206)


def network(model, ridge=0.0):
    return sv.problems.classification([IMAGES[:20]], [DIGITS[:20]], model=model, classes=10, seed=0, ridge=ridge)


MLP = network("mlp")


def gradient_of(problem, record, model=None):
    w = problem.initial_model if model is None else model
    return problem.batch_gradient(w, (IMAGES[record : record + 1], DIGITS[record : record + 1]))


def noisy(gradient, relative, seed):
    """Gaussian noise whose length is about `relative` times that of the gradient."""
    std = relative * np.linalg.norm(gradient) / np.sqrt(len(gradient))
    return gradient + std * np.random.default_rng(seed).standard_normal(len(gradient))


@pytest.mark.parametrize("record", CHOSEN)
def test_an_image_is_rebuilt_from_one_gradient(record):
    found = match_gradient(gradient_of(MLP, record), MLP.initial_model, MLP)
    quality = image_quality(found.image, IMAGES[record])
    assert found.label == DIGITS[record]
    assert quality.cosine > 0.95
    assert quality.ssim > 0.8
    assert quality.psnr > 15.0
    assert found.objective == found.objectives.min()


def test_quality_falls_with_noise_on_average():
    levels = (0.0, 0.3, 1.0, 3.0)
    means = []
    for relative in levels:
        found = [
            image_quality(
                match_gradient(noisy(gradient_of(MLP, r), relative, r), MLP.initial_model, MLP).image, IMAGES[r]
            )
            for r in CHOSEN
        ]
        means.append(
            [np.mean([q.cosine for q in found]), np.mean([q.psnr for q in found]), np.mean([q.ssim for q in found])]
        )
    assert (np.diff(means, axis=0) < 0).all()


def test_overwhelming_noise_leaves_no_image():
    found = match_gradient(noisy(gradient_of(MLP, 200), 100.0, 0), MLP.initial_model, MLP, label=int(DIGITS[200]))
    assert image_quality(found.image, IMAGES[200]).ssim < 0.5


def test_the_first_layer_gives_the_image_away_without_a_search():
    for model in ("mlp", "linear"):
        problem = network(model, ridge=0.1)
        for record in CHOSEN:
            rebuilt = dense_input(gradient_of(problem, record), problem.initial_model, problem)
            np.testing.assert_allclose(rebuilt, IMAGES[record], atol=1e-10)


def test_the_label_is_where_the_last_bias_gradient_is_negative_also_with_a_ridge():
    problem = network("cnn", ridge=0.5)
    # A model with biases that are not zero, so that the ridge matters.
    w = problem.initial_model + 0.3 * np.random.default_rng(0).standard_normal(problem.dimension)
    for record in range(300, 320):
        assert infer_label(gradient_of(problem, record, w), w, problem) == DIGITS[record]


@pytest.mark.slow
def test_half_of_the_images_behind_a_convolutional_network_are_rebuilt():
    # Block maxima hide which pixel was the largest, and many starts end elsewhere.
    problem = network("cnn")
    found = [
        image_quality(
            match_gradient(gradient_of(problem, r), problem.initial_model, problem, restarts=16).image, IMAGES[r]
        )
        for r in range(200, 210)
    ]
    assert np.median([q.cosine for q in found]) > 0.9


def test_the_chain_from_messages_to_an_image_works_on_a_recorded_view():
    records = slice(200, 204)
    problem = sv.problems.classification(
        IMAGES[records][:, None], DIGITS[records][:, None], model="mlp", hidden=(16,), classes=10, seed=0
    )
    ring, algorithm, noise = sv.topologies.ring(4), sv.algorithms.atc(step_size=0.05), sv.noise.none()
    views = observe(problem, ring, algorithm, noise, sv.observers.eavesdropper(), rounds=2)
    seen = gradients_from_views(
        views, agent=2, topology=ring, algorithm=algorithm, noise=noise, start=problem.initial_model
    )
    for t in range(2):
        rebuilt = dense_input(seen.gradients[0, t], seen.points[0, t], problem)
        np.testing.assert_allclose(rebuilt, IMAGES[202], atol=1e-9)
        assert infer_label(seen.gradients[0, t], seen.points[0, t], problem) == DIGITS[202]


def test_the_same_seed_gives_the_same_image_and_another_one_another_start():
    gradient, w = gradient_of(MLP, 201), MLP.initial_model
    first, same, other = (match_gradient(gradient, w, MLP, restarts=8, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.image, same.image)
    assert (first.objectives != other.objectives).any()


def test_structural_similarity_agrees_with_window_by_window():
    rng = np.random.default_rng(0)
    x, y = rng.random((9, 8)), rng.random((9, 8))
    values = []
    for i in range(3):
        for j in range(2):
            a, b = x[i : i + 7, j : j + 7].ravel(), y[i : i + 7, j : j + 7].ravel()
            (va, c), (_, vb) = np.cov(a, b)
            top = (2 * a.mean() * b.mean() + 1e-4) * (2 * c + 9e-4)
            values.append(top / ((a.mean() ** 2 + b.mean() ** 2 + 1e-4) * (va + vb + 9e-4)))
    quality = image_quality(x, y)
    assert quality.ssim == pytest.approx(np.mean(values), rel=1e-10)
    assert quality.psnr == pytest.approx(10 * np.log10(1 / ((x - y) ** 2).mean()))
    equal = image_quality(x, x)
    assert equal.ssim == pytest.approx(1.0)
    assert equal.cosine == pytest.approx(1.0)
    assert equal.psnr == np.inf


def test_what_does_not_fit_is_refused():
    w = MLP.initial_model
    logistic = sv.problems.logistic_regression(FEATURES[:4, None], np.array([[1.0], [-1.0], [1.0], [-1.0]]))
    with pytest.raises(IncompatibleChoice, match="logistic_regression"):
        match_gradient(np.zeros(64), np.zeros(64), logistic)
    cnn = network("cnn")
    with pytest.raises(IncompatibleChoice, match="shares its weights"):
        dense_input(cnn.initial_model, cnn.initial_model, cnn)
    with pytest.raises(IncompatibleChoice, match="no unit"):
        dense_input(np.zeros_like(w), w, MLP)
    with pytest.raises(ConfigError, match="shape"):
        match_gradient(w[:5], w, MLP)
    with pytest.raises(ConfigError, match="parameters"):
        match_gradient(w[:5], w[:5], MLP)
    with pytest.raises(ConfigError, match="classes are 0 to 9"):
        match_gradient(w, w, MLP, label=10)
    for change in ({"restarts": 0}, {"steps": True}, {"total_variation": -1.0}):
        with pytest.raises(ConfigError, match=next(iter(change))):
            match_gradient(w, w, MLP, label=0, **change)
    with pytest.raises(ConfigError, match="7 x 7"):
        image_quality(np.zeros((4, 4)), np.zeros((4, 4)))
