"""Networks for classification: forward and backward against NumPy written by hand, clipping, and learning digits."""

import functools
import json

import numpy as np
import pytest
from scipy.signal import correlate2d
from scipy.special import logsumexp, softmax

import sottovoce as sv
from sottovoce.clipping import vector_norm
from sottovoce.problems import classification, logistic_regression
from sottovoce.problems.networks import NETWORKS, Layer, convolutional, cross_entropy, hit_rate, start_convolutional

SIZES = (5, 3)


def tiny(model, clip=None, ridge=0.0, hidden=None):
    generator = np.random.default_rng(1)
    shape = (4, 5) if model == "cnn" else (3,)
    hidden = {"cnn": (2,), "mlp": (4,), "linear": None}[model] if hidden is None else hidden
    features = [generator.normal(size=(n, *shape)) for n in SIZES]
    labels = [np.arange(n) % 3 for n in SIZES]
    problem = classification(features, labels, model=model, hidden=hidden, seed=7, ridge=ridge)
    return problem if clip is None else problem.with_clipping(*clip)


def backward(problem, model, features, label):
    """The gradient of one record's cross-entropy through a perceptron with any hidden layers, by the chain rule."""
    layers = problem.parameters(model)
    values, slopes = [features], []
    for layer in layers[:-1]:
        before = values[-1] @ layer.weights + layer.bias
        slopes.append(before > 0)
        values.append(np.maximum(before, 0.0))
    error = softmax(values[-1] @ layers[-1].weights + layers[-1].bias)
    error[label] -= 1.0
    found = []
    for j in reversed(range(len(layers))):
        found.append(np.concatenate([np.outer(values[j], error).ravel(), error]))
        if j:
            error = (layers[j].weights @ error) * slopes[j - 1]
    return np.concatenate(found[::-1])


@pytest.mark.parametrize("hidden", [(4,), (4, 3)])
def test_gradients_of_a_perceptron_are_those_of_the_chain_rule_by_hand(record_gradients, hidden):
    problem = tiny("mlp", hidden=hidden)
    assert problem.dimension == sum(a * b + b for a, b in zip((3, *hidden), (*hidden, 3), strict=True))
    for model in (problem.initial_model, np.random.default_rng(2).normal(size=problem.dimension)):
        for k, n in enumerate(SIZES):
            features, labels = problem.arrays["features"][k], problem.arrays["targets"][k]
            expected = [backward(problem, model, features[i], labels[i]) for i in range(n)]
            np.testing.assert_allclose(record_gradients(problem, model, k), expected, atol=1e-12)


@pytest.mark.parametrize("model", NETWORKS)
def test_gradient_agrees_with_finite_differences(model, row):
    problem, step = tiny(model, ridge=0.1), 1e-6
    data = row(problem.arrays, 1)
    at = problem.initial_model + 0.1 * np.random.default_rng(0).normal(size=problem.dimension)
    slopes = [
        (problem.local_risk(at + step * e, data) - problem.local_risk(at - step * e, data)) / (2 * step)
        for e in np.eye(problem.dimension)
    ]
    np.testing.assert_allclose(problem.gradient(at, data), slopes, atol=1e-7)


@pytest.mark.parametrize(
    ("model", "clip"),
    [("linear", (0.3, "l1")), ("mlp", None), ("mlp", (0.3, "l1")), ("mlp", (0.3, "l2")), ("cnn", (0.3, "l2"))],
)
def test_batch_of_all_records_is_the_full_gradient_and_clipped_records_keep_a_bound_they_reach(
    model, clip, row, record_gradients
):
    problem = tiny(model, clip, ridge=0.1)
    at, data = problem.initial_model, row(problem.arrays, 1)  # the shorter agent
    full = problem.gradient(at, data)
    batch = problem.records(data, np.arange(SIZES[1]))
    np.testing.assert_allclose(problem.batch_gradient(at, batch), full, atol=1e-12)
    each = record_gradients(problem, at, 1)
    np.testing.assert_allclose(each.mean(axis=0), full, atol=1e-12)
    if clip is not None:
        norms = vector_norm(each - 0.1 * at, clip[1])
        assert norms.max() == pytest.approx(0.3, rel=1e-12)


