"""A user's own loss: gradients, clipping, refusals, and runs that start where the user says."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import sottovoce as sv
from sottovoce.clipping import vector_norm
from sottovoce.problems import custom_loss, linear_regression, logistic_regression

CLIPS = [None, (0.7, "l2"), (0.7, "l1")]


def squared_loss(parameters, batch):
    features, targets = batch
    return ((features @ parameters - targets) ** 2).mean()


def logistic_loss(parameters, batch):
    features, labels = batch
    return jnp.logaddexp(0.0, -labels * (features @ parameters)).mean()


def deep_loss(parameters, batch):
    features, targets = batch
    hidden = jnp.tanh(features @ parameters["in"]["weights"] + parameters["in"]["bias"])
    return ((hidden @ parameters["out"] - targets) ** 2).mean()


def deep_parameters(seed=0):
    generator = np.random.default_rng(seed)
    return {
        "in": {"weights": generator.normal(size=(3, 4)), "bias": generator.normal(size=4)},
        "out": generator.normal(size=4),
    }


def deep_problem(split, clip=None):
    features, targets, _ = split()
    problem = custom_loss(deep_loss, deep_parameters(), features, targets, ridge=0.1)
    return problem if clip is None else problem.with_clipping(*clip)


def models(problem, count=4, scale=2.0):
    return np.random.default_rng(5).standard_normal((count, problem.dimension)) * scale


@pytest.mark.parametrize("clip", CLIPS, ids=str)
def test_written_out_regressions_agree_with_the_built_in_ones(split, row, clip):
    """The built-in problems clip a scalar and never call a derivative of JAX: an independent route."""
    features, targets, labels = split()
    pairs = [
        (custom_loss(squared_loss, np.zeros(3), features, targets), linear_regression(features, targets)),
        (
            custom_loss(logistic_loss, np.zeros(3), features, labels, ridge=0.3),
            logistic_regression(features, labels, ridge=0.3),
        ),
    ]
    for own, built_in in pairs:
        if clip is not None:
            own, built_in = own.with_clipping(*clip), built_in.with_clipping(*clip)
        for model in models(own):
            np.testing.assert_allclose(
                own.risk(model, own.arrays), built_in.risk(model, built_in.arrays), rtol=1e-12, atol=1e-12
            )
            for k in range(3):
                data, expected = row(own.arrays, k), row(built_in.arrays, k)
                np.testing.assert_allclose(own.gradient(model, data), built_in.gradient(model, expected), atol=1e-12)
                batch, known = (p.records(d, np.array([2, 0])) for p, d in ((own, data), (built_in, expected)))
                np.testing.assert_allclose(
                    own.batch_gradient(model, batch), built_in.batch_gradient(model, known), atol=1e-12
                )


def test_gradient_agrees_with_finite_differences(split, row):
    problem, step = deep_problem(split), 1e-6
    model, data = models(problem, scale=0.7)[0], row(problem.arrays, 1)
    slopes = [
        (problem.local_risk(model + step * e, data) - problem.local_risk(model - step * e, data)) / (2 * step)
        for e in np.eye(problem.dimension)
    ]
    np.testing.assert_allclose(problem.gradient(model, data), slopes, atol=1e-6)


@pytest.mark.parametrize("clip", CLIPS, ids=str)
def test_batch_of_all_records_is_the_full_gradient_and_the_average_of_single_ones(split, row, record_gradients, clip):
    problem = deep_problem(split, clip)
    for k, model in enumerate(models(problem, 3)):
        data = row(problem.arrays, k)
        full = problem.gradient(model, data)
        batch = problem.records(data, np.arange(problem.sizes[k]))
        np.testing.assert_allclose(problem.batch_gradient(model, batch), full, atol=1e-12)
        np.testing.assert_allclose(record_gradients(problem, model, k).mean(axis=0), full, atol=1e-12)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_record_gradients_keep_the_bound_and_long_ones_reach_it(split, row, norm):
    problem = deep_problem(split).with_clipping(0.7, norm)
    free = deep_problem(split)
    for model in models(problem):
        for k in range(3):
            clipped, whole = (
                np.array(
                    [p.batch_gradient(model, p.records(row(p.arrays, k), np.array([i]))) for i in range(p.sizes[k])]
                )
                - 0.1 * model
                for p in (problem, free)
            )
            before, after = vector_norm(whole, norm), vector_norm(clipped, norm)
            assert (before > 0.7).any()
            np.testing.assert_allclose(after, np.minimum(before, 0.7), rtol=1e-12)
            np.testing.assert_allclose(clipped * before[:, None], whole * after[:, None], atol=1e-9)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_replacing_one_of_six_records_moves_the_gradient_by_at_most_the_sensitivity_and_nearly_as_much(row, norm):
    generator = np.random.default_rng(3)
    features, targets = generator.normal(size=(1, 6, 3)), generator.normal(size=(1, 6))
    clip = 0.5

    problem = custom_loss(deep_loss, deep_parameters(), features, targets).with_clipping(clip, norm)

    def gradient(features, targets):
        return problem.gradient(
            problem.initial_model, {"features": features[0], "targets": targets[0], "count": np.float64(6)}
        )

    start = gradient(features, targets)
    np.testing.assert_array_equal(start, problem.gradient(problem.initial_model, row(problem.arrays, 0)))
    stated = problem.sensitivity(unit="record", adjacency="replace", norm=norm)
    assert stated == pytest.approx(2 * clip / 6)
    largest = 0.0
    for i in range(6):
        for new_target in (-1e3, 1e3, *generator.normal(size=3)):
            for flip in (-1.0, 1.0):
                moved_x, moved_y = features.copy(), targets.copy()
                moved_x[0, i], moved_y[0, i] = flip * features[0, i], new_target
                change = vector_norm(gradient(moved_x, moved_y) - start, norm)
                assert change <= stated * (1 + 1e-12)
                largest = max(largest, float(change))
    # Same features, residual of the other sign and long: the clipped gradient turns round.
    assert largest > 0.99 * stated


def test_sensitivity_needs_a_clip(split):
    with pytest.raises(sv.ConfigError, match="not clipped"):
        deep_problem(split).sensitivity(unit="record", adjacency="replace", norm="l2")


def test_numpy_equals_jax_under_vmap_and_jit(split, row):
    problem = deep_problem(split, (0.7, "l2"))
    network = models(problem, 3)
    with jax.enable_x64(True):
        arrays = {name: jnp.asarray(array) for name, array in problem.arrays.items()}
        full = jax.jit(jax.vmap(problem.gradient))(jnp.asarray(network), arrays)
        risk = jax.jit(problem.risk)(jnp.asarray(network[0]), arrays)
    for k, model in enumerate(network):
        np.testing.assert_allclose(full[k], problem.gradient(model, row(problem.arrays, k)), atol=1e-12)
    local = [problem.local_risk(network[0], row(problem.arrays, k)) for k in range(3)]
    np.testing.assert_allclose(risk, np.mean(local), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_floating_point_type_is_kept(split, row, dtype):
    problem = deep_problem(split, (0.7, "l2"))
    model = models(problem)[0].astype(dtype)
    data = {name: array.astype(dtype) for name, array in row(problem.arrays, 0).items()}
    found = problem.gradient(model, data)
    assert isinstance(found, np.ndarray)
    assert found.dtype == problem.risk(model, problem.arrays).dtype == dtype
    assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(problem.parameters(model)))
    exact = problem.gradient(model.astype(np.float64), row(problem.arrays, 0))
    np.testing.assert_allclose(found, exact, atol=1e-5 if dtype == np.float32 else 1e-14)


def test_the_wire_form_is_that_of_ravel_pytree_and_comes_back(split):
    problem, parameters = deep_problem(split), deep_parameters()
    with jax.enable_x64(True):
        np.testing.assert_array_equal(problem.initial_model, ravel_pytree(parameters)[0])
    back = problem.parameters(problem.initial_model)
    jax.tree.map(np.testing.assert_array_equal, back, parameters)
    np.testing.assert_array_equal(problem.flatten(back), problem.initial_model)


def test_rows_that_belong_to_nobody_never_reach_the_loss(row):
    """Filled up with zeros, the direction x / ||x|| of the shorter agent's missing records would be 0 / 0."""

    def direction_loss(w, batch):
        (x,) = batch
        return ((x / jnp.sqrt((x * x).sum(-1, keepdims=True)) - w) ** 2).sum(-1).mean()

    points = [np.random.default_rng(0).normal(size=(n, 2)) for n in (2, 5)]
    problem = custom_loss(direction_loss, np.zeros(2), points)
    for made in (problem, problem.with_clipping(1.0, "l2")):
        for k in range(2):
            alone = custom_loss(direction_loss, np.zeros(2), [points[k]])
            alone = alone if made.clip is None else alone.with_clipping(1.0, "l2")
            model = np.array([0.3, -2.0])
            np.testing.assert_allclose(
                made.gradient(model, row(made.arrays, k)), alone.gradient(model, row(alone.arrays, 0)), atol=1e-14
            )


