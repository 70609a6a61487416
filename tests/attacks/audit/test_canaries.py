"""Neighbouring worlds: they differ by exactly the sensitivity, in one agent, and in nothing else."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.audit.canaries import canary_worlds, changed_agent, first_change, linear_change, record_worlds
from sottovoce.attacks.transcript import agent_gradient

RING, HUB = sv.topologies.ring(5), sv.topologies.federation(5)
ATC = sv.algorithms.atc(step_size=0.3)
AXIS = np.array([0.6, -0.8])


def gradients(worlds, agent, model):
    return [agent_gradient(world, agent)(np.asarray(model)) for world in worlds]


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("model", [[0.0, 0.0], [3.0, -2.0]])
def test_the_canarys_gradients_differ_by_the_sensitivity_along_the_axis_at_every_model(adjacency, model):
    worlds = canary_worlds(RING, ATC, sensitivity=1.4, agent=2, axis=AXIS, adjacency=adjacency)
    first, second = gradients(worlds, 2, model)
    np.testing.assert_allclose(second - first, 1.4 * AXIS, atol=1e-12)
    expected = -0.7 * AXIS if adjacency == "replace" else np.zeros(2)
    np.testing.assert_allclose(first, expected, atol=1e-12)
    assert changed_agent(worlds) == 2
    np.testing.assert_allclose(first_change(worlds, 2), AXIS, atol=1e-12)


def test_the_other_agents_keep_the_gradients_they_are_given():
    others = np.random.default_rng(1).standard_normal((5, 2))
    worlds = canary_worlds(RING, ATC, sensitivity=1.0, agent=2, axis=AXIS, others=others)
    for agent in (0, 1, 3, 4):
        for found in gradients(worlds, agent, [1.0, 1.0]):
            np.testing.assert_allclose(found, others[agent], atol=1e-12)


def test_a_ridge_gives_the_promised_curvature_and_leaves_the_change():
    worlds = canary_worlds(RING, ATC, sensitivity=1.0, agent=2, axis=AXIS, ridge=0.5)
    here, there = gradients(worlds, 2, [0.0, 0.0]), gradients(worlds, 2, [2.0, 4.0])
    np.testing.assert_allclose(there[0] - here[0], [1.0, 2.0], atol=1e-12)
    np.testing.assert_allclose(there[1] - there[0], AXIS, atol=1e-12)
    assert linear_change(worlds, ATC, 2, 3) is None  # gradients react


@pytest.mark.parametrize("exchange", ["model", "gradient"])
@pytest.mark.parametrize("step_size", [0.01, lambda t: 0.5 / t])
@pytest.mark.parametrize(("adjacency", "size"), [("replace", 2.0), ("add-remove", 1.0)])
def test_clipped_updates_differ_by_what_the_clip_allows(exchange, step_size, adjacency, size):
    bound = 0.7
    algorithm = sv.algorithms.fedavg(
        step_size=step_size, local_steps=3, exchange=exchange, update_clip=sv.clipping.Clip(bound, "l2")
    )
    worlds = canary_worlds(HUB, algorithm, sensitivity=size * bound, agent=1, axis=AXIS, adjacency=adjacency)
    start = np.array([0.2, 0.1])
    for t in (1, 6):
        sent = [algorithm.exchanges[0].message(start, agent_gradient(world, 1), t) for world in worlds]
        assert np.linalg.norm(sent[1] - sent[0]) == pytest.approx(size * bound, rel=1e-6)
    change = linear_change(worlds, algorithm, 1, 6)
    assert change.size == pytest.approx(size * bound, rel=1e-6)
    np.testing.assert_allclose(np.abs(change.direction), 1.0, rtol=1e-6)


def test_several_local_steps_on_a_canary_are_one_step_along_their_sum():
    algorithm = sv.algorithms.fedavg(step_size=0.1, local_steps=4)
    worlds = canary_worlds(HUB, algorithm, sensitivity=0.5, agent=1, axis=AXIS)
    change = linear_change(worlds, algorithm, 1, 3)
    assert change.size == pytest.approx(4 * 0.5)
    np.testing.assert_allclose(change.axis, AXIS, atol=1e-9)
    assert change.algorithm.local_steps is None


def problems():
    rng = np.random.default_rng(2)
    features, targets = rng.standard_normal((5, 4, 3)), rng.standard_normal((5, 4))
    labels = np.where(targets > 0, 1.0, -1.0)
    new = np.array([1.0, 2.0, -1.0])

    def absolute(w, batch):
        return abs(batch[0] @ w - batch[1]).mean()

    return {
        "linear": (sv.problems.linear_regression(features, targets, ridge=0.1), (new, 3.0)),
        "clipped": (sv.problems.linear_regression(features, targets).with_clipping(1.0, "l2"), (new, 3.0)),
        "logistic": (sv.problems.logistic_regression(features, labels, ridge=0.1), (new, -1.0)),
        "mean": (sv.problems.mean_estimation(np.clip(features, -2, 2), radius=2.0), (new,)),
        "custom": (sv.problems.custom_loss(absolute, np.zeros(3), features, targets), (new, 3.0)),
    }


@pytest.mark.parametrize("kind", ["linear", "clipped", "logistic", "mean", "custom"])
def test_one_record_is_replaced_and_nothing_else(kind):
    problem, replacement = problems()[kind]
    first, second = record_worlds(problem, 3, 1, replacement)
    assert first is problem
    assert changed_agent((first, second)) == 3
    model = np.array([0.1, -0.2, 0.3])
    # The average over four records moves by a quarter of the change of one record's gradient.
    before, after = gradients((first, second), 3, model)
    data = [{name: values[3] for name, values in world.arrays.items()} for world in (first, second)]
    single = [w.batch_gradient(model, w.records(d, np.array([1]))) for w, d in zip((first, second), data, strict=True)]
    np.testing.assert_allclose(after - before, (single[1] - single[0]) / 4, atol=1e-9)
    assert np.linalg.norm(after - before) > 1e-3


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"axis": [1.0, 1.0]}, "norm 1"),
        ({"agent": 5}, "0 to 4"),
        ({"agent": True}, "agent"),
        ({"sensitivity": 0.0}, "sensitivity"),
        ({"sensitivity": float("nan")}, "sensitivity"),
        ({"adjacency": "both"}, "adjacency"),
        ({"others": np.zeros((4, 2))}, "others"),
    ],
)
def test_malformed_canaries_are_refused(change, match):
    asked = {"sensitivity": 1.0, "agent": 2, "axis": AXIS} | change
    with pytest.raises(sv.ConfigError, match=match):
        canary_worlds(RING, ATC, **asked)


def test_a_sensitivity_that_the_clip_does_not_give_is_refused():
    algorithm = sv.algorithms.fedavg(step_size=0.1, update_clip=sv.clipping.Clip(1.0, "l2"))
    with pytest.raises(sv.ConfigError, match="clipped to 1"):
        canary_worlds(HUB, algorithm, sensitivity=3.0, agent=0, axis=AXIS)


@pytest.mark.parametrize(
    ("agent", "record", "replacement", "match"),
    [
        (5, 0, (np.zeros(3), 1.0), "no record"),
        (0, 4, (np.zeros(3), 1.0), "no record"),
        (0, 0, (np.zeros(2), 1.0), "shape"),
        (0, 0, (np.full(3, np.inf), 1.0), "shape"),
        (0, 0, (np.zeros(3),), "one entry"),
        (0, 0, (np.zeros(3), 0.5), "-1 or 1"),
    ],
)
def test_records_that_do_not_fit_are_refused(agent, record, replacement, match):
    with pytest.raises(sv.ConfigError, match=match):
        record_worlds(problems()["logistic"][0], agent, record, replacement)


def test_a_point_outside_the_box_is_refused():
    with pytest.raises(sv.ConfigError, match="box"):
        record_worlds(problems()["mean"][0], 0, 0, (np.full(3, 2.5),))


def test_worlds_that_differ_in_no_agent_or_in_two_are_refused():
    problem, replacement = problems()["linear"]
    one, two = (record_worlds(problem, k, 0, replacement)[1] for k in (0, 1))
    with pytest.raises(sv.ConfigError, match="exactly one"):
        changed_agent((problem, problem))
    with pytest.raises(sv.ConfigError, match="exactly one"):
        changed_agent((one, two))
