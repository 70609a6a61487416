"""The simulator plays the rounds that the accountant reads, however large their numbers."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.algorithms import Algorithm, Exchange
from sottovoce.schedules import schedule_of

PAIR = sv.topologies.complete(2)
ROUNDS = 300


def problem():
    """Gradients of one record, clipped to length one and never at rest: the target is far away."""
    return sv.problems.linear_regression(np.ones((2, 1, 1)), np.full((2, 1), 1e6)).with_clipping(1.0, "l2")


def positions(algorithm, dtype: str) -> np.ndarray:
    """What agent 0 sends in every round, without noise."""
    seen = sv.observe(
        problem(), PAIR, algorithm, sv.noise.none(), sv.observers.links([(0, 1)]), rounds=ROUNDS, dtype=dtype
    )
    return np.asarray(seen.messages[0][0, :, 0, 0], dtype=float)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_function_is_what_it_is_on_the_host(dtype):
    """In 32 bits 256 ** 4 is 0, and the simulated step of round 256 was 1.0: mu 0.50 was stated, 1.1 true."""
    moved = positions(sv.algorithms.atc(step_size=lambda t: 1 / (1 + t**4)), dtype)
    steps = np.diff(moved, prepend=0.0)
    assert np.abs(steps[99:]).max() < 1e-6
    assert steps[:5] == pytest.approx([1 / (1 + t**4) for t in range(1, 6)], rel=1e-4)


def mine(message, **more) -> Algorithm:
    return Algorithm("mine", (Exchange(message, lambda w, received, gradient, t: received),), **more)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("power", "first"), [(4, 216), (5, 74), (8, 15)]
)  # the first round whose power exceeds 2 ** 31
def test_arithmetic_with_the_round_itself_is_refused_from_where_it_wraps_round(dtype, power, first):
    assert (first - 1) ** power < 2**31 <= first**power
    algorithm = mine(lambda w, gradient, t: w - gradient(w) * (t**power > 2**30))
    with pytest.raises(sv.IncompatibleChoice, match=rf"in round {first} its compiled form.*schedule_of"):
        positions(algorithm, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1.0, 1e-4, 1e-12])
def test_a_small_step_does_not_hide_behind_the_model(dtype, size):
    """With steps of 1e-4 the wrapped round passed: 0.504 stated, 2.06 true."""
    with pytest.raises(sv.IncompatibleChoice, match=r"in round 216 its compiled form"):
        positions(mine(lambda w, gradient, t: w - size / (1 + t**4) * gradient(w)), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arithmetic_that_stays_in_range_is_taken(dtype):
    assert np.isfinite(positions(mine(lambda w, gradient, t: w - gradient(w) / t), dtype)).all()


def test_a_decision_in_python_is_refused_in_words():
    with pytest.raises(sv.IncompatibleChoice, match=r"decides by the number of the round in Python"):
        positions(mine(lambda w, gradient, t: w - gradient(w) if t > 5 else w), "float32")


def test_a_schedule_that_is_not_declared_is_refused_and_a_declared_one_is_followed():
    schedule = schedule_of(lambda t: 1.0 if t == 256 else 0.0)

    def message(w, gradient, t):
        return w - schedule(t) * gradient(w)

    with pytest.raises(sv.ConfigError, match="does not name it among its schedules"):
        positions(mine(message), "float32")
    steps = np.diff(positions(mine(message, schedules=(schedule,)), "float32"), prepend=0.0)
    assert np.flatnonzero(steps).tolist() == [255]


@pytest.mark.parametrize(
    "algorithm",
    [
        sv.algorithms.atc(step_size=lambda t: 1 / t), sv.algorithms.cta(step_size=lambda t: 1 / t),
        sv.algorithms.consensus(step_size=lambda t: 1 / t), sv.algorithms.dgd(step_size=1.0, gradient_rounds=9),
        sv.algorithms.gossip(), sv.algorithms.gossip(acceleration=0.3), sv.algorithms.muffliato(step_size=lambda t: 1 / t, gossip_steps=2),
        sv.algorithms.fedavg(step_size=lambda t: 1 / t, local_steps=3), sv.algorithms.inexact_admm(penalty=lambda t: 1.0 * t),
        sv.algorithms.inexact_admm(penalty=lambda t: 1.0 * t, linearise_at="own"),
        sv.algorithms.random_walk(step_size=lambda t: 1 / t),
        sv.algorithms.three_matrix(step_size=lambda t: 1 / t, first=PAIR, last=PAIR),
    ],
    ids=lambda algorithm: algorithm.name,
)  # fmt: skip
def test_no_algorithm_of_ours_computes_with_the_number_of_a_round(algorithm):
    from sottovoce.linear import num_variables, play_round
    from sottovoce.schedules import UnnumberedRound

    values = np.random.default_rng(0).standard_normal((num_variables(algorithm), 3))
    split = len(values) - 1 - len(algorithm.exchanges)
    found = [
        play_round(algorithm, round_, values[:split], values[split:-1], lambda w, step=0: w + values[-1])
        for round_ in (UnnumberedRound(7, algorithm.schedules), 7)
    ]
    for hidden, numbered in zip(*found, strict=True):
        assert np.array_equal(hidden, numbered)