def test_records_of_any_shape_and_whole_numbers_reach_the_loss_as_they_were():
    seen = []

    def table_loss(table, batch):
        images, words = batch
        seen.append((images.shape[1:], images.dtype.kind, words.dtype.kind))
        return (images.sum((1, 2, 3)) * table[words]).mean()

    problem = custom_loss(table_loss, np.ones(3), np.ones((2, 4, 2, 3, 1)), np.array([[0, 1, 2, 0]] * 2))
    run = sv.simulate(
        problem, sv.topologies.complete(2), sv.algorithms.atc(step_size=0.1), sv.noise.none(), rounds=1, progress=False
    )
    assert set(seen) == {((2, 3, 1), "f", "i")}
    # 6 ones per image, word 0 twice and words 1 and 2 once among 4 records
    np.testing.assert_allclose(run.models[0], [[1 - 0.3, 1 - 0.15, 1 - 0.15]] * 2, rtol=1e-6)


def test_one_round_starts_at_the_given_parameters_and_averages_the_steps(split, row):
    problem = deep_problem(split, (0.7, "l2"))
    run = sv.simulate(
        problem, sv.topologies.complete(3), sv.algorithms.atc(step_size=0.2), sv.noise.none(), rounds=1,
        dtype="float64", progress=False,
    )  # fmt: skip
    start = problem.initial_model
    gradients = np.array([problem.gradient(start, row(problem.arrays, k)) for k in range(3)])
    np.testing.assert_allclose(run.models[0], [start - 0.2 * gradients.mean(axis=0)] * 3, atol=1e-12)
    assert np.abs(start).min() > 0


