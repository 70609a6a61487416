"""Numbers of a round come from one table, whoever asks."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.schedules import RoundNumberUsed, Schedule, UnnumberedRound, running_round, schedule_of


def test_a_function_is_called_once_for_every_round_with_a_python_integer():
    calls = []

    def function(t):
        calls.append(t)
        assert type(t) is int
        return 1 / t

    first, second = schedule_of(function), schedule_of(function)
    assert first is second
    assert first.table(4).tolist() == [1.0, 1 / 2, 1 / 3, 1 / 4]
    assert second(3) == 1 / 3
    assert second.table(5)[4] == 1 / 5
    assert calls == [1, 2, 3, 4, 5]


def test_a_function_that_never_answers_twice_the_same_still_has_one_table():
    draws = np.random.default_rng(0)
    algorithm = sv.algorithms.atc(step_size=lambda t: draws.uniform(0.1, 0.2))
    question = (
        sv.topologies.ring(4),
        algorithm,
        sv.noise.independent(sv.noise.Gaussian(std=1.0)),
        sv.observers.eavesdropper(),
    )
    first, second = (sv.account(*question, rounds=6, sensitivity=1.0).mu for _ in range(2))
    assert first == second
    assert first == pytest.approx(np.linalg.norm(algorithm.schedules[0].table(6)), rel=1e-12)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "a", None, 1j])
def test_values_that_are_no_finite_numbers_are_refused_with_their_round(value):
    with pytest.raises(sv.ConfigError, match=r"in round 2; a finite number is needed"):
        Schedule(lambda t: 1.0 if t == 1 else value).table(3)


@pytest.mark.parametrize(
    "use",
    [
        lambda t: t + 1, lambda t: 1 / t, lambda t: t == 3, lambda t: t != 3, lambda t: t > 3, lambda t: t**2, lambda t: 2**t,
        lambda t: t % 2, lambda t: t in (1, 2), bool, int, float, hash, str, lambda t: f"{t}", lambda t: [1, 2][t], np.asarray,
        lambda t: np.ones(3) * t, lambda t: np.where(t, 1, 0), lambda t: {1: 2}[t], lambda t: divmod(t, 2), lambda t: -t, abs, range,
        lambda t: np.float64(2.0) ** t, lambda t: 1 if t else 0, repr, len, iter,
    ],
)  # fmt: skip
def test_an_unnumbered_round_gives_its_number_to_nobody(use):
    with pytest.raises((RoundNumberUsed, TypeError)):
        use(UnnumberedRound(3, ()))


def test_an_unnumbered_round_knows_declared_schedules_only():
    declared, other = Schedule(lambda t: 10.0 * t), Schedule(lambda t: t)
    hidden = UnnumberedRound(3, (declared,))
    assert declared(hidden) == 30.0
    with pytest.raises(RoundNumberUsed):
        other(hidden)


def test_inside_a_round_that_runs_schedules_return_its_values():
    schedule = Schedule(lambda t: t)
    with running_round({schedule: "value"}):
        assert schedule(object()) == "value"
    with pytest.raises(sv.ConfigError, match="does not name it among its schedules"):
        schedule(object())


def test_noise_factors_come_from_the_table_too():
    draws = np.random.default_rng(0)
    noise = (
        sv.noise.independent(sv.noise.Gaussian(std=1.0))
        .scaled(lambda t: draws.uniform(1, 2))
        .scaled(lambda t: draws.uniform(1, 2))
    )
    assert noise.factors(5).tolist() == noise.factors(5).tolist()
    assert noise.factors(7)[:5].tolist() == noise.factors(5).tolist()
