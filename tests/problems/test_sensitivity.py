"""Sensitivities are never exceeded by neighbouring data, and the bounds are attained."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.clipping import Clip, vector_norm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.problems import linear_regression, logistic_regression, mean_estimation

NORMS = ("l1", "l2")
BOUND, MODEL = 0.8, np.array([0.3, -0.5])


def one_agent(kind, features, targets, clip, ridge=0.1):
    """A problem whose agent 0 has these records; agent 1 holds both classes, so that any labels are allowed."""
    if kind == "mean_estimation":
        problem = mean_estimation([features], radius=50.0)
    elif kind == "logistic_regression":
        problem = logistic_regression(
            [features, np.ones((99, 2))], [np.sign(targets) + (targets == 0), np.resize([1, -1], 99)], ridge=ridge
        )
    else:
        problem = linear_regression([features], [targets], ridge=ridge)
    return problem if clip is None else problem.with_clipping(*clip)


def gradient_of(problem, indices=None, model=MODEL):
    data = {name: array[0] for name, array in problem.arrays.items()}
    if indices is None:
        return problem.gradient(model, data)
    return problem.batch_gradient(model, problem.records(data, np.asarray(indices)))


def neighbours(features, targets, generator, adjacency):
    """Data sets that differ in one record, by a record of any size."""
    for i in range(len(features)):
        if adjacency == "add-remove":
            yield np.delete(features, i, axis=0), np.delete(targets, i)
        else:
            for scale in (0.1, 1.0, 10.0):
                x, y = features.copy(), targets.copy()
                x[i], y[i] = np.clip(generator.standard_normal(2) * scale, -50, 50), generator.standard_normal() * scale
                yield x, y


@pytest.mark.parametrize("clip_norm", NORMS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_no_neighbouring_data_set_exceeds_the_record_sensitivity(kind, adjacency, norm, clip_norm):
    generator = np.random.default_rng(0)
    for _ in range(5):
        features, targets = generator.standard_normal((5, 2)) * 3, generator.standard_normal(5) * 3
        problem = one_agent(kind, features, targets, (BOUND, clip_norm))
        allowed = problem.sensitivity(unit="record", adjacency=adjacency, norm=norm, agent=0)
        for x, y in neighbours(features, targets, generator, adjacency):
            other = one_agent(kind, x, y, (BOUND, clip_norm))
            for model in generator.standard_normal((2, 2)) * 3:
                change = gradient_of(problem, model=model) - gradient_of(other, model=model)
                assert vector_norm(change, norm) <= allowed + 1e-12


@pytest.mark.parametrize("norm", NORMS)
def test_no_batch_of_distinct_records_exceeds_the_batch_sensitivity(kind, norm):
    generator = np.random.default_rng(1)
    features, targets = generator.standard_normal((5, 2)) * 3, generator.standard_normal(5) * 3
    problem = one_agent(kind, features, targets, (BOUND, norm))
    for size in (1, 2, 5):
        allowed = problem.sensitivity(unit="record", adjacency="replace", norm=norm, batch_size=size, agent=0)
        for x, y in neighbours(features, targets, generator, "replace"):
            other = one_agent(kind, x, y, (BOUND, norm))
            for indices in itertools.combinations(range(5), size):
                change = gradient_of(problem, indices) - gradient_of(other, indices)
                assert vector_norm(change, norm) <= allowed + 1e-12


def test_a_removed_record_replaced_in_its_batch_keeps_the_batch_sensitivity(kind):
    generator = np.random.default_rng(2)
    features, targets = generator.standard_normal((5, 2)) * 3, generator.standard_normal(5) * 3
    problem = one_agent(kind, features, targets, (BOUND, "l2"))
    allowed = problem.sensitivity(unit="record", adjacency="add-remove", norm="l2", batch_size=2, agent=0)
    removed = 4
    for first, stand_in in itertools.permutations(range(4), 2):
        change = gradient_of(problem, [first, removed]) - gradient_of(problem, [first, stand_in])
        assert vector_norm(change, "l2") <= allowed + 1e-12


def opposite_records(kind, count):
    """Records whose clipped gradients all point along e_1, and the same with record 0 turned round."""
    features = np.tile([30.0, 0.0], (count, 1))
    if kind == "mean_estimation":
        turned = features.copy()
        turned[0] *= -1
        return (features, np.zeros(count)), (turned, np.zeros(count))
    targets = np.full(count, 100.0)
    turned_targets = targets.copy()
    turned_targets[0] *= -1
    return (features, targets), (features, turned_targets)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_record_replacement_attains_its_sensitivity(kind, norm, batch_size):
    clip = (0.01, norm)  # both labels' gradients of these records are longer than this
    before, after = (one_agent(kind, *records, clip) for records in opposite_records(kind, 6))
    indices = None if batch_size is None else list(range(batch_size))
    model = np.zeros(2)
    change = gradient_of(before, indices, model) - gradient_of(after, indices, model)
    stated = before.sensitivity(unit="record", adjacency="replace", norm=norm, batch_size=batch_size, agent=0)
    assert vector_norm(change, norm) == pytest.approx(stated, rel=1e-6)
    assert stated == pytest.approx(2 * 0.01 / (batch_size or 6))


@pytest.mark.parametrize("norm", NORMS)
def test_record_removal_attains_two_c_over_n_not_c_over_n(kind, norm):
    (_, after) = opposite_records(kind, 6)
    problem = one_agent(kind, *after, (0.01, norm))
    without = one_agent(kind, after[0][1:], after[1][1:], (0.01, norm))
    change = gradient_of(problem, model=np.zeros(2)) - gradient_of(without, model=np.zeros(2))
    stated = problem.sensitivity(unit="record", adjacency="add-remove", norm=norm, agent=0)
    assert vector_norm(change, norm) == pytest.approx(stated, rel=1e-6)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("batch_size", [None, 2])
def test_agent_replacement_attains_its_sensitivity(kind, norm, batch_size):
    (features, targets), _ = opposite_records(kind, 4)
    before = one_agent(kind, features, targets, (0.01, norm))
    opposite = -features if kind == "mean_estimation" else features
    after = one_agent(kind, opposite, -targets, (0.01, norm))
    indices = None if batch_size is None else list(range(batch_size))
    change = gradient_of(before, indices, np.zeros(2)) - gradient_of(after, indices, np.zeros(2))
    stated = before.sensitivity(unit="agent", adjacency="replace", norm=norm, batch_size=batch_size, agent=0)
    assert vector_norm(change, norm) == pytest.approx(stated, rel=1e-6)
    alone = before.sensitivity(unit="agent", adjacency="add-remove", norm=norm, batch_size=batch_size, agent=0)
    assert vector_norm(gradient_of(before, indices, np.zeros(2)), norm) == pytest.approx(alone, rel=1e-6)


def test_a_record_drawn_twice_would_break_the_batch_sensitivity():
    before, after = (one_agent("linear_regression", *r, (0.01, "l2")) for r in opposite_records("linear_regression", 6))
    change = gradient_of(before, [0, 0], np.zeros(2)) - gradient_of(after, [0, 0], np.zeros(2))
    stated = before.sensitivity(unit="record", adjacency="replace", norm="l2", batch_size=2)
    assert vector_norm(change, "l2") > 1.9 * stated


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_box_bounds_unclipped_points_and_opposite_corners_attain_it(norm, adjacency):
    radius, count = 2.0, 4
    corners = np.full((count, 2), radius)
    turned = corners.copy()
    turned[0] = -radius
    problem = mean_estimation([turned], radius=radius)
    other = mean_estimation([corners if adjacency == "replace" else corners[1:]], radius=radius)
    stated = problem.sensitivity(unit="record", adjacency=adjacency, norm=norm)
    assert vector_norm(gradient_of(problem) - gradient_of(other), norm) == pytest.approx(stated, rel=1e-6)
    assert stated == pytest.approx(2 * radius * (np.sqrt(2) if norm == "l2" else 2) / count)


def test_agent_sensitivity_of_unclipped_points_is_refused_because_gradients_grow_with_the_model():
    with pytest.raises(UnsupportedClaim, match="ANY two gradients"):
        mean_estimation(np.zeros((2, 3, 2)), radius=1.0).sensitivity(unit="agent", adjacency="replace", norm="l2")


def test_norms_are_never_mixed_silently(make):
    problem = make("linear_regression")
    l2, l1 = problem.with_clipping(1.0, "l2"), problem.with_clipping(1.0, "l1")
    ask = {"unit": "agent", "adjacency": "replace"}
    assert l2.sensitivity(norm="l1", **ask) == pytest.approx(2 * np.sqrt(3))
    assert l1.sensitivity(norm="l2", **ask) == l1.sensitivity(norm="l1", **ask) == l2.sensitivity(norm="l2", **ask) == 2


def test_the_worst_agent_has_the_fewest_records(make):
    problem = make("logistic_regression").with_clipping(1.0, "l2")
    ask = {"unit": "record", "adjacency": "replace", "norm": "l2"}
    each = [problem.sensitivity(agent=k, **ask) for k in range(3)]
    assert each == pytest.approx([2 / 7, 2 / 4, 2 / 9])
    assert problem.sensitivity(**ask) == max(each)


@settings(max_examples=30)
@given(st.floats(0.01, 100), st.integers(1, 4), st.sampled_from(NORMS), st.sampled_from(["replace", "add-remove"]))
def test_larger_batches_and_smaller_bounds_never_raise_the_sensitivity(make, bound, batch_size, norm, adjacency):
    problem = make("linear_regression").with_clipping(bound, norm)
    smaller = problem.with_clipping(bound / 2, norm)
    ask = {"unit": "record", "adjacency": adjacency, "norm": norm}
    assert smaller.sensitivity(**ask) == pytest.approx(problem.sensitivity(**ask) / 2)
    batch = problem.sensitivity(batch_size=batch_size, **ask)
    assert problem.sensitivity(**ask) <= batch <= 2 * bound


def test_clip_argument_stands_for_clipping_elsewhere(make):
    problem = make("linear_regression")
    ask = {"unit": "agent", "adjacency": "replace", "norm": "l1"}
    assert problem.sensitivity(clip=1.5, **ask) == 3.0
    assert problem.sensitivity(clip=Clip(1.5, "l2"), **ask) == pytest.approx(3 * np.sqrt(3))
    clipped = problem.with_clipping(1.5, "l2")
    assert clipped.sensitivity(clip=1.5, **ask) == clipped.sensitivity(**ask) == pytest.approx(3 * np.sqrt(3))


@pytest.mark.parametrize("clip", [2.0, Clip(1.5, "l1")])
def test_clip_argument_that_contradicts_the_problem_is_refused(make, clip):
    problem = make("linear_regression").with_clipping(1.5, "l2")
    with pytest.raises(ConfigError, match=r"this problem clips to 1\.5"):
        problem.sensitivity(clip=clip, unit="agent", adjacency="replace", norm="l2")


@pytest.mark.parametrize("name", ["linear_regression", "logistic_regression"])
def test_unclipped_gradients_have_no_sensitivity(make, name):
    with pytest.raises(ConfigError, match="no default clip"):
        make(name).sensitivity(unit="record", adjacency="replace", norm="l2")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"unit": "row"}, "unit must be one of 'record', 'agent', 'person'; got 'row'"),
        ({"adjacency": "swap"}, "adjacency must be one of"),
        ({"norm": "linf"}, "Unknown norm 'linf'"),
        ({"batch_size": 5}, "exceeds the 4 record.* of agent 1"),
        ({"batch_size": 5, "agent": 1}, "agent 1"),
        ({"batch_size": 0}, "at least 1"),
        ({"batch_size": 2.5}, "whole number"),
        ({"batch_size": True}, "whole number"),
        ({"agent": 3}, "agents are 0 to 2"),
        ({"agent": -1}, "agents are 0 to 2"),
        ({"clip": 0.0}, "positive, finite number"),
    ],
)
def test_meaningless_request_is_refused_and_explained(kind, make, changed, message):
    problem = make(kind).with_clipping(1.0, "l2")
    with pytest.raises(ConfigError, match=message):
        problem.sensitivity(**{"unit": "record", "adjacency": "replace", "norm": "l2"} | changed)


def test_batch_larger_than_another_agents_data_is_fine_for_the_agent_asked(make):
    problem = make("linear_regression").with_clipping(1.0, "l2")
    stated = problem.sensitivity(unit="record", adjacency="replace", norm="l2", batch_size=5, agent=0)
    assert stated == pytest.approx(2 / 5)


@pytest.mark.parametrize("missing", ["unit", "adjacency", "norm"])
def test_unit_adjacency_and_norm_have_no_defaults(kind, make, missing):
    ask = {"unit": "record", "adjacency": "replace", "norm": "l2"}
    del ask[missing]
    with pytest.raises(TypeError, match=missing):
        make(kind).with_clipping(1.0, "l2").sensitivity(**ask)
