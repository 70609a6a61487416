"""Malformed data are refused and named; partitions lose nothing; scalings look at one record only."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import ConfigError
from sottovoce.problems import (
    BREAST_CANCER_BOUNDS,
    linear_regression,
    load,
    logistic_regression,
    mean_estimation,
    partition,
    scale_features,
    synthetic_regression,
    unit_norm,
)

ONES = np.ones((2, 3, 2))
NAN = ONES.copy()
NAN[1, 2, 0] = np.nan


@pytest.mark.parametrize(
    ("features", "targets", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 3)), r"agent 0 must be a matrix \[n_k, d\]"),
        (np.ones((2, 3, 2, 1)), np.ones((2, 3)), "3 dimension"),
        (np.float64(1.0), np.ones(1), "one entry per agent"),
        ("text", np.ones(1), "one entry per agent"),
        ([], [], "0 agents; at least 1"),
        ([np.ones((3, 2)), np.ones((0, 2))], [np.ones(3), np.ones(0)], "Agent 1 has no records"),
        (np.ones((2, 3, 0)), np.ones((2, 3)), "no columns"),
        ([np.ones((3, 2)), np.ones((3, 4))], np.ones((2, 3)), "agent 0 has 2, agent 1 has 4"),
        (NAN, np.ones((2, 3)), "agent 1, record 2, column 0 is nan"),
        (ONES, [np.ones(3), np.array([1, np.inf, 1])], "targets must be finite; agent 1, record 1 is inf"),
        (ONES, np.ones((3, 3)), r"2 agent\(s\), but targets of 3"),
        (ONES, np.ones((2, 4)), "Agent 0 has 3 rows of features but 4 targets"),
        (ONES, np.ones((2, 3, 1)), r"must be a vector \[n_k\]"),
        ([[["a", "b"]]], [[1.0]], "agent 0 must be real numbers"),
        ([[[1j, 0]]], [[1.0]], "agent 0 must be real numbers"),
        ([[[1.0, 2.0], [3.0]]], [[1.0, 1.0]], "rectangular array"),
    ],
)
def test_malformed_data_are_refused_and_named(features, targets, message):
    with pytest.raises(ConfigError, match=message):
        linear_regression(features, targets)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[1, -1, 2], [1, -1, 1]], "agent 0, record 2 has 2"),
        ([[1, -1, 1], [1, -1, 0]], "all in"),
        ([[1, 1, 1], [1, 1, 1]], "both classes"),
        ([[0, 0, 0], [0, 0, 0]], "both classes"),
        ([[0.5, 1, 1], [0, 1, 1]], "agent 0, record 0 has 0.5"),
    ],
)
def test_labels_that_are_not_two_classes_are_refused(labels, message):
    with pytest.raises(ConfigError, match=message):
        logistic_regression(ONES, labels)


def test_one_agent_may_hold_a_single_class():
    assert logistic_regression(ONES, [[1, 1, 1], [-1, -1, -1]]).num_agents == 2


def test_zero_one_labels_mean_the_same_as_signed_labels(split):
    features, _, labels = split()
    signed = logistic_regression(features, labels, ridge=0.1)
    zero_one = logistic_regression(features, [(y + 1) / 2 for y in labels], ridge=0.1)
    assert np.array_equal(signed.labels, zero_one.labels)


@pytest.mark.parametrize("ridge", [-0.1, float("nan"), float("inf"), "big", None])
def test_meaningless_ridge_is_refused(ridge):
    with pytest.raises(ConfigError, match="ridge must be a non-negative, finite number"):
        linear_regression(ONES, np.ones((2, 3)), ridge=ridge)
    with pytest.raises(ConfigError, match="ridge"):
        logistic_regression(ONES, [[1, 1, 1], [-1, -1, -1]], ridge=ridge)


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan"), None])
def test_meaningless_radius_is_refused(radius):
    with pytest.raises(ConfigError, match="radius must be a positive, finite number"):
        mean_estimation(ONES, radius=radius)


def test_point_outside_the_box_is_named():
    points = [np.zeros((2, 2)), np.array([[0.0, 0.0], [0.0, 0.0], [0.5, -1.2]])]
    with pytest.raises(ConfigError, match=r"agent 1, record 2, coordinate 1 is -1\.2"):
        mean_estimation(points, radius=1.0)
    assert mean_estimation(points, radius=1.2).box == 1.2


def test_jax_arrays_and_nested_lists_are_accepted():
    assert linear_regression(jnp.ones((2, 3, 2)), [[1, 2, 3], [4, 5, 6]]).sizes.tolist() == [3, 3]


def test_callers_array_is_copied_not_frozen():
    features = np.ones((2, 3, 2))
    problem = linear_regression(features, np.ones((2, 3)))
    features[0, 0, 0] = 7.0
    assert problem.features[0, 0, 0] == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("margin", [1e3, -1e3, 0.0])
def test_logistic_loss_is_finite_and_right_at_extreme_margins(dtype, margin):
    problem = logistic_regression([[[1.0], [1.0]]], [[1, -1]])
    arrays = {name: array[0].astype(dtype) for name, array in problem.arrays.items()}
    model = np.array([margin], dtype=dtype)
    for value, expected in (
        (problem.local_risk(model, arrays), max(abs(margin) / 2, np.log(2))),
        (problem.gradient(model, arrays)[0], np.sign(margin) / 2),
        (
            jax.jit(problem.local_risk)(jnp.asarray(model), {n: jnp.asarray(a) for n, a in arrays.items()}),
            max(abs(margin) / 2, np.log(2)),
        ),
    ):
        assert value == pytest.approx(expected, rel=1e-6)


def test_accuracy_counts_signs_for_both_label_codings():
    problem = logistic_regression(ONES, [[1, 1, 1], [-1, -1, -1]])
    features, model = np.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [-2.0, 0.0]]), np.array([1.0, 0.0])
    for labels in ([1, -1, 1, 1], [1, 0, 1, 1]):
        assert problem.accuracy(model, features, np.array(labels)) == 0.75
        assert jax.jit(problem.accuracy)(jnp.asarray(model), jnp.asarray(features), jnp.asarray(labels)) == 0.75


def test_synthetic_regression_has_the_sizes_of_the_paper_and_repeats_by_seed():
    features, targets, model = synthetic_regression(seed=3)
    assert (features.shape, targets.shape, model.shape) == ((30, 100, 2), (30, 100), (2,))
    again = synthetic_regression(seed=3)
    assert all(np.array_equal(a, b) for a, b in zip((features, targets, model), again, strict=True))
    assert not np.array_equal(features, synthetic_regression(seed=4).features)


def test_synthetic_covariance_and_noise_have_the_ranges_asked_for():
    data = synthetic_regression(
        seed=0, num_agents=20, samples=20_000, dimension=3, eigenvalues=(0.2, 0.5), noise_variances=(0.01, 0.04)
    )
    rows = data.features.reshape(-1, 3)  # 400 000 samples: an eigenvalue's standard error is 0.2 %
    eigenvalues = np.linalg.eigvalsh(rows.T @ rows / len(rows))
    assert eigenvalues[[0, -1]] == pytest.approx([0.2, 0.5], rel=0.02)
    variances = (data.targets - data.features @ data.model).var(axis=1)  # standard error 1 %
    assert 0.0095 < variances.min() < variances.max() < 0.042
    assert variances.max() > 1.5 * variances.min()


def geometric_metropolis(generator, num_agents, radius=0.3):
    """Weights of a random geometric graph in the unit square, drawn again until connected."""
    while True:
        points = generator.random((num_agents, 2))
        links = np.linalg.norm(points[:, None] - points[None], axis=2) < radius
        np.fill_diagonal(links, False)
        degrees = links.sum(axis=1)
        if np.linalg.eigvalsh(np.diag(degrees) - links)[1] > 1e-9:
            weights = np.where(links, 1 / (1 + np.maximum(degrees[:, None], degrees)), 0.0)
            return weights + np.diag(1 - weights.sum(axis=0))


def mean_square_growth(features, weights, step_size, steps=40):
    """The factor by which E||error||^2 grows per ATC round of one-record gradients, by its exact recursion."""
    num_agents, _, d = features.shape
    maps = np.eye(d) - 2 * step_size * features[..., :, None] * features[..., None, :]  # [K, n, d, d]
    mean_maps = maps.mean(axis=1)
    second = np.broadcast_to(np.eye(d), (num_agents, num_agents, d, d)) * np.eye(num_agents)[:, :, None, None]
    for _ in range(steps):
        moved = np.einsum("kab,klbc,ldc->klad", mean_maps, second, mean_maps)
        own = second[range(num_agents), range(num_agents)]
        moved[range(num_agents), range(num_agents)] = (maps @ own[:, None] @ maps.transpose(0, 1, 3, 2)).mean(axis=1)
        combined = np.einsum("kp,lq,klab->pqab", weights, weights, moved, optimize=True)
        growth = np.einsum("kkaa->", combined)
        second = combined / growth
    return growth


def test_mean_square_growth_of_a_lone_agent_is_the_gaussian_moment():
    # 1 - 4 mu + 4 mu^2 (d + 2) = 1.96 at mu = 0.4, d = 2; 100 000 records know it to about 1 %.
    features = synthetic_regression(seed=0, num_agents=1, samples=100_000, eigenvalues=(1.0, 1.0)).features
    assert mean_square_growth(features, np.ones((1, 1)), 0.4, steps=20) == pytest.approx(1.96, rel=0.03)


def test_one_record_steps_of_0_4_are_mean_square_stable_on_geometric_networks_but_not_with_unit_variance():
    default, unit_variance = [], []
    for seed in range(8):  # every seed counts: unit variance is unstable on some of these graphs, not on all
        weights = geometric_metropolis(np.random.default_rng(seed), 30, radius=0.25)
        default.append(mean_square_growth(synthetic_regression(seed=seed).features, weights, 0.4))
        features = synthetic_regression(seed=seed, eigenvalues=(1.0, 1.0)).features
        unit_variance.append(mean_square_growth(features, weights, 0.4))
    assert max(default) < 0.9
    assert max(unit_variance) > 1.0 > min(unit_variance)


@pytest.mark.parametrize(
    "changed",
    [
        {"num_agents": 0},
        {"samples": 0},
        {"dimension": 0},
        {"eigenvalues": (0.0, 1.0)},
        {"eigenvalues": (2.0, 1.0)},
        {"noise_variances": (-1.0, 1.0)},
    ],
)
def test_meaningless_synthetic_data_are_refused(changed):
    with pytest.raises(ConfigError, match=next(iter(changed))):
        synthetic_regression(seed=0, **changed)


@settings(max_examples=50)
@given(
    st.integers(1, 8),
    st.integers(1, 3),
    st.integers(24, 60),
    st.floats(0.01, 100),
    st.integers(0, 1000),
    st.sampled_from(["iid", "dirichlet"]),
)
def test_partition_gives_every_record_to_exactly_one_agent(num_agents, min_size, count, alpha, seed, kind):
    labels = np.arange(count) % 3
    features, targets = partition(
        np.arange(count)[:, None],
        labels,
        num_agents=num_agents,
        kind=kind,
        seed=seed,
        min_size=min_size,
        alpha=alpha if kind == "dirichlet" else None,
    )
    assert len(features) == len(targets) == num_agents
    assert min(map(len, features)) >= min_size
    assert sorted(np.concatenate(features)[:, 0]) == list(range(count))
    assert all(np.array_equal(x[:, 0] % 3, y) for x, y in zip(features, targets, strict=True))


def test_iid_parts_are_nearly_equal_and_repeat_by_seed():
    features, _ = partition(np.arange(10)[:, None], np.zeros(10), num_agents=3, seed=1)
    again, _ = partition(np.arange(10)[:, None], np.zeros(10), num_agents=3, seed=1)
    assert sorted(map(len, features)) == [3, 3, 4]
    assert all(np.array_equal(a, b) for a, b in zip(features, again, strict=True))


def test_small_alpha_makes_agents_differ_more_than_large_alpha():
    labels = np.arange(3000) % 3

    def imbalance(alpha):
        _, targets = partition(labels[:, None], labels, num_agents=5, kind="dirichlet", alpha=alpha, seed=0)
        return np.mean([np.abs(np.bincount(y, minlength=3) / len(y) - 1 / 3).sum() for y in targets])

    assert imbalance(0.1) > 5 * imbalance(100.0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_agents": 0}, "num_agents must be at least 1"),
        ({"min_size": 0}, "min_size must be at least 1"),
        ({"num_agents": 4, "min_size": 3}, "need 12 records, but there are 10"),
        ({"kind": "shards"}, "'iid' or 'dirichlet'"),
        ({"kind": "dirichlet"}, "needs a positive, finite alpha; got None"),
        ({"kind": "dirichlet", "alpha": 0.0}, "alpha"),
        ({"alpha": 1.0}, "takes no alpha"),
        ({"features": np.ones(10)}, r"\[N, d\]"),
        ({"targets": np.ones(9)}, r"\(10,\); got shape \(9,\)"),
        ({"targets": np.arange(10.0), "kind": "dirichlet", "alpha": 1.0}, "splits by label"),
    ],
)
def test_impossible_partition_is_refused(changed, message):
    arguments = {"features": np.ones((10, 2)), "targets": np.arange(10) % 2, "num_agents": 2} | changed
    features, targets = arguments.pop("features"), arguments.pop("targets")
    with pytest.raises(ConfigError, match=message):
        partition(features, targets, **arguments)


def test_breast_cancer_is_loaded_unscaled_with_signed_labels():
    features, labels = load("breast_cancer")
    assert features.shape == (569, 30)
    assert features.max() > 1000
    assert ((labels == 1).sum(), (labels == -1).sum()) == (357, 212)
    assert BREAST_CANCER_BOUNDS.shape == (30, 2)


def test_breast_cancer_is_learnable_after_public_scaling():
    features, labels = load("breast_cancer")
    scaled = unit_norm(scale_features(features, BREAST_CANCER_BOUNDS))
    problem = logistic_regression(*partition(scaled, labels, num_agents=5), ridge=1e-3)
    assert problem.accuracy(problem.optimum, scaled, labels) > 0.9
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), 1.0)


def test_missing_scikit_learn_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ConfigError, match=r"pip install 'sottovoce\[data\]'"):
        load("breast_cancer")


def test_unknown_data_set_is_refused():
    with pytest.raises(ConfigError, match="known are 'breast_cancer'"):
        load("iris")


def test_scaling_uses_the_given_bounds_and_clips_beyond_them():
    scaled = scale_features([[0.0, 5.0], [20.0, -3.0]], [(0.0, 10.0), (0.0, 10.0)])
    assert scaled.tolist() == [[-1.0, 0.0], [1.0, -1.0]]


def test_scaling_one_record_does_not_depend_on_the_others():
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((6, 3))
    limits = [(-1.0, 1.0)] * 3
    for scaling in (lambda x: scale_features(x, limits), unit_norm):
        assert np.array_equal(scaling(rows)[2:3], scaling(rows[2:3]))


def test_zero_record_survives_normalisation():
    np.testing.assert_allclose(unit_norm([[0.0, 0.0], [3.0, 4.0]]), [[0.0, 0.0], [0.6, 0.8]])


@pytest.mark.parametrize("limits", [[(0, 1)], [(0, 1), (1, 1)], [(0, 1), (2, 1)], [(0, 1), (0, np.inf)]])
def test_bounds_that_scale_nothing_are_refused(limits):
    with pytest.raises(ConfigError, match="bounds"):
        scale_features(np.ones((2, 2)), limits)