def test_built_in_problems_start_at_zero(make, kind):
    problem = make(kind)
    np.testing.assert_array_equal(problem.initial_model, np.zeros(problem.dimension))


def test_what_is_not_known_is_refused_with_advice(split):
    problem = deep_problem(split)
    assert problem.losses is None
    assert problem.quadratic is None
    for claim in (lambda: problem.optimum, lambda: problem.weighted_optimum(np.ones(3)), lambda: problem.constants):
        with pytest.raises(sv.UnsupportedClaim, match=r"Record 'loss'|logistic_regression"):
            claim()
    network = sv.topologies.ring(3), sv.algorithms.atc(step_size=0.01), sv.noise.none()
    run = sv.simulate(problem, *network, rounds=2, progress=False)
    assert set(run.metrics) == {"loss", "disagreement"}
    with pytest.raises(sv.UnsupportedClaim, match="no known optimum"):
        sv.simulate(problem, *network, rounds=2, record=["msd_centroid"], progress=False)
    with pytest.raises(sv.UnsupportedClaim):
        sv.expected_msd(problem, *network, rounds=2)


def test_a_users_accuracy_is_recorded_on_test_records(split):
    features, _, labels = split()

    def accuracy(parameters, features, labels):
        return ((features @ parameters > 0) == (labels > 0)).mean()

    problem = custom_loss(logistic_loss, np.ones(3), features, labels, accuracy=accuracy)
    network = sv.topologies.ring(3), sv.algorithms.atc(step_size=1e-9), sv.noise.none()
    test = np.array([[1.0, 0, 0], [-1.0, 0, 0], [2.0, 1, 1], [3.0, 0, 0]]), np.array([1, -1, 1, -1])
    run = sv.simulate(problem, *network, rounds=1, test=test, progress=False)
    assert run.metrics["accuracy"][0, 0] == pytest.approx(0.75)
    pile = np.concatenate(features), np.concatenate(labels)
    on_training = sv.simulate(problem, *network, rounds=1, progress=False).metrics["accuracy"][0, 0]
    assert on_training == pytest.approx(float(problem.accuracy(np.ones(3), *pile)))
    with pytest.raises(sv.ConfigError, match=r"needed are \[N, 3\] and \[N\]"):
        sv.simulate(problem, *network, rounds=1, test=(np.ones((2, 2)), np.ones(2)), progress=False)


