"""Algorithms that are not what they declare, or not in every round what they are in the first: read off, or refused, never believed.

Each of these is played and accounted as it is. Either the accountant refuses it, or the record of two worlds gives away no more than it states.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import sottovoce as sv
from accounting import user_algorithms as own
from accounting.two_worlds import Data, Parts, Stage, half_changes, judge
from sottovoce.algorithms import PoissonAgents

TRIANGLE, COUPLE = sv.topologies.ring(3), sv.topologies.complete(2)
TOKEN, HUB = COUPLE.with_walk(), sv.topologies.federation(3)
GAUSSIAN, LAPLACE = sv.noise.Gaussian(std=0.7), sv.noise.Laplace(std=0.7)
MESSAGES, GRADIENTS = sv.noise.independent(GAUSSIAN), sv.noise.gradient(LAPLACE)
EVERYTHING = sv.observers.eavesdropper()
CLIP = sv.clipping.Clip(0.5, "l2")


def excess(parts, *, observer=EVERYTHING, sensitivity=1.0, size=None, far=1.0, repeats=None):
    """How many times the stated value is attained; 0 where the question is refused."""
    K, T, L = parts.topology.num_agents, parts.rounds, parts.algorithm.gradients_per_round
    middle = np.random.default_rng(0).normal(size=(K, T, 2 * L, 1))
    middle[0] = 0.0
    change = half_changes(np.ones((1, T)), [1.0], size=sensitivity if size is None else size, far=far, numbers=L)
    data = Data(0, middle, change, np.zeros((K, 1, 1)))
    try:
        (verdict,) = judge(Stage(parts, data, repeats=repeats), data, [(observer, {"sensitivity": sensitivity})])
    except sv.SottovoceError:  # refused by the simulator, or as a mistake in what was declared
        return 0.0
    if verdict is None:
        return 0.0
    return verdict.attained / verdict.stated if verdict.stated > 0 else np.inf * (verdict.attained > 0)


def normalised(g):
    return g / (abs(g) + 1e-300)


DECLARED = {
    "three steps in one message of a token": (Parts(TOKEN, own.walking(0.3, times=3), MESSAGES, 3), {"repeats": 600}),
    "a token that is stepped on arrival too": (
        Parts(TOKEN, own.walking(0.3, on_arrival=True), MESSAGES, 3),
        {"repeats": 600},
    ),
    "a token with a longer step in one round": (
        Parts(TOKEN, own.walking(0.3, longer_in=2), MESSAGES, 3),
        {"repeats": 600},
    ),
    "an update stretched after it was clipped": (
        Parts(TRIANGLE, own.clipped(0.3, CLIP, factor=4.0), MESSAGES, 3),
        {"size": 1e6},
    ),
    "local steps longer than declared": (Parts(TRIANGLE, own.local(0.5, 2, declared=0.1), MESSAGES, 3), {}),
    "more local steps than declared": (Parts(TRIANGLE, own.local(0.3, 2, really=5), MESSAGES, 3), {}),
    "a gradient normalised in every tenth round": (
        Parts(TRIANGLE, own.now_and_then(0.3, lambda t: t % 10 == 0, normalised), MESSAGES, 12),
        {"sensitivity": 0.01},
    ),
    "two gradients under one number in later rounds": (
        Parts(TRIANGLE, own.two_points(0.3, 3), GRADIENTS, 5),
        {"far": -1.0},
    ),
    "two gradients under one number in later hops": (
        Parts(TOKEN, own.two_points(0.3, 2, walks=True), sv.noise.gradient(GAUSSIAN), 3),
        {"far": -1.0, "repeats": 600},
    ),
    "gradients that count once a state says so": (Parts(TRIANGLE, own.opening(0.3), GRADIENTS, 4), {}),
    "local steps that count once a state says so": (
        Parts(TRIANGLE, own.opening(0.3, times=2), sv.noise.gradient(GAUSSIAN), 4),
        {},
    ),
    "a linear part that holds for tiny gradients only": (
        Parts(TRIANGLE, own.stretched_beyond(0.3, 1e-3, 5.0), MESSAGES, 4),
        {},
    ),
    "a relay that takes secrets of silent agents": (
        Parts(HUB, own.sampled(0.3, PoissonAgents(0.5), secret=True), MESSAGES, 2),
        {"observer": sv.observers.curious_agent(2), "repeats": 800},
    ),
}


@pytest.mark.parametrize("what", DECLARED)
def test_what_is_declared_is_read_off_or_refused(what):
    parts, options = DECLARED[what]
    assert excess(parts, **options) <= 1 + 1e-6


HONEST = {
    "a token": (Parts(TOKEN, own.walking(0.3), MESSAGES, 3), {"repeats": 600}),
    "a clipped update": (Parts(TRIANGLE, own.clipped(0.3, CLIP), MESSAGES, 3), {"size": 1e6}),
    "local steps": (Parts(TRIANGLE, own.local(0.3, 2), MESSAGES, 3), {}),
    "a sample of agents": (
        Parts(HUB, own.sampled(0.3, PoissonAgents(0.5), secret=False), MESSAGES, 2),
        {"observer": sv.observers.curious_agent(2), "repeats": 800},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", HONEST)
def test_the_same_without_the_mistake_attains_what_is_stated(what):
    parts, options = HONEST[what]
    assert excess(parts, **options) == pytest.approx(1.0, rel=1e-6)


# Functions of the round: the program that runs counts rounds as the accountant does.

OVERFLOWING = {
    "t^8": (lambda t: 1 / (1 + t**8), 17),
    "2^t": (lambda t: 1 / (1 + 2**t), 34),
    "t^4": (lambda t: 1 / (1 + t**4), 260),
}


@pytest.mark.parametrize("made", ["atc", "fedavg", "own"])
@pytest.mark.parametrize(
    "step",
    ["t^8", pytest.param("2^t", marks=pytest.mark.slow), pytest.param("t^4", marks=pytest.mark.slow)],
)
def test_a_step_of_many_digits_is_the_one_that_is_accounted(step, made):
    function, rounds = OVERFLOWING[step]
    makers = {
        "atc": sv.algorithms.atc,
        "fedavg": sv.algorithms.fedavg,
        "own": lambda step_size: own.adapt_then_combine(step_size),
    }
    assert excess(Parts(COUPLE, makers[made](step_size=function), MESSAGES, rounds)) <= 1 + 1e-6


# Exceptions in any round: bent, turned, stretched or cut gradients.

BENT = {
    "normalised": normalised,
    "square root": lambda g: g * (abs(g) + 1e-12) ** -0.5,
    "stretched": lambda g: 5.0 * g,
    "turned": lambda g: -2.0 * g,
    "cut off": lambda g: 10.0 * g.clip(-0.002, 0.002),
}


@pytest.mark.slow
@settings(
    max_examples=16, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False,
)  # fmt: skip
@given(st.integers(0, 2**32 - 1))
def test_an_exception_in_any_round_is_accounted_or_refused(seed):
    rng = np.random.default_rng(seed)
    how, rounds, scheme = str(rng.choice(sorted(BENT))), int(rng.integers(10, 16)), str(rng.choice(["self", "clean"]))
    noise = MESSAGES if scheme == "self" else sv.noise.independent(LAPLACE, self_noise=False)
    when = int(rng.integers(1, rounds + 1))
    algorithm = own.now_and_then(0.3, lambda t: t == when, BENT[how])
    found = excess(Parts(TRIANGLE, algorithm, noise, rounds), sensitivity=0.01)
    assert found <= 1 + 1e-6, (how, rounds, when, scheme)


# A strongly convex loss moves gradients apart as models move apart, so no number bounds the change between any two models beside it.


@pytest.mark.parametrize("kind", ["consensus", pytest.param("atc", marks=pytest.mark.slow)])
def test_beside_strong_convexity_a_sensitivity_is_one_at_the_same_model(kind):
    make, noise = {
        "consensus": (own.beside, MESSAGES),
        "atc": (own.adapt_then_combine, sv.noise.graph_homomorphic(GAUSSIAN)),
    }[kind]
    curvature, step, rounds = (1.8, 1.0, 5) if kind == "consensus" else (3.9, 0.5, 5)
    parts = Parts(TRIANGLE, make(step), noise, rounds)
    middle = np.zeros((3, rounds, 2, 1))
    signs = np.array([np.ones(rounds), (-1.0) ** np.arange(rounds)])
    data = Data(0, middle, half_changes(signs, [1.0], size=1.0), np.full((3, 1, 1), curvature))
    promise = sv.accounting.ConvexSmooth(curvature, curvature)
    (bare,) = judge(Stage(parts, data), data, [(EVERYTHING, {"sensitivity": 1.0, "losses": promise})])
    assert bare is None or bare.holds
