"""Persons with several records: no change of all records of one person exceeds its sensitivity, and some reach it.

Every neighbouring data set of a small problem is tried: each person's records take every combination of values from a universe whose clipped
gradients point in opposite directions. Nothing of the formula is used on that side.
"""

import copy
import itertools
import json
import pickle

import numpy as np
import pytest

from sottovoce.clipping import vector_norm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.problems import (
    Persons,
    classification,
    custom_loss,
    linear_regression,
    logistic_regression,
    mean_estimation,
)

KINDS = ["linear_regression", "logistic_regression", "mean_estimation", "custom_loss"]
BOUND, MODEL = 0.01, np.array([0.2, 0.0])
HERE = np.array([0, 1, 1, 2, 2, 2])  # whose record each of agent 0's six is: persons with one, two and three records
UNIVERSE = [
    ([30.0, 0.0], 1.0),
    ([30.0, 0.0], -1.0),
    ([-30.0, 3.0], 1.0),
]  # records, the first two with opposite gradients


def squared(w, batch):
    return ((batch[1] * 100 - batch[0] @ w) ** 2).mean()


def problem_of(kind, records, clip=(BOUND, "l2"), ridge=0.1):
    """A problem whose agent 0 has these records; agent 1 has many, of both labels."""
    features, labels = np.array([x for x, _ in records]), np.array([y for _, y in records])
    many, both = np.ones((40, 2)), np.resize([1.0, -1.0], 40)
    if kind == "mean_estimation":
        made = mean_estimation([features * labels[:, None], many], radius=30.0)
    elif kind == "logistic_regression":
        made = logistic_regression([features, many], [labels, both], ridge=ridge)
    elif kind == "custom_loss":
        made = custom_loss(squared, np.zeros(2), [features, many], [labels, both], ridge=ridge)
    else:
        made = linear_regression([features, many], [100 * labels, both], ridge=ridge)
    return made if clip is None else made.with_clipping(*clip)


def gradient_of(problem, indices=None):
    data = {name: array[0] for name, array in problem.arrays.items()}
    if indices is None:
        return problem.gradient(MODEL, data)
    return problem.batch_gradient(MODEL, problem.records(data, np.asarray(indices)))


def with_other_values(records, owners):
    """Every data set that differs in the values of all records of one person."""
    for person in np.unique(owners):
        places = np.flatnonzero(owners == person)
        for values in itertools.product(UNIVERSE, repeat=len(places)):
            changed = list(records)
            for place, value in zip(places, values, strict=True):
                changed[place] = value
            yield changed


def largest_change(kind, records, owners, norm, batch_size=None, clip=(BOUND, "l2")):
    """Over every neighbour, and every batch that both worlds may draw."""
    draws = [None] if batch_size is None else list(itertools.combinations(range(len(owners)), batch_size))
    before = {draw: gradient_of(problem_of(kind, records, clip), draw) for draw in draws}
    found = 0.0
    for changed in with_other_values(records, owners):
        other = problem_of(kind, changed, clip)
        found = max(found, *(vector_norm(gradient_of(other, draw) - before[draw], norm) for draw in draws))
    return found


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("batch_size", [None, 2, 4])
def test_all_records_of_one_person_change_a_gradient_by_exactly_its_sensitivity(kind, norm, batch_size):
    records = [UNIVERSE[0]] * 6
    problem = problem_of(kind, records, (BOUND, norm)).with_persons(3, [HERE, 10 + np.arange(40)])
    stated = problem.sensitivity(unit="person", adjacency="replace", norm=norm, batch_size=batch_size, agent=0)
    assert stated == pytest.approx(2 * BOUND * (3 / 6 if batch_size is None else min(3, batch_size) / batch_size))
    tried = largest_change(kind, records, HERE, norm, batch_size, (BOUND, norm))
    assert tried == pytest.approx(stated, rel=1e-6)
    one = problem.sensitivity(unit="record", adjacency="replace", norm=norm, batch_size=batch_size, agent=0)
    assert tried > 1.9 * one  # the sensitivity of a record would be exceeded