class TestNotFinite:
    """One error, with the round and the agent whose loss it was."""

    def problem(self, bad_agent):
        def growing(w, batch):
            (limit,) = batch  # the gradient is -1 up to the limit, and not a number beyond it
            return -(w * jnp.where(w > limit, jnp.nan, 1.0)).mean()

        return custom_loss(growing, np.float64(1.0), np.where(np.arange(6)[:, None] == bad_agent, 5.2, 1e9))

    @pytest.mark.parametrize(("agent", "chunk", "clip"), [(3, 50, None), (5, 1, 3.0)])
    def test_a_gradient_that_is_not_a_number_names_its_round_and_agent(self, agent, chunk, clip):
        """w = 1, 1.5, ..: the tenth gradient, at 5.5, is the first taken above 5.2."""
        problem = self.problem(agent) if clip is None else self.problem(agent).with_clipping(clip, "l2")
        with pytest.raises(sv.Diverged, match=f"in round 10, first at agent {agent} .*mend the loss"):
            sv.simulate(
                problem, sv.topologies.complete(6), sv.algorithms.atc(step_size=0.5), sv.noise.none(), rounds=50,
                record=["disagreement"], chunk=chunk, repeats=3, repeats_together=2, progress=False,
            )  # fmt: skip

    def test_a_loss_that_is_not_a_number_is_found_one_round_earlier_when_recorded(self):
        with pytest.raises(sv.Diverged, match="in round 9, first at agent 4 "):
            sv.simulate(
                self.problem(4), sv.topologies.complete(6), sv.algorithms.atc(step_size=0.5), sv.noise.none(),
                rounds=50, progress=False,
            )  # fmt: skip

    def test_an_infinite_gradient_is_not_clipped_to_a_finite_one(self):
        def root(w, batch):
            return (jnp.sqrt(jnp.abs(w)) * batch[0]).mean()

        problem = custom_loss(root, np.float64(0.0), np.array([[0.0], [1.0]])).with_clipping(1.0, "l2")
        assert not np.isfinite(problem.gradient(np.zeros(1), {k: a[1] for k, a in problem.arrays.items()})).all()


def summed(w, batch):
    return ((batch[0] - w) ** 2).sum()


def coupled(w, batch):
    (x,) = batch
    return (((x - x.mean(0)) * w) ** 2).mean()