def test_convolutional_network_is_correlation_positive_part_and_block_maximum():
    """SciPy correlates with zero padding; the weights' rows are ordered by kernel row, kernel column, input channel."""
    generator = np.random.default_rng(4)
    images = generator.normal(size=(2, 5, 6, 2))
    first, last = start_convolutional(3, (5, 6, 2), (3,), 4)
    first = first._replace(bias=generator.normal(size=3))
    kernels = first.weights.reshape(3, 3, 2, 3)
    expected = []
    for image in images:
        maps = [
            sum(correlate2d(image[:, :, c], kernels[:, :, c, o], mode="same") for c in range(2)) + first.bias[o]
            for o in range(3)
        ]
        blocks = [[[m[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max() for m in maps] for j in range(3)] for i in range(2)]
        expected.append(np.maximum(np.array(blocks), 0.0).ravel() @ last.weights + last.bias)
    np.testing.assert_allclose(convolutional((first, last), images), expected, atol=1e-12)


def test_images_without_channels_are_images_with_one():
    parameters = start_convolutional(3, (4, 4), (2,), 3)
    images = np.random.default_rng(0).normal(size=(2, 4, 4))
    np.testing.assert_array_equal(convolutional(parameters, images), convolutional(parameters, images[..., None]))


def test_cross_entropy_is_right_for_small_and_huge_logits():
    for scale in (1.0, 1e4):
        logits = scale * np.random.default_rng(0).normal(size=(6, 3))
        labels = np.array([0, 1, 2, 0, 1, 2])
        expected = logsumexp(logits, axis=1) - logits[np.arange(6), labels]
        np.testing.assert_allclose(cross_entropy(logits, labels), expected, rtol=1e-12, atol=1e-12)


def test_two_linear_classes_are_logistic_regression():
    generator = np.random.default_rng(0)
    features, labels = generator.normal(size=(2, 6, 3)), np.arange(12).reshape(2, 6) % 2
    problem, known = classification(features, labels, model="linear"), logistic_regression(features, labels)
    w = generator.normal(size=3)
    model = problem.flatten((Layer(np.stack([np.zeros(3), w], axis=1), np.zeros(2)),))
    assert problem.risk(model, problem.arrays) == pytest.approx(known.risk(w, known.arrays), rel=1e-12)


@pytest.mark.parametrize(("model", "norm"), [("mlp", "l1"), ("mlp", "l2"), ("cnn", "l2")])
def test_replacing_one_of_six_records_moves_the_gradient_by_at_most_two_clips_over_six(model, norm):
    generator = np.random.default_rng(0)
    shape = (4, 4) if model == "cnn" else (3,)
    features, labels = generator.normal(size=(6, *shape)), np.arange(6) % 3
    problem = classification([features], [labels], model=model, hidden=4, classes=3).with_clipping(0.2, norm)
    stated = problem.sensitivity(unit="record", adjacency="replace", norm=norm)
    assert stated == pytest.approx(2 * 0.2 / 6)

    def gradient(x, y):
        return problem.gradient(problem.initial_model, {"features": x, "targets": y, "count": np.float64(6)})

    start, largest = gradient(features, labels), 0.0
    for i in range(6):
        for _ in range(20):
            x, y = features.copy(), labels.copy()
            x[i], y[i] = generator.normal(size=shape) * generator.choice([0.1, 1, 100]), generator.integers(3)
            change = float(vector_norm(gradient(x, y) - start, norm))
            assert change <= stated * (1 + 1e-12)
            largest = max(largest, change)
    assert largest > 0.7 * stated  # the bound is not idle: half of it would be broken


def test_first_parameters_have_the_variance_of_he_and_follow_the_seed():
    features, labels = np.ones((1, 2, 400)), [[0, 1]]
    first, again, other = (classification(features, labels, hidden=300, seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.initial_model, again.initial_model)
    assert (first.initial_model != other.initial_model).any()
    layer = first.initial_parameters[0]
    # 120000 draws: the relative standard error of the variance is sqrt(2 / 120000) = 0.4 %
    assert layer.weights.var() == pytest.approx(2 / 400, rel=0.02)
    assert not layer.bias.any()


def test_hit_rate_counts_integer_labels():
    logits = np.array([[0.0, 1.0, 0.5], [2.0, 1.0, 0.5], [0.0, 1.0, 3.0], [1.0, 1.0, 0.0]])
    assert hit_rate(logits, np.array([1, 0, 0, 0])) == 0.75


@functools.cache
def digits():
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    features, labels = found.images[order] / 16.0, found.target[order]
    parts = np.array_split(np.arange(1400), 10)
    return [features[p] for p in parts], [labels[p] for p in parts], (features[1400:], labels[1400:])


@pytest.mark.parametrize(
    ("model", "clip", "step_size", "rounds", "least"),
    [("linear", None, 0.5, 100, 0.85), ("mlp", None, 0.5, 150, 0.9), ("mlp", (1.0, "l2"), 1.0, 150, 0.85)],
)
def test_ten_agents_on_a_ring_learn_to_read_digits(model, clip, step_size, rounds, least):
    features, labels, test = digits()
    problem = classification(features, labels, model=model)
    problem = problem if clip is None else problem.with_clipping(*clip)
    run = sv.simulate(
        problem, sv.topologies.ring(10), sv.algorithms.atc(step_size=step_size), sv.noise.none(), rounds=rounds,
        batch_size=16, test=test, progress=False,
    )  # fmt: skip
    assert set(run.metrics) == {"loss", "accuracy", "disagreement"}
    assert run.metrics["accuracy"][0, -1] > least
    assert run.metrics["loss"][0, -1] < 0.5 * run.metrics["loss"][0, 0]
    # The metric is the accuracy of the centroid, which NumPy computes from the final models too.
    layers = problem.parameters(run.models[0].mean(axis=0))
    own = hit_rate(NETWORKS[model].logits(layers, test[0].astype(np.float32)), test[1])
    assert own == pytest.approx(run.metrics["accuracy"][0, -1], abs=0.006)


def test_a_federation_of_convolutional_networks_learns_to_read_digits():
    features, labels, test = digits()
    problem = classification(features, labels, model="cnn", hidden=(4, 8))
    run = sv.simulate(
        problem, sv.topologies.federation(10), sv.algorithms.atc(step_size=0.5), sv.noise.none(), rounds=60,
        batch_size=16, test=test, record=["accuracy"], progress=False,
    )  # fmt: skip
    assert run.metrics["accuracy"][0, -1] > 0.6  # chance is 0.1


def test_private_learning_is_accounted_for_by_the_sensitivity_of_the_clip():
    features, labels, _ = digits()
    problem = classification(features, labels, hidden=8).with_clipping(1.0, "l2")
    sensitivity = problem.sensitivity(unit="record", adjacency="replace", norm="l2", batch_size=None)
    assert sensitivity == pytest.approx(2 / 140)
    setting = sv.topologies.ring(10), sv.algorithms.atc(step_size=0.5)
    stated = sv.account(
        *setting, sv.noise.independent(sv.noise.Gaussian(std=0.02)), sv.observers.eavesdropper(), rounds=20,
        sensitivity=sensitivity, unit="record",
    )  # fmt: skip
    # A step of 0.5 on a gradient that moves by 1/70, hidden by fresh noise in each of 20 rounds.
    assert stated.tradeoff.mu == pytest.approx(0.5 * sensitivity / 0.02 * np.sqrt(20), rel=1e-9)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ((np.ones((4, 3)), np.array([0, 1, 2, 3])), "labels 0/1/2"),
        ((np.ones((4, 3)), np.array([0, 1, 2, 0.5])), "labels 0/1/2"),
        ((np.ones((4, 3)), np.array([0, -1, 2, 0])), "labels 0/1/2"),
        ((np.full((4, 3), np.nan), np.zeros(4)), "finite"),
        ((np.ones((4, 2)), np.zeros(4)), r"needed are \[N, 3\] and \[N\]"),
        ((np.ones((4, 3)), np.zeros(3)), "needed are"),
        ((np.ones((0, 3)), np.zeros(0)), "N > 0"),
    ],
)
def test_test_records_that_do_not_fit_are_refused(test, message):
    with pytest.raises(sv.ConfigError, match=message):
        sv.simulate(
            tiny("mlp"), sv.topologies.complete(2), sv.algorithms.atc(step_size=0.1), sv.noise.none(), rounds=1,
            test=test, progress=False,
        )  # fmt: skip