def test_a_users_own_loss_has_the_sensitivity_of_persons():
    records = [UNIVERSE[0]] * 4
    problem = problem_of("custom_loss", records).with_persons(2)
    stated = problem.sensitivity(unit="person", adjacency="replace", norm="l2", agent=0)
    turned = problem_of("custom_loss", [UNIVERSE[1]] * 2 + records[2:])
    change = vector_norm(gradient_of(problem) - gradient_of(turned), "l2")
    assert change == pytest.approx(stated, rel=1e-5) == pytest.approx(2 * BOUND * 2 / 4)


@pytest.mark.parametrize("kind", KINDS[:3])
def test_no_person_that_comes_or_goes_changes_more_and_some_change_that_much(kind):
    records = [UNIVERSE[0]] * 3 + [UNIVERSE[1]] * 3
    problem = problem_of(kind, records).with_persons(3)
    stated = problem.sensitivity(unit="person", adjacency="add-remove", norm="l2", agent=0)
    found = []
    for number in (1, 2, 3):
        for taken in itertools.combinations(range(6), number):
            left = [one for place, one in enumerate(records) if place not in taken]
            found.append(vector_norm(gradient_of(problem) - gradient_of(problem_of(kind, left)), "l2"))
        for new in itertools.product(UNIVERSE, repeat=number):
            found.append(vector_norm(gradient_of(problem) - gradient_of(problem_of(kind, records + list(new))), "l2"))
    assert max(found) == pytest.approx(stated, rel=1e-6)
    assert stated == pytest.approx(2 * BOUND * 3 / 6)  # not C 3/6: the divisor follows the data


def test_where_a_person_is_gone_others_stand_in_the_batch():
    records = [UNIVERSE[0]] * 3 + [UNIVERSE[1]] * 3
    problem = problem_of("linear_regression", records).with_persons(2)
    stated = problem.sensitivity(unit="person", adjacency="add-remove", norm="l2", batch_size=3, agent=0)
    gone, found = {0, 1}, []
    for draw in itertools.combinations(range(6), 3):
        kept = [place for place in draw if place not in gone]
        others = [place for place in range(6) if place not in gone and place not in draw]
        for stand_ins in itertools.combinations(others, 3 - len(kept)):
            change = gradient_of(problem, draw) - gradient_of(problem, [*kept, *stand_ins])
            found.append(vector_norm(change, "l2"))
    assert max(found) == pytest.approx(stated, rel=1e-6) == pytest.approx(2 * BOUND * 2 / 3)


@pytest.mark.parametrize(("batch_size", "needed"), [(None, 1), (4, 4)])
def test_a_person_whom_an_agent_cannot_do_without_is_not_taken_away(batch_size, needed):
    problem = problem_of("linear_regression", [UNIVERSE[0]] * 6).with_persons(6 - needed + 1)
    ask = {"unit": "person", "norm": "l2", "batch_size": batch_size}
    with pytest.raises(UnsupportedClaim, match=f"fewer than the {needed} that a gradient needs"):
        problem.sensitivity(adjacency="add-remove", **ask)
    assert problem.sensitivity(adjacency="add-remove", agent=1, **ask) > 0
    assert problem.sensitivity(adjacency="replace", **ask) > 0


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_points_in_a_box_move_by_the_boxes_diameter_each(norm):
    corners = np.full((4, 2), 2.0)
    turned = corners.copy()
    turned[:3] = -2.0
    problem, other = (mean_estimation([points], radius=2.0).with_persons(3) for points in (corners, turned))
    stated = problem.sensitivity(unit="person", adjacency="replace", norm=norm)
    assert vector_norm(gradient_of(problem) - gradient_of(other), norm) == pytest.approx(stated)
    assert stated == pytest.approx(3 / 4 * 4 * (np.sqrt(2) if norm == "l2" else 2))


def test_a_person_with_more_records_than_a_batch_or_an_agent_holds_changes_all_of_it_and_no_more():
    problem = problem_of("linear_regression", [UNIVERSE[0]] * 6).with_persons(8)
    ask = {"unit": "person", "adjacency": "replace", "norm": "l2", "agent": 0}
    assert problem.sensitivity(**ask) == problem.sensitivity(batch_size=5, **ask) == pytest.approx(2 * BOUND)


