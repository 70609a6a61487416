"""Rounds are the same function only where that is proven."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.algorithms import Algorithm, Exchange
from sottovoce.linear import linear_rounds
from sottovoce.schedules import schedule_of


def sending(step, **more) -> Algorithm:
    return Algorithm(
        "mine",
        (Exchange(lambda w, gradient, t: w - step(t) * gradient(w), lambda w, received, gradient, t: received),),
        **more,
    )


def steps(algorithm, rounds: int) -> list[float]:
    found = linear_rounds(algorithm, rounds)
    return [-found.forms[index].messages[0, -1] for index in found.which]


def swallowed(t):
    try:
        return {2: 3.0}.get(int(t), 0.1)
    except Exception:
        return 0.1


def swallowed_all(t):
    try:
        return 3.0 if t == 2 else 0.1
    except BaseException:
        return 0.1


@pytest.mark.parametrize(
    "step",
    [
        lambda t: 3.0 if t == 2 else 0.1, swallowed, swallowed_all, lambda t: (3.0 if t == 2 else 0.1) if isinstance(t, int) else 0.1,
        lambda t: 3.0 if str(t) == "2" else 0.1, lambda t: [0.1, 0.1, 3.0, 0.1, 0.1][t], lambda t: np.where(np.asarray(t) == 2, 3.0, 0.1),
    ],
)  # fmt: skip
def test_a_round_that_differs_is_found_however_it_is_recognised(step):
    # A round of its own kind at the end shows that rounds are told apart by what kind of thing they are.
    assert steps(sending(step), 4) == pytest.approx([0.1, 3.0, 0.1, 0.1])


def test_rounds_with_equal_values_of_all_schedules_are_read_once():
    first, second = schedule_of(lambda t: 1.0 + t % 2), schedule_of(lambda t: 1.0 + t % 3)
    algorithm = sending(lambda t: first(t) * second(t), schedules=(first, second))
    found = linear_rounds(algorithm, 600)
    assert len(found.forms) == 6
    assert steps(algorithm, 600) == pytest.approx([(1.0 + t % 2) * (1.0 + t % 3) for t in range(1, 601)])


def test_constant_rounds_are_read_once_however_many_there_are():
    assert len(linear_rounds(sv.algorithms.atc(step_size=0.3), 10**5).forms) == 1


def test_a_schedule_that_is_not_named_makes_every_round_its_own():
    hidden = schedule_of(lambda t: 1.0 / t)
    assert steps(sending(lambda t: hidden(t)), 5) == pytest.approx([1 / t for t in range(1, 6)])
