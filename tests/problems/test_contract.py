"""What every problem promises, clipped or not."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sottovoce.clipping import Clip, vector_norm
from sottovoce.errors import ConfigError
from sottovoce.problems import PROBLEMS


def models(problem, count=4, scale=2.0):
    return np.random.default_rng(5).standard_normal((count, problem.dimension)) * scale


def ridge_gradient(problem, model):
    factor = {"linear_regression": 2.0, "logistic_regression": 1.0}.get(problem.kind, 0.0)
    return factor * getattr(problem, "ridge", 0.0) * model


def test_gradient_is_the_derivative_of_the_local_risk(kind, make, row):
    problem = make(kind)
    with jax.enable_x64(True):
        for model in models(problem):
            for k in range(problem.num_agents):
                data = row(problem.arrays, k)
                expected = jax.grad(problem.local_risk)(
                    jnp.asarray(model), {n: jnp.asarray(a) for n, a in data.items()}
                )
                np.testing.assert_allclose(problem.gradient(model, data), expected, atol=1e-12)


def test_gradient_agrees_with_finite_differences(kind, make, row):
    problem, step = make(kind), 1e-6
    data, model = row(problem.arrays, 1), models(problem)[0]
    for j, direction in enumerate(np.eye(problem.dimension)):
        slope = problem.local_risk(model + step * direction, data) - problem.local_risk(model - step * direction, data)
        assert problem.gradient(model, data)[j] == pytest.approx(slope / (2 * step), abs=1e-7)


def test_gradient_is_the_average_of_the_record_gradients(problem, row, record_gradients):
    for model in models(problem):
        for k in range(problem.num_agents):
            average = record_gradients(problem, model, k).mean(axis=0)
            np.testing.assert_allclose(problem.gradient(model, row(problem.arrays, k)), average, atol=1e-12)


def test_batch_of_all_records_is_the_full_gradient(problem, row):
    for k in range(problem.num_agents):
        data, model = row(problem.arrays, k), models(problem)[0]
        batch = problem.records(data, np.arange(problem.sizes[k]))
        np.testing.assert_allclose(problem.batch_gradient(model, batch), problem.gradient(model, data), atol=1e-12)


def test_padded_agent_equals_the_agent_alone(problem, kind, make, row, split):
    features, targets, labels = split()
    for k in range(problem.num_agents):
        alone = {
            "linear_regression": lambda k=k: PROBLEMS["linear_regression"]([features[k]], [targets[k]], ridge=0.1),
            "logistic_regression": lambda k=k: PROBLEMS["logistic_regression"]([features[k]], [labels[k]], ridge=0.1),
            "mean_estimation": lambda k=k: PROBLEMS["mean_estimation"]([features[k].clip(-1.5, 1.5)], radius=1.5),
        }[kind]()
        if problem.clip is not None:
            alone = alone.with_clipping(problem.clip.bound, problem.clip.norm)
        for model in models(problem):
            data, own = row(problem.arrays, k), row(alone.arrays, 0)
            np.testing.assert_allclose(problem.gradient(model, data), alone.gradient(model, own), atol=1e-12)
            np.testing.assert_allclose(problem.local_risk(model, data), alone.local_risk(model, own), atol=1e-12)


def test_numpy_equals_jax_under_vmap_and_jit(problem, row):
    batch = np.array([2, 0, 1])
    network = models(problem, problem.num_agents)
    with jax.enable_x64(True):
        arrays = {name: jnp.asarray(array) for name, array in problem.arrays.items()}

        def batch_gradient(model, data):
            return problem.batch_gradient(model, problem.records(data, jnp.asarray(batch)))

        full = jax.jit(jax.vmap(problem.gradient))(jnp.asarray(network), arrays)
        sampled = jax.jit(jax.vmap(batch_gradient))(jnp.asarray(network), arrays)
        risk = jax.jit(jax.vmap(problem.risk, in_axes=(0, None)))(jnp.asarray(network), arrays)
        for k, model in enumerate(network):
            data = row(problem.arrays, k)
            np.testing.assert_allclose(full[k], problem.gradient(model, data), atol=1e-12)
            expected = problem.batch_gradient(model, problem.records(data, batch))
            np.testing.assert_allclose(sampled[k], expected, atol=1e-12)
            np.testing.assert_allclose(risk[k], problem.risk(model, problem.arrays), rtol=1e-12)


def test_float32_stays_float32_and_close(problem, row):
    arrays = {name: array.astype(np.float32) for name, array in problem.arrays.items()}
    model = models(problem)[0].astype(np.float32)
    data = row(arrays, 0)
    batch = problem.records(data, np.array([1, 2]))
    for value in (problem.gradient(model, data), problem.batch_gradient(model, batch), problem.risk(model, arrays)):
        assert value.dtype == np.float32
    exact = problem.gradient(model.astype(np.float64), row(problem.arrays, 0))
    np.testing.assert_allclose(problem.gradient(model, data), exact, rtol=1e-4, atol=1e-5)


def test_risk_is_the_uniform_average_of_unclipped_local_risks(problem, kind, make, row):
    unclipped = make(kind)
    for model in models(problem):
        average = np.mean([unclipped.local_risk(model, row(unclipped.arrays, k)) for k in range(problem.num_agents)])
        np.testing.assert_allclose(problem.risk(model, problem.arrays), average, rtol=1e-12)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_clipped_record_gradients_keep_the_bound_before_the_ridge(kind, norm, make, record_gradients):
    problem = make(kind).with_clipping(0.5, norm)
    for model in models(problem, scale=20.0):
        for k in range(problem.num_agents):
            data_part = record_gradients(problem, model, k) - ridge_gradient(problem, model)
            assert vector_norm(data_part, problem.clip.norm).max() <= problem.clip.bound * (1 + 1e-12)


def test_clipping_far_above_every_gradient_changes_nothing(kind, make, row):
    problem = make(kind)
    for norm in ("l1", "l2"):
        loose = problem.with_clipping(1e9, norm)
        for model in models(problem):
            expected = problem.gradient(model, row(problem.arrays, 0))
            np.testing.assert_allclose(loose.gradient(model, row(loose.arrays, 0)), expected, atol=1e-12)


def test_with_clipping_leaves_the_first_problem_as_it_was(kind, make):
    problem = make(kind)
    clipped = problem.with_clipping(2.0, "l1")
    assert problem.clip is None
    assert clipped.clip == Clip(2.0, "l1")
    np.testing.assert_allclose(clipped.optimum, problem.optimum)


def test_every_array_has_one_row_per_agent(problem):
    assert all(array.shape[0] == problem.num_agents for array in problem.arrays.values())
    assert all(np.isfinite(array).all() and array.dtype == np.float64 for array in problem.arrays.values())


def test_description_survives_json(problem):
    described = json.loads(json.dumps(problem.describe()))
    assert described["kind"] == problem.kind in PROBLEMS
    assert described["sizes"] == [7, 4, 9]
    assert (described["clip"] is None) == (problem.clip is None)


def test_accuracy_exists_exactly_where_declared(problem):
    assert problem.has_accuracy == (problem.accuracy is not None) == (problem.kind == "logistic_regression")


@pytest.mark.parametrize(("clip", "norm"), [(0.0, "l2"), (-1.0, "l1"), (float("nan"), "l2"), (1.0, "l3")])
def test_meaningless_clipping_is_refused(kind, make, clip, norm):
    with pytest.raises(ConfigError):
        make(kind).with_clipping(clip, norm)


def test_data_cannot_be_changed_behind_the_problem(kind, make):
    name = "points" if kind == "mean_estimation" else "features"
    with pytest.raises(ValueError, match="read-only"):
        make(kind).arrays[name][0, 0, 0] = 1.0