def test_one_record_per_person_is_the_record():
    problem = problem_of("logistic_regression", [UNIVERSE[0]] * 6).with_persons(1)
    for batch_size, adjacency in itertools.product((None, 3), ("replace", "add-remove")):
        ask = {"adjacency": adjacency, "norm": "l1", "batch_size": batch_size}
        assert problem.sensitivity(unit="person", **ask) == problem.sensitivity(unit="record", **ask)


def test_a_sensitivity_says_of_whom_it_is_true_and_keeps_it():
    problem = problem_of("linear_regression", [UNIVERSE[0]] * 6, ridge=0.0).with_persons(3, [HERE, 10 + np.arange(40)])
    stated = problem.sensitivity(unit="person", adjacency="replace", norm="l2")
    for one in (stated, copy.copy(stated), pickle.loads(pickle.dumps(stated))):
        assert (one.unit, one.compares, one.persons) == ("person", "same model", Persons(3, checked=True))
    assert problem.sensitivity(unit="record", adjacency="replace", norm="l2").persons is None


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_declared_survives_clipping_and_identifiers_are_not_kept(kind):
    problem = problem_of(kind, [UNIVERSE[0]] * 6, clip=None)
    declared = problem.with_persons(3, [987654321 + HERE, np.arange(40)]).with_clipping(1.0, "l2")
    assert declared.persons == Persons(3, checked=True)
    assert problem.persons is None
    assert declared.describe()["records_per_person"] == 3
    assert "records_per_person" not in problem.describe()
    assert "98765432" not in json.dumps(declared.describe()) + repr({n: a.tolist() for n, a in declared.arrays.items()})


def test_a_classifier_has_persons_too():
    problem = classification(np.ones((2, 4, 3)), np.resize([0, 1], (2, 4)), model="linear").with_clipping(0.5, "l2")
    declared = problem.with_persons(2, [[1, 1, 2, 2], [3, 3, 4, 5]])
    assert declared.sensitivity(unit="person", adjacency="replace", norm="l2") == pytest.approx(2 * 0.5 * 2 / 4)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_persons_of_whom_nothing_is_known(kind):
    with pytest.raises(ConfigError, match=r"says nothing of persons. Use problem.with_persons"):
        problem_of(kind, [UNIVERSE[0]] * 6).sensitivity(unit="person", adjacency="replace", norm="l2")


def test_a_person_with_too_many_records_is_refused_by_place_not_by_name():
    problem = problem_of("linear_regression", [UNIVERSE[0]] * 6)
    with pytest.raises(ConfigError) as refused:
        problem.with_persons(2, [987654321 + HERE, np.arange(40)])
    assert "agent 0: 1 person(s) have more than records_per_person = 2 records, the most 3" in str(refused.value)
    assert "the person of record 3" in str(refused.value)
    assert "98765432" not in str(refused.value)


def test_a_person_at_two_agents_is_refused_by_place_not_by_name():
    problem = problem_of("linear_regression", [UNIVERSE[0]] * 6)
    elsewhere = 10 + np.arange(40)
    elsewhere[7] = 987654323
    with pytest.raises(ConfigError) as refused:
        problem.with_persons(3, [987654321 + HERE, elsewhere])
    assert "1 person(s) have records at several agents" in str(refused.value)
    assert "record 3 of agent 0 and record 7 of agent 1 belong to the same person" in str(refused.value)
    assert "98765432" not in str(refused.value)


@pytest.mark.parametrize(
    ("most", "persons", "said"),
    [
        (0, None, "records_per_person = 0"),
        (1.5, None, "records_per_person = 1.5"),
        (True, None, "records_per_person = True"),
        (3, [HERE], "for 1 agents, and the problem has 2"),
        (3, [HERE[:5], np.arange(40)], "a whole number for each of its 6 records"),
        (3, [HERE.astype(float), np.arange(40)], "agent 0 have type float64"),
        (3, [HERE, np.array(["a"] * 40)], "agent 1 have type <U1"),
    ],
)
def test_declarations_that_say_nothing_are_refused(most, persons, said):
    with pytest.raises(ConfigError, match=said):
        problem_of("linear_regression", [UNIVERSE[0]] * 6).with_persons(most, persons)
