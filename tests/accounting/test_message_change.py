"""The change of a message found by trying all neighbours, against sums written out by hand."""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting.question.message_change import ChangeOnTheseData, largest_change_on_these_data
from sottovoce.algorithms import atc, fedavg, inexact_admm, three_matrix
from sottovoce.clipping import Clip
from sottovoce.problems import linear_regression, logistic_regression, mean_estimation

ORDER = {"l1": 1, "l2": 2}
KINDS = ("linear_regression", "logistic_regression", "mean_estimation")
STEP = fedavg(step_size=0.3)


def records(kind, rng, count, dimension=3):
    """Records of a kind, as the problem's factory takes them."""
    x = rng.normal(size=(count, dimension))
    if kind == "mean_estimation":
        return (np.clip(x, -2.0, 2.0),)
    return (x, rng.normal(size=count)) if kind == "linear_regression" else (x, np.resize([-1.0, 1.0], count))


def build(kind, agents, clip=None):
    """A problem with these agents' records."""
    fields = [list(field) for field in zip(*agents, strict=True)]
    makers = {"linear_regression": linear_regression, "logistic_regression": logistic_regression}
    problem = makers[kind](*fields, ridge=0.1) if kind in makers else mean_estimation(*fields, radius=2.0)
    return problem if clip is None else problem.with_clipping(clip.bound, clip.norm)