ONES = np.ones((2, 3, 4))
LABELS = [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("features", "labels", "options", "message"),
    [
        (ONES, LABELS, {"model": "transformer"}, "choose one of 'linear', 'mlp', 'cnn'"),
        (ONES, LABELS, {"model": "cnn"}, "needs images"),
        (np.ones((2, 3, 2, 2)), LABELS, {"model": "cnn"}, "nothing is left"),
        (ONES, LABELS, {"model": "linear", "hidden": 3}, "no hidden layers"),
        (ONES, LABELS, {"hidden": ()}, "hidden is empty"),
        (ONES, LABELS, {"hidden": 0}, "hidden = 0; it must be a whole number of at least 1"),
        (ONES, LABELS, {"hidden": (3, True)}, "hidden = True; it must be a whole number"),
        (ONES, LABELS, {"hidden": "big"}, "hidden = .big.; it must be a whole number"),
        (ONES, LABELS, {"seed": -1}, "seed = -1; it must be"),
        (ONES, LABELS, {"seed": 0.5}, "seed = 0.5; it must be"),
        (ONES, LABELS, {"classes": 2}, "agent 0, record 2 has 2"),
        (ONES, LABELS, {"classes": 1}, "classes = 1; it must be"),
        (ONES, [[0, 1, -1], [0, 1, 2]], {}, "agent 0, record 2 has -1"),
        (ONES, [[0, 1, 1], [0, 0.5, 1]], {}, "agent 1, record 1 has 0.5"),
        (ONES, np.zeros((2, 3)), {}, "at least two classes"),
        (ONES, np.zeros((2, 3, 1)), {}, "must be a vector"),
        (ONES, [[0, 1], [0, 1, 2]], {}, "Agent 0 has 3 rows of features but 2 of labels"),
        (ONES, LABELS, {"ridge": -1.0}, "ridge"),
    ],
)
def test_malformed_classifications_are_refused(features, labels, options, message):
    with pytest.raises(sv.ConfigError, match=message):
        classification(features, labels, **options)


def test_description_names_the_network():
    described = json.loads(json.dumps(tiny("cnn", (1.0, "l2"), ridge=0.1).describe()))
    expected = {"kind": "classification", "model": "cnn", "hidden": [2], "classes": 3, "seed": 7, "ridge": 0.1}
    assert expected.items() <= described.items()


@pytest.mark.parametrize("wrong", [{"classes": 10**15}, {"hidden": [10**13]}])
def test_a_network_that_cannot_fit_is_refused_before_it_is_made(wrong):
    features, labels = np.zeros((2, 3, 4)), np.array([[0, 1, 0], [1, 0, 1]])
    with pytest.raises(sv.ConfigError, match=r"a model 'mlp' with .* parameters.*would need .*Lower classes or hidden"):
        sv.problems.classification(features, labels, model="mlp", **wrong)
