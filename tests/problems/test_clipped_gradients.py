"""Whole gradients clipped: they stay in their ball with ridge and all, at any model, and the agent alone is protected."""

import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sottovoce as sv
from sottovoce.clipping import vector_norm

NORMS = ["l1", "l2"]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_no_gradient_leaves_the_ball_at_any_model(kind, make, row, norm, scale):
    clipped = make(kind).with_gradient_clipping(0.3, norm)
    draw = np.random.default_rng(2)
    for k in range(clipped.num_agents):
        data, model = row(clipped.arrays, k), scale * draw.standard_normal(clipped.dimension)
        found = [clipped.gradient(model, data), clipped.batch_gradient(model, clipped.records(data, np.array([2, 0])))]
        whole = [
            clipped.problem.gradient(model, data),
            clipped.problem.batch_gradient(model, clipped.problem.records(data, np.array([2, 0]))),
        ]
        for one, before in zip(found, whole, strict=True):
            length = vector_norm(before, norm)
            np.testing.assert_allclose(one, before * min(1.0, 0.3 / length), rtol=1e-12)
            assert vector_norm(one, norm) <= 0.3 * (1 + 1e-12)


def test_numpy_equals_jax(kind, make, row):
    clipped = make(kind).with_gradient_clipping(0.3, "l2")
    model = np.random.default_rng(1).standard_normal(clipped.dimension)
    with jax.enable_x64(True):
        data = {name: jnp.asarray(value) for name, value in row(clipped.arrays, 1).items()}
        compiled = jax.jit(clipped.gradient)(jnp.asarray(model), data)
    np.testing.assert_allclose(compiled, clipped.gradient(model, row(clipped.arrays, 1)), rtol=1e-12)


@pytest.mark.parametrize(("adjacency", "times"), [("replace", 2.0), ("add-remove", 1.0)])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_an_agent_changes_its_gradient_by_twice_the_clip_between_any_two_models(
    kind, make, adjacency, times, batch_size
):
    clipped = make(kind).with_gradient_clipping(0.3, "l2")
    found = clipped.sensitivity(unit="agent", adjacency=adjacency, norm="l2", batch_size=batch_size)
    assert found == pytest.approx(times * 0.3)
    assert (found.unit, found.compares, found.whole_gradient) == ("agent", "any two models", True)
    assert pickle.loads(pickle.dumps(found)).whole_gradient
    in_l1 = clipped.sensitivity(unit="agent", adjacency=adjacency, norm="l1")
    assert in_l1 == pytest.approx(times * 0.3 * np.sqrt(clipped.dimension))


def test_one_record_is_worth_its_agent_and_is_refused(make):
    clipped = make("linear_regression").with_gradient_clipping(0.3, "l2")
    with pytest.raises(sv.UnsupportedClaim, match=r"one record may turn.*as much as the agent, 0\.6.*with_clipping"):
        clipped.sensitivity(unit="record", adjacency="replace", norm="l2")


def test_a_record_really_turns_the_gradient_of_its_agent(row):
    # One of 100 records moves the mean across zero, and the clipped gradient by nearly 2C: what the refusal says is true.
    points = np.full((1, 100, 1), 0.0)
    worlds = []
    for value in (1.0, -1.0):
        changed = points.copy()
        changed[0, 0] = value
        problem = sv.problems.mean_estimation(changed, radius=1.0).with_gradient_clipping(0.009, "l2")
        worlds.append(problem.gradient(np.zeros(1), row(problem.arrays, 0)))
    assert abs(worlds[0] - worlds[1])[0] == pytest.approx(2 * 0.009)


def test_nothing_is_promised_about_the_losses(kind, make):
    clipped = make(kind).with_gradient_clipping(0.3, "l2")
    assert clipped.losses is None
    assert clipped.quadratic is None
    with pytest.raises(sv.UnsupportedClaim, match="its gradients are clipped"):
        sv.expected_msd(clipped, sv.topologies.ring(3), sv.algorithms.atc(step_size=0.1), sv.noise.none(), rounds=3)


def test_clipping_twice_is_refused(make):
    problem = make("linear_regression")
    with pytest.raises(sv.ConfigError, match=r"every record's gradient is clipped already, to 1 \(l2\).*Choose one"):
        problem.with_clipping(1.0, "l2").with_gradient_clipping(1.0, "l2")
    with pytest.raises(sv.ConfigError, match="clipped as a whole already"):
        problem.with_gradient_clipping(1.0, "l2").with_clipping(1.0, "l2")
    assert problem.with_gradient_clipping(1.0, "l2").with_gradient_clipping(2.0, "l1").gradient_clip.bound == 2.0


def test_another_clip_is_refused(make):
    with pytest.raises(sv.ConfigError, match="clips whole gradients itself"):
        make("linear_regression").with_gradient_clipping(1.0, "l2").sensitivity(
            unit="agent", adjacency="replace", norm="l2", clip=1.0
        )


def test_the_description_says_both(kind, make):
    clipped = make(kind).with_gradient_clipping(0.3, "l1")
    described = json.loads(json.dumps(clipped.describe()))
    assert described["gradient_clip"] == {"bound": 0.3, "norm": "l1"}
    assert described["clip"] is None
    assert described["kind"] == kind


def test_a_clip_that_never_acts_changes_nothing(make):
    problem, settings = make("linear_regression"), dict(rounds=4, progress=False, dtype="float64", record=["loss"])
    parts = sv.topologies.ring(3), sv.algorithms.cta(step_size=0.05), sv.noise.none()
    plain = sv.simulate(problem, *parts, **settings)
    far = sv.simulate(problem.with_gradient_clipping(1e9, "l2"), *parts, **settings)
    near = sv.simulate(problem.with_gradient_clipping(1e-3, "l2"), *parts, **settings)
    np.testing.assert_array_equal(plain.models, far.models)
    assert np.abs(near.models).max() <= 4 * 0.05 * 1e-3 * (1 + 1e-12)