@pytest.mark.parametrize(
    ("loss", "parameters", "records", "message"),
    [
        (summed, np.zeros(2), [np.ones((1, 3, 2))], r"not the sum"),
        (coupled, np.ones(2), [np.random.default_rng(0).normal(size=(1, 3, 2))], "influence each other"),
        (lambda w, b: (b[0] - w).sum(-1), np.zeros(2), [np.ones((1, 3, 2))], r"shape \(3,\)"),
        (lambda w, b: 1, np.zeros(2), [np.ones((1, 3, 2))], "one real number"),
        (lambda w, b: (w.sum(), w.sum()), np.zeros(2), [np.ones((1, 3, 2))], "one real number"),
        ("squared", np.zeros(2), [np.ones((1, 3, 2))], "must be a function"),
        (squared_loss, {"a": np.zeros(2, dtype=int)}, [np.ones((1, 3, 2))] * 2, r"\['a'\] is of type int"),
        (
            squared_loss,
            {"w": np.zeros(2), "act": abs},
            [np.ones((1, 3, 2))] * 2,
            r"\['act'\] is a builtin.*take a model apart",
        ),
        (squared_loss, np.array([0.0, np.nan]), [np.ones((1, 3, 2))] * 2, "finite"),
        (squared_loss, {}, [np.ones((1, 3, 2))] * 2, "no array"),
        (squared_loss, np.zeros(2), [], "No records"),
        (squared_loss, np.zeros(2), [np.ones((1, 3, 2)), np.ones((2, 3))], r"1 agent\(s\), but targets of 2"),
        (squared_loss, np.zeros(2), [np.ones((1, 3, 2)), np.ones((1, 2))], "Agent 0 has 3 rows of features but 2"),
        (squared_loss, np.zeros(2), [[np.ones((3, 2)), np.ones((0, 2))]], "agent 1 must be a non-empty"),
        (squared_loss, np.zeros(2), [[np.ones((3, 2)), np.ones((3, 1))]], "need the same shape"),
        (squared_loss, np.zeros(2), [np.full((1, 3, 2), np.nan)], "agent 0, record 0 holds nan"),
        (squared_loss, np.zeros(2), [np.full((1, 3, 2), 2**40)], "beyond 2"),
        (squared_loss, np.zeros(2), [[["a"]]], "real numbers"),
        (squared_loss, np.zeros(2), [3.0], "one entry per agent"),
        (squared_loss, np.zeros(2), [[]], "0 agents"),
    ],
)
def test_malformed_losses_parameters_and_records_are_refused(loss, parameters, records, message):
    with pytest.raises(sv.ConfigError, match=message):
        custom_loss(loss, parameters, *records)


def test_a_ridge_inside_the_loss_is_no_coupling():
    custom_loss(lambda w, b: ((b[0] - w) ** 2).mean() + (w * w).sum(), np.ones(2), np.ones((1, 3, 2)))


@pytest.mark.parametrize("ridge", [-1.0, float("nan"), "big"])
def test_meaningless_ridge_is_refused(ridge):
    with pytest.raises(sv.ConfigError, match="ridge"):
        custom_loss(squared_loss, np.zeros(2), np.ones((1, 3, 2)), np.ones((1, 3)), ridge=ridge)


def test_accuracy_needs_features_and_targets():
    with pytest.raises(sv.ConfigError, match="exactly features and targets"):
        custom_loss(lambda w, b: (b[0] - w).mean(), np.zeros(2), np.ones((1, 3, 2)), accuracy=lambda w, x, y: 1.0)


def test_description_survives_json_and_data_cannot_be_changed(split):
    problem = deep_problem(split, (0.7, "l1"))
    described = json.loads(json.dumps(problem.describe()))
    assert described["loss"] == "deep_loss"
    assert described["dimension"] == 20
    assert described["clip"] == {"bound": 0.7, "norm": "l1"}
    with pytest.raises(ValueError, match="read-only"):
        problem.arrays["features"][0, 0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        problem.initial_parameters["out"][0] = 1.0


def test_jax_is_loaded_only_when_a_problem_is_made():
    program = (
        "import sys, numpy as np, sottovoce as sv; sv.problems.classification; early = 'jax' in sys.modules;"
        "sv.problems.classification(np.ones((1, 2, 2)), [[0, 1]]); sys.exit(early or 'jax' not in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