def record_gradients(kind, fields, w, clip=None):
    """Every record's gradient, clipped, one after the other: [n, d]."""
    gradients = []
    for x, *rest in zip(*fields, strict=True):
        if kind == "linear_regression":
            g = 2.0 * (x @ w - rest[0]) * x
        elif kind == "logistic_regression":
            g = -rest[0] * x / (1.0 + math.exp(rest[0] * (x @ w)))
        else:
            g = w - x
        size = math.inf if clip is None else clip.bound / np.linalg.norm(g, ORDER[clip.norm])
        gradients.append(g * min(1.0, size))
    return np.array(gradients)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("clip", [None, Clip(0.4, "l1"), Clip(0.4, "l2")], ids=["unclipped", "l1", "l2"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_step_changes_by_the_largest_difference_of_record_gradients(kind, clip, norm):
    rng = np.random.default_rng(1)
    own, universe, w = records(kind, rng, 30), records(kind, rng, 12), rng.normal(size=3)
    problem = build(kind, [own], clip)
    mine, new = record_gradients(kind, own, w, clip), record_gradients(kind, universe, w, clip)

    def largest(adjacency, **options):
        return largest_change_on_these_data(STEP, problem, w, agent=0, adjacency=adjacency, norm=norm, **options)

    def size(changes):
        return 0.3 * np.linalg.norm(changes, ORDER[norm], axis=-1).max()

    replaced, own_only = largest("replace", universe=universe), largest("replace")
    assert replaced.value == pytest.approx(size(mine[:, None] - new[None]) / 30, rel=1e-12)
    assert own_only.value == pytest.approx(size(mine[:, None] - mine[None]) / 30, rel=1e-12)
    removals = [mine.mean(0) - np.delete(mine, j, axis=0).mean(0) for j in range(30)]
    additions = [mine.mean(0) - np.vstack([mine, g]).mean(0) for g in new]
    removed, either = largest("add-remove"), largest("add-remove", universe=universe)
    assert removed.value == pytest.approx(size(np.array(removals)), rel=1e-11)
    assert either.value == pytest.approx(size(np.array(removals + additions)), rel=1e-11)
    assert [replaced.neighbours, own_only.neighbours, removed.neighbours, either.neighbours] == [360, 900, 30, 42]


def test_several_local_steps_are_walked_on_the_changed_data():
    rng = np.random.default_rng(2)
    own, universe, start = (
        records("linear_regression", rng, 6),
        records("linear_regression", rng, 4),
        rng.normal(size=3),
    )
    problem = build("linear_regression", [own], Clip(1.0, "l2"))

    def walked(fields):
        w = start
        for _ in range(3):
            g = record_gradients("linear_regression", fields, w, Clip(1.0, "l2"))
            w = w - 0.3 * (g.mean(0) + 0.2 * w)
        return w

    def replaced(j, i):
        x, y = own[0].copy(), own[1].copy()
        x[j], y[j] = universe[0][i], universe[1][i]
        return x, y

    changes = {(j, i): np.linalg.norm(walked(replaced(j, i)) - walked(own)) for j in range(6) for i in range(4)}
    found = largest_change_on_these_data(
        fedavg(step_size=0.3, local_steps=3), problem, start, agent=0, adjacency="replace", norm="l2", universe=universe
    )
    assert found.value == pytest.approx(max(changes.values()), rel=1e-12)
    assert (found.record, found.replacement) == max(changes, key=changes.get)


def test_the_gradient_form_sends_the_model_form_without_its_step():
    rng = np.random.default_rng(3)
    problem, w = build("logistic_regression", [records("logistic_regression", rng, 8)]), rng.normal(size=3)
    model, gradient = (
        largest_change_on_these_data(
            fedavg(step_size=0.3, local_steps=2, exchange=exchange), problem, w, agent=0, adjacency="replace", norm="l2"
        ).value
        for exchange in ("model", "gradient")
    )
    assert model == pytest.approx(0.3 * gradient, rel=1e-12)


def test_records_of_other_agents_and_padding_do_not_enter():
    rng = np.random.default_rng(4)
    for kind in KINDS:
        agents = [records(kind, rng, count) for count in (4, 9, 2)]
        w = rng.normal(size=3)
        for adjacency in ("replace", "add-remove"):
            together = build(kind, agents, Clip(0.5, "l2"))
            for k in range(3):
                options = {"adjacency": adjacency, "norm": "l2"}
                alone = build(kind, [agents[k]], Clip(0.5, "l2"))
                among = largest_change_on_these_data(STEP, together, w, agent=k, **options)
                assert among.agent == k
                assert among.value == pytest.approx(
                    largest_change_on_these_data(STEP, alone, w, agent=0, **options).value, rel=1e-12
                )


def test_admm_at_its_own_point_carries_gradients_from_message_to_message():
    """Message 1 is the model, message 2 is w1 - 2 g0/rho, message 3 is w2 + (g0 - 2 g1)/rho, g1 taken at w1 - g0/rho."""
    rng = np.random.default_rng(5)
    own, start, w1, w2 = records("mean_estimation", rng, 5), *rng.normal(size=(3, 3))
    problem, rho = build("mean_estimation", [own]), 4.0

    def sent(points, count):
        g0 = start - points.mean(0)
        g1 = w1 - g0 / rho - points.mean(0)
        return [start, w1 - 2.0 * g0 / rho, w2 + (g0 - 2.0 * g1) / rho][count]

    for count in range(3):
        changed = [np.delete(own[0], j, axis=0) for j in range(5)]
        by_hand = max(np.abs(sent(points, count) - sent(own[0], count)).sum() for points in changed)
        found = largest_change_on_these_data(
            inexact_admm(penalty=rho, linearise_at="own"), problem, start, agent=0, adjacency="add-remove", norm="l1",
            received=[w1, w2][:count],
        )  # fmt: skip
        assert found.round == count + 1
        assert found.value == pytest.approx(by_hand, rel=1e-12, abs=1e-15)
    assert by_hand > 0.01


def test_step_sizes_follow_the_round_of_the_message():
    rng = np.random.default_rng(6)
    problem, w = build("mean_estimation", [records("mean_estimation", rng, 5)]), rng.normal(size=3)
    fading = atc(step_size=lambda t: 1.0 / t)
    first, third = (
        largest_change_on_these_data(
            fading, problem, w, agent=0, adjacency="replace", norm="l2", received=[w] * before
        ).value
        for before in (0, 2)
    )
    assert third == pytest.approx(first / 3.0, rel=1e-12)


def test_every_exchange_of_a_round_is_a_message_of_its_own():
    """Two exchanges: the first sends the model as it is, the second what a gradient step has made of the combination."""
    rng = np.random.default_rng(7)
    problem, w = build("mean_estimation", [records("mean_estimation", rng, 5)]), rng.normal(size=3)
    pair = sv.topologies.complete(2)
    algorithm = three_matrix(step_size=lambda t: 0.5 * t, first=pair, last=pair)
    options = {"agent": 0, "adjacency": "replace", "norm": "l2"}
    found = [largest_change_on_these_data(algorithm, problem, w, received=[w] * t, **options) for t in range(4)]
    assert [change.round for change in found] == [1, 1, 2, 2]
    assert [change.value for change in found[::2]] == [0.0, 0.0]
    one_step = largest_change_on_these_data(fedavg(step_size=0.5), problem, w, **options).value
    assert [change.value for change in found[1::2]] == pytest.approx([one_step, 2.0 * one_step], rel=1e-12)


def test_the_change_is_no_number_that_an_accountant_takes():
    rng = np.random.default_rng(8)
    problem = build("mean_estimation", [records("mean_estimation", rng, 5)] * 3, Clip(1.0, "l2"))
    change = largest_change_on_these_data(STEP, problem, np.zeros(3), agent=0, adjacency="replace", norm="l2")
    assert isinstance(change, ChangeOnTheseData)
    federation, noise = sv.topologies.federation(3), sv.noise.independent(sv.noise.Gaussian(std=1.0))
    arguments = (federation, STEP, noise, sv.observers.eavesdropper())
    sv.account(*arguments, rounds=1, sensitivity=change.value, unit="record")  # the number alone would pass
    with pytest.raises(sv.ConfigError, match="sensitivity"):
        sv.account(*arguments, rounds=1, sensitivity=change, unit="record")
    with pytest.raises(TypeError):
        float(change)


GOOD = records("linear_regression", np.random.default_rng(9), 4)
REFUSED = {
    "no algorithm": ({"algorithm": "fedavg"}, "give one of sv.algorithms"),
    "no problem": ({"problem": "linear_regression"}, "problem is a str"),
    "agent missing": ({"agent": 2}, "There is no agent 2"),
    "agent negative": ({"agent": -1}, "agent = -1"),
    "agent a bool": ({"agent": True}, "agent = True"),
    "adjacency unknown": ({"adjacency": "remove"}, "adjacency = 'remove'"),
    "norm unknown": ({"norm": "linf"}, "Unknown norm 'linf'"),
    "model too long": ({"model": np.zeros(4)}, "model has shape"),
    "model NaN": ({"model": [0.0, math.nan, 0.0]}, "model holds NaN"),
    "model of bools": ({"model": np.zeros(3, dtype=bool)}, "model holds bool"),
    "received of wrong width": ({"received": [np.zeros(3), np.zeros(2)]}, r"received\[1\] has shape"),
    "received infinite": ({"received": [np.full(3, math.inf)]}, r"received\[0\] holds NaN or infinity"),
    "universe without targets": ({"universe": (GOOD[0],)}, "universe must be a tuple"),
    "universe an array": ({"universe": GOOD[0]}, "universe must be a tuple"),
    "universe too wide": ({"universe": (np.zeros((4, 5)), GOOD[1])}, "universe features have shape"),
    "universe targets short": ({"universe": (GOOD[0], GOOD[1][:3])}, "universe targets have shape"),
    "universe empty": ({"universe": (np.zeros((0, 3)), np.zeros(0))}, "at least one"),
    "universe NaN": ({"universe": (GOOD[0] * math.nan, GOOD[1])}, "universe features holds NaN"),
    "universe ragged": ({"universe": ([[1.0], [1.0, 2.0]], GOOD[1])}, "no rectangular array"),
    "no second record": ({"agent": 1, "adjacency": "add-remove"}, "Agent 1 has one record"),
    "beyond finite numbers": ({"model": np.full(3, 1e308)}, "not finite"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=list(REFUSED))
def test_malformed_inputs_are_refused_by_name(change, message):
    alone = tuple(field[:1] for field in GOOD)
    given = {
        "algorithm": fedavg(step_size=0.3, local_steps=3),
        "problem": build("linear_regression", [GOOD, alone]),
        "model": np.zeros(3),
        "agent": 0,
        "adjacency": "replace",
        "norm": "l2",
    }
    largest_change_on_these_data(**given)
    with pytest.raises(sv.ConfigError, match=message):
        largest_change_on_these_data(**(given | change))


def test_labels_and_points_that_no_agent_could_hold_are_refused():
    rng = np.random.default_rng(10)
    options = {"agent": 0, "adjacency": "replace", "norm": "l2"}
    logistic = build("logistic_regression", [records("logistic_regression", rng, 4)])
    with pytest.raises(sv.ConfigError, match="labels must be -1 or 1"):
        largest_change_on_these_data(STEP, logistic, np.zeros(3), universe=(np.ones((1, 3)), [0.0]), **options)
    points = build("mean_estimation", [records("mean_estimation", rng, 4)])
    with pytest.raises(sv.ConfigError, match="must lie in the problem's box"):
        largest_change_on_these_data(STEP, points, np.zeros(3), universe=(np.full((1, 3), 2.5),), **options)
